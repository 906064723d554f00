"""Groups of runs against each other: the difference, and an interval that means what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rillflow.results.comparison import compare, of_episodes
from rillflow.results.learning_curves import read_groups
from tests.results.test_plots import write


def rows(height: float, last: int = 100) -> list[dict[str, Any]]:
    return [
        {"steps": x, "episodes": 200, "return": height * x / 100, "seconds": x / 10}
        for x in range(10, last + 1, 10)
    ]


def sides(path: Path, a: list[float], b: list[float], **more: Any) -> Any:
    runs = [
        write(path / f"{name}{i}", rows(height), seed=i, config={"lr": lr}, engine="sim", **more)
        for name, heights, lr in (("a", a, 1e-3), ("b", b, 1e-4))
        for i, height in enumerate(heights)
    ]
    return compare(*read_groups(runs, "steps", "return"))


def test_seeds_that_agree_tell_the_groups_apart(tmp_path: Path) -> None:
    found = sides(
        tmp_path, [100, 102, 98, 101, 99], [120, 122, 118, 121, 119], until={"return": 90}
    )
    at_end, mean, reached = found.figures
    assert (at_end.name, at_end.a, at_end.b) == ("return at 100 steps", 100, 120)
    assert at_end.low < 20 < at_end.high
    assert at_end.high - at_end.low < 5
    assert at_end.verdict == mean.verdict == "B is higher"
    assert reached.name == "steps to a return of 90"
    assert (reached.a, reached.b, reached.verdict) == (94.0, 80.0, "B is lower")
    assert found.settings == [("lr", "0.001", "0.0001")]


def test_seeds_that_scatter_decide_nothing(tmp_path: Path) -> None:
    found = sides(tmp_path, [10, 200, 60, 150, 90], [20, 210, 70, 140, 95])
    assert found.figures[0].verdict == "undecided"
    assert found.figures[0].low < 0 < found.figures[0].high


def test_one_run_gives_no_interval(tmp_path: Path) -> None:
    found = sides(tmp_path, [100], [120, 121, 122])
    assert found.figures[0].difference == 21
    assert np.isnan(found.figures[0].low)
    assert found.figures[0].verdict == "unknown"
    assert found.seeds == (1, 3)


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Of two hundred comparisons of episodes from the same source, about one in twenty errs."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(60):
        figure = of_episodes([rng.normal(0, 10, 40)], [rng.normal(0, 10, 40)])
        wrong += figure.verdict != "undecided"
    assert wrong <= 9, "5% of 60 are 3"


def test_episodes_of_several_runs_are_about_the_runs() -> None:
    """Runs that differ more than their episodes make a wide interval."""
    rng = np.random.default_rng(0)
    a = [rng.normal(mean, 1, 50) for mean in (0, 50, 100)]
    b = [rng.normal(mean, 1, 50) for mean in (10, 60, 110)]
    assert of_episodes(a, b).verdict == "undecided"
    assert of_episodes(a[:1], b[:1]).verdict == "B is higher"


@pytest.mark.parametrize("last", [50, 100])
def test_runs_are_compared_where_all_of_them_have_been(tmp_path: Path, last: int) -> None:
    long = write(tmp_path / "a", rows(100, 100), config={"lr": 1.0})
    short = write(tmp_path / "b", rows(100, last), config={"lr": 2.0})
    found = compare(*read_groups([long, short], "steps", "return"))
    assert found.figures[0].name == f"return at {last} steps"
    assert found.figures[0].difference == 0
