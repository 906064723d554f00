"""A run's directory: what it holds, who may write there, what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rillflow.errors import BuildError, RunError
from rillflow.files import to_json, write_json
from rillflow.results.config_as_json import settings_of
from rillflow.runs.directory import RunDirectory, runs_in


def make(root: Path, name: str | None = None, **more: object) -> RunDirectory:
    facts: dict[str, object] = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "engine": "sim",
        "seed": 3,
        "config": {"lr": 0.1},
        "until": {"steps": 10},
        **more,
    }
    return RunDirectory.create(root, name, **facts)  # type: ignore[arg-type]


def test_run_json_tells_what_was_asked_for_and_where(tmp_path: Path) -> None:
    with make(tmp_path / "runs") as directory:
        about = json.loads((directory.path / "run.json").read_text())
    assert about["format"] == 1
    assert (about["algorithm"], about["env"]) == ("ppo", "CartPole-v1")
    assert (about["engine"], about["seed"], about["until"]) == ("sim", 3, {"steps": 10})
    assert about["config"] == {"lr": 0.1}
    assert {"python", "torch", "numpy", "gymnasium", "rillflow"} <= set(about["versions"])
    assert about["machine"]["cores"] >= 1
    assert about["machine"]["memory"] > 1e8
    assert about["machine"]["cpu"]
    assert isinstance(about["machine"]["gpus"], list)
    assert about["created"][4] == "-"
    assert directory.checkpoints.is_dir()


def test_directories_are_numbered(tmp_path: Path) -> None:
    names = []
    for env in ("CartPole-v1", "CartPole-v1", "ALE/Pong-v5", "my.module:Env"):
        with make(tmp_path, env=env) as directory:
            names.append(directory.path.name)
    assert names == ["ppo-CartPole-v1-1", "ppo-CartPole-v1-2", "ppo-ALE-Pong-v5-1",
                     "ppo-my.module-Env-1"]  # fmt: skip
    assert len(list(runs_in(tmp_path))) == 4


def test_a_named_directory_must_be_new_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    make(tmp_path, "empty").release()
    with pytest.raises(BuildError, match=r"exists and is not empty.*rillflow resume"):
        make(tmp_path, "empty")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/x"])
def test_a_name_is_the_name_of_a_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(BuildError, match="without slashes"):
        make(tmp_path, name)


def test_a_second_run_in_the_directory_is_refused(tmp_path: Path) -> None:
    first = make(tmp_path, "one")
    second = RunDirectory.open(first.path)
    with pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        second.lock()
    first.release()
    with second:
        pass


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write a run under.*--run-dir"):
        make(tmp_path / "file" / "runs")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="Permission denied"):
        make(tmp_path / "runs")


def test_only_a_run_can_be_opened(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="there is no run"):
        RunDirectory.open(tmp_path / "missing")
    with pytest.raises(BuildError, match=r"no run\.json that can be read"):
        RunDirectory.open(tmp_path)
    write_json(tmp_path / "run.json", {"format": 99})
    with pytest.raises(BuildError, match="format 99, and this rillflow reads format 1"):
        RunDirectory.open(tmp_path)


def test_settings_that_are_code_are_named() -> None:
    from rillflow.algorithms import ppo

    settings = settings_of(ppo.Config(update=ppo.update, hidden=(32,), env_config={"a": 1}))
    assert settings["update"] == "rillflow.algorithms.ppo:update"
    assert settings["hidden"] == [32]
    assert settings["env_config"] == {"a": 1}
    json.dumps(settings)


def test_json_is_strict() -> None:
    import numpy as np

    text = to_json({"a": float("inf"), "b": [np.float32("nan"), np.int64(3)], "c": (1, None)})
    assert json.loads(text) == {"a": None, "b": [None, 3], "c": [1, None]}
