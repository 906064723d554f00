"""Observations of several parts: one array, from which every part comes back as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array

from rillflow.envs.layout import Layout, layout_of, named
from rillflow.envs.spaces import observations_of
from rillflow.envs.structured import encode_batch
from rillflow.errors import BuildError
from rillflow.policies.saved_spaces import space_from_data, space_to_data

CAMERA = Box(0, 255, (7, 6, 3), np.uint8)
GREY = Box(0, 255, (5, 5), np.uint8)
ANY = Box(-np.inf, np.inf, (2, 3), np.float32)
SPACES: list[Any] = [
    Dict({"b": Box(-1, 1, (2,), np.float64), "a": Discrete(3, start=5)}),
    Dict(
        {"n": Box(0, 9, (), np.int64), "bits": MultiBinary((2, 2)), "many": MultiDiscrete([2, 3])}
    ),
    Tuple((ANY, Discrete(2), Tuple((Box(0, 1, (1,), np.float32),)))),
    Dict({"deep": Dict({"x": ANY, "deeper": Tuple((Discrete(2), ANY))}), "y": Discrete(4)}),
    Dict({"camera": CAMERA, "speed": Box(-np.inf, np.inf, (3,), np.float32)}),
    Dict({"left": CAMERA, "arm": Dict({"x": ANY, "grey": GREY}), "mode": Discrete(3)}),
    Tuple((CAMERA, GREY)),
]


def batch(space: Space[Any], rows: int, seed: int = 0) -> Any:
    space.seed(seed)
    empty: Any = create_empty_array(space, n=rows)
    return concatenate(space, [space.sample() for _ in range(rows)], empty)


def layout(space: Space[Any], choices: int = 0, masked: bool = False) -> Layout:
    found = layout_of(observations_of(space, "x", choices, masked=masked).space)
    assert found is not None
    return found


def raw_parts(space: Any, raw: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """The environment's own arrays by their paths."""
    if isinstance(space, Dict):
        pairs: Any = [(space[key], raw[key], key) for key in space]
    elif isinstance(space, Tuple):
        pairs = [(part, raw[i], i) for i, part in enumerate(space)]
    else:
        return {path: (space, raw)}
    found = {}
    for part, value, key in pairs:
        found |= raw_parts(part, value, (*path, key))
    return found


def expected(space: Any, raw: Any) -> Any:
    """What a network is given of one part: indices as zeros and a one, numbers as float32."""
    raw = np.asarray(raw)
    if isinstance(space, Discrete):
        return np.eye(int(space.n), dtype=np.float32)[raw - space.start]
    if isinstance(space, MultiDiscrete):
        ones = [np.eye(n, dtype=np.float32)[raw[:, i]] for i, n in enumerate(space.nvec)]
        return np.concatenate(ones, 1)
    if isinstance(space, MultiBinary):
        return raw.reshape(len(raw), -1).astype(np.float32)
    if space.dtype == np.uint8:
        return raw
    return raw.astype(np.float32).reshape(len(raw), *(space.shape or (1,)))


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_every_part_comes_back_as_it_was_in_numpy_and_in_torch(space: Any, masked: bool) -> None:
    """To the bit, in the environment's structure, with a time axis in front or without."""
    seen = observations_of(space, "x", 3, masked=masked)
    parts = layout(space, 3, masked)
    raw = batch(space, 6)
    masks = np.random.default_rng(0).random((6, 3)) < 0.5
    obs = seen.encode(raw, masks) if masked else seen.encode(raw)
    assert obs.shape == (6, *seen.space.shape)
    assert obs.dtype == (np.uint8 if parts.packed else np.float32)
    for lead in ((6,), (3, 2)):
        pieces = parts.pieces(obs.reshape(*lead, -1))
        tensors = parts.pieces(torch.tensor(obs).reshape(*lead, -1))
        for path, (part, value) in raw_parts(space, raw).items():
            true = expected(part, value)
            np.testing.assert_array_equal(pieces[path].reshape(true.shape), true)
            assert pieces[path].dtype == true.dtype
            np.testing.assert_array_equal(tensors[path].numpy(), pieces[path])
    if masked:
        np.testing.assert_array_equal(parts.mask(obs), masks)
        np.testing.assert_array_equal(parts.mask(torch.tensor(obs)).numpy(), masks)
    one = parts.split(obs[0])
    assert type(one) is (dict if isinstance(space, Dict) else tuple)
    assert parts.seen.contains(one) or parts.packed or isinstance(space, Tuple)


