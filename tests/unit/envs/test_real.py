"""Gymnasium's own environments, and ours with every kind of space, behind the one face."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import SyncVectorEnv

from rillflow.envs import Envs, make_envs
from rillflow.envs.registry import OLD, living_name
from rillflow.envs.spaces import clip_to_box, unit_to_box
from tests.unit.envs.parts import Counting, Everything


def run(envs: Envs, steps: int, seed: int = 0) -> list[Any]:
    """Random actions; every array seen."""
    rng = np.random.default_rng(seed)
    seen: list[Any] = [envs.reset() if envs.obs is None else envs.obs]
    for _ in range(steps):
        space = envs.action_space
        if isinstance(space, Discrete):
            actions: Any = rng.integers(0, space.n, envs.num_envs)
        else:
            actions = rng.normal(size=(envs.num_envs, *(space.shape or ())))
        seen += [x for x in envs.step(actions) if x is not None]
    return seen


def same(left: list[Any], right: list[Any]) -> bool:
    return len(left) == len(right) and all(map(np.array_equal, left, right))


@pytest.mark.parametrize(
    ("env", "shape", "dtype"),
    [
        ("CartPole-v1", (4,), np.float32),
        (lambda: gymnasium.make("CartPole-v1"), (4,), np.float32),
        ("Pendulum-v1", (3,), np.float32),
        ("FrozenLake-v1", (16,), np.float32),
        ("Taxi-v4", (500 + 6,), np.float32),
        ("Blackjack-v1", (32 + 11 + 2,), np.float32),
        ("tests.unit.envs.parts:Counting", (2,), np.float32),
        (lambda num_envs: SyncVectorEnv([Counting] * num_envs), (2,), np.float32),
    ],
)
def test_real_environments_run_and_repeat_with_their_seed(env: Any, shape: Any, dtype: Any) -> None:
    envs, again, other = (make_envs(env, 3, seed=s) for s in (5, 5, 6))
    seen = run(envs, 60)
    assert seen[0].shape == (3, *shape)
    assert seen[0].dtype == dtype
    assert envs.observation_space.shape == shape
    assert all(envs.observation_space.contains(row) for row in seen[0])
    assert same(seen, run(again, 60))
    if "Counting" not in str(env) and not callable(env):
        assert not same(seen, run(other, 60))
    for made in (envs, again, other):
        made.close()
        made.close()


def test_a_native_vector_version_is_preferred() -> None:
    assert type(make_envs("CartPole-v1", 2).vector).__name__ == "CartPoleVectorEnv"


def test_native_and_single_cartpole_tell_the_same_story() -> None:
    """Episode returns of a random policy have one distribution, whoever steps the pole."""
    means = []
    for env in ("CartPole-v1", lambda: gymnasium.make("CartPole-v1")):
        envs = make_envs(env, 16, seed=1)
        run(envs, 400)
        means.append(np.mean([total for total, _ in envs.pop_episodes()]))
    assert abs(means[0] - means[1]) < 3.0


def test_pendulum_actions_are_clipped_to_its_bounds() -> None:
    envs = make_envs("Pendulum-v1", 2)
    envs.reset()
    assert envs.to_env_actions(np.array([[-9.0], [0.5]])).tolist() == [[-2.0], [0.5]]
    assert envs.to_env_actions(np.array([[-9.0], [0.5]])).dtype == np.float32


def test_boxes_clip_and_stretch() -> None:
    box = Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
    assert clip_to_box(np.array([[-9.0, 11.0]]), box).tolist() == [[-2.0, 10.0]]
    assert unit_to_box(np.array([[-1.0, 0.0], [1.0, 1.0]]), box).tolist() == [[-2, 5], [2, 10]]
    free = Box(-np.inf, np.inf, (1,), np.float32)
    assert unit_to_box(np.array([[0.25]]), free).tolist() == [[0.25]]


def test_every_kind_of_observation_becomes_one_vector() -> None:
    envs = make_envs(Everything, 2)
    obs = envs.reset()
    bits, box, pair, pick, picks = [0, 1], [0, 1, 2, 3], [7, 8, 0, 1], [0, 1, 0], [0, 1, 0, 0, 1]
    # a Dict space sorts its keys
    assert obs.tolist() == [[*bits, *box, *pair, *pick, *picks]] * 2
    assert envs.observation_space.shape == (18,)
    assert envs.step(np.zeros(2, np.int64)).obs.tolist() == obs.tolist()


@pytest.mark.parametrize(
    ("space", "seen", "given", "taken"),
    [
        (Discrete(3, start=5), Discrete(3), [2, 0], [7, 5]),
        (MultiDiscrete([2, 3], start=[1, 0]), MultiDiscrete([2, 3]), [[1, 2], [0, 0]],
         [[2, 2], [1, 0]]),
        (MultiDiscrete([[2], [3]]), MultiDiscrete([2, 3]), [[1, 2], [0, 1]],
         [[[1], [2]], [[0], [1]]]),
        (MultiBinary(2), MultiDiscrete([2, 2]), [[1, 0], [0, 1]], [[1, 0], [0, 1]]),
    ],
)  # fmt: skip
def test_actions_count_from_zero_for_the_policy(
    space: Any, seen: Any, given: Any, taken: Any
) -> None:
    made: list[Everything] = []

    def factory() -> Everything:
        made.append(Everything(space))
        return made[-1]

    envs = make_envs(factory, 2)
    envs.reset()
    envs.step(np.array(given))
    assert envs.action_space == seen
    assert [np.asarray(env.taken[0]).tolist() for env in made] == taken
    assert all(space.contains(env.taken[0]) for env in made)


def test_images_stay_bytes() -> None:
    class Image(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = Box(0, 255, (8, 6, 3), np.uint8)

        def _observe(self) -> Any:
            return np.full((8, 6, 3), self.time, np.uint8)

    obs = make_envs(Image, 2).reset()
    assert (obs.shape, obs.dtype) == ((2, 8, 6, 3), np.uint8)


def test_config_reaches_the_environment() -> None:
    envs = make_envs("FrozenLake-v1", 2, env_config={"map_name": "8x8"})
    assert envs.observation_space.shape == (64,)
    short = make_envs("CartPole-v1", 2, env_config={"max_episode_steps": 3})
    short.reset()
    steps = [short.step(np.array([0, 1])) for _ in range(3)]
    assert steps[-1].truncated.tolist() == [True, True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Pong-v0", ("ALE/Pong-v5", {"repeat_action_probability": 0.25})),
        ("Breakout-v4", ("ALE/Breakout-v5", {"repeat_action_probability": 0.0})),
        ("PongNoFrameskip-v4", ("ALE/Pong-v5", {"repeat_action_probability": 0.0})),
        ("PongDeterministic-v4", ("ALE/Pong-v5", {"repeat_action_probability": 0.0})),
        ("HalfCheetah-v2", ("HalfCheetah-v5", {})),
        ("Pendulum-v0", ("Pendulum-v1", {})),
        ("LunarLanderContinuous-v2", ("LunarLander-v3", {"continuous": True})),
    ],
)
def test_ids_of_2018_resolve_to_living_ones_and_say_so(old: str, new: Any) -> None:
    with pytest.warns(UserWarning, match=f"{old!r} is an old name; using {new[0]!r}"):
        assert living_name(old) == new


def test_every_living_equivalent_lives() -> None:
    assert all(f"{name}-v{version}" in gymnasium.registry for name, version in OLD.items())


def test_ids_that_still_live_are_left_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for env_id in ("CartPole-v0", "CartPole-v1", "ALE/Pong-v5", "Bandit", "a.b:c"):
            assert living_name(env_id) == (env_id, {})


def test_cartpole_v0_runs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium advises the newer one
        assert make_envs("CartPole-v0", 2).reset().shape == (2, 4)


def test_native_cartpole_continues_exactly_from_its_state() -> None:
    envs = make_envs("CartPole-v1", 4, seed=3)
    assert envs.exact
    run(envs, 50)
    state = envs.get_state()
    there = run(envs, 80, seed=9), envs.pop_episodes()
    resumed = make_envs("CartPole-v1", 4, seed=8)
    resumed.set_state(state)
    assert same(run(resumed, 80, seed=9), there[0])
    assert resumed.pop_episodes() == there[1]


def test_an_inexact_state_goes_on_with_new_episodes() -> None:
    """Not the first ones again, and the same new ones every time."""
    envs = make_envs("Pendulum-v1", 2, seed=3)
    assert not envs.exact
    first = run(envs, 5)
    state = envs.get_state()
    firsts = []
    for _ in range(2):
        resumed = make_envs("Pendulum-v1", 2, seed=3)
        resumed.set_state(state)
        assert resumed.obs is not None
        firsts.append(resumed.obs)
    assert np.array_equal(firsts[0], firsts[1])
    assert not np.array_equal(firsts[0], first[0])


def test_a_state_taken_before_the_first_reset_is_the_beginning() -> None:
    envs, other = make_envs("CartPole-v1", 2, seed=3), make_envs("CartPole-v1", 2, seed=3)
    state = envs.get_state()
    run(other, 4)
    other.set_state(state)
    assert np.array_equal(other.reset(), envs.reset())
