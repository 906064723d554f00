"""SAC, TD3 and DDPG on rows drawn by priority, with targets that are not what they follow.

A rate of next to nothing leaves all networks as they are between the steps of an update, so that
each of its figures can be reckoned in NumPy from the weights before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rillflow.algorithms import ddpg, sac, td3
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

WEIGHTS = np.float32([[1.0, 0.25, 0.5, 0.75, 0.125]])
STILL = {"lr": 1e-12}


def drawn() -> Any:
    """Rows with importance weights, and keys that errors go back by."""
    return batch(weights=WEIGHTS, keys=np.arange(ROWS)[None])


def noise_of(learner: Any) -> Any:
    """A generator that will draw what the learner's draws."""
    rng = np.random.default_rng()
    rng.bit_generator.state = learner.rng.bit_generator.state
    return rng


def check(learner: Any, rows: Any, target: Any) -> Any:
    """The figures of an update; those of its critics are those of this target."""
    q = np.atleast_2d(q_of(learner.m.by_name["q"], rows["obs"], rows["actions"]))
    result = learner.train(drawn())
    loss = (WEIGHTS[0] * (q - target) ** 2).mean(1).sum() / 2
    assert result.stats["q_loss"] == pytest.approx(loss, rel=1e-4)
    np.testing.assert_allclose(result.rows["td_errors"], target - q[0], rtol=1e-4, atol=1e-5)
    assert result.rows["keys"].tolist() == [*range(ROWS)]
    return result.stats


@FRAMEWORKS
def test_sac(framework: str) -> None:
    """The lower target critic, less what the action's likelihood costs; the lower critic."""
    learner = learner_of(sac, framework, initial_alpha=0.3, **STILL)
    rows, rng, actor = rows_of(drawn()), noise_of(learner), Squashed(learner.m.actor)
    actions, logp = actor.sample(rows["next_obs"], rng.standard_normal((ROWS, 2), np.float32))
    after = q_of(learner.m.targets["q"], rows["next_obs"], actions).min(0) - 0.3 * logp
    own, likely = actor.sample(rows["obs"], rng.standard_normal((ROWS, 2), np.float32))
    worth = q_of(learner.m.by_name["q"], rows["obs"], own).min(0)
    stats = check(learner, rows, rows["rewards"] + rows["discount"] * after)
    assert stats["entropy"] == pytest.approx(-likely.mean(), rel=1e-4)
    assert stats["actor_loss"] == pytest.approx((0.3 * likely - worth).mean(), rel=1e-4)


@FRAMEWORKS
def test_td3(framework: str) -> None:
    """The target actor's action with noise that is cut off twice, by the lower target critic."""
    learner = learner_of(td3, framework, target_noise=0.4, target_noise_clip=0.3, **STILL)
    rows, rng = rows_of(drawn()), noise_of(learner)
    noise = np.clip(0.4 * rng.standard_normal((ROWS, 2), np.float32), -0.3, 0.3)
    middle = Squashed(learner.m.targets["actor"]).middle(rows["next_obs"])
    actions = np.clip(middle + noise, -1, 1) * HALF
    assert (np.abs(noise) == np.float32(0.3)).any()
    after = q_of(learner.m.targets["q"], rows["next_obs"], actions).min(0)
    check(learner, rows, rows["rewards"] + rows["discount"] * after)


@FRAMEWORKS
def test_td3s_actor_follows_the_first_critic(framework: str) -> None:
    """The first says more of both numbers, the second, which says less of all, the contrary."""
    learner = learner_of(td3, framework, policy_delay=1, lr=0.01)
    q = {
        "value_head.weight": np.float32([[[0, 0, 0, 1, 1]], [[0, 0, 0, -1, -1]]]),
        "value_head.bias": np.float32([[0], [-50]]),
    }
    learner.m.q.set_weights(q)
    before = learner.m.actor.get_weights()["action_head.bias"].copy()
    learner.train(drawn())
    after = learner.m.actor.get_weights()["action_head.bias"]
    np.testing.assert_allclose(after - before, 0.01, rtol=1e-3)


@FRAMEWORKS
def test_ddpg(framework: str) -> None:
    learner = learner_of(ddpg, framework, **STILL)
    rows = rows_of(drawn())
    actions = Squashed(learner.m.targets["actor"]).middle(rows["next_obs"]) * HALF
    after = q_of(learner.m.targets["q"], rows["next_obs"], actions)
    stats = check(learner, rows, rows["rewards"] + rows["discount"] * after)
    own = Squashed(learner.m.actor).middle(rows["obs"]) * HALF
    worth = q_of(learner.m.by_name["q"], rows["obs"], own)
    assert stats["actor_loss"] == pytest.approx(-worth.mean(), rel=1e-4)
