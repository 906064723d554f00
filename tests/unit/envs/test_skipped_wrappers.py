"""Steps that go past the layers of single environments are those of Gymnasium's own vector."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rillflow.envs import EnvError, make_envs
from rillflow.envs.guard import Guard
from rillflow.envs.sync_vector import SyncVector
from tests.unit.envs.parts import Counting
from tests.unit.envs.test_sync_vector import same

CLASSIC = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1")
N = 3


class Doubling(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays twice."""

    def step(self, action: Any) -> Any:
        obs, reward, *rest = self.env.step(action)
        return obs, 2 * reward, *rest


class Generous(TimeLimit[Any, Any]):
    """Pays for the time as well."""

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward + self._elapsed_steps, *rest


def pair(make: Callable[[], Any]) -> tuple[Any, Any]:
    """Ours with its guards, as a worker has it, and Gymnasium's."""
    ours, theirs = make_envs(make, N).vector, SyncVectorEnv([make] * N)
    assert isinstance(ours, SyncVector)
    same(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])
    ours.action_space.seed(2)
    return ours, theirs


def compare(ours: Any, theirs: Any, steps: int) -> None:
    """The same steps in both: results, and what each copy knows at the end."""
    for _ in range(steps):
        actions = ours.action_space.sample()
        same(ours.step(actions)[:4], theirs.step(actions)[:4])
    assert elapsed(ours) == elapsed(theirs)


def elapsed(vector: Any) -> list[int]:
    """What the time limits of the copies have counted."""
    return [_layer(env, TimeLimit)._elapsed_steps for env in vector.envs]


def _layer(env: Any, kind: type) -> Any:
    while not isinstance(env, kind):
        env = env.env
    return env


def stepped(vector: Any) -> list[Any]:
    """What a step touches of each copy."""
    return [type(inner) for inner in vector._passed.inner]


@pytest.mark.parametrize("limit", [1, 7, None])
@pytest.mark.parametrize("name", CLASSIC)
def test_classic_environments_give_the_same_steps(name: str, limit: int | None) -> None:
    """Ends, time limits, resets, and the state of every generator."""
    ours, theirs = pair(lambda: gymnasium.make(name, max_episode_steps=limit))
    for steps in (1, 2, 9, 60):  # asking what is counted, in between, changes nothing
        compare(ours, theirs, steps)
    for mine, other in zip(ours.np_random, theirs.np_random, strict=True):
        assert mine.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize("checker", [True, False])
def test_a_step_goes_past_the_layers_once_they_have_seen_enough(checker: bool) -> None:
    """The checker sees a reset and its steps; from then on nothing is stepped but the inside."""
    make = lambda: gymnasium.make("CartPole-v1", disable_env_checker=not checker)  # noqa: E731
    ours, _ = pair(make)
    inside = type(make().unwrapped)
    for _ in range(3):
        ours.step(np.zeros(N, np.int64))
    assert stepped(ours) == [inside] * N
    if checker:
        assert ours.get_attr("checked_reset") == ours.get_attr("checked_step") == (True,) * N


def test_a_reset_is_needed_first() -> None:
    vector = SyncVector([lambda: gymnasium.make("CartPole-v1")] * 2)
    with pytest.raises(ResetNeeded):
        vector.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("make", "inner"),
    [
        (lambda: Doubling(gymnasium.make("CartPole-v1", max_episode_steps=5)), Doubling),
        (lambda: TimeLimit(OrderEnforcing(Doubling(Counting())), 3), Doubling),
        (lambda: Generous(OrderEnforcing(Counting()), 3), Generous),
        (lambda: TimeLimit(TimeLimit(Counting(), 2), 3), TimeLimit),
    ],
)
def test_a_step_goes_through_layers_that_are_not_known(make: Any, inner: type) -> None:
    """Whatever is inside of them as well; known ones around them are passed by."""
    ours, theirs = pair(make)
    compare(ours, theirs, 30)
    ours.step(ours.action_space.sample())
    assert stepped(ours) == [inner] * N


def test_a_method_put_on_a_layer_is_called() -> None:
    def make() -> Any:
        env = TimeLimit(Counting(), 3)
        env.step = Doubling(env.env).step
        return env

    ours, theirs = pair(make)
    compare(ours, theirs, 20)


def test_a_reset_put_on_a_layer_is_called() -> None:
    """Also for a copy whose episode is over."""

    def make() -> Any:
        env = TimeLimit(Counting(), 3)
        plain = env.reset
        env.reset = lambda **how: (plain(**how)[0] + 1, {})
        return env

    ours, theirs = pair(make)
    compare(ours, theirs, 20)


def test_counts_can_be_changed_from_outside() -> None:
    """As by somebody who restores single environments by hand."""
    ours, theirs = pair(lambda: gymnasium.make("Pendulum-v1", max_episode_steps=20))
    compare(ours, theirs, 5)
    for vector in (ours, theirs):
        for count, env in enumerate(vector.envs):
            _layer(env, TimeLimit)._elapsed_steps = 18 - count
            env.unwrapped.state = np.array([0.1 * count, 0.2])
    compare(ours, theirs, 30)


