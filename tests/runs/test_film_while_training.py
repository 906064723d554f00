"""Films of a policy while it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.runs.directory import RunDirectory
from tests.cli.conftest import QUICK

ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="films need the video extra")
pytest.importorskip("pygame", reason="CartPole is drawn by pygame")
SMALL: dict[str, Any] = {
    "hidden": (16,),
    "num_workers": 1,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 32,
}


def frames(path: Path) -> int:
    return int(ffmpeg.count_frames_and_secs(str(path))[0])


def test_there_is_one_each_so_many_steps_and_of_the_end(tmp_path: Path) -> None:
    run = rf.train("a2c", "CartPole-v1", until=600, engine="sim", record_every=250,
                   run_dir=tmp_path / "run", **SMALL)  # fmt: skip
    films = sorted((tmp_path / "run" / "films").iterdir())
    steps = [int(path.stem.removeprefix("step-")) for path in films]
    due = [row["steps"] for row in run.history]
    assert steps == sorted({next(s for s in due if s >= 250), next(s for s in due if s >= 500),
                            run.steps})  # fmt: skip
    assert all(frames(path) > 5 for path in films)
    assert RunDirectory(run.directory).status["films"] == {
        "every": 250, "done": len(films), "newest": f"films/{films[-1].name}",
    }  # fmt: skip


def test_training_is_the_same_with_and_without(tmp_path: Path) -> None:
    how: dict[str, Any] = {"until": 400, "engine": "sim", **SMALL}
    plain = rf.train("a2c", "CartPole-v1", **how)
    filmed = rf.train("a2c", "CartPole-v1", record_every=100, run_dir=tmp_path / "run", **how)
    assert all(np.array_equal(filmed.weights[n], plain.weights[n]) for n in plain.weights)


@pytest.mark.proc
def test_a_process_films_while_it_trains(tmp_path: Path) -> None:
    films = tmp_path / "run" / "films"

    def on_result(run: Any, row: Any) -> str | None:
        return "stop" if list(films.glob("*.mp4")) or row["seconds"] > 60 else None

    run = rf.train("a2c", "CartPole-v1", until={"seconds": 90}, record_every=200,
                   on_result=on_result, run_dir=tmp_path / "run", **SMALL)  # fmt: skip
    found = sorted(films.glob("*.mp4"))
    assert found
    assert frames(found[0]) > 5
    assert run.state == "finished"


def test_a_film_that_fails_is_told_and_left_out(tmp_path: Path, monkeypatch: Any) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("no display")

    monkeypatch.setattr("rillflow.results.film_episodes.record", broken)
    with pytest.warns(UserWarning, match="a film is left out.*no display") as told:
        run = rf.train("a2c", "CartPole-v1", until=1200, engine="sim", record_every=100,
                       run_dir=tmp_path / "run", **SMALL)  # fmt: skip
    assert run.steps >= 1200
    assert len(told) == 3
    assert "no more are tried" in str(told[-1].message)


def test_what_cannot_be_filmed_is_told_at_once(tmp_path: Path) -> None:
    how: dict[str, Any] = {"until": 64, "engine": "sim", "run_dir": tmp_path / "run", **SMALL}
    with pytest.raises(rf.BuildError, match="a number of steps between two films, got 0"):
        rf.train("a2c", record_every=0, **how)
    with pytest.raises(rf.BuildError, match="of one agent, and this run has several"):
        rf.train("ppo", "MultiAgentCartPole", policies="each", record_every=9, **how)
    with pytest.raises(rf.BuildError, match="films into the directory of a run"):
        rf.train("a2c", record_every=9, **{**how, "run_dir": None})
    assert not (tmp_path / "run").exists()


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rillflow.cli.main import main

    monkeypatch.chdir(tmp_path)
    flags = [*QUICK, "--until=steps=600", "--record-every=0.3k", "--name=film", "--quiet"]
    assert main(["train", "ppo", "CartPole-v1", *flags]) == 0
    assert len(list(Path("runs/film/films").iterdir())) >= 2
    assert json.loads(Path("runs/film/status.json").read_text())["films"]["every"] == 300
    again = ["resume", "runs/film", "--until=steps=1000", "--record-every=300", "--quiet"]
    assert main(again) == 0
