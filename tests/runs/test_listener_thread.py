"""A listener that is slow, stuck or broken holds up nobody but itself."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from rillflow.runs import listener_thread
from rillflow.runs.listener_thread import Aside
from rillflow.runs.listeners import Listener, Listeners


class Notes(Listener):
    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()

    def on_start(self, run: Any, flow: Any) -> None:
        self.heard.append("start")

    def on_row(self, row: Any) -> None:
        self.gate.wait()
        self.heard.append(row["steps"])

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        self.heard.append(state)


def told(listener: Listener, rows: int) -> None:
    everybody: Any = Listeners([listener])
    everybody.on_start(None, None)
    for steps in range(rows):
        everybody.on_row({"steps": steps})
    everybody.on_end("finished")


def test_everything_is_told_in_order() -> None:
    notes = Notes()
    told(Aside(notes), 100)
    assert notes.heard == ["start", *range(100), "finished"]


def test_who_blocks_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_thread, "_PATIENCE", 0.2)
    notes = Notes()
    notes.gate.clear()
    began = time.process_time()
    with pytest.warns(UserWarning, match="Notes was too slow and does not answer: 5,000 rows|4,99"):
        told(Aside(notes, most=10), 5000)
    assert time.process_time() - began < 5
    assert notes.heard == ["start"]
    notes.gate.set()


def test_who_raises_is_named_and_hears_no_more() -> None:
    class Broken(Notes):
        def on_row(self, row: Any) -> None:
            raise OSError("no route")

    with pytest.warns(UserWarning, match="Aside failed and hears no more of this run .*no route"):
        told(Aside(Broken()), 5000)
