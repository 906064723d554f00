"""The small environments have the answers they claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rillflow.envs import Envs, make_envs
from rillflow.envs.meta_tasks import sample_tasks, set_task
from rillflow.envs.toy_point_goal import PointGoal, sample_goals
from rillflow.errors import BuildError

TOYS = [
    "Bandit",
    "Identity",
    "Corridor",
    "RepeatPast",
    "ConstantReward",
    "PointGoal",
    "CartPole-hidden-velocity",
]


def play(envs: Envs, policy: Callable[[Any], Any], steps: int) -> list[tuple[float, int]]:
    obs = envs.reset()
    for _ in range(steps):
        obs = envs.step(policy(obs)).obs
    return envs.pop_episodes()


def random_steps(envs: Envs, steps: int) -> list[Any]:
    rng, seen = np.random.default_rng(0), []
    for _ in range(steps):
        if isinstance(envs.action_space, Discrete):
            actions: Any = rng.integers(0, envs.action_space.n, envs.num_envs)
        else:
            actions = rng.normal(size=(envs.num_envs, 2))
        seen += [x for x in envs.step(actions) if x is not None]
    return seen


@pytest.mark.parametrize("name", TOYS)
def test_a_toy_continues_exactly_from_its_state(name: str) -> None:
    envs, resumed = make_envs(name, 3, seed=1), make_envs(name, 3, seed=2)
    assert envs.exact
    envs.reset()
    random_steps(envs, 33)
    resumed.set_state(envs.get_state())
    left, right = random_steps(envs, 40), random_steps(resumed, 40)
    assert all(map(np.array_equal, left, right))
    assert envs.pop_episodes() == resumed.pop_episodes()


def test_the_best_arm_pays_one() -> None:
    envs = make_envs("Bandit", 4, env_config={"arms": 3})
    assert play(envs, lambda obs: np.array([0, 1, 2, 2]), 1) == [(0, 1), (0.5, 1), (1, 1), (1, 1)]


def test_acting_what_is_seen_earns_everything() -> None:
    envs = make_envs("Identity", 5, env_config={"length": 7})
    assert play(envs, lambda obs: obs.argmax(axis=1), 14) == [(7.0, 7)] * 10
    by_chance = play(envs, lambda obs: np.zeros(5, np.int64), 700)
    assert np.mean([total for total, _ in by_chance]) == pytest.approx(7 / 4, abs=0.3)


def test_the_corridor_pays_memory_and_only_memory() -> None:
    envs = make_envs("Corridor", 8, env_config={"length": 4})
    cue = np.zeros(8, np.int64)

    def remember(obs: Any) -> Any:
        nonlocal cue
        cue = np.where(obs[:, :2].any(axis=1), obs[:, :2].argmax(axis=1), cue)
        return cue

    assert play(envs, remember, 40) == [(1.0, 4)] * 80
    blind = play(envs, lambda obs: np.zeros(8, np.int64), 400)
    assert abs(np.mean([total for total, _ in blind])) < 0.15


def test_the_end_of_the_corridor_is_shown() -> None:
    envs = make_envs("Corridor", 1, env_config={"length": 3})
    envs.reset()
    steps = [envs.step(np.zeros(1, np.int64)) for _ in range(3)]
    assert [step.obs[0, 2] for step in steps] == [0.0, 1.0, 0.0]
    assert steps[-1].terminated.tolist() == [True]


def test_constant_reward_is_cut_and_never_ends() -> None:
    envs = make_envs("ConstantReward", 2, env_config={"limit": 5})
    envs.reset()
    steps = [envs.step(np.zeros(2, np.int64)) for _ in range(10)]
    assert [bool(step.truncated.all()) for step in steps] == ([False] * 4 + [True]) * 2
    assert not any(step.terminated.any() for step in steps)
    assert envs.pop_episodes() == [(5.0, 5)] * 4


def test_hidden_velocity_cartpole_is_cartpole_seen_in_part() -> None:
    full, part = (make_envs(n, 3, seed=4) for n in ("CartPole-v1", "CartPole-hidden-velocity"))
    assert np.array_equal(full.reset()[:, ::2], part.reset())
    for a, b in zip(random_steps(full, 60), random_steps(part, 60), strict=True):
        assert np.array_equal(a[:, ::2] if a.ndim == 2 else a, b)


def test_walking_to_the_goal_beats_staying() -> None:
    envs = make_envs("PointGoal", 2, env_config={"goal": (0.0, 1.0)})
    walk = play(envs, lambda obs: (np.array([0.0, 1.0]) - obs) * 5, 20)
    stay = play(envs, lambda obs: np.zeros((2, 2)), 20)
    assert stay == [(-20.0, 20)] * 2
    assert walk[0][0] == pytest.approx(-(0.8 + 0.6 + 0.4 + 0.2), abs=1e-3)


def test_tasks_are_goals_on_a_circle_the_same_for_a_seed() -> None:
    envs = make_envs("PointGoal", 2)
    tasks = sample_tasks(envs, 5, seed=3)
    assert np.allclose(np.linalg.norm(tasks, axis=1), 1.0)
    assert np.array_equal(tasks, sample_goals(5, 3))
    assert not np.array_equal(tasks, sample_goals(5, 4))
    set_task(envs, tasks[0])
    assert np.array_equal(envs.vector.get_task(), tasks[0])


class Single(gymnasium.Env[Any, Any]):
    """A family of tasks as one environment."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = Box(-9, 9, (1,), np.float32), Discrete(2)
        self.task = 0

    def sample_tasks(self, count: int, seed: int) -> list[int]:
        return [seed + i for i in range(count)]

    def set_task(self, task: int) -> None:
        self.task = task

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.full(1, self.task, np.float32), {}


def test_a_family_of_single_environments_gets_its_task_in_every_copy() -> None:
    envs = make_envs(Single, 3)
    set_task(envs, sample_tasks(envs, 2, seed=4)[1])
    assert envs.reset().tolist() == [[5.0]] * 3


def test_a_copy_that_is_made_anew_is_of_the_same_task() -> None:
    class Breaks(Single):
        ever = False

        def __init__(self) -> None:
            super().__init__()
            self.t, self.broken = 0, False

        def reset(self, **how: Any) -> Any:
            if self.broken:
                raise OSError("the simulator does not start")
            return super().reset(**how)

        def step(self, action: Any) -> Any:
            self.t += 1
            if self.t == 70 and not Breaks.ever:
                Breaks.ever = self.broken = True
                raise ValueError("the simulator broke")
            return np.full(1, self.task, np.float32), 0.0, False, False, {}

    envs = make_envs(Breaks, 2)
    envs.mend()
    set_task(envs, 5)
    envs.reset()
    seen = [envs.step(np.zeros(2, int)).obs.tolist() for _ in range(80)]
    assert envs.pop_failures()[0] == 1
    assert seen == [[[5.0]] * 2] * 80


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_an_environment_without_tasks_says_so(name: str) -> None:
    with pytest.raises(BuildError, match="no family of tasks"):
        set_task(make_envs(name, 1), None)


def test_toys_can_be_made_by_hand() -> None:
    assert make_envs(PointGoal(2, goal=(0, 1)), 2).reset().shape == (2, 2)
