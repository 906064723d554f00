"""Actions in which choices and numbers are mixed: learned, saved, exported, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import rillflow as rf
from rillflow.envs.mixed_box import MixedBox
from rillflow.results import export_onnx


class Cannons(gym.Env[Any, Any]):
    """Choose the cannon that is shown, and turn it to the angle that is shown; 10 is perfect."""

    def __init__(self, masked: bool = False) -> None:
        self.masked = masked
        shown = {"cannon": spaces.Discrete(3), "angle": spaces.Box(-1, 1, (1,), np.float32)}
        mask = {"action_mask": spaces.MultiBinary(3)} if masked else {}
        self.observation_space = spaces.Dict({**shown, **mask})
        turn = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Dict({"turn": turn, "fire": spaces.Discrete(3)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.shots = 0
        return self._target(), {}

    def _target(self) -> dict[str, Any]:
        self.cannon = int(self.np_random.integers(3))
        self.angle = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        seen = {"cannon": self.cannon, "angle": self.angle}
        if self.masked:  # the one that is wrong twice over is forbidden
            seen["action_mask"] = (np.arange(3) != (self.cannon + 1) % 3).astype(np.int8)
        return seen

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        assert not self.masked or action["fire"] != (self.cannon + 1) % 3
        right = action["fire"] == self.cannon
        reward = float(right) - float(np.abs(action["turn"] - self.angle)[0])
        self.shots += 1
        return self._target(), reward, False, self.shots == 10, {}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_ppo_learns_the_choice_and_the_number(framework: str, tmp_path: Path) -> None:
    """Random play has -4; what was learned is saved, loaded and exported."""
    run = rf.train("ppo", Cannons, until=16_000, engine="sim", seed=1, framework=framework)
    assert isinstance(run.policy.spec.action_space, MixedBox)
    assert float(np.mean(run.evaluate(20))) > 7
    run.save(tmp_path / "p.npz")
    loaded = rf.load(tmp_path / "p.npz")
    seen = {"cannon": 2, "angle": np.array([0.5], np.float32)}
    fire, turn = loaded.act(seen)
    assert fire == 2
    assert abs(turn - 0.5) < 0.3
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(export_onnx(loaded, tmp_path / "p.onnx"))
    assert [output.name for output in session.get_outputs()] == ["action", "logits_and_mean"]


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("a2c", {}),
        ("a3c", {}),
        ("pg", {}),
        ("impala", {"memory": "gru", "memory_size": 8}),
        ("appo", {}),
        ("ppo", {"memory": "lstm", "memory_size": 8}),
    ],
)
def test_every_algorithm_with_log_probabilities_takes_them(
    algorithm: str, settings: dict[str, Any]
) -> None:
    """Forbidden choices are never taken meanwhile: the environment would raise."""
    run = rf.train(
        algorithm, lambda: Cannons(masked=True), until=600, engine="sim", seed=1, **settings
    )
    assert np.isfinite(run.history[-1]["return"])
    assert run.policy.spec.masked


@pytest.mark.parametrize("algorithm", ["dqn", "sac", "td3"])
def test_others_say_which_do(algorithm: str) -> None:
    with pytest.raises(rf.BuildError, match="PPO, A2C, A3C, IMPALA"):
        rf.train(algorithm, Cannons, until=100, engine="sim")


class Crew(ParallelEnv[str, Any, Any]):
    """Two agents with the same mixed actions; to go is what pays."""

    metadata: ClassVar[dict[str, Any]] = {"name": "crew"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]
    how = spaces.Dict({"speed": spaces.Box(-1, 1, (1,), np.float32), "go": spaces.Discrete(2)})

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return self.how

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.agents, self.steps = list(self.possible_agents), 0
        return self._seen(), {agent: {} for agent in self.agents}

    def _seen(self) -> dict[str, Any]:
        return {agent: np.zeros(2, np.float32) for agent in self.agents}

    def step(self, actions: Any) -> tuple[Any, ...]:
        assert all(self.how.contains(action) for action in actions.values()), actions
        self.steps += 1
        seen, everybody = self._seen(), list(self.agents)
        rewards = {agent: float(actions[agent]["go"]) for agent in everybody}
        over = dict.fromkeys(everybody, self.steps == 10)
        self.agents = [] if self.steps == 10 else everybody
        return (
            seen,
            rewards,
            dict.fromkeys(everybody, False),
            over,
            {agent: {} for agent in everybody},
        )


def test_several_agents_take_them_in_their_own_structure() -> None:
    run = rf.train(
        "ppo", Crew, until=3000, policies="shared", engine="sim", seed=0, num_workers=0, lr=5e-3
    )
    (returns,) = run.evaluate(3).values()
    assert min(returns) == 10
