"""Continuous actions whose bounds are far from -1 and 1 are learned as others are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rillflow as rf
from rillflow.results import export_onnx
from rillflow.rl.workers import create_rollout_workers
from rillflow.runs.saved_job import settings_from
from rillflow.runs.warm_start import begin_with


class Torque(gym.Env[Any, Any]):
    """Shown a number, give 400 + 80 times it; 0 is perfect, chance has -7."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(300, 500, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._shown(), {}

    def _shown(self) -> Any:
        self.asked = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.asked

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        reward = -float(np.abs(action - 400 - 80 * self.asked)[0]) / 100
        self.steps += 1
        return self._shown(), reward, False, self.steps == 10, {}


HOW: dict[str, Any] = {"engine": "sim", "seed": 1, "num_workers": 1}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_ppo_learns_torques_in_hundreds(framework: str, tmp_path: Path) -> None:
    run = rf.train("ppo", Torque, until=16_000, framework=framework, **HOW)
    assert float(np.mean(run.evaluate(20))) > -1.5
    run.save(tmp_path / "p.npz")
    for policy in (run, rf.load(tmp_path / "p.npz")):
        assert abs(policy.act([0.5])[0] - 440) < 25


def test_without_units_they_are_not_learned() -> None:
    """What `scale_actions` is for: the lowest torque is all that is ever tried."""
    run = rf.train("ppo", Torque, until=16_000, scale_actions=False, **HOW)
    assert float(np.mean(run.evaluate(20))) < -5
    assert run.act([0.5])[0] == 300  # clipped: the network says next to nothing


@pytest.mark.parametrize("algorithm", ["a2c", "a3c", "appo", "impala", "pg"])
def test_others_begin_in_the_middle_too(algorithm: str) -> None:
    run = rf.train(algorithm, Torque, until=64, rollout_fragment_length=4, **HOW)
    assert abs(run.act([0.0])[0] - 400) < 25


def test_a_run_from_before_units_goes_on_without_them() -> None:
    config = rf.algorithms.ppo.Config
    assert not settings_from(config, {"env": "Pendulum-v1"}).scale_actions
    assert config(env="Pendulum-v1").scale_actions


@pytest.mark.parametrize(("there", "here"), [(False, True), (True, False)])
def test_a_run_begins_with_a_policy_in_other_units(there: bool, here: bool) -> None:
    """It does what that policy does."""
    run = rf.train("ppo", Torque, until=64, scale_actions=there, **HOW)
    workers = create_rollout_workers(run.config.__class__(env=Torque, scale_actions=here))
    begin_with(workers, run)
    from rillflow.policies.numpy_policy import NumpyPolicy

    policies = [NumpyPolicy(spec) for spec in (run.policy.spec, workers.spec)]
    for policy, weights in zip(policies, (run.weights, workers.initial), strict=True):
        policy.set_weights(weights)
    obs = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    one, other = (policy.outputs(obs) for policy in policies)
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    assert (policies[0].spec.mean_units is None) != (policies[1].spec.mean_units is None)


class Shot(Torque):
    """As `Torque`, with a choice beside it, of which one of three is forbidden."""

    observation_space = spaces.Dict(  # type: ignore[assignment]
        shown=Torque.observation_space, action_mask=spaces.MultiBinary(3)
    )
    action_space = spaces.Dict(turn=Torque.action_space, fire=spaces.Discrete(3))  # type: ignore[assignment]

    def _shown(self) -> Any:
        return {"shown": super()._shown(), "action_mask": np.array([1, 0, 1], np.int8)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action["fire"] != 1
        self.steps += 1
        reward = -float(np.abs(action["turn"] - 400 - 80 * self.asked)[0]) / 100
        return self._shown(), reward, False, self.steps == 10, {}


def test_a_torque_beside_a_choice_that_masks_rule(tmp_path: Path) -> None:
    """Learned, and exported with the torque in the environment's units, the mask for choices."""
    run = rf.train("ppo", Shot, until=16_000, **HOW)
    assert float(np.mean(run.evaluate(20))) > -1.5
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(export_onnx(run, tmp_path / "p.onnx"))
    mask = np.array([[True, False, True]])
    feeds = {"observation.shown": np.array([[0.5]], np.float32), "action_mask": mask}
    ((fire, turn),) = session.run(["action"], feeds)[0]
    assert fire != 1
    assert abs(turn - 440) < 25
    seen = {"shown": np.array([0.5], np.float32), "action_mask": mask[0]}
    np.testing.assert_allclose([fire, turn], run.act(seen), rtol=1e-5)
