"""Dict and Tuple actions: flat for a policy, the environment's own structure for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector.utils import batch_space

from rillflow.datasets.rows import flat_actions
from rillflow.envs.mixed_box import MixedBox
from rillflow.envs.spaces import actions_of
from rillflow.errors import BuildError

UNIT = Box(-1, 1, (2,), np.float32)
CHOICES: list[tuple[Any, list[int]]] = [
    (Dict({"grip": Discrete(3, start=-1), "keys": MultiBinary(2)}), [3, 2, 2]),
    (Tuple((Discrete(2), MultiDiscrete([2, 3], start=[4, 0]))), [2, 2, 3]),
    (Dict({"a": Tuple((Discrete(4), Dict({"b": Discrete(2)}))), "c": MultiBinary((2, 1))}),
     [4, 2, 2, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("space", "sizes"), CHOICES, ids=str)
def test_choices_become_one_multidiscrete_and_back(space: Any, sizes: list[int]) -> None:
    """Each combination is an action of the environment, and no two are the same one."""
    actions = actions_of(space, "x")
    assert actions.space == MultiDiscrete(sizes)
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in sizes), indexing="ij"), -1)
    flat = grid.reshape(-1, len(sizes))
    taken = actions.to_env(flat)
    batched = batch_space(space, len(flat))
    assert batched.contains(_cast(batched, taken)), taken
    leaves = np.concatenate([np.reshape(x, (len(flat), -1)) for x in _leaves(taken)], 1)
    assert len(np.unique(leaves, axis=0)) == np.prod(sizes)


def test_numbers_become_one_box_and_back() -> None:
    space = Dict(
        {"a": UNIT, "b": Tuple((Box(0, 5, (), np.float64), Box(0, 9, (1, 2), np.float32)))}
    )
    actions = actions_of(space, "x")
    assert actions.space == Box(
        np.array([-1, -1, 0, 0, 0], np.float32), np.array([1, 1, 5, 9, 9], np.float32)
    )
    taken = actions.to_env(np.array([[-2, 0.5, 3, 10, 1]], np.float32))
    np.testing.assert_array_equal(taken["a"], [[-1, 0.5]])
    np.testing.assert_array_equal(taken["b"][0], [3.0])
    np.testing.assert_array_equal(taken["b"][1], [[[9, 1]]])
    assert taken["b"][0].dtype == np.float64


@pytest.mark.parametrize(
    ("space", "flat"),
    [
        (Dict({"only": Discrete(3, start=2)}), Discrete(3)),
        (Tuple((MultiBinary(2),)), MultiDiscrete([2, 2])),
        (Tuple((UNIT,)), UNIT),
    ],
)
def test_one_part_alone_is_what_it_would_be_without_the_dict(space: Any, flat: Any) -> None:
    assert actions_of(space, "x").space == flat


MIXED = Dict(
    {"a": UNIT, "b": Tuple((Discrete(3, start=5), Box(0, 9, (), np.float64))), "c": MultiBinary(2)}
)


def test_choices_and_numbers_together_are_a_mixed_box_choices_first() -> None:
    actions = actions_of(MIXED, "x")
    assert actions.space == MixedBox([3, 2, 2], [-1, -1, 0], [1, 1, 9])
    taken = actions.to_env(np.array([[2, 0, 1, 0.5, -2, 12]], np.float32))
    np.testing.assert_array_equal(taken["a"], [[0.5, -1]])
    np.testing.assert_array_equal(taken["b"][0], [7])
    np.testing.assert_array_equal(taken["b"][1], [9.0])
    np.testing.assert_array_equal(taken["c"], [[0, 1]])
    batched = batch_space(MIXED, 1)
    assert batched.contains(_cast(batched, taken)), taken


def test_actions_of_a_dataset_come_back_as_a_policy_gives_them() -> None:
    """However deep the parts are: whatever `to_env` makes, `flat_actions` takes apart."""
    flat = np.array([[2, 0, 1, 0.5, -1, 4], [0, 1, 1, 0, 1, 9]], np.float32)
    taken = actions_of(MIXED, "x").to_env(flat)
    found = flat_actions(MIXED, taken)
    np.testing.assert_array_equal(found, flat)
    assert found.dtype == np.float32


def test_a_mixed_box_is_no_box_of_the_same_bounds() -> None:
    mixed = MixedBox([2], [0], [1])
    assert mixed != Box(np.zeros(2, np.float32), np.ones(2, np.float32))
    assert Box(np.zeros(2, np.float32), np.ones(2, np.float32)) != mixed
    assert mixed != MixedBox([2, 2], [], [])
    mixed.seed(0)
    drawn = {float(mixed.sample()[0]) for _ in range(20)}
    assert drawn == {0.0, 1.0}


def test_nothing_to_act_with_is_refused() -> None:
    with pytest.raises(BuildError, match="no parts"):
        actions_of(Dict({}), "x")


def _leaves(taken: Any) -> list[Any]:
    if isinstance(taken, dict):
        return [leaf for value in taken.values() for leaf in _leaves(value)]
    if isinstance(taken, tuple):
        return [leaf for value in taken for leaf in _leaves(value)]
    return [taken]


def _cast(space: Any, taken: Any) -> Any:
    """With the dtypes of the space, as a vector environment casts what it is given."""
    if isinstance(space, Dict):
        return {key: _cast(space[key], taken[key]) for key in space}
    if isinstance(space, Tuple):
        return tuple(_cast(part, value) for part, value in zip(space, taken, strict=True))
    return np.asarray(taken).astype(space.dtype)
