"""Weights & Biases itself, writing to files instead of its server."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import QUICK


@pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is an optional extra")
def test_the_library_takes_what_a_run_and_its_resumption_send(
    rillflow: Any, tmp_path: Path
) -> None:
    """Settings, the flow and rows are in its files; a resumed run has the same identity."""
    flags = ("--wandb", "project", "--quiet")
    offline = {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    train = ("train", "ppo", "CartPole-v1", *QUICK, "--name", "run", "--until", "steps=512")
    done = rillflow(*train, *flags, **offline)
    assert (done.code, done.err) == (0, "")
    done = rillflow("resume", "runs/run", "--until", "steps=800", *flags, **offline)
    assert (done.code, done.err) == (0, "")
    logs = [path.read_bytes() for path in tmp_path.glob("runs/run/wandb/offline-run-*/*.wandb")]
    assert len(logs) == 2
    for log in logs:
        assert b"policy_loss" in log
        assert b"TrainOneStep" in log
    names = {path.name for path in tmp_path.glob("runs/run/wandb/offline-run-*/*.wandb")}
    assert len(names) == 1, "one run, in two parts"
