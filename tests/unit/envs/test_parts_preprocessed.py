"""Pictures among other parts of an observation: another size, grey, several of them as one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.envs import make_envs
from rillflow.envs.layout import MASK, Layout
from rillflow.envs.preprocessing import Preprocessing
from rillflow.errors import BuildError
from rillflow.policies.saved_spaces import space_from_data, space_to_data
from tests.unit.envs.parts import Counting

MODES = list(AutoresetMode)


class Robot(Counting):
    """A camera, where it is, what it holds, and a mask of what it may do."""

    masked = False
    size = 12

    def __init__(self) -> None:
        super().__init__()
        parts: dict[str, Any] = {
            "camera": Box(0, 255, (self.size, self.size + 4, 3), np.uint8),
            "place": Box(-9, 9, (2,), np.float32),
            "holds": Discrete(3),
        }
        if self.masked:
            parts[MASK] = MultiBinary(5)
        self.observation_space = Dict(parts)

    def _observe(self) -> Any:
        seen = {
            "camera": np.full((self.size, self.size + 4, 3), 10 * self.time + 3, np.uint8),
            "place": np.array([self.episode, self.time], np.float32),
            "holds": self.time % 3,
        }
        if self.masked:
            seen[MASK] = (np.arange(5) != self.time % 5).astype(np.int8)
        return seen


class Masked(Robot):
    masked = True


class Large(Robot):
    size = 200


def layout(envs: Any) -> Layout:
    found: Layout = envs.observation_space.layout
    return found


def robots(mode: AutoresetMode, kind: Any = Masked) -> Any:
    return lambda num_envs: SyncVectorEnv([kind] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize("kind", [Robot, Masked])
def test_pictures_are_shrunk_and_the_rest_is_left_alone(kind: Any) -> None:
    how = Preprocessing(resize=(6, 4), grayscale=True)
    plain, small = make_envs(kind, 2), make_envs(kind, 2, preprocessing=how)
    before, after = plain.reset(), small.reset()
    assert layout(small).parts["camera",].shape == (6, 4, 1)
    one, other = (own.pieces(obs) for own, obs in ((layout(plain), before), (layout(small), after)))
    assert np.unique(other["camera",]).tolist() == [3]
    for path in (("place",), ("holds",)):
        assert np.array_equal(one[path], other[path])
    if kind is Masked:
        assert np.array_equal(layout(small).mask(after), layout(plain).mask(before))


def test_large_pictures_are_shrunk_by_default_and_that_is_told() -> None:
    envs = make_envs(Large, 1, preprocessing=Preprocessing(resize="auto"))
    assert layout(envs).parts["camera",].shape == (100, 102, 3)
    assert "200x204 pixels are shrunk to 100x102" in (envs.shrunk or "")
    assert make_envs(Robot, 1, preprocessing=Preprocessing(resize="auto")).shrunk is None


@pytest.mark.parametrize("mode", MODES)
def test_each_part_is_stacked_from_its_own_episode(mode: AutoresetMode) -> None:
    """In each mode the newest three of each part, and the mask of now."""
    how = Preprocessing(frame_stack=3)
    plain = make_envs(robots(mode), 3, seed=1)
    stacked = make_envs(robots(mode), 3, seed=1, preprocessing=how)
    parts = layout(stacked).parts
    assert {path[0]: part.shape for path, part in parts.items()} == {
        "camera": (12, 16, 9),
        "place": (6,),
        "holds": (9,),
    }
    single = layout(plain).pieces
    frames = [[row] * 3 for row in plain.reset()]

    def check(whole: Any, rows: list[Any]) -> None:
        own = layout(stacked).pieces(whole[None])
        for path, piece in own.items():
            each = [single(row[None])[path] for row in rows]
            assert np.array_equal(piece, np.concatenate(each, -1))
        assert np.array_equal(layout(stacked).mask(whole), layout(plain).mask(rows[-1]))

    for row, whole in zip(frames, stacked.reset(), strict=True):
        check(whole, row)
    ends = 0
    for t in range(12):
        actions = np.full(3, (t + 3) % 5)
        step, found = plain.step(actions), stacked.step(actions)
        for i in range(3):
            true = step.obs if step.next_obs is None else step.next_obs
            after = [*frames[i][1:], true[i]]
            frames[i] = [step.obs[i]] * 3 if step.starts[i] else after
            check(found.obs[i], frames[i])
            if found.next_obs is not None:
                check(found.next_obs[i], after)
            ends += int(step.terminated[i] or step.truncated[i])
    assert ends > 5


def test_a_stack_of_parts_goes_on_from_what_it_gave_last() -> None:
    from rillflow.envs.preprocessing import stack_of

    space = make_envs(Masked, 1).observation_space
    one, other = (stack_of(space, Preprocessing(frame_stack=3)) for _ in range(2))
    assert one is not None
    assert other is not None
    rng = np.random.default_rng(0)
    frames = [space.layout.invented((2,), rng) for _ in range(4)]  # type: ignore[attr-defined]
    none = np.zeros(2, bool)
    one.begin(frames[0])
    one.step(frames[1], None, none)
    other.restore(one.newest())
    for frame in frames[2:]:
        assert np.array_equal(one.step(frame, None, none)[0], other.step(frame, None, none)[0])


def test_the_order_of_channels_is_saved_with_a_space() -> None:
    """Nine channels of a picture six pixels wide would be taken for its width."""
    how = Preprocessing(resize=6, frame_stack=3)
    space = make_envs(Robot, 1, preprocessing=how).observation_space
    data = json.dumps(space_to_data(space))
    again: Any = space_from_data(json.loads(data))
    assert again.layout.parts["camera",].space.channels == "last"
    assert again == space
    with pytest.raises(ValueError, match="an image with channels sideways"):
        space_from_data(json.loads(data.replace('"last"', '"sideways"')))


def test_a_policy_learns_from_them() -> None:
    trained = rf.train(
        "ppo", Masked, until={"steps": 40}, engine="sim", resize=6, grayscale=True, frame_stack=2,
        num_workers=1, num_envs_per_worker=2, rollout_fragment_length=20, train_batch_size=40,
        sgd_minibatch_size=20, num_sgd_iter=1, hidden=(8,),
    )  # fmt: skip
    assert np.isfinite(trained.history[-1]["policy_loss"])
    assert trained.evaluate(2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"resize": 6}, "resize=6 is for images"), ({"grayscale": True}, "grayscale=True is for im")],
)
def test_parts_without_pictures_are_told(settings: Any, message: str) -> None:
    class Blind(Robot):
        def __init__(self) -> None:
            super().__init__()
            spaces = {name: self.observation_space[name] for name in ("place", "holds")}
            self.observation_space = Dict(spaces)

    with pytest.raises(BuildError, match=message):
        make_envs(Blind, 1, preprocessing=Preprocessing(**settings))
    config = ppo.Config(env=Blind)
    assert config.frame_stack == 1


def test_a_picture_without_three_colours_cannot_be_grey() -> None:
    class Depth(Robot):
        def __init__(self) -> None:
            super().__init__()
            others = {"place": self.observation_space["place"]}
            depth = Box(0, 255, (12, 12, 2), np.uint8)
            self.observation_space = Dict({"depth": depth, **others})

    with pytest.raises(BuildError, match="none of its images has three"):
        make_envs(Depth, 1, preprocessing=Preprocessing(grayscale=True))
