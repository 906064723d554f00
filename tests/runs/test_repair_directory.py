"""A run goes on from its checkpoint alone; what else is in its directory is repaired, and told."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.checkpoint import CheckpointStore, ForeignCheckpoint, newest_checkpoint
from rillflow.runs.checkpointer import Checkpointer
from rillflow.runs.directory import RunDirectory
from rillflow.runs.metrics_file import rows_in
from rillflow.runs.saved_job import job_of, resume_job
from tests.runs.test_resume import begin, directory_of, figures, go_on, job, same_weights


@pytest.fixture
def saved(tmp_path: Path) -> RunDirectory:
    """A run of 1000 steps."""
    directory = directory_of(job("ppo", 1000), tmp_path, "run")
    begin(job("ppo", 1000), directory)
    return directory


def lines(directory: RunDirectory) -> list[str]:
    return directory.metrics.read_text().splitlines(keepends=True)


def lose_a_row(directory: RunDirectory) -> None:
    first, _, *rest = lines(directory)
    directory.metrics.write_text("".join([first, *rest]))


def tear_a_row(directory: RunDirectory) -> None:
    first, second, *rest = lines(directory)
    directory.metrics.write_text("".join([first, second[:20] + "\n", *rest]))


def tear_the_last_row(directory: RunDirectory) -> None:
    directory.metrics.write_text("".join(lines(directory))[:-9])


def lose_all_rows(directory: RunDirectory) -> None:
    directory.metrics.unlink()


DAMAGE = {
    lose_a_row: r"\d+ bytes of rows of metrics.jsonl are lost",
    tear_a_row: r"removed a torn line of metrics.jsonl; \d+ bytes of rows .* are lost",
    tear_the_last_row: r"removed a torn line of metrics.jsonl; \d+ bytes of rows .* are lost",
    lose_all_rows: r"[\d,]+ bytes of rows of metrics.jsonl are lost",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_rows_that_are_torn_or_lost_stop_nothing(
    saved: RunDirectory, tmp_path: Path, damage: Any
) -> None:
    """What the run does is what it would have done; the file is whole again, less what is lost."""
    whole = RunDirectory(shutil.copytree(saved.path, tmp_path / "whole"))
    expected = go_on(whole, 1500)
    damage(saved)
    with pytest.warns(UserWarning, match=rf"repaired to go on: {DAMAGE[damage]}") as told:
        found = go_on(saved, 1500)
    assert len(told) == 1
    assert same_weights(found, expected)
    rows = [row["seconds"] for row in rows_in(saved.metrics)]
    assert rows == sorted(rows)
    assert all(json.loads(line) for line in lines(saved))
    assert go_on(saved, 1600).state == "finished"  # told once is enough


def test_a_folder_without_checkpoints_says_what_can_be_done(saved: RunDirectory) -> None:
    """It is there again, for those that may be put back."""
    shutil.rmtree(saved.checkpoints)
    with pytest.raises(
        rf.RunError,
        match=r"has no checkpoint: .*Begin anew with `rillflow train ppo CartPole-v1`.*put its "
        r"checkpoints back into .*checkpoints\. Its policy is there, though: `rillflow evaluate",
    ):
        go_on(saved, 1500)
    assert saved.checkpoints.is_dir()


def without_summary(directory: RunDirectory) -> dict[str, Any]:
    """What is in run.json while a run goes on: at its end it is summed up there."""
    return {name: value for name, value in directory.about.items() if name != "summary"}


def test_run_json_is_written_again_from_the_checkpoint(saved: RunDirectory) -> None:
    about = without_summary(saved)
    for damaged in ("", '{"format": 1, "algo', None):
        path = saved.path / "run.json"
        path.unlink() if damaged is None else path.write_text(damaged)
        with pytest.warns(UserWarning, match=r"wrote run\.json again, from 00000"):
            found = RunDirectory.open(saved.path)
        assert found.about == about
    assert go_on(found, 1500).state == "finished"


def test_a_directory_with_neither_is_no_run(saved: RunDirectory) -> None:
    (saved.path / "run.json").unlink()
    shutil.rmtree(saved.checkpoints)
    with pytest.raises(rf.BuildError, match=r"no run\.json .* and no checkpoint"):
        RunDirectory.open(saved.path)


def test_a_state_that_is_no_training_run_is_refused(saved: RunDirectory) -> None:
    with CheckpointStore(saved.checkpoints) as store:
        store.save(step=5000, state={"something": "else"})
    with pytest.raises(rf.RunError, match="is no checkpoint of a training run"):
        go_on(saved, 1500)


# -- whose checkpoint it is ------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path: Path) -> RunDirectory:
    """Another run of the same algorithm, which came further."""
    directory = directory_of(job("ppo", 2000), tmp_path, "other")
    begin(job("ppo", 2000), directory)
    return directory


def put(source: RunDirectory, target: RunDirectory) -> list[str]:
    paths = list(source.checkpoints.glob("0*-*"))
    for path in paths:
        shutil.copytree(path, target.checkpoints / path.name)
    return [path.name for path in paths]


def test_a_run_has_an_id_that_stands_in_each_of_its_checkpoints(
    saved: RunDirectory, other: RunDirectory
) -> None:
    ids = {uuid.UUID(directory.about["id"]) for directory in (saved, other)}
    assert len(ids) == 2
    manifests = [manifest for _, manifest in Checkpointer(saved).store.checkpoints()]
    assert len(manifests) > 1
    assert {manifest.facts["run"] for manifest in manifests} == {saved.about["id"]}
    assert manifests[0].facts["about"] == without_summary(saved)


def test_a_checkpoint_of_another_run_is_passed_over(
    saved: RunDirectory, other: RunDirectory
) -> None:
    """The run's own is taken, and the other's stays where it is."""
    names = put(other, saved)
    with pytest.warns(UserWarning, match="passed over .*: of another run"):
        outcome = go_on(saved, 1500)
    assert outcome.trained.history[-1]["steps"] < 2000
    assert all((saved.checkpoints / name).is_dir() for name in names)
    assert go_on(saved, 1600).state == "finished"  # its own are newer now: nothing to be told


def test_where_there_are_only_those_of_another_run_it_is_an_error(
    saved: RunDirectory, other: RunDirectory
) -> None:
    """It names both runs and the ways out; one of them is to take it over."""
    shutil.rmtree(saved.checkpoints)
    saved.checkpoints.mkdir()
    put(other, saved)
    with pytest.raises(ForeignCheckpoint) as refused:
        go_on(saved, 3000)
    for part in (saved.about["id"], other.about["id"], "adopt=True"):
        assert part in str(refused.value)
    with saved, pytest.warns(UserWarning, match="rows of metrics.jsonl are lost"):
        outcome = resume_job(saved, until={"steps": 2500}, adopt=True)
    assert outcome.trained.history[-1]["steps"] >= 2500
    newest = newest_checkpoint(saved.checkpoints)
    assert newest is not None
    assert newest.facts["run"] == saved.about["id"]
    assert go_on(saved, 2600).state == "finished"


def test_a_checkpoint_from_before_there_were_ids_is_the_runs_own(saved: RunDirectory) -> None:
    newest = newest_checkpoint(saved.checkpoints)
    assert newest is not None
    shutil.rmtree(saved.checkpoints)
    with CheckpointStore(saved.checkpoints) as store:
        store.save(step=newest.step, state=newest.state, facts={"algorithm": "ppo"})
    assert go_on(saved, 1500).state == "finished"


# -- another number of workers ---------------------------------------------------------------------


def test_a_job_can_have_another_number_of_workers(saved: RunDirectory) -> None:
    """Everything else stays as it was."""
    was = job_of(saved).config
    for number in (0, 1, 5):
        config = job_of(saved, settings={"num_workers": number}).config
        assert config.num_workers == number
        assert type(config)(**{**vars(config), "num_workers": was.num_workers}) == was
    with pytest.raises(rf.BuildError, match="num_workers must be at least 0"):
        job_of(saved, settings={"num_workers": -1})


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("algorithm", ["ppo", "a3c", "impala", "dqn", "apex"])
def test_a_run_goes_on_with_another_number_of_workers(
    algorithm: str, number: int, tmp_path: Path
) -> None:
    """From the same weights; and then with the number it began with."""
    directory = directory_of(job(algorithm, 1000), tmp_path, "run")
    before = begin(job(algorithm, 1000), directory)
    newest = newest_checkpoint(directory.checkpoints)
    assert newest is not None
    with directory, Checkpointer(directory, seconds=None, steps=400) as checkpointer:
        outcome = resume_job(
            directory, until={"steps": 2000}, checkpointer=checkpointer, num_workers=number
        )
    assert outcome.trained.history[-1]["steps"] >= 2000
    assert all(np.isfinite(array).all() for array in outcome.trained.weights.values())
    assert not same_weights(outcome, before)
    assert go_on(directory, 2500).trained.history[-1]["steps"] >= 2500


def test_figures_are_those_of_a_run_that_was_not_damaged(
    saved: RunDirectory, tmp_path: Path
) -> None:
    """Rows made again after the checkpoint are the rows there were, on `sim`."""
    whole = RunDirectory(shutil.copytree(saved.path, tmp_path / "whole"))
    go_on(whole, 1500)
    with saved.metrics.open("a") as file:
        file.write('{"steps": 1, "seconds": 1e9}\n{"steps": 2, "se')
    with pytest.warns(UserWarning, match="removed a torn line"):
        go_on(saved, 1500)
    assert figures(saved) == figures(whole)
