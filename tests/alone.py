"""How tests are dealt out to several processes (`pytest -n 2`): whole files, and Ray's at the end.

Tests of one file share what its fixtures make, so a file stays in one process. Those marked `ray`
share one Ray, and those marked `alone` measure what others would disturb: they run in one process
when all other tests have been run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_ALONE = "alone"
_NOTE = "tests_alone"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def is_alone(item: pytest.Item) -> bool:
    """Whether a test runs when no other does."""
    return any(item.get_closest_marker(name) for name in ("ray", "alone"))


def tell(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process that runs tests: which of them are to run alone, for the one that deals them."""
    note = getattr(config, "workerinput", {}).get(_NOTE)
    if note and config.workerinput["workerid"] == "gw0":  # type: ignore[attr-defined]
        Path(note).write_text(json.dumps([item.nodeid for item in items if is_alone(item)]))


def name_alike(items: list[pytest.Item]) -> None:
    """Leave memory addresses out of names: every process has to call a test the same."""
    for item in items:
        item._nodeid = _ADDRESS.sub("", item.nodeid)


def configure(node: WorkerController, note: Path) -> None:
    """Say where to tell it."""
    node.workerinput[_NOTE] = str(note)


class AloneLast(LoadFileScheduling):
    """Deals whole files to any process, and at the very end those that run alone to one.

    A process runs its last test only when it has another, or is told to end. So when nothing else
    is left, all processes but one are told to end, and when they have, that one goes on.
    """

    def __init__(self, config: pytest.Config, log: Any, note: Path) -> None:
        super().__init__(config, log)
        self._note = note
        self._alone: set[str] = set()
        self._chosen: WorkerController | None = None

    def schedule(self) -> None:
        """Begin, once all processes know the tests."""
        if self._note.exists():
            self._alone = set(json.loads(self._note.read_text()))
        super().schedule()

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """One test more; perhaps the last one of the others."""
        super().mark_test_complete(node, item_index, duration)
        self._begin_alone()

    def remove_node(self, node: WorkerController) -> str | None:
        """A process has ended, or died."""
        if node is self._chosen:
            self._chosen = None
        crashed = super().remove_node(node)
        self._begin_alone()
        return crashed

    def _split_scope(self, nodeid: str) -> str:
        return _ALONE if nodeid in self._alone else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if _ALONE in self.workqueue:
            self.workqueue.move_to_end(_ALONE)
        if next(iter(self.workqueue)) != _ALONE:
            super()._assign_work_unit(node)
        elif self._chosen is None:
            self._chosen = node
            self._begin_alone()
        elif node is not self._chosen:
            node.shutdown()

    def _begin_alone(self) -> None:
        if self._chosen is None or list(self.workqueue) != [_ALONE]:
            return
        others = [work for node, work in self.assigned_work.items() if node is not self._chosen]
        if not any(self._pending_of(work) for work in others):
            super()._assign_work_unit(self._chosen)
