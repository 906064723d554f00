"""The listings of the paper run as they were printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rillflow import paper
from rillflow.algorithms import a3c

HERE = Path(__file__).parent
A3C = ["listing_a1", "poster_a3c"]


def load(name: str, **settings: object):  # type: ignore[no-untyped-def]
    functions = {"loss": a3c.loss, "postprocess": a3c.postprocess}
    config = a3c.Config.make(num_workers=2, **functions, **settings)
    return paper.load((HERE / f"{name}.txt").read_text(), config)()


@pytest.mark.parametrize("name", A3C)
def test_a3c_is_the_flow_of_the_plan(name: str) -> None:
    """The listing builds what our own plan builds, with a report behind it."""
    text = load(name).explain()
    for operator in ("ComputeGradients", "gather_async", "ApplyGradients", "Report"):
        assert operator in text


@pytest.mark.proc
@pytest.mark.parametrize("engine", ["sim", "local", pytest.param("ray", marks=pytest.mark.ray)])
def test_a3c_listing_runs(engine: str) -> None:
    """Rows of figures come out, on every engine."""
    rows = load("listing_a1", num_envs_per_worker=4).take(10, engine=engine)
    assert rows[-1]["steps"] > rows[0]["steps"] > 0
    assert {"policy_loss", "value_loss", "entropy"} <= set(rows[-1])


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(300)
def test_a3c_listing_learns() -> None:
    """On processes the mean return of 100 episodes reaches 450."""
    with load("listing_a1").run("local", seed=0) as run:
        best = 0.0
        for row in run:
            best = max(best, row["return"])
            if best >= 450 or row["steps"] > 400_000:
                break
    assert best >= 450
