"""The runs under a directory, for a table of them that goes with the files.

Runs are its directories that have a `run.json` or a `metrics.jsonl`, and those one level below, as
`rillflow tune` makes them. A reader says which state it knows, and gets what has changed since.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rillflow.files import to_json
from rillflow.run_labels import differences, places, settings_of_run, shown, text
from rillflow.web.followed_files import BUDGET, Document, Rows
from rillflow.web.media import Media
from rillflow.web.run_files import judge

Json = dict[str, Any]
_RUNS = 400
"""that are shown: the newest"""
_LOOKED_AT = 5000
"""entries of one directory"""
_EVERY = 1.0
"""seconds between two looks at the directory"""
_POINTS, _FIGURES = 120, 24
"""of one run's curve; its own page has more"""
_SETTINGS = 40
"""that differ and are shown"""
_MARKS = ("run.json", "metrics.jsonl")


class RunsTable:
    """What is known of the runs; `data` is called by the threads of the server."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.left_out = 0
        """runs that are older than those that are shown"""
        self._runs: dict[str, _Run] = {}
        self._session = secrets.token_hex(4)
        self._clock = itertools.count(1)
        self._now = 0
        self._looked = -_EVERY
        self._settings: tuple[str, list[str]] = ("", [])
        self._lock = threading.Lock()

    def directory_of(self, key: str) -> Path | None:
        """Where the run of this key is; keys are made here, and name no file."""
        with self._lock:
            self._look()
            run = self._runs.get(key)
            return None if run is None else run.directory

    def data(self, known: Mapping[str, str]) -> Json:
        """The news for a reader who knows the state `since` of this `session`."""
        with self._lock:
            self._look()
            read = self._refresh()
            since = known.get("since", "")
            fresh = known.get("session") != self._session or not since.isdecimal()
            last = -1 if fresh else int(since)
            runs = self._runs.values()
            return {
                "kind": "runs",
                "session": self._session,
                "since": str(self._now),
                "title": text(self.directory.resolve().name),
                "order": list(self._runs),
                "left_out": self.left_out,
                "read": round(read, 3),
                "settings": self._settings[1],
                "runs": {run.key: run.row for run in runs if run.row_changed > last},
                "curves": {run.key: run.curve() for run in runs if run.curve_changed > last},
                "machines": {run.key: run.machine() for run in runs if run.machine_changed > last},
            }

    def _look(self) -> None:
        """Which runs there are."""
        if time.monotonic() - self._looked < _EVERY:
            return
        self._looked = time.monotonic()
        found = sorted(_runs_in(self.directory), key=lambda pair: (-pair[0], pair[1]))
        self.left_out = max(0, len(found) - _RUNS)
        runs = {}
        for _, name in found[:_RUNS]:
            key = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
            runs[key] = self._runs.get(key) or _Run(key, name, self.directory / name)
        self._runs = runs

    def _refresh(self) -> float:
        """Take in the news of all runs, for so long at most; the share of their rows that is read.

        Those that wait longest come first, so that one enormous file starves nobody.
        """
        self._now = next(self._clock)
        until = time.monotonic() + BUDGET
        for run in sorted(self._runs.values(), key=lambda run: run.refreshed):
            run.refresh(max(0.0, until - time.monotonic()), self._now)
        self._name_them()
        shares = [run.metrics.read for run in self._runs.values()]
        return min(shares, default=1.0)

    def _name_them(self) -> None:
        """Names of groups and settings that differ; both depend on all runs together."""
        runs = list(self._runs.values())
        version = " ".join(f"{run.key}{run.about.version}" for run in runs)
        if version != self._settings[0]:
            abouts = [run.about.content or {"algorithm": run.name} for run in runs]
            flat = [settings_of_run(about) for about in abouts]
            names = differences(flat)[:_SETTINGS]
            self._settings = version, [text(name) for name in names]
            for run, place, settings in zip(runs, places(abouts), flat, strict=True):
                run.place = {"env": place.env, "group": place.name}
                run.settings = [shown(settings[n]) if n in settings else "" for n in names]
        for run in runs:
            run.note(self._now)


class _Run:
    """One run in the table."""

    def __init__(self, key: str, name: str, directory: Path) -> None:
        self.key, self.name, self.directory = key, name, directory
        self.about = Document(directory / "run.json")
        self.metrics = Rows(directory / "metrics.jsonl", _POINTS, _FIGURES)
        self.place: Json = {}
        self.settings: list[str] = []
        self.row: Json = {}
        self.row_changed = self.curve_changed = self.machine_changed = 0
        self.refreshed = 0.0
        self._status = Document(directory / "status.json")
        self._machine = Rows(directory / "machine.jsonl", _POINTS, _FIGURES)
        self._media = Media(directory)
        self._was = ""

    def refresh(self, budget: float, now: int) -> None:
        """Take in what has changed."""
        self.refreshed = time.monotonic()
        self.about.refresh()
        self._status.refresh()
        self._media.refresh()
        for rows, name in ((self.metrics, "curve_changed"), (self._machine, "machine_changed")):
            before = rows.version
            rows.refresh(budget)
            if rows.version != before:
                setattr(self, name, now)

    def note(self, now: int) -> None:
        """Make the row, and remember whether it has changed."""
        status, last = self._status.content, self.metrics.curve.last
        view = judge(status, directory=self.directory)
        if not status and last:
            view["state"] = "unknown"  # it has rows, and nobody says what becomes of it
        about = self.about.content
        until = about.get("until")
        goal = until.get("return", until.get("eval_return")) if isinstance(until, dict) else None
        row = {
            "name": text(self.name),
            "state": text(view["state"]),
            "algorithm": text(about.get("algorithm") or ""),
            **self.place,
            "seed": text(about.get("seed")) if about.get("seed") is not None else "",
            "created": text(about.get("created") or ""),
            "goal": goal if _is_number(goal) else None,
            "error": _sentence(status.get("error")),
            "verdict": _sentence(status.get("verdict")) if status.get("seconds") else "",
            "bottleneck": _bottleneck(status),
            "settings": self.settings,
            "media": self._media.names,
            "last": {name: last[name] for name in _LAST if name in last},
            "machine": self._machine.curve.last,
        }
        as_text = to_json(row, compact=True)
        if as_text != self._was:
            self.row, self._was, self.row_changed = row, as_text, now

    def curve(self) -> Json:
        """Its figures over time."""
        return dict(self.metrics.curve.columns())

    def machine(self) -> Json:
        """What it took of its machine over time."""
        return dict(self._machine.curve.columns())


_LAST = ("steps", "seconds", "episodes", "return", "eval_return")
_SENTENCE = 400


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _sentence(value: object) -> str:
    return str(value)[:_SENTENCE] if value else ""


def _bottleneck(status: Json) -> Json | None:
    """The resource that limits a run, and how busy it is."""
    worst = status.get("bottleneck")
    if not isinstance(worst, dict):
        return None
    lines = status.get("resources")
    for line in lines if isinstance(lines, list) else []:
        if isinstance(line, dict) and line.get("name") == worst.get("name"):
            share = line.get("utilisation")
            busy = share if _is_number(share) else None
            return {"name": text(worst.get("name")), "utilisation": busy}
    return {"name": text(worst.get("name")), "utilisation": None}


def _runs_in(root: Path) -> Iterator[tuple[int, str]]:
    """When each run began to be written, and its name under the root; links are not followed."""
    for name, is_run, changed in _folders(root):
        if is_run:
            yield changed, name
            continue
        for inner, is_run_too, changed_too in _folders(root / name):
            if is_run_too:
                yield changed_too, f"{name}/{inner}"


def _folders(root: Path) -> Iterator[tuple[str, bool, int]]:
    try:
        with os.scandir(root) as entries:
            for entry in itertools.islice(entries, _LOOKED_AT):
                if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                    continue
                yield entry.name, *_mark(root / entry.name)
    except OSError:
        return


def _mark(directory: Path) -> tuple[bool, int]:
    """Whether this is a run, and since when."""
    for name in _MARKS:
        try:
            about = os.lstat(directory / name)
        except OSError:
            continue
        return True, about.st_mtime_ns
    return False, 0


def holds_runs(directory: Path) -> bool:
    """Whether there is a run in a directory, or in one in it."""
    return next(_runs_in(directory), None) is not None
