"""Curves that were measured side by side are put together, seed by seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs import make_curves


def test_runs_of_other_seeds_stay_and_those_of_the_same_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "pg.json"
    for seed, reached in ((1, 1.0), (0, 2.0), (1, 3.0)):
        make_curves.remember(file, {"env": "Bandit", "runs": [{"seed": seed, "return": reached}]})
    about = json.loads(file.read_text())
    assert about["env"] == "Bandit"
    assert [(run["seed"], run["return"]) for run in about["runs"]] == [(0, 2.0), (1, 3.0)]


def test_what_is_measured_elsewhere_changes_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (make_curves.HERE / "pg.json").read_text()
    monkeypatch.setitem(make_curves.GOALS, "pg", ("CartPole-v1", {"steps": 2000}))
    words = ["make_curves.py", "pg", "--seeds", "7", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    make_curves.main()
    (run,) = json.loads((tmp_path / "pg.json").read_text())["runs"]
    assert run["seed"] == 7
    assert (make_curves.HERE / "pg.json").read_text() == before
