"""metrics.jsonl on a disk that is full for a while, after a crash, and of a run that takes days."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.runs import metrics_file
from rillflow.runs.history import History
from rillflow.runs.metrics_file import Cut, MetricsFile, cut_rows, rows_in


def row(number: int) -> dict[str, float]:
    return {"steps": number, "seconds": number / 10, "return": float("nan")}


def numbers(path: Path) -> list[float]:
    return [one["steps"] for one in rows_in(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


class Disk:
    """Takes so many bytes, as `os.write`; then it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self._write = os.write
        monkeypatch.setattr(os, "write", self)

    def __call__(self, descriptor: int, data: Any) -> int:
        if self.room is None:
            return self._write(descriptor, data)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self._write(descriptor, bytes(data)[: self.room])
        self.room -= taken
        return taken


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_row_is_there_as_soon_as_it_is_written(path: Path) -> None:
    file = MetricsFile(path)
    for number in range(3):
        file.add(row(number))
        assert numbers(path) == list(range(number + 1))
    file.close()
    again = MetricsFile(path)
    again.add(row(3))
    again.close()
    assert numbers(path) == [0, 1, 2, 3]


@pytest.mark.parametrize("room", [0, 1, 20, 60])
def test_rows_wait_while_the_disk_is_full(path: Path, disk: Disk, room: int) -> None:
    """It is told once, no line is torn meanwhile, and all of them are there in the end."""
    file = MetricsFile(path)
    file.add(row(0))
    disk.room = room
    with pytest.warns(UserWarning, match=r"cannot be written \(No space left") as told:
        add(file, range(1, 10))
    assert len(told) == 1
    assert all(json.loads(line) for line in path.read_text().splitlines())
    disk.room = None
    file.add(row(10))
    file.close()
    assert numbers(path) == list(range(11))


def add(file: MetricsFile, which: range) -> None:
    for number in which:
        file.add(row(number))


def test_of_rows_that_wait_for_long_the_newest_are_kept(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_file, "_WAITING", 4)
    file = MetricsFile(path)
    disk.room = 0
    with pytest.warns(UserWarning, match="up to 4 rows wait"):
        add(file, range(9))
    disk.room = None
    with pytest.warns(UserWarning, match="6 rows are missing"):
        file.add(row(9))
    file.close()
    assert numbers(path) == [6, 7, 8, 9]


def test_a_disk_that_stays_full_is_told_at_the_end(path: Path, disk: Disk) -> None:
    file = MetricsFile(path)
    disk.room = 0
    with pytest.warns(UserWarning, match="cannot be written"):
        file.add(row(0))
    with pytest.warns(UserWarning, match="lacks 1 rows"):
        file.close()
    assert numbers(path) == []


def test_what_a_killed_writer_left_of_a_line_is_removed(path: Path) -> None:
    path.write_text('{"steps": 1, "seconds": 0.1}\n{"steps": 2, "sec')
    file = MetricsFile(path)
    file.add(row(3))
    file.close()
    assert numbers(path) == [1, 3]


def test_a_long_run_writes_fewer_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every so many lines half as often, and always the last; a run that goes on as well."""
    monkeypatch.setattr(metrics_file, "FULL", 10)
    file = MetricsFile(path)
    add(file, range(1, 101))
    file.close()
    found = numbers(path)
    assert found[:10] == list(range(1, 11))
    assert found[10:14] == [12, 14, 16, 18]
    assert found[-1] == 100
    assert len(found) < 40
    again = MetricsFile(path)
    add(again, range(101, 109))
    again.close()
    assert numbers(path)[len(found) :] == [108]


# -- going on --------------------------------------------------------------------------------------


def test_rows_after_a_moment_are_dropped(path: Path) -> None:
    path.write_text("".join(json.dumps({**row(i), "return": None}) + "\n" for i in range(10)))
    before = path.read_bytes()
    found = cut_rows(path, 0.45)
    assert found == Cut(rows=5, bytes=path.stat().st_size, torn=0)
    assert before.startswith(path.read_bytes())
    assert numbers(path) == [0, 1, 2, 3, 4]
    assert cut_rows(path, 0.45) == found


@pytest.mark.parametrize(
    "torn", ['{"steps": 3, "sec', "null", "[1]", '{"steps": 3}', '{"seconds": "x"}', "\x00\x00"]
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_what_is_no_row_is_removed_wherever_it_is(path: Path, torn: str, end: str) -> None:
    good = json.dumps({"steps": 1, "seconds": 0.1}) + "\n"
    later = json.dumps({"steps": 2, "seconds": 9.0}) + "\n"
    path.write_text(good + torn + "\n" + good + later + torn + end)
    assert cut_rows(path, 1.0) == Cut(rows=2, bytes=2 * len(good), torn=2)
    assert path.read_text() == good + good
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_not_there_is_none_to_repair(path: Path) -> None:
    assert cut_rows(path, 1.0) == Cut(rows=0, bytes=0, torn=0)
    assert not path.exists()


def test_what_cannot_be_repaired_stays_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text('torn\n{"steps": 1, "seconds": 0.1}\n')
    before = path.read_text()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(rf.RunError, match=r"cannot be written \(No space left .*make room"):
        cut_rows(path, 1.0)
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


# -- in memory -------------------------------------------------------------------------------------


def test_a_history_keeps_at_most_so_many_rows_the_newest_among_them() -> None:
    history = History(most=100)
    for number in range(100_001):
        history.append(row(number))
        if number < 100:
            assert len(history.rows()) == number + 1
    steps = [one["steps"] for one in history.rows()]
    assert 50 <= len(steps) <= 101
    assert (steps[0], steps[-1]) == (0, 100_000)
    assert steps == sorted(set(steps))
    assert len({b - a for a, b in itertools.pairwise(steps[:-1])}) == 1


def test_a_history_that_has_not_begun_is_empty() -> None:
    assert History().rows() == []
