"""The entropy that SAC and CQL learn the worth of: minus the numbers of an action, by default."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.algorithms import cql, sac
from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import make_learner
from rillflow.policies.spec import PolicySpec

NUMBERS = 3
ROWS = 4000


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", [sac, cql], ids=["sac", "cql"])
@pytest.mark.parametrize(("entropy", "way"), [(-2.0, -1), (-4.0, 1)])
def test_it_is_worth_more_where_there_is_less_than_minus_three_of_it(
    algorithm: Any, framework: str, entropy: float, way: int
) -> None:
    """Less than 3 or -9 is not what counts, and neither are the bounds, which are 5."""
    spec = PolicySpec(
        observation_space=spaces.Box(-9, 9, (1,), np.float32),
        action_space=spaces.Box(-5, 5, (NUMBERS,), np.float32),
        hidden=(),
    )
    config = algorithm.Config(hidden=(), framework=framework, lr=0.01, batches_per_draw=1)
    learner = make_learner(config.modules(spec).acting, config, 0)
    # Gaussians around 0 that are narrow enough to be hardly squeezed
    log_std = entropy / NUMBERS - 0.5 * math.log(2 * math.pi * math.e)
    learner.m.actor.set_weights(
        {
            "action_head.weight": np.zeros((2 * NUMBERS, 1), np.float32),
            "action_head.bias": np.float32([0.0] * NUMBERS + [log_std] * NUMBERS),
        }
    )
    zeros = np.zeros((1, ROWS), np.float32)
    obs, actions = zeros[..., None], np.zeros((1, ROWS, NUMBERS), np.float32)
    columns = {"obs": obs, "next_obs": obs, "actions": actions, "rewards": zeros}
    stats = learner.train(SampleBatch({**columns, "discount": zeros})).stats
    assert stats["entropy"] == pytest.approx(entropy, abs=0.15)
    assert float(learner.m.log_alpha.get_weights()["value"]) == pytest.approx(way * 0.01, rel=1e-3)
