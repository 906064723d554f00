"""Three ways to begin the next episode, one set of true transitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from rillflow.envs import EnvError, Envs, make_envs
from rillflow.errors import BuildError
from tests.unit.envs.parts import Counting

MODES = list(AutoresetMode)


def counting(mode: AutoresetMode, num_envs: int = 3) -> Envs:
    return make_envs(SyncVectorEnv([Counting] * num_envs, autoreset_mode=mode), num_envs)


def transitions(envs: Envs, episodes: int) -> Counter[Any]:
    """(env, obs, action, reward, next obs, terminated, truncated) of the first episodes."""
    found: Counter[Any] = Counter()
    obs = envs.reset()
    while obs[:, 0].min() < episodes:
        # the action is a function of the observation, so that every mode takes the same
        actions = (obs.sum(axis=1).astype(np.int64)) % 5
        step = envs.step(actions)
        after = step.obs if step.next_obs is None else step.next_obs
        valid = np.ones(envs.num_envs, bool) if step.valid is None else step.valid
        for i in np.flatnonzero(valid & (obs[:, 0] < episodes)):
            row = (obs[i], actions[i], step.rewards[i], after[i])
            found[(i, *(tuple(np.ravel(x).tolist()) for x in row), bool(step.terminated[i]),
                   bool(step.truncated[i]))] += 1  # fmt: skip
        obs = step.obs
    return found


def expected(num_envs: int, episodes: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for i in range(num_envs):
        for e in range(episodes):
            for t in range(2 + e % 3):
                last = t + 1 == 2 + e % 3
                obs, after = (float(e), float(t)), (float(e), t + 1.0)
                found[(i, obs, ((e + t) % 5,), (10.0 * e + t + 1,), after,
                       last and e % 2 == 0, last and e % 2 == 1)] += 1  # fmt: skip
    return found


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_yields_exactly_the_true_transitions(mode: AutoresetMode) -> None:
    """No final observation is lost, none is the first of the next episode, none comes twice."""
    assert transitions(counting(mode), 7) == expected(3, 7)


@pytest.mark.parametrize("mode", MODES)
def test_episode_statistics_are_the_same_in_every_mode(mode: AutoresetMode) -> None:
    envs = counting(mode, 2)
    transitions(envs, 4)
    lengths = [2, 3, 4, 2]
    returns = [sum(10.0 * e + t + 1 for t in range(n)) for e, n in enumerate(lengths)]
    true = Counter(zip(returns, lengths, strict=True))
    assert Counter(envs.pop_episodes()) == Counter({key: 2 * n for key, n in true.items()})
    assert envs.pop_episodes() == []


def test_only_the_next_step_mode_has_rows_that_are_not_transitions() -> None:
    for mode in MODES:
        envs = counting(mode)
        envs.reset()
        step = envs.step(np.zeros(3, np.int64))
        assert envs.skips_steps == (mode is AutoresetMode.NEXT_STEP) == (step.valid is not None)
        assert (step.next_obs is None) == envs.skips_steps


def test_arrays_of_a_step_are_not_overwritten_by_the_next() -> None:
    """An environment that reuses its buffer is copied."""
    vector = SyncVectorEnv([Counting] * 2, copy=False)
    envs = make_envs(vector, 2)
    first = envs.reset()
    second = envs.step(np.zeros(2, np.int64)).obs
    envs.step(np.zeros(2, np.int64))
    assert first.tolist() == [[0, 0], [0, 0]]
    assert second.tolist() == [[0, 1], [0, 1]]


class Undeclared(VectorEnv[Any, Any, Any]):
    """Says nothing about its mode."""

    num_envs = 1
    single_observation_space = observation_space = Box(0, 1, (1,), np.float32)
    single_action_space = action_space = Discrete(2)


def test_a_vector_environment_must_declare_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another has written its own mode into the dict that all of them share."""
    for shared in ({}, {"autoreset_mode": AutoresetMode.NEXT_STEP}):
        monkeypatch.setattr(VectorEnv, "metadata", shared)
        with pytest.raises(BuildError, match="must say how it begins the next episode"):
            make_envs(Undeclared(), 1)


def test_a_final_observation_of_another_shape_is_an_error() -> None:
    vector = SyncVectorEnv([Counting], autoreset_mode=AutoresetMode.SAME_STEP)
    step = vector.step
    wrong = {"final_obs": np.zeros((1, 1), np.float32)}
    vector.step = lambda actions: (*step(actions)[:4], wrong)  # type: ignore[method-assign]
    envs = make_envs(vector, 1)
    envs.reset()
    envs.step(np.zeros(1, np.int64))
    with pytest.raises(EnvError, match=r"final_obs: expected shape \(2,\), found shape \(1,\)"):
        envs.step(np.zeros(1, np.int64))


def test_a_missing_final_observation_is_an_error() -> None:
    vector = SyncVectorEnv([Counting], autoreset_mode=AutoresetMode.SAME_STEP)
    step = vector.step
    vector.step = lambda actions: (*step(actions)[:4], {})  # type: ignore[method-assign]
    envs = make_envs(vector, 1)
    envs.reset()
    envs.step(np.zeros(1, np.int64))
    with pytest.raises(EnvError, match='no "final_obs"'):
        envs.step(np.zeros(1, np.int64))
