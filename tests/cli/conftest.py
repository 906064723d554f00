"""The command line as users meet it: in this process where that is enough, else as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rillflow.cli.main import main

ROOT = Path(__file__).parents[2]
QUICK = (
    "--engine=sim",
    "--num-workers=1",
    "--num-envs-per-worker=8",
    "--train-batch-size=256",
    "--sgd-minibatch-size=128",
    "--num-sgd-iter=1",
)
"""flags with which PPO trains in this process, a result after a moment"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    # without what is empty: that would be the current directory
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


@pytest.fixture
def rillflow(tmp_path: Path) -> Callable[..., Done]:
    """Run `python -m rillflow` in an empty directory."""

    def run(*arguments: str, **more: Any) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "rillflow", *arguments],
            cwd=tmp_path,
            env=environment(**more),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """The same in this process: much quicker, with the same output and exit code."""
    monkeypatch.chdir(tmp_path)
    # what a command puts on the path, and what it imports from there, is this test's alone
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("RILLFLOW_DEBUG", raising=False)

    def run(*arguments: str) -> Done:
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse's help
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of PPO that came to its end; tests only read it."""
    root = tmp_path_factory.mktemp("finished")
    code = main(["train", "ppo", "CartPole-v1", *QUICK, "--until", "steps=4000", "--quiet",
                 "--run-dir", str(root), "--name", "done", "--tensorboard"])  # fmt: skip
    assert code == 0
    return root / "done"
