"""CQL's term and IQL's update, reckoned in NumPy alone: two numbers to an action, rows that end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.algorithms import cql, iql
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


def batch() -> SampleBatch:
    """Rows of which some end, and some look further ahead than others."""
    rng = np.random.default_rng(7)
    columns = {
        "obs": rng.normal(size=(1, ROWS, SEEN)),
        "next_obs": rng.normal(size=(1, ROWS, SEEN)),
        "actions": rng.uniform(-1, 1, (1, ROWS, 2)) * HALF,
        "rewards": rng.normal(size=(1, ROWS)),
        "discount": np.array([[0.9, 0.0, 0.81, 0.9, 0.0]]),
    }
    return SampleBatch({name: column.astype(np.float32) for name, column in columns.items()})


def q_of(network: Any, obs: Any, actions: Any) -> Any:
    """[2, N] by two linear critics, which take actions between -1 and 1."""
    weights = {name: np.float64(array) for name, array in network.get_weights().items()}
    inputs = np.concatenate([obs, actions / HALF], 1)
    values = weights["value_head.weight"] @ inputs.T
    return values[:, 0] + weights["value_head.bias"]


class Squashed:
    """A linear actor, whose Gaussians are squeezed into -1 ... 1."""

    def __init__(self, learner: Any) -> None:
        self.weights = learner.m.actor.get_weights()

    def sample(self, obs: Any, noise: Any) -> tuple[Any, Any]:
        """Actions [N, 2], and the logarithms of their density in -1 ... 1."""
        weight, bias = (np.float64(self.weights[f"action_head.{n}"]) for n in ("weight", "bias"))
        mean, log_std = np.split(obs @ weight.T + bias, 2, axis=1)
        drawn = mean + np.exp(log_std) * noise
        logp = -(noise**2) / 2 - log_std - math.log(2 * math.pi) / 2
        squeezed = np.tanh(drawn)
        return squeezed * HALF, (logp - np.log(1 - squeezed**2)).sum(1)


@FRAMEWORKS
def test_the_conservative_term_by_hand(framework: str) -> None:
    """Three kinds of actions for each observation, each divided by its own density there: uniform
    ones, those of the policy, and those it would draw at the next observation."""
    count = 3
    learner = learner_of(cql, framework, sampled_actions=count)
    rows = {name: column[0].astype(np.float64) for name, column in batch().items()}
    rng = np.random.default_rng()
    rng.bit_generator.state = learner.rng.bit_generator.state
    actor = Squashed(learner)
    rng.standard_normal((ROWS, 2), np.float32)  # SAC's own next actions come first
    drawn = [(rng.uniform(-1, 1, (count * ROWS, 2)) * HALF, np.full(count * ROWS, -math.log(4)))]
    for name in ("obs", "next_obs"):
        noise = rng.standard_normal((count * ROWS, 2), np.float32)
        drawn.append(actor.sample(np.tile(rows[name], (count, 1)), noise))
    critics = learner.m.by_name["q"]
    gap = 0.0
    for k in range(2):
        for n in range(ROWS):
            parts = []
            for actions, logp in drawn:
                for m in range(n, count * ROWS, ROWS):
                    q = q_of(critics, rows["obs"][n : n + 1], actions[m : m + 1])[k, 0]
                    parts.append(np.exp(q - logp[m]))
            own = q_of(critics, rows["obs"][n : n + 1], rows["actions"][n : n + 1])[k, 0]
            gap += (np.log(np.mean(parts)) - own) / ROWS
    assert learner.assess(batch()).stats["conservative_gap"] == pytest.approx(gap, rel=1e-4)


@FRAMEWORKS
def test_iql_where_targets_differ_and_rows_end(framework: str) -> None:
    """The value looks at the target critics, the critics at the value of what followed: nothing
    follows an end, and what is two steps ahead counts less. A rate of next to nothing leaves all
    networks as they are between the two steps of an update."""
    learner = learner_of(iql, framework, expectile=0.9, beta=1.0, lr=1e-12)
    rows = {name: column[0].astype(np.float64) for name, column in batch().items()}
    given, policy = learner.rows(batch()), learner.m.frozen.policy
    logp, _, values = map(plain, policy.evaluate(given["obs"], given["actions"]))
    worth = q_of(learner.m.targets["q"], rows["obs"], rows["actions"]).min(0)
    advantages = worth - values
    sides = np.where(advantages > 0, 0.9, 0.1)
    weights = np.exp(advantages / np.sqrt(np.mean(advantages**2)))
    target = rows["rewards"] + rows["discount"] * plain(policy.values(given["next_obs"]))
    errors = q_of(learner.m.by_name["q"], rows["obs"], rows["actions"]) - target
    told = learner.learn(batch()).stats
    assert told["value_loss"] == pytest.approx(np.mean(sides * advantages**2) / 2, rel=1e-4)
    assert told["policy_loss"] == pytest.approx(-np.mean(weights * logp), rel=1e-4)
    assert told["q_loss"] == pytest.approx(np.mean(errors**2, 1).sum() / 2, rel=1e-4)


def plain(x: Any) -> Any:
    return np.asarray(x.detach() if hasattr(x, "detach") else x)
