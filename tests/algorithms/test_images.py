"""Small and large images, and several frames at once, from training to evaluation and resume."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.errors import BuildError
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.runs.saved_job import settings_from
from rillflow.types import ActorInfo
from tests.catch import Catch
from tests.unit.envs.test_preprocessing import pictures

SMALL: dict[str, Any] = {"num_workers": 1, "num_envs_per_worker": 4, "rollout_fragment_length": 8}
PPO: dict[str, Any] = {**SMALL, "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 1}
DQN: dict[str, Any] = {**SMALL, "learning_starts": 32, "train_batch_size": 16}


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("ppo", PPO),
        ("ppo", {**PPO, "frame_stack": 3, "resize": 6}),
        ("ppo", {**PPO, "model": "mlp"}),
        ("ppo", {**PPO, "model": "mlp", "normalize_observations": True, "framework": "torch"}),
        ("dqn", DQN),
        ("sac", DQN),
        ("impala", {**SMALL, "train_batch_size": 64, "model": "lstm", "lstm_size": 8}),
    ],
    ids=["ppo", "stacked", "flat", "flat-normalized", "dqn", "sac", "lstm"],
)
def test_boolean_planes_train_and_play(
    algorithm: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """What was trained plays with its own preprocessing, also when it was saved and loaded."""
    trained = rf.train(algorithm, Catch, until={"steps": 128}, engine="sim", **settings)
    returns = trained.evaluate(episodes=6, seed=3)
    assert set(returns) <= {-1.0, 1.0}
    path = trained.save(tmp_path / "p.npz")
    loaded = rf.load(path or tmp_path / "p.npz", env=Catch)
    assert loaded.config.preprocessing == trained.config.preprocessing
    assert np.array_equal(loaded.evaluate(episodes=6, seed=3), returns)


def test_sac_sees_images_flat_if_that_is_wished() -> None:
    class Steer(Catch):
        """A paddle with continuous actions."""

        def __init__(self) -> None:
            super().__init__()
            self.action_space = Box(-1, 1, (1,), np.float32)  # type: ignore[assignment]

        def step(self, action: Any) -> Any:
            return super().step(round(float(action[0])) + 1)

    settings: dict[str, Any] = {**SMALL, "learning_starts": 32, "train_batch_size": 16}
    with pytest.raises(BuildError, match="model='mlp', which sees images flat"):
        rf.train("sac", Steer, until={"steps": 64}, engine="sim", **settings)
    trained = rf.train("sac", Steer, until={"steps": 64}, engine="sim", model="mlp", **settings)
    assert len(trained.evaluate(episodes=2)) == 2


def test_large_images_are_shrunk_and_the_user_is_told() -> None:
    env = pictures((457, 120, 3))
    with pytest.warns(UserWarning, match="457x120 pixels are shrunk to 114x30"):
        workers = Workers(ppo.Config(env=env))
    assert workers.spec.observation_shape == (114, 30, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = Workers(ppo.Config(env=env, resize=None))
        chosen = Workers(ppo.Config(env=env, resize=(60, 40), grayscale=True, frame_stack=2))
    assert kept.spec.observation_shape == (457, 120, 3)
    assert chosen.spec.observation_shape == (60, 40, 2)


def test_runs_of_earlier_versions_keep_large_images() -> None:
    """Their networks saw them in full."""
    assert settings_from(ppo.Config, {"env": "CartPole-v1"}).resize is None
    assert settings_from(ppo.Config, {"env": "CartPole-v1", "resize": [40, 30]}).resize == (40, 30)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resize": 0}, "resize must be a number of pixels above 0"),
        ({"resize": (84, 84, 3)}, r"two of them \(height, width\)"),
        ({"resize": "small"}, "resize must be"),
        ({"frame_stack": 0}, "frame_stack must be at least 1"),
        ({"channels": "middle"}, "channels must be one of 'auto', 'first', 'last'"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        ppo.Config(**settings)


def test_a_worker_goes_on_with_the_frames_it_had() -> None:
    """To the bit: stacks of frames are part of its state."""
    config = ppo.Config(env="CartPole-v1", frame_stack=3, **PPO)
    spec = Workers(config).spec
    assert spec.observation_shape == (12,)

    def worker(seed: int) -> RolloutWorker:
        return RolloutWorker(config, spec, ActorInfo("worker", 0, 0, seed, seed))

    one, other = worker(1), worker(2)
    one.sample()
    other.set_state(one.get_state())
    for _ in range(6):
        first, second = one.sample(), other.sample()
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_agents_that_share_a_policy_see_large_images_small() -> None:
    class Crowd:
        """Five agents in PettingZoo's manner, each with a picture of its own."""

        possible_agents = [f"agent_{i}" for i in range(5)]  # noqa: RUF012 - PettingZoo's way

        def __init__(self) -> None:
            self.agents: list[str] = []
            self.time = 0

        def observation_space(self, agent: str) -> Any:
            return Box(0, 255, (300, 90, 3), np.uint8)

        def action_space(self, agent: str) -> Any:
            return Discrete(2)

        def _all(self, value: Any) -> dict[str, Any]:
            return dict.fromkeys(self.possible_agents, value)

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            self.agents, self.time = list(self.possible_agents), 0
            return self._all(np.full((300, 90, 3), 7, np.uint8)), self._all({})

        def step(self, actions: Any) -> Any:
            self.time += 1
            over = self.time == 5
            self.agents = [] if over else self.agents
            obs = self._all(np.full((300, 90, 3), self.time, np.uint8))
            return obs, self._all(1.0), self._all(over), self._all(False), self._all({})

        def close(self) -> None:
            pass

    settings = {**PPO, "num_workers": 0, "num_envs_per_worker": 1}
    with pytest.warns(UserWarning, match="300x90 pixels are shrunk to 100x30"):
        trained: Any = rf.train(
            "ppo", Crowd, policies="shared", until={"steps": 16}, engine="sim", **settings
        )
    spec = trained.policies["shared"].spec
    assert spec.observation_shape == (100, 30, 3)
    assert trained.policies["shared"].config.resize == "auto"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "steps", "settings"), [("ppo", 40_000, {}), ("dqn", 30_000, {})]
)
def test_a_ball_is_caught(algorithm: str, steps: int, settings: dict[str, Any]) -> None:
    """A policy that does not look catches one ball in ten: a mean return of -0.8."""
    trained = rf.train(algorithm, Catch, until={"steps": steps}, seed=1, engine="sim", **settings)
    assert np.mean(trained.evaluate(episodes=100, seed=5)) > 0.5


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("minatar") is None, reason="MinAtar is not installed")
def test_breakout_on_ten_pixels_is_learned() -> None:
    """A random policy gets about half a point."""

    def breakout() -> Any:
        import gymnasium
        import minatar.gym

        if "MinAtar/Breakout-v1" not in gymnasium.registry:
            minatar.gym.register_envs()
        return gymnasium.make("MinAtar/Breakout-v1", disable_env_checker=True)

    trained = rf.train("ppo", breakout, until={"steps": 50_000}, seed=1, engine="sim")
    assert np.mean(trained.evaluate(episodes=50, seed=5)) > 2.5
