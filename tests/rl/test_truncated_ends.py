"""What follows an episode that was only cut off counts, wherever a loss looks at what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from rillflow.algorithms import a2c, a3c, async_dqn
from rillflow.learning.make_learner import make_learner
from rillflow.learning.tape import value_of
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from tests.rl.test_waiting_steps import check, clocks, info

GAMMA = 0.9


def learned_from(cfg: Any) -> tuple[Any, Any]:
    """A learner, and its rows of a fragment in which episodes end in both ways."""
    spec = Workers(cfg).spec
    worker, learner = RolloutWorker(cfg, spec, info()), make_learner(spec, cfg, seed=1)
    for _ in range(2):
        batch = worker.sample()
    assert batch["truncated"].any()
    assert batch["terminated"].any()
    return learner, learner.rows(batch)


def asked(learner: Any, network: Any, obs: Any) -> Any:
    """What a network of the learner says, as an array."""
    if learner.config.framework == "numpy":
        return np.asarray(value_of(network(obs)))
    with torch.no_grad():
        return network(torch.from_numpy(obs)).numpy()


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("cls", [a2c.Config, a3c.Config])
def test_an_actor_critic_goes_on_in_the_value_of_the_last_observation(
    cls: Any, mode: AutoresetMode, framework: str
) -> None:
    """With one step ahead a target is 1, or 1 + gamma v(what followed) where it was cut off."""
    cfg = cls(env=clocks(mode), hidden=(8,), num_envs_per_worker=3, rollout_fragment_length=20,
              gamma=GAMMA, lambda_=0.0, framework=framework)  # fmt: skip
    learner, rows = learned_from(cfg)
    obs, targets = np.asarray(rows["obs"]), np.asarray(rows["targets"])
    own, episode, time = obs.T
    following = np.stack([own, episode, time + 1], 1).astype(np.float32)
    values = asked(learner, learner.m.policy.values, following)
    over, truncated = time + 1 == 3 + episode % 5, episode % 2 == 1
    assert (over & truncated).any()
    assert (over & ~truncated).any()
    expected = 1 + GAMMA * values * ~(over & ~truncated)
    np.testing.assert_allclose(targets, expected, rtol=1e-4)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_asynchronous_dqn_goes_on_in_the_value_of_the_last_observation(
    mode: AutoresetMode, framework: str
) -> None:
    """Where an episode was cut off, a row looks no further, and its target counts what followed."""
    cfg = async_dqn.Config(env=clocks(mode), hidden=(8,), num_envs_per_worker=3, n_step=3,
                           rollout_fragment_length=20, gamma=1.0, framework=framework)  # fmt: skip
    learner, rows = learned_from(cfg)
    columns = {name: np.asarray(column) for name, column in rows.items()}
    check(columns, 3)
    following = asked(learner, learner.m.target.policy.q_values, columns["next_obs"])
    np.testing.assert_allclose(columns["next_q"], following, rtol=1e-5)
