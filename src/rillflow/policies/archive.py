"""Arrays of a `.npz` that anybody may have written: its sizes are checked before anything is read.

`numpy.savez` stores arrays as they are. So a file of ours takes no more memory than it has bytes,
and one that would, because it is compressed or because its entries overlap, is not ours.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rillflow.safety.bounded import available_memory, regular_file

ENTRIES = 10_000
"""arrays in one file"""
_AT_ONCE = 4 << 20
"""bytes: the table of contents is read in one piece, before its entries can be counted"""
_DIMENSIONS = 32
_KINDS = "biuf"
"""of numbers: truth values, whole ones with and without a sign, floating-point ones"""

PROBLEMS = (
    ValueError, BadZipFile, struct.error, NotImplementedError, RuntimeError, EOFError, KeyError,
    TypeError, AttributeError, IndexError, OverflowError, SyntaxError,
)  # fmt: skip
"""what `zipfile` and NumPy raise about files that are damaged, or made to do damage"""


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays by name; one of `PROBLEMS` if the file is not what `numpy.savez` writes."""
    with regular_file(path) as (file, size), ZipFile(Careful(file)) as archive:
        _check(archive.infolist(), size)
        return {
            entry.filename.removesuffix(".npy"): _array(archive, entry)
            for entry in archive.infolist()
        }


class Careful:
    """A file that gives no more at once than the table of contents of a file of ours has."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """As a file; `ValueError` if that is more than is read at once."""
        data = self._file.read(_AT_ONCE + 1 if size < 0 else min(size, _AT_ONCE + 1))
        if len(data) > _AT_ONCE:
            raise ValueError(f"a table of contents of more than {_AT_ONCE:,} bytes")
        return data


def _check(entries: list[ZipInfo], size: int) -> None:
    """Refuse what is not as we write it, from the table of contents alone."""
    if len(entries) > ENTRIES:
        raise ValueError(f"{len(entries):,} arrays, and at most {ENTRIES:,} are read")
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError("two arrays of one name")
    for entry in entries:
        if entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size:
            raise ValueError(f"{entry.filename[:60]!r} is compressed, and we write none that are")
    total = sum(entry.file_size for entry in entries)
    if total > size:
        raise ValueError(f"arrays of {total:,} bytes in a file of {size:,}")
    memory = available_memory()
    if memory is not None and total > memory // 2:
        raise ValueError(f"arrays of {total:,} bytes, and {memory:,} bytes of memory are left")


def _array(archive: ZipFile, entry: ZipInfo) -> NDArray[Any]:
    """One array, after its header was found to say what the entry holds."""
    name = entry.filename[:60]
    with archive.open(entry) as file:
        if npy.read_magic(file) != (1, 0):
            raise ValueError(f"{name!r} is no array as we write it")
        shape, columns_first, dtype = npy.read_array_header_1_0(file)
        if dtype.kind not in _KINDS or dtype.shape:
            raise ValueError(f"{name!r} holds {dtype}, and only numbers are read")
        if len(shape) > _DIMENSIONS or any(type(side) is not int or side < 0 for side in shape):
            raise ValueError(f"{name!r} has the shape {str(shape)[:60]}")
        left = entry.file_size - file.tell()
        if math.prod(shape) * dtype.itemsize != left:
            raise ValueError(f"{name!r} is said to be {dtype} {list(shape)}, in {left:,} bytes")
        array: NDArray[Any] = np.empty(shape, dtype, order="F" if columns_first else "C")
        _fill(array.reshape(-1, order="A").view(np.uint8), file)
        file.read(1)  # at its end the sum over all bytes is compared
    return array


def _fill(room: NDArray[np.uint8], file: IO[bytes]) -> None:
    done = 0
    while done < len(room):
        piece = file.read(min(_AT_ONCE, len(room) - done))
        if not piece:
            raise EOFError("an array that ends too early")
        room[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
