"""The paper's listing of MAML runs as it was printed, and learns to adapt in five steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rillflow import paper
from rillflow.algorithms import maml
from rillflow.flows.flow import Flow

LISTING = Path(__file__).with_name("listing_maml.txt").read_text()
QUICK = {"num_workers": 2, "num_envs_per_worker": 2, "maml_optimizer_steps": 1}


def build(**settings: Any) -> Flow[dict[str, float]]:
    flow: Flow[dict[str, float]] = paper.load(LISTING, maml.Config.make(**settings))()
    return flow


def test_it_is_the_flow_of_the_plan() -> None:
    """Rounds behind a barrier, adaptation between them, the meta-update, a report."""
    text = build().explain()
    for operator in ("gather_sync", "InnerAdapt", "MetaUpdate", "Report"):
        assert operator in text


@pytest.mark.proc
@pytest.mark.parametrize(
    "engine",
    ["sim", "local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])],
)
def test_it_runs(engine: str, request: pytest.FixtureRequest) -> None:
    """Six rounds of every worker are one row of figures, on every engine."""
    if engine == "ray":
        request.getfixturevalue("users_ray")
    rows = build(**QUICK).take(2, engine=engine)
    assert [row["steps"] for row in rows] == [6 * 2 * 2 * 20, 2 * 6 * 2 * 2 * 20]
    assert {"return_before", "return_after_1", "return_after_4", "return_after"} <= set(rows[-1])


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(300)
def test_it_learns_on_processes() -> None:
    """What five steps of adaptation gain grows from a fraction of the return to most of it."""
    rows = build().take(16, engine="local")
    first, last = rows[0], rows[-4:]
    assert first["return_after"] < -15
    assert np.mean([row["return_after"] for row in last]) > -8, last
    assert np.mean([row["return_before"] for row in last]) < -15, "a task cannot be guessed"
