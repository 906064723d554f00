"""Reads a run directory: `run.json`, `graph.json`, `status.json` and the growing `metrics.jsonl`.

Nothing else is opened, and nothing is written. Files may be missing, half written, replaced or
enormous; the view shows what can be read, and keeps what it read last.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rillflow.pictures.live import draw
from rillflow.web.curve import Curve

Json = dict[str, Any]
STALE = 5.0
"""seconds without a new status after which a running run counts as stalled"""
_LARGEST = 16_000_000
_CHUNK, _LONGEST_LINE = 1_000_000, 1_000_000
_BUDGET = 0.3
"""seconds one answer may spend on rows it has not seen; a long file takes several answers"""


class RunFiles:
    """What is known of one run; `data` is called by the threads of the server."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._lock = threading.Lock()
        self._documents = {name: _Document(self.directory / f"{name}.json") for name in _NAMES}
        self._metrics = _Metrics(self.directory / "metrics.jsonl")
        self._graph: tuple[str, Json] = ("", {})

    def data(self, known: Mapping[str, str]) -> Json:
        """The news for a reader who has these versions of `run`, `graph`, `curve`, `status`."""
        with self._lock:
            for document in self._documents.values():
                document.refresh()
            self._metrics.refresh()
            status = self._documents["status"].content
            parts = {name: (d.version, d.content) for name, d in self._documents.items()}
            parts["graph"] = (self._documents["graph"].version, self._picture())
            curve = self._metrics.curve
            parts["curve"] = (self._metrics.version, {})
            news: Json = {"view": judge(status), "read": round(self._metrics.read, 3)}
            news["versions"] = {name: version for name, (version, _) in parts.items()}
            for name, (version, content) in parts.items():
                if known.get(name) != version:
                    news[name] = content
            if "curve" in news:
                columns = curve.columns()
                news["curve"] = {"rows": curve.rows, "last": curve.last, "columns": columns}
            return news

    def _picture(self) -> Json:
        """The drawing, made once for each version of the graph."""
        document = self._documents["graph"]
        if document.version != self._graph[0]:
            picture: Json = {"svg": None, "boxes": {}, "error": None}
            if document.content:
                try:
                    picture.update(draw(document.content))
                except Exception as error:  # the file can hold anything; the rest is still shown
                    picture["error"] = f"graph.json cannot be drawn ({type(error).__name__})."
            self._graph = (document.version, picture)
        return self._graph[1]


_NAMES = ("run", "graph", "status")


def judge(status: Json, now: float | None = None) -> Json:
    """Whether a run goes on, from its last word and from how long ago that was."""
    if not status:
        return {"state": "starting", "age": 0.0, "process": "unknown"}
    now = time.time() if now is None else now
    taken = status.get("time")
    age = max(0.0, now - taken) if isinstance(taken, int | float) else 0.0
    state, process = str(status.get("state", "running")), "unknown"
    if state == "running" and age > STALE:
        process = _process(status)
        state = "died" if process == "gone" else "stalled"
    return {"state": state, "age": round(age, 2), "process": process}


def _process(status: Json) -> str:
    """Whether the process is there, gone, or unknown because it is on another machine."""
    pid = status.get("pid")
    if status.get("host") != socket.gethostname() or type(pid) is not int or pid <= 0:
        return "unknown"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "there"  # it is somebody else's
    except (OSError, OverflowError):
        return "unknown"
    return "there"


class _Document:
    """One JSON object in a file that is replaced now and then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = ""
        self.content: Json = {}
        self._bad = ""

    def refresh(self) -> None:
        """Read it again if it has changed; a broken one is as if it had not."""
        with _opened(self.path) as file:
            version = file.version
            if not version or version in (self.version, self._bad) or file.size > _LARGEST:
                return
            try:
                text = file.read(_LARGEST)
                content = json.loads(text, parse_constant=_nothing, parse_float=_finite)
            except (ValueError, RecursionError):
                content = None
            if isinstance(content, dict):
                self.version, self.content = version, content
            else:
                self._bad = version


class _Metrics:
    """Follows a file of rows, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.curve = Curve()
        self.read = 1.0
        """the share of the file that has been read"""
        self._at, self._rest, self._inode, self._turn = 0, b"", 0, 0

    @property
    def version(self) -> str:
        """Changes with every row."""
        return f"{self._turn}-{self.curve.rows}"

    def refresh(self) -> None:
        """Take in what has been appended."""
        with _opened(self.path) as file:
            if not file.version:
                return
            if file.size < self._at or file.inode != self._inode:  # another file: begin again
                self.curve, self._at, self._rest = Curve(), 0, b""
                self._inode, self._turn = file.inode, self._turn + 1
            file.seek(self._at)
            until = time.monotonic() + _BUDGET
            while self._at < file.size and time.monotonic() < until:
                data = file.read(_CHUNK)
                if not data:
                    break
                self._at += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self._take(line)
                if len(self._rest) > _LONGEST_LINE:
                    self._rest = b"!"  # its end will make no valid row either
            self.read = min(1.0, self._at / file.size) if file.size else 1.0

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line, parse_constant=_nothing)
        except (ValueError, RecursionError):
            return
        if isinstance(row, dict):
            self.curve.add(row)


class _opened:  # noqa: N801 - used as a statement
    """A plain file of the directory, opened so that neither a link nor a pipe is followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version, self.size, self.inode = "", 0, 0
        self._fd = -1

    def __enter__(self) -> _opened:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return self
        about = os.fstat(self._fd)
        if stat.S_ISREG(about.st_mode):
            self.size, self.inode = about.st_size, about.st_ino
            self.version = f"{about.st_mtime_ns:x}-{about.st_size:x}-{about.st_ino:x}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def seek(self, at: int) -> None:
        """Go to a place."""
        os.lseek(self._fd, at, os.SEEK_SET)

    def read(self, most: int) -> bytes:
        """Up to so many bytes."""
        parts, left = [], most
        while left > 0 and (part := os.read(self._fd, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def _nothing(_: str) -> None:
    """NaN and the infinities, which no other reader of JSON knows."""


def _finite(text: str) -> float | None:
    number = float(text)
    return number if abs(number) < 1e300 else None
