"""The best policy of a run is kept beside its last."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.results.trained import TrainedAgents, load
from rillflow.runs.best_policy import Score, score_of
from rillflow.runs.directory import RunDirectory
from rillflow.runs.saved_job import resume_job
from tests.runs.test_evaluate_while_training import SMALL, evaluated


@pytest.mark.parametrize(
    ("new", "old", "better"),
    [
        (Score("training", 5.0, 100), None, True),
        (Score("training", 5.0, 200), Score("training", 5.0, 100), False),
        (Score("training", 6.0, 200), Score("training", 5.0, 100), True),
        (Score("training", 9.0, 200), Score("evaluation", 5.0, 100), False),
        (Score("evaluation", 1.0, 200), Score("training", 5.0, 100), True),
        (Score("evaluation", math.nan, 200), None, False),
    ],
)
def test_evaluations_judge_before_training_does(
    new: Score, old: Score | None, better: bool
) -> None:
    assert new.beats(old) is better


def test_it_is_the_policy_of_the_best_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "run"
    trained = rf.train(
        "ppo", until=3000, engine="sim", eval_every=256, eval_episodes=4, run_dir=path, **SMALL
    )
    best = max(mean for _, mean in evaluated(trained))
    saved = load(path / "best_policy.npz")
    assert saved.judged is not None
    assert saved.judged["score"] == best == np.mean(saved.evaluate(4))
    assert trained.best is not None
    assert np.mean(trained.best.evaluate(4)) == best
    assert RunDirectory(path).about["summary"]["best"]["score"] == best


def test_without_evaluations_the_return_of_training_judges(tmp_path: Path) -> None:
    trained = rf.train("ppo", until=3000, engine="sim", run_dir=tmp_path / "run", **SMALL)
    known = [row for row in trained.history if row["episodes"] >= 20]
    best = max(known, key=lambda row: row["return"])
    score = score_of(tmp_path / "run" / "best_policy.npz")
    assert score == Score("training", best["return"], int(best["steps"]))


def test_a_run_that_goes_on_keeps_it(tmp_path: Path) -> None:
    """Also with another interval, and if it becomes no better."""
    path = tmp_path / "run"
    how: dict[str, Any] = {"engine": "sim", "eval_every": 256, "eval_episodes": 4}
    rf.train("ppo", until=3000, run_dir=path, **how, **SMALL)
    before = (path / "best_policy.npz").read_bytes()
    first = score_of(path / "best_policy.npz")
    with RunDirectory.open(path) as directory:
        outcome = resume_job(directory, until={"steps": 3300}, eval_every=200, eval_episodes=1)
    assert first is not None
    new = [mean for steps, mean in evaluated(outcome.trained) if steps > 3100]
    assert len(new) >= 1
    if max(new) <= first.score:
        assert (path / "best_policy.npz").read_bytes() == before
    assert outcome.trained.best.judged["score"] == max(first.score, *new)


def test_a_resumed_run_evaluates_as_one_that_was_not_interrupted(tmp_path: Path) -> None:
    how: dict[str, Any] = {"engine": "sim", "eval_every": 300, "eval_episodes": 2}
    whole = rf.train("ppo", until=1500, run_dir=tmp_path / "whole", **how, **SMALL)
    rf.train("ppo", until=700, run_dir=tmp_path / "part", **how, **SMALL)
    with RunDirectory.open(tmp_path / "part") as directory:
        outcome = resume_job(directory, until={"steps": 1500})
    names = [
        name
        for name in whole.weights
        if (whole.weights[name] != outcome.trained.weights[name]).any()
    ]
    assert names == []
    assert sorted(set(evaluated(whole))) == sorted(set(evaluated(outcome.trained)))


def test_several_agents_have_theirs_in_a_directory(tmp_path: Path) -> None:
    how: dict[str, Any] = {"policies": "each", "eval_every": 256, "eval_episodes": 2}
    path = tmp_path / "run"
    trained = rf.train(
        "ppo", "MultiAgentCartPole", until=1024, engine="sim", run_dir=path, **how, **SMALL
    )
    saved = TrainedAgents.load(path / "best_policies")
    score = score_of(path / "best_policies")
    assert score is not None
    assert score.score == max(mean for _, mean in evaluated(trained))
    assert saved.policies.keys() == trained.policies.keys()
    assert not list(path.glob(".best*"))


def test_a_disk_that_is_full_costs_a_warning(tmp_path: Path) -> None:
    """The best policy waits in memory, and is written when there is room."""
    path = tmp_path / "run"

    def full(run: Any, result: Any) -> None:
        # a directory of that name takes no file, as a full disk takes none
        if run.steps < 300:
            (path / "best_policy.npz").mkdir()
        elif run.steps > 1000 and (path / "best_policy.npz").is_dir():
            (path / "best_policy.npz").rmdir()

    how: dict[str, Any] = {"eval_every": 256, "eval_episodes": 2, "on_result": full}
    with pytest.warns(UserWarning, match="the best policy is not saved"):
        trained = rf.train("ppo", until=1500, engine="sim", run_dir=path, **how, **SMALL)
    score = score_of(path / "best_policy.npz")
    assert score is not None
    assert score.score == max(mean for _, mean in evaluated(trained))


def test_a_damaged_file_is_told_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run"
    how: dict[str, Any] = {"engine": "sim", "eval_every": 256, "eval_episodes": 2}
    rf.train("ppo", until=512, run_dir=path, **how, **SMALL)
    (path / "best_policy.npz").write_bytes(b"not a policy")
    with (
        RunDirectory.open(path) as directory,
        pytest.warns(UserWarning, match="the best policy is looked for anew"),
    ):
        resume_job(directory, until={"steps": 1024})
    assert score_of(path / "best_policy.npz") is not None
