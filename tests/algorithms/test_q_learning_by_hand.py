"""The update that DQN, Ape-X, Simple Q and asynchronous DQN share, reckoned in NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.algorithms import dqn
from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import make_learner
from rillflow.policies.spec import PolicySpec
from tests.algorithms.linear import FRAMEWORKS, rows_of

ROWS, SEEN, CHOICES = 6, 3, 4
WEIGHTS = np.array([[1.0, 0.25, 0.5, 0.75, 0.125, 1.0]])


def drawn() -> SampleBatch:
    """Rows drawn by priority, of which some end."""
    rng = np.random.default_rng(3)
    columns = {
        "obs": rng.normal(size=(1, ROWS, SEEN)),
        "next_obs": rng.normal(size=(1, ROWS, SEEN)),
        "rewards": rng.normal(size=(1, ROWS)),
        "discount": np.array([[0.9, 0.0, 0.81, 0.9, 0.0, 0.729]]),
        "weights": WEIGHTS,
    }
    floats = {name: column.astype(np.float32) for name, column in columns.items()}
    actions = np.arange(ROWS)[None] % CHOICES
    return SampleBatch({**floats, "actions": actions, "keys": 10 + np.arange(ROWS)[None]})


def q_of(network: Any, obs: Any) -> Any:
    """[N, choices] by a linear network."""
    weight, bias = (
        next(np.float64(a) for n, a in network.get_weights().items() if n.endswith(end))
        for end in (".weight", ".bias")
    )
    return obs @ weight.T + bias


@FRAMEWORKS
@pytest.mark.parametrize("double_q", [False, True])
def test_an_update(framework: str, double_q: bool) -> None:
    """The target network says what the best next action is worth; with `double_q` the other one
    says which that is. Rows count by their importance weights; errors go back as they are."""
    spec = PolicySpec(
        observation_space=spaces.Box(-9, 9, (SEEN,), np.float32),
        action_space=spaces.Discrete(CHOICES),
        hidden=(),
    )
    config = dqn.Config(
        env=None, hidden=(), framework=framework, dueling=False, double_q=double_q,
        batches_per_draw=1,
    )  # fmt: skip
    learner = make_learner(config.modules(spec).acting, config, 0)
    rng = np.random.default_rng(5)
    own, target = learner.m.policy, learner.m.targets["policy"]
    for network in (own, target):
        shapes = {name: array.shape for name, array in network.get_weights().items()}
        network.set_weights({n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()})
    rows, every = rows_of(drawn()), np.arange(ROWS)
    after = q_of(target, rows["next_obs"])
    picked = (q_of(own, rows["next_obs"]) if double_q else after).argmax(1)
    assert (picked != after.argmax(1)).any() == double_q
    taken = q_of(own, rows["obs"])[every, rows["actions"].astype(int)]
    errors = rows["rewards"] + rows["discount"] * after[every, picked] - taken
    size = np.abs(errors)
    costs = np.where(size <= 1, errors**2 / 2, size - 0.5)
    assert (size < 1).any()
    assert (size > 1).any()
    result = learner.train(drawn())
    assert result.stats["loss"] == pytest.approx((WEIGHTS[0] * costs).mean(), rel=1e-4)
    np.testing.assert_allclose(result.rows["td_errors"], errors, rtol=1e-4, atol=1e-5)
    assert result.rows["keys"].tolist() == [10, 11, 12, 13, 14, 15]