def test_layers_can_be_added_from_outside() -> None:
    ours, theirs = pair(lambda: gymnasium.make("CartPole-v1"))
    compare(ours, theirs, 5)
    for vector in (ours, theirs):
        vector.envs[1] = Doubling(vector.envs[1])
    compare(ours, theirs, 5)


def test_a_copy_of_the_vector_goes_on_alone() -> None:
    """In the middle of episodes, which are as far as they were."""
    ours, theirs = pair(lambda: gymnasium.make("Pendulum-v1", max_episode_steps=9))
    compare(ours, theirs, 13)
    ours.step(np.zeros((N, 1), np.float32))
    theirs.step(np.zeros((N, 1), np.float32))
    ours, before = copy.deepcopy(ours), ours
    compare(ours, theirs, 20)
    assert elapsed(before) == [4] * N


def test_some_copies_can_be_reset() -> None:
    ours, theirs = pair(lambda: gymnasium.make("CartPole-v1", max_episode_steps=9))
    compare(ours, theirs, 6)
    mask = np.array([True, False, True])
    for vector in (ours, theirs):
        vector.reset(options={"reset_mask": mask})
    compare(ours, theirs, 20)


def test_a_restored_face_goes_on_as_gymnasium_does_after_that_seed() -> None:
    """What cannot be saved begins new episodes, at all their layers."""
    envs = make_envs(lambda: gymnasium.make("CartPole-v1", max_episode_steps=9), N)
    envs.reset()
    for _ in range(6):
        envs.step(np.zeros(N, np.int64))
    other = make_envs(lambda: gymnasium.make("CartPole-v1", max_episode_steps=9), N)
    other.set_state(envs.get_state())
    assert elapsed(other.vector) == [0] * N
    theirs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1", max_episode_steps=9)] * N)
    theirs.reset(seed=list(other.vector.np_random_seed))
    compare(other.vector, theirs, 20)


class Wrong(Counting):
    """Says something else in its twelfth call."""

    def __init__(self, step: Any = None, obs: Any = None) -> None:
        super().__init__()
        self.calls, self._wrong_step, self._wrong_obs = 0, step, obs

    def reset(self, **given: Any) -> Any:
        self.calls += 1
        obs, info = super().reset(**given)
        return (obs if self._wrong_obs is None or self.calls < 12 else self._wrong_obs), info

    def step(self, action: Any) -> Any:
        self.calls += 1
        said = super().step(action)
        return said if self._wrong_step is None or self.calls < 12 else self._wrong_step(said)


def play(envs: Any) -> None:
    for _ in range(20):
        envs.step(np.zeros(N, np.int64))


def fails(said: Any) -> Any:
    raise ZeroDivisionError("no")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (fails, "raised ZeroDivisionError in step: no"),
        (lambda said: said[:4], "must return 5 values"),
        (lambda said: None, "step\\(\\) must return"),
        (lambda said: (*said[:4], []), "info as a dict"),
        (lambda said: (said[0].astype(np.float64), *said[1:]), "expected dtype float32"),
        (lambda said: (said[0][:1], *said[1:]), "expected shape"),
        (lambda said: (said[0][:, None], *said[1:]), "expected shape"),
        (lambda said: (np.array(0, np.float32), *said[1:]), "expected shape"),
        (lambda said: (said[0].tolist(), *said[1:]), "expected a numpy array"),
        (lambda said: (said[0], None, *said[2:]), "reward: expected a number"),
        (lambda said: (*said[:2], 1, *said[3:]), "terminated"),
        (lambda said: (*said[:3], "no", said[4]), "truncated"),
    ],
)
def test_what_is_wrong_is_told_by_the_guard_that_was_passed_by(step: Any, message: str) -> None:
    """With its copy and its step, resets not counted."""
    made = iter([Counting(), Wrong(step), Counting()])
    envs = make_envs(lambda: TimeLimit(OrderEnforcing(next(made)), 100), N)
    envs.reset()
    with pytest.raises(EnvError, match=message) as caught:
        play(envs)
    assert "(index 1) at step 9" in str(caught.value)
    assert not isinstance(caught.value.__context__, EnvError)


def test_a_wrong_reset_is_told_with_its_step() -> None:
    made = iter([Counting(), Wrong(obs=np.zeros(3, np.float32)), Counting()])
    envs = make_envs(lambda: TimeLimit(OrderEnforcing(next(made)), 100), N)
    envs.reset()
    with pytest.raises(EnvError, match=r"\(index 1\) at step 9: observation: expected shape"):
        play(envs)


def test_what_is_unusual_but_right_is_taken() -> None:
    """Rewards without a dimension, observations of a smaller dtype, a list under a time limit."""

    def unusual(said: Any) -> Any:
        return [said[0].astype(np.float16), np.array(said[1]), np.bool_(said[2]), said[3], {}]

    ours, theirs = pair(lambda: TimeLimit(Wrong(unusual), 100))
    for steps in (5, 10, 30):
        compare(ours, theirs, steps)
    ours.step(ours.action_space.sample())
    assert stepped(ours) == [Guard] * N  # who knows more than is asked of all at once
