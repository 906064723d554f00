"""The documentation's example of an update of one's own: its penalty is learned from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rillflow.algorithms import ppo
from rillflow.learning.make_learner import make_learner
from rillflow.rl.workers import Workers
from tests.rl.test_learner import fragment

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"


def documented(coefficient: float) -> Any:
    """The example as the page has it, but for the coefficient."""
    found = re.search(r"^def calmer.*?(?=\n\n\n)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert found[0].count("0.2 *") == 1
    names: dict[str, Any] = {}
    head = "from rillflow.algorithms import ppo\nfrom rillflow.learning import losses\n"
    head += "from rillflow.learning.update import Step\n\n"
    exec(head + found[0].replace("0.2 *", f"{coefficient} *"), names)
    return names["calmer"]


def gradient(framework: str, coefficient: float | None) -> Any:
    update = None if coefficient is None else documented(coefficient)
    config = ppo.Config(framework=framework, update=update)
    learner = make_learner(Workers(config).spec, config, 0)
    batch = fragment()
    other = batch["logp"] - np.float32(0.5) * batch["actions"].astype(np.float32)
    values = learner.compute_gradients(batch.with_columns(logp=other)).values
    return np.concatenate([np.ravel(values[name]) for name in sorted(values)])


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_gradient_follows_the_coefficient(framework: str) -> None:
    plain, little, much = (gradient(framework, c) for c in (None, 1.0, 1000.0))
    penalty = little - plain
    assert np.abs(penalty).max() > 1e-3
    np.testing.assert_allclose(much - plain, 1000 * penalty, rtol=2e-2, atol=2e-2)


def test_it_is_the_same_in_both_frameworks() -> None:
    np.testing.assert_allclose(gradient("numpy", 3.0), gradient("torch", 3.0), atol=1e-5)
