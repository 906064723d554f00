"""metrics.jsonl: a row of figures a line, written and read so that no fault of it ends a run."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rillflow.errors import RunError
from rillflow.files import replaced, to_json

FULL = 10_000
"""lines with a row each; then every second row is written, after as many lines every fourth, ...;
those with an evaluation are always written"""
_WAITING = 1000
"""rows that are kept in memory while the disk does not take them"""


class MetricsFile:
    """Appends rows to a file, each readable as soon as it is written.

    What the disk does not take waits in memory, the newest rows of it, and is written when there is
    room again; no line is torn. The file of a run of any length stays small: see `FULL`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._size = 0
        """of what is whole"""
        self._lines = 0
        self._left_out = 0
        self._newest: Mapping[str, Any] | None = None
        """a row that was left out, if it is the newest: the last of a run is always written"""
        self._waiting: deque[str] = deque(maxlen=_WAITING)
        self._lost = 0
        self._told = False
        self._flush()

    def add(self, row: Mapping[str, Any]) -> None:
        """One more row."""
        self._left_out += 1
        if self._left_out < 1 << self._lines // FULL and "eval_return" not in row:
            self._newest = row
            return
        self._write(row)

    def _write(self, row: Mapping[str, Any]) -> None:
        self._left_out, self._newest = 0, None
        self._lines += 1
        self._lost += len(self._waiting) == _WAITING
        self._waiting.append(to_json(row) + "\n")
        self._flush()

    def close(self) -> None:
        """Write what is left, and say what could not be written."""
        if self._newest is not None:
            self._write(self._newest)
        if self._waiting:
            self._flush()
        if self._waiting:
            lost = self._lost + len(self._waiting)
            warnings.warn(f"{self.path} lacks {lost} rows that the disk did not take", stacklevel=3)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _flush(self) -> None:
        try:
            if self._descriptor is None:
                self._open()
            assert self._descriptor is not None, "opened"
            data = memoryview("".join(self._waiting).encode())
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._undo()
            self._tell(error)
            return
        if self._waiting:
            self._size = os.fstat(self._descriptor).st_size
            self._waiting.clear()
            self._tell(None)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o666)
        with open(descriptor, "rb", closefd=False) as file:
            for line in file:
                if line.endswith(b"\n"):  # whoever wrote the rest of a line was killed meanwhile
                    self._size += len(line)
                    self._lines += 1
        os.ftruncate(descriptor, self._size)
        self._descriptor = descriptor

    def _undo(self) -> None:
        """Take back the part of a line that the disk took."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)

    def _tell(self, error: OSError | None) -> None:
        """Once when the disk takes nothing any more, and once when rows were lost meanwhile."""
        if error is not None and not self._told:
            warnings.warn(
                f"{self.path} cannot be written ({error.strerror or error}): up to {_WAITING} rows "
                "wait in memory until there is room, and training goes on",
                stacklevel=5,
            )
        if error is None and self._lost:
            warnings.warn(
                f"{self.path} is written again; {self._lost} rows are missing in it", stacklevel=5
            )
            self._lost = 0
        self._told = error is not None


def rows_in(path: Path) -> Iterator[dict[str, float]]:
    """The rows of a file as they were in a run's history; what is no row is passed over."""
    nan = float("nan")
    for row, _ in _lines_of(path):
        if row is not None:
            yield {name: nan if value is None else value for name, value in row.items()}


@dataclass(frozen=True)
class Cut:
    """What was left of a file of metrics."""

    rows: int
    bytes: int
    torn: int
    """lines that were no rows, and are gone"""


def cut_rows(path: Path, seconds: float) -> Cut:
    """Leave the rows of the first so many seconds of a run; later ones will be made again.

    The file is replaced as a whole, or shortened, or stays as it was.
    """
    kept = rows = torn = size = end = 0
    in_order = True
    for row, line in _lines_of(path):
        if row is None:
            torn += 1
        elif row["seconds"] <= seconds:
            in_order = in_order and size == end
            end = size + len(line)
            kept += len(line)
            rows += 1
        size += len(line)
    try:
        if not in_order:
            _rewrite(path, seconds)
        elif end < size:
            os.truncate(path, end)
    except OSError as error:
        raise RunError(
            f"{path} has to be brought back to where the checkpoint was made, and cannot be "
            f"written ({error.strerror or error}): make room, or give yourself the right to."
        ) from error
    return Cut(rows, kept, torn)


def _rewrite(path: Path, seconds: float) -> None:
    with replaced(path) as part, part.open("wb") as file:
        for row, line in _lines_of(path):
            if row is not None and row["seconds"] <= seconds:
                file.write(line)


def _lines_of(path: Path) -> Iterator[tuple[dict[str, Any] | None, bytes]]:
    """Each line with its row; None if it is torn, or something else."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            yield _row(line), line


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(row, dict) and line.endswith(b"\n")
    return row if whole and isinstance(row.get("seconds"), int | float) else None
