"""Directories of runs as training leaves them, small and quickly made."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any


def make_run(
    root: Path, name: str, *, seed: int = 0, state: str = "finished", rows: int = 20,
    slope: float = 1.0, **changes: Any,
) -> Path:  # fmt: skip
    """One run; what is not said is as usual."""
    path = root / name
    path.mkdir(parents=True)
    config = {"env": "CartPole-v1", "lr": 0.001, "hidden": [64, 64], **changes.pop("config", {})}
    about = {"format": 1, "algorithm": "ppo", "env": "CartPole-v1", "engine": "local",
             "seed": seed, "config": config, "until": {"return": 475}, **changes}  # fmt: skip
    (path / "run.json").write_text(json.dumps(about))
    add_rows(path, rows, slope)
    resources = [{"kind": "driver", "name": "driver", "count": 1, "utilisation": 0.9}]
    replace(path / "status.json", {
        "format": 1, "state": state, "time": time.time() + 600, "host": socket.gethostname(),
        "pid": os.getpid(), "error": None, "seconds": 9.0, "verdict": "Bottleneck: driver.",
        "bottleneck": {"kind": "driver", "name": "driver"}, "resources": resources,
    })  # fmt: skip
    with (path / "machine.jsonl").open("w") as file:
        for place in range(10):
            used = {"time": 1.8e9 + 5 * place, "cpu": 0.5, "memory": 2**28, "cores": 2,
                    "machine_cpu": 1.5, "machine_memory": 2**32, "memory_total": 2**34}  # fmt: skip
            file.write(json.dumps(used) + "\n")
    return path


def add_rows(path: Path, rows: int, slope: float = 1.0, begin: int = 0) -> None:
    with (path / "metrics.jsonl").open("a") as file:
        for place in range(begin + 1, begin + rows + 1):
            row = {"steps": 1000 * place, "seconds": place / 2, "episodes": 50 * place,
                   "return": slope * place, "entropy": 1 / place}  # fmt: skip
            file.write(json.dumps(row) + "\n")


def replace(path: Path, content: Any) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content))
    part.replace(path)


def change(path: Path, **changes: Any) -> None:
    """A new status."""
    file = path / "status.json"
    replace(file, {**json.loads(file.read_text()), **changes})
