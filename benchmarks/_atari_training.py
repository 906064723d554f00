"""Training on an Atari game in a directory, sitting by sitting, with its curve kept as it goes.

A sitting ends at its time, saves, and can be followed by another; whatever ends it, the curve until
then is on the disk. Seconds are those of training, summed over sittings; a return is the mean of
the last 100 whole games, in the game's own points.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import rillflow as rf

EVERY = 1.0
"""seconds between two points of a curve"""


class Curve:
    """Points of a run, appended to a file: steps, seconds, mean return, episodes."""

    def __init__(self, path: Path, target: float | None) -> None:
        self.path, self.target = path, target
        self.marks: list[tuple[float, float]] = []
        """when each result came, and the steps until then"""
        self.reached: dict[str, float] | None = None
        self.last: dict[str, float] = {}
        self._written = 0.0
        if path.exists():
            for line in path.read_text().splitlines():
                self._look(json.loads(line))

    def note(self, row: dict[str, float]) -> None:
        """A row of the run's history."""
        now = time.monotonic()
        self.marks.append((now, row["steps"]))
        known = ("steps", "seconds", "return", "episodes")
        point = {name: row[name] for name in known if row[name] == row[name]}  # no mean of no game
        before = self.reached
        self._look(point)
        if now - self._written >= EVERY or self.reached is not before:
            self._written = now
            with self.path.open("a") as file:
                file.write(json.dumps(point) + "\n")

    def _look(self, point: dict[str, float]) -> None:
        self.last = point
        enough = self.target is not None and point.get("return", float("-inf")) >= self.target
        if self.reached is None and enough and point["episodes"] >= 100:
            self.reached = point

    @property
    def seconds(self) -> float:
        """Since the first result of this sitting."""
        return self.marks[-1][0] - self.marks[0][0] if self.marks else 0.0

    def rate(self, warm: float) -> tuple[float | None, float]:
        """Steps per second after the first `warm` seconds, and of how many seconds it is.

        Of a sitting that was too short for that it is the rate of its later half; None: there were
        not even three results.
        """
        late = [mark for mark in self.marks if mark[0] - self.marks[0][0] >= warm]
        if len(late) < 3:
            late = self.marks[len(self.marks) // 2 :] if len(self.marks) > 5 else self.marks
        if len(late) < 3 or late[-1][0] <= late[0][0]:
            return None, 0.0
        (began, first), (ended, last) = late[0], late[-1]
        return round((last - first) / (ended - began), 1), round(ended - began, 1)


class Watch:
    """Looks at the shares of a run when it is warm, and ends it after so many seconds more."""

    def __init__(self, curve: Curve, warm: float, window: float | None) -> None:
        self.curve, self.warm, self.window = curve, warm, window
        self.stats: dict[str, Any] = {}
        self._warm = False

    def on_result(self, run: Any, row: Any) -> str | None:
        """A result: begin to count once it is warm; end the run when the window is over."""
        passed = self.curve.seconds
        if not self._warm and passed >= self.warm:
            self._warm = True
            run._run.count_from_now()
        if self.window is not None and passed >= self.warm + self.window:
            self.stats = stats_of(run)
            return "stop"
        return None


def gpus() -> int:
    """CUDA devices of this machine."""
    import torch

    return torch.cuda.device_count()


def usual_settings() -> dict[str, Any]:
    """What the command line would be given: a worker for each core, and a GPU if there is one."""
    return {"num_workers": len(os.sched_getaffinity(0)), "num_gpus": min(1, gpus())}


def sitting(
    algorithm: str,
    game: str,
    folder: Path,
    *,
    seconds: float,
    settings: dict[str, Any],
    target: float | None = None,
    seed: int = 0,
    warm: float = 15.0,
    window: float | None = None,
    checkpoints: float | None = 120.0,
) -> dict[str, Any]:
    """Train for so long, or to the target; begins a run, or goes on with the one that is there.

    With a `window` it ends so many seconds after it is warm: `warm` seconds after its first result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    curve = Curve(folder / "curve.jsonl", target)
    run_dir = folder / "run"
    resumes = run_dir.exists()
    before = curve.last.get("seconds", 0.0) if resumes else 0.0
    until: dict[str, float] = {"seconds": before + seconds}
    if target is not None:
        until["return"] = target
    watch = Watch(curve, warm, window)
    how: dict[str, Any] = {
        "until": until,
        "on_result": watch.on_result,
        "on_progress": curve.note,
        "checkpoint_seconds": checkpoints,
        "progress": False,
    }
    began, error, run = time.time(), None, None
    try:
        if resumes:
            run = rf.resume(run_dir, keep=1, **how)
        else:
            run = rf.train(
                algorithm, game, run_dir=run_dir, seed=seed, keep=1, **{**settings, **how}
            )
    except Exception as failure:  # a figure of what there is is worth more than none
        error = f"{type(failure).__name__}: {failure}"
    rate, rate_seconds = curve.rate(warm)
    return {
        "algorithm": algorithm,
        "game": game,
        "seed": seed,
        "settings": settings,
        "resumed": resumes,
        "error": error,
        "wall_s": round(time.time() - began, 1),
        "steps_per_s": rate,
        "rate_seconds": rate_seconds,
        "results": len(curve.marks),
        "last": curve.last,
        "target": target,
        "reached": curve.reached,
        **used(run_dir),
        **(watch.stats or ({} if run is None else stats_of(run))),
    }


def used(run_dir: Path) -> dict[str, Any]:
    """What the run took of its machine, on average: cores, and per cent of the GPU."""
    path = run_dir / "machine.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    lines = lines[len(lines) // 3 :]  # when it was under way
    found = {}
    for name in ("cpu", "gpu", "gpu_memory", "memory"):
        values = [line[name] for line in lines if line.get(name) is not None]
        if values:
            found[f"mean_{name}"] = round(sum(values) / len(values), 2)
    return found


def stats_of(run: Any) -> dict[str, Any]:
    """Where time went, as the run itself tells."""
    with contextlib.suppress(Exception):
        stats = run.stats()
        times = [
            {"where": line.where, "name": line.name, "share": round(line.share, 4)}
            for line in stats.times
        ]
        resources = {line.name: round(line.utilisation, 4) for line in stats.resources}
        return {"verdict": stats.verdict, "utilisation": resources, "times": times}
    return {}
