"""Which page there is at which path: one run, or the table of runs with a page for each of them.

    /                          the page of the directory that is viewed: of a run, or of its runs
    /data, /file?name=NAME     its news; a picture or a film of a run
    /run/KEY                   one of the runs, with /run/KEY/data and /run/KEY/file

No path is made into the name of a file: keys are looked up among the runs that were found.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from rillflow.web.run_files import RunFiles
from rillflow.web.runs_table import RunsTable, holds_runs

Json = dict[str, Any]
Kind = Literal["run", "runs"]
_RUN = re.compile(r"/run/([0-9a-f]{16})(/data|/file|)")
_OPEN = 16
"""pages of single runs that are kept in memory"""
_OF_A_RUN = ("run.json", "metrics.jsonl", "graph.json", "status.json")


class Source(Protocol):
    """Whatever has news for a page."""

    def data(self, known: Mapping[str, str]) -> Json:
        """What has changed since."""


@dataclass(frozen=True)
class Place:
    """What is at a path."""

    kind: Kind
    """of page"""
    part: str
    """`page`, `data` or `file`"""
    source: Source


class Site:
    """What is served of a directory, which may be empty still: what it becomes decides."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._run, self._table = RunFiles(directory), RunsTable(directory)
        self._kind: Kind | None = None
        self._pages: dict[Path, RunFiles] = {}
        self._lock = threading.Lock()

    @property
    def kind(self) -> Kind:
        """Of the page of the directory itself."""
        if self._kind is None:
            if any((self.directory / name).exists() for name in _OF_A_RUN):
                self._kind = "run"
            elif holds_runs(self.directory):
                self._kind = "runs"
        return self._kind or "run"

    def find(self, path: str) -> Place | None:
        """What is at a path; None if there is nothing."""
        parts = {"/": "page", "/data": "data", "/file": "file"}
        if path in parts:
            source: Source = self._run if self.kind == "run" else self._table
            return Place(self.kind, parts[path], source)
        match = _RUN.fullmatch(path)
        directory = self._table.directory_of(match[1]) if match and self.kind == "runs" else None
        if match is None or directory is None:
            return None
        return Place("run", match[2].lstrip("/") or "page", self._page(directory))

    def _page(self, directory: Path) -> RunFiles:
        with self._lock:
            files = self._pages.pop(directory, None) or RunFiles(directory)
            self._pages[directory] = files  # the one that was looked at last is the last
            while len(self._pages) > _OPEN:
                del self._pages[next(iter(self._pages))]
            return files