def test_without_images_it_is_the_vector_of_all_parts_in_the_order_of_the_space() -> None:
    space = SPACES[3]
    raw = batch(space, 4)
    parts = [expected(*pair).reshape(4, -1) for pair in raw_parts(space, raw).values()]
    np.testing.assert_array_equal(observations_of(space, "x").encode(raw), np.concatenate(parts, 1))


def test_images_stay_bytes() -> None:
    """A picture takes as many bytes as it has pixels, and numbers four each."""
    assert layout(SPACES[4]).space.shape == (7 * 6 * 3 + 4 * 3,)
    assert layout(SPACES[4]).space.dtype == np.uint8


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_layout_is_saved_and_read_again(space: Any) -> None:
    import json

    for masked in (False, True):
        own = layout(space, 3, masked).space
        again = space_from_data(json.loads(json.dumps(space_to_data(own))))
        assert again == own
        raw = batch(space, 3)
        masks = np.ones((3, 3), bool) if masked else None
        first, single = encode_batch(own.layout, raw, masks)
        second, _ = encode_batch(again.layout, raw, masks)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(first, second)
        assert not single


def test_one_observation_is_told_from_a_batch() -> None:
    space = SPACES[3]
    raw = space.sample()
    obs, single = encode_batch(layout(space), raw)
    assert single
    assert obs.shape == (1, layout(space).length)


def test_what_is_measured_is_told_from_what_is_counted() -> None:
    """Who scales observations by statistics has to leave zeros and ones alone."""
    plain = layout(SPACES[0]).plain
    assert plain.tolist() == [False] * 3 + [True] * 2  # of the Discrete(3), and of the Box
    assert layout(SPACES[5]).plain.tolist() == [True] * 6 + [False] * 3


def test_spaces_differ_if_their_parts_do() -> None:
    one, other = (Dict({key: Box(0, 1, (2,), np.float32)}) for key in "ab")
    assert layout(one).space == layout(one).space
    assert layout(one).space != layout(other).space


def test_names_of_parts() -> None:
    names = [named(path) for path in layout(SPACES[5]).parts]
    assert names == [
        "observation.arm.grey",
        "observation.arm.x",
        "observation.left",
        "observation.mode",
    ]
    assert "image 7x6x3" in str(layout(SPACES[5]))


@pytest.mark.parametrize(
    "mask", [Box(0, 1, (4,), np.int8), MultiBinary(2), Discrete(3), Box(0, 1, (3, 2), np.int8)]
)
def test_a_mask_of_another_size_is_refused(mask: Any) -> None:
    space = Dict({"observation": ANY, "action_mask": mask})
    with pytest.raises(BuildError, match=r"'x'.*action_mask.*3 numbers.*action_masks=False"):
        observations_of(space, "x", 3)


def test_masks_of_several_choices_may_be_a_tuple() -> None:
    mask = Tuple((MultiBinary(2), MultiBinary(3)))
    space = Dict({"observation": Box(0, 1, (1,), np.float32), "action_mask": mask})
    raw = {
        "observation": np.zeros((1, 1), np.float32),
        "action_mask": (np.array([[1, 0]]), np.array([[0, 1, 1]])),
    }
    obs = observations_of(space, "x", 5).encode(raw)
    assert obs.tolist() == [[0, 1, 0, 0, 1, 1]]


def test_without_masks_the_key_is_a_part_like_any_other() -> None:
    space = Dict({"observation": ANY, "action_mask": MultiBinary(3)})
    assert layout(space).mask_size == 0
    assert ("action_mask",) in layout(space).parts
