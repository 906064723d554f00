"""Writes a run directory as training does, from a real run of a real flow."""

from __future__ import annotations

import json
import math
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rillflow as rf
from rillflow.runs.status import snapshot


class Recorder:
    """The files of one run."""

    def __init__(self, directory: Path, flow: rf.Flow[Any], **about: Any) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        run = {
            "format": 1,
            "algorithm": "shape",
            "env": None,
            "engine": "sim",
            "seed": 0,
            "config": {},
            "until": {},
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"rillflow": "0.1.0"},
            "machine": {"cores": os.cpu_count()},
            **about,
        }
        self.replace("run.json", run)
        self.replace("graph.json", flow.to_json())

    def replace(self, name: str, content: Any) -> None:
        """At once, so that no reader sees half of it."""
        part = self.directory / f"{name}.part"
        part.write_text(json.dumps(content))
        part.replace(self.directory / name)

    def row(self, row: dict[str, Any]) -> None:
        clean = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        with (self.directory / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(clean) + "\n")

    def status(self, run: rf.Run[Any], **changes: Any) -> dict[str, Any]:
        known = {key: changes.pop(key) for key in ("state", "error") if key in changes}
        status = {**snapshot(run, **known), **changes}
        self.replace("status.json", status)
        return status

    def record(self, flow: rf.Flow[Any], *, engine: str = "sim", seconds: float = 1e9,
               rows: int = 10**9, every: float = 1.0) -> dict[str, Any]:  # fmt: skip
        """Run it, write every row it gives and a status now and then; the last says `running`."""
        begin = last = time.monotonic()
        with flow.run(engine, seed=0) as run:
            for number, row in enumerate(run, 1):
                self.row(row)
                now = time.monotonic()
                if now - last > every:
                    self.status(run)
                    last = now
                if number >= rows or now - begin > seconds:
                    break
            return self.status(run)
