"""Reads a run directory: `run.json`, `graph.json`, `status.json`, and what grows line by line.

Pictures and films in it are listed, and nothing is written. Files may be missing, half written,
replaced or enormous; the view shows what can be read, and keeps what it read last.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rillflow.pictures.live import draw
from rillflow.web.followed_files import Document, Rows, opened
from rillflow.web.media import Media

Json = dict[str, Any]
STALE = 5.0
"""seconds without a new status after which a running run counts as stalled"""


class RunFiles:
    """What is known of one run; `data` is called by the threads of the server."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._lock = threading.Lock()
        self._documents = {name: Document(self.directory / f"{name}.json") for name in _NAMES}
        self._metrics = Rows(self.directory / "metrics.jsonl")
        self._machine = Rows(self.directory / "machine.jsonl")
        self.media = Media(self.directory)
        self._graph: tuple[str, Json] = ("", {})

    def data(self, known: Mapping[str, str]) -> Json:
        """The news for a reader who has these versions of `run`, `graph`, `curve`, `status`, ..."""
        with self._lock:
            for document in self._documents.values():
                document.refresh()
            self._metrics.refresh()
            self._machine.refresh()
            self.media.refresh()
            status = self._documents["status"].content
            parts = {name: (d.version, d.content) for name, d in self._documents.items()}
            parts["graph"] = (self._documents["graph"].version, self._picture())
            curve = self._metrics.curve
            parts["curve"] = (self._metrics.version, {})
            used = self._machine.curve
            parts["machine"] = (self._machine.version, {})
            parts["media"] = (self.media.version, {"names": self.media.names})
            news: Json = {
                "kind": "run",
                "view": judge(status, directory=self.directory),
                "read": round(self._metrics.read, 3),
            }
            news["versions"] = {name: version for name, (version, _) in parts.items()}
            for name, (version, content) in parts.items():
                if known.get(name) != version:
                    news[name] = content
            if "machine" in news:
                news["machine"] = {"last": used.last, "columns": used.columns()}
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


def judge(status: Json, now: float | None = None, directory: Path | None = None) -> Json:
    """Whether a run goes on, from its last word and from how long ago that was.

    Args:
        status: its status.json; empty: it has not said a word.
        now: the time.
        directory: of the run, where the process that began it stands until it says a word.
    """
    if not status:
        process = "unknown" if directory is None else _process(_starter(directory))
        state = "died" if process == "gone" else "starting"
        return {"state": state, "age": 0.0, "process": process}
    now = time.time() if now is None else now
    taken = status.get("time")
    age = max(0.0, now - taken) if isinstance(taken, int | float) else 0.0
    state, process = str(status.get("state", "running")), "unknown"
    if state == "running" and age > STALE:
        process = _process(status)
        state = "died" if process == "gone" else "stalled"
    return {"state": state, "age": round(age, 2), "process": process}


def _starter(directory: Path) -> Json:
    """Who locked a run's directory last, as `rillflow.checkpoint.lock` writes it."""
    with opened(directory / ".lock") as file:
        words = file.read(300).decode("utf-8", "replace").split() if file.version else []
    pid, host = words[:2] if len(words) > 1 else ("", "")
    return {"pid": int(pid) if pid.isascii() and pid.isdecimal() else None, "host": host}


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
