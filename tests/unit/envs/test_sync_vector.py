"""Single environments as a vector: what Gymnasium's own gives, faster."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv

from rillflow.envs import make_envs
from rillflow.envs.sync_vector import SyncVector
from tests.unit.envs.parts import Counting, Everything


class Reusing(Counting):
    """Observes into the same array at every step."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = np.zeros(2, np.float32)

    def _observe(self) -> Any:
        self._seen[:] = self.episode, self.time
        return self._seen


class Number(gymnasium.Env[Any, Any]):
    """Observes a number of another dtype than it says, and pays in arrays of no dimension."""

    observation_space = Box(-np.inf, np.inf, (), np.float64)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.float32(0), {}

    def step(self, action: Any) -> Any:
        return np.float32(action), np.array(1.5), np.bool_(False), bool(action), {}


def same(one: Any, other: Any) -> None:
    """Equal in structure, numbers and dtypes."""
    assert type(one) is type(other)
    if isinstance(one, dict | tuple):
        keys = one if isinstance(one, dict) else range(len(one))
        assert len(one) == len(other)
        for key in keys:
            same(one[key], other[key])
    else:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [Counting, Reusing, Number, Everything])
def test_steps_are_those_of_gymnasium(kind: Any) -> None:
    """Observations of every kind, rewards, ends and the resets after them."""
    ours, theirs = SyncVector([kind] * 3), SyncVectorEnv([kind] * 3)
    same(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])
    rng, count = np.random.default_rng(0), ours.single_action_space.n
    for _ in range(20):
        actions = rng.integers(0, count, 3)
        same(ours.step(actions)[:4], theirs.step(actions)[:4])
    first, second = ({"reset_mask": np.array([True, False, True])} for _ in range(2))
    same(ours.reset(options=first)[0], theirs.reset(options=second)[0])
    same(ours.step(actions)[:4], theirs.step(actions)[:4])
    same(ours.reset(seed=2)[0], theirs.reset(seed=2)[0])
    same(ours.step(actions)[:4], theirs.step(actions)[:4])


def test_arrays_of_a_step_are_new_ones() -> None:
    """Also where the environments observe into the same array every time."""
    vector = SyncVector([Reusing] * 2)
    vector.reset()
    first = vector.step(np.zeros(2, np.int64))
    before = [np.array(part) for part in first[:4]]
    second = vector.step(np.zeros(2, np.int64))
    for one, kept, other in zip(first[:4], before, second[:4], strict=True):
        np.testing.assert_array_equal(one, kept)
        assert not np.shares_memory(one, other)


def test_environments_without_a_native_form_are_run_so() -> None:
    """And can still be asked what each copy has."""
    envs = make_envs("Acrobot-v1", 2)
    assert isinstance(envs.vector, SyncVector)
    assert len(envs.vector.get_attr("spec")) == 2
    envs.close()
