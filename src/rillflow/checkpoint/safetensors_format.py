"""Arrays in files of the safetensors format: length of header, header in JSON, the raw numbers.

https://github.com/huggingface/safetensors - written here, in a few lines, so that files are hashed
while they go to the disk and every bound is checked before anything is allocated. The library reads
these files as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rillflow.checkpoint import limits
from rillflow.checkpoint.arrays import NAMES, NATIVE, Array, as_bytes, shape_of
from rillflow.checkpoint.errors import CheckpointDamaged
from rillflow.checkpoint.hashed_files import FileRecord, SourceFile
from rillflow.checkpoint.strict_json import parse_json


def chunks(arrays: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """The arrays in the portions in which they become files."""
    chunk: dict[str, Array] = {}
    size = 0
    for name, array in arrays.items():
        full = size + array.nbytes > limits.CHUNK_BYTES or len(chunk) >= limits.TENSORS_PER_FILE
        if chunk and full:
            yield chunk
            chunk, size = {}, 0
        chunk[name] = array
        size += array.nbytes
    if chunk:
        yield chunk


def tensor_file(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    """The bytes of one file, in pieces; those of an array are not copied."""
    # wide types first, so that every array begins at a multiple of its item size
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    header: dict[str, Any] = {}
    end = 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for _, array in ordered:
        if array.nbytes:
            yield as_bytes(array).data


class _Spec(NamedTuple):
    begin: int
    end: int
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def read_tensors(path: Path, record: FileRecord) -> dict[str, Array]:
    """The arrays of one file, each in memory of its own, after comparing the file's hash."""
    with SourceFile(path, record) as file:
        length = int.from_bytes(file.read(min(8, file.size)), "little")
        room = min(limits.HEADER_BYTES, file.size - 8)
        if length > room:
            raise CheckpointDamaged(path, f"a header of at most {room:,} bytes", f"{length:,}")
        header = parse_json(file.read(length), path, objects=limits.TENSORS_PER_FILE + 1)
        arrays = {}
        for spec in _specs(path, header, file.size - 8 - length):
            array = np.empty(spec.shape, spec.dtype)
            if array.nbytes:
                file.read_into(as_bytes(array))
            arrays[spec.name] = array
        file.finish()
        return arrays


def _specs(path: Path, header: Any, size: int) -> list[_Spec]:
    """What the header declares, in the order of the file: no holes, no overlaps, all of it."""
    if not isinstance(header, dict):
        raise CheckpointDamaged(path, "a header that is an object", type(header).__name__)
    try:
        specs = sorted(_spec(name, entry) for name, entry in header.items())
    except ValueError as error:
        raise CheckpointDamaged(path, "the header of a tensor file", str(error)) from None
    end = 0
    for spec in specs:
        if spec.begin != end:
            raise CheckpointDamaged(path, f"{spec.name} to begin at {end:,}", f"{spec.begin:,}")
        end = spec.end
    if end != size:
        raise CheckpointDamaged(path, f"arrays of {size:,} bytes", f"{end:,}")
    return specs


def _spec(name: str, entry: Any) -> _Spec:
    if not limits.NAME.fullmatch(name):
        raise ValueError(f"the name {name[:60]!r}")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"an entry for {name} with other fields")
    kind = entry["dtype"]
    if not isinstance(kind, str) or kind not in NATIVE:
        raise ValueError(f"the type {str(kind)[:40]!r} for {name}")
    dtype, shape, offsets = np.dtype(NATIVE[kind]), shape_of(entry["shape"]), entry["data_offsets"]
    if type(offsets) is not list or [type(n) for n in offsets] != [int, int]:
        raise ValueError(f"offsets of {name} that are not two numbers")
    begin, end = offsets
    if begin < 0 or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{end - begin:,} bytes for {name} of shape {list(shape)} and type {kind}")
    return _Spec(begin, end, name, dtype, shape)
