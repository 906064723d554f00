"""CQL's term and IQL's update, reckoned in NumPy alone: two numbers to an action, rows that end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rillflow.algorithms import cql, iql
from tests.algorithms.linear import (
    FRAMEWORKS,
    HALF,
    ROWS,
    Squashed,
    batch,
    learner_of,
    q_of,
    rows_of,
)


@FRAMEWORKS
def test_the_conservative_term_by_hand(framework: str) -> None:
    """Three kinds of actions for each observation, each divided by its own density there: uniform
    ones, those of the policy, and those it would draw at the next observation."""
    count = 3
    learner = learner_of(cql, framework, sampled_actions=count)
    rows = rows_of(batch())
    rng = np.random.default_rng()
    rng.bit_generator.state = learner.rng.bit_generator.state
    actor = Squashed(learner.m.actor)
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
    rows = rows_of(batch())
    given, policy = learner.rows(batch()), learner.m.frozen.policy
    logp, _, values = map(plain, policy.evaluate(given["obs"], given["actions"]))
    worth = q_of(learner.m.targets["q"], rows["obs"], rows["actions"]).min(0)
    advantages = worth - values
    sides = np.where(advantages > 0, 0.9, 0.1)
    target = rows["rewards"] + rows["discount"] * plain(policy.values(given["next_obs"]))
    errors = q_of(learner.m.by_name["q"], rows["obs"], rows["actions"]) - target
    weights = np.exp(advantages / np.sqrt(np.mean(advantages**2) + 4 * np.mean(errors**2)))
    told = learner.learn(batch()).stats
    assert told["value_loss"] == pytest.approx(np.mean(sides * advantages**2) / 2, rel=1e-4)
    assert told["policy_loss"] == pytest.approx(-np.mean(weights * logp), rel=1e-4)
    assert told["q_loss"] == pytest.approx(np.mean(errors**2, 1).sum() / 2, rel=1e-4)


def plain(x: Any) -> Any:
    return np.asarray(x.detach() if hasattr(x, "detach") else x)
