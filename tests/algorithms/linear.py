"""Learners whose networks are linear, with weights of their own in each, and what these say.

All that is reckoned here is reckoned in NumPy, without the losses and networks of the package.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import make_learner
from rillflow.policies.spec import PolicySpec

FRAMEWORKS = pytest.mark.parametrize("framework", ["numpy", "torch"])
HALF = np.array([2.0, 0.5])
"""of the bounds of the two numbers, whose middle is 0"""
ROWS = 5
SEEN = 3


def learner_of(algorithm: Any, framework: str, **settings: Any) -> Any:
    """Networks without hidden layers, and targets that are not what they follow."""
    spec = PolicySpec(
        observation_space=spaces.Box(-9, 9, (SEEN,), np.float32),
        action_space=spaces.Box(np.float32(-HALF), np.float32(HALF), (2,), np.float32),
        hidden=(),
    )
    config = algorithm.Config(hidden=(), framework=framework, batches_per_draw=1, **settings)
    learner = make_learner(config.modules(spec).acting, config, 0)
    rng = np.random.default_rng(5)
    for network in (*learner.m.by_name.values(), *learner.m.targets.values()):
        drawn = {
            name: rng.normal(0, 0.5, array.shape).astype(np.float32)
            for name, array in network.get_weights().items()
            if name.endswith((".weight", ".bias"))
        }
        if drawn:
            network.set_weights({**network.get_weights(), **drawn})
    return learner


def batch(**more: Any) -> SampleBatch:
    """Rows of which some end, and some look further ahead than others."""
    rng = np.random.default_rng(7)
    columns = {
        "obs": rng.normal(size=(1, ROWS, SEEN)),
        "next_obs": rng.normal(size=(1, ROWS, SEEN)),
        "actions": rng.uniform(-1, 1, (1, ROWS, 2)) * HALF,
        "rewards": rng.normal(size=(1, ROWS)),
        "discount": np.array([[0.9, 0.0, 0.81, 0.9, 0.0]]),
    }
    return SampleBatch({**{n: c.astype(np.float32) for n, c in columns.items()}, **more})


def rows_of(batch: SampleBatch) -> dict[str, Any]:
    """Without the axis of time, in double precision."""
    return {name: column[0].astype(np.float64) for name, column in batch.items()}


def q_of(network: Any, obs: Any, actions: Any) -> Any:
    """[2, N] by two linear critics, or [N] by one, which take actions between -1 and 1."""
    weights = {name: np.float64(array) for name, array in network.get_weights().items()}
    inputs = np.concatenate([obs, actions / HALF], 1)
    values = weights["value_head.weight"] @ inputs.T
    return values[..., 0, :] + weights["value_head.bias"]


class Squashed:
    """A linear actor, whose Gaussians are squeezed into -1 ... 1."""

    def __init__(self, network: Any) -> None:
        self.weights = network.get_weights()

    def middle(self, obs: Any) -> Any:
        """What is in -1 ... 1, without noise."""
        weight, bias = (np.float64(self.weights[f"action_head.{n}"]) for n in ("weight", "bias"))
        outputs: Any = np.tanh(obs @ weight.T + bias)
        return outputs

    def sample(self, obs: Any, noise: Any) -> tuple[Any, Any]:
        """Actions [N, 2], and the logarithms of their density in -1 ... 1."""
        weight, bias = (np.float64(self.weights[f"action_head.{n}"]) for n in ("weight", "bias"))
        mean, log_std = np.split(obs @ weight.T + bias, 2, axis=1)
        drawn = mean + np.exp(log_std) * noise
        logp = -(noise**2) / 2 - log_std - math.log(2 * math.pi) / 2
        squeezed = np.tanh(drawn)
        return squeezed * HALF, (logp - np.log(1 - squeezed**2)).sum(1)
