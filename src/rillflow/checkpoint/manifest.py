"""The manifest: what a checkpoint is and which files it consists of. It is written last.

It ends with the SHA-256 of all that stands before, and the name of the directory with a part of
that, so no bit of a checkpoint can change unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rillflow.checkpoint import limits, migrate
from rillflow.checkpoint.errors import CheckpointDamaged, UnsavableState
from rillflow.checkpoint.hashed_files import FileRecord, read_file
from rillflow.checkpoint.strict_json import parse_json

MANIFEST = "manifest.json"
STATE = "state.json"
DIRECTORY = re.compile(r"([0-9]{9,18})-([0-9a-f]{8})", re.ASCII)
_FILE = re.compile(r"state\.json|arrays-[0-9]{5}\.safetensors", re.ASCII)
_SHA = re.compile(r"[0-9a-f]{64}", re.ASCII)
_END = re.compile(rb' "sha256": "([0-9a-f]{64})"\n}\n\Z')
_END_BYTES = len(' "sha256": ""\n}\n') + 64
_STEPS = 10**18
_FACTS_DEPTH = 20


@dataclass(frozen=True)
class Manifest:
    """What a manifest says."""

    format: int
    step: int
    sequence: int
    """1 for the first checkpoint of a store, then one more each time: the newest has the highest"""
    facts: dict[str, Any]
    files: dict[str, FileRecord]

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(record.bytes for record in self.files.values())


def array_file(number: int) -> str:
    """Name of an array file."""
    return f"arrays-{number:05}.safetensors"


def manifest_bytes(manifest: Manifest) -> tuple[bytes, str]:
    """The file's contents, and the name of the directory that they belong to."""
    body = {
        "format": manifest.format,
        "step": manifest.step,
        "sequence": manifest.sequence,
        "facts": manifest.facts,
        "files": {name: vars(record) for name, record in manifest.files.items()},
    }
    head = json.dumps(body, indent=1, allow_nan=False).encode("ascii").removesuffix(b"\n}") + b",\n"
    digest = hashlib.sha256(head).hexdigest()
    data = head + f' "sha256": "{digest}"\n}}\n'.encode()
    return data, f"{manifest.step:09}-{digest[:8]}"


def check_step(step: object) -> int:
    """A step, or an error that says what one is."""
    if type(step) is not int or not 0 <= step < _STEPS:
        raise UnsavableState("step", repr(step), "a step is a whole number from 0 to 10**18 - 1")
    return step


def check_facts(value: Any, where: str = "facts") -> None:
    """Facts are for people and tools that read JSON, so they are what JSON has, and little."""
    if where.count("/") > _FACTS_DEPTH:
        raise UnsavableState(where, f"more than {_FACTS_DEPTH} levels", "make the facts flatter")
    if type(value) is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise UnsavableState(where, f"the key {key!r}", "names of facts are strings")
            check_facts(inner, f"{where}/{key}")
    elif type(value) is list:
        for i, inner in enumerate(value):
            check_facts(inner, f"{where}/{i}")
    elif value is not None and type(value) not in (bool, int, float, str):
        way_out = "facts are plain JSON: strings, numbers, bools, None, lists, dicts"
        raise UnsavableState(where, f"a {type(value).__qualname__}", way_out)
    elif type(value) is float and not math.isfinite(value):
        raise UnsavableState(where, repr(value), "JSON has no such number; put it in the state")
    elif type(value) is int and not -(2**63) <= value < 2**64:
        raise UnsavableState(where, "a number of more than 64 bits", "put it in the state")


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a checkpoint, compared with its own hash and with the directory's name."""
    path = directory / MANIFEST
    data = read_file(path, None, limits.MANIFEST_BYTES)
    end = _END.search(data[-_END_BYTES:])
    if end is None:
        raise CheckpointDamaged(path, "the manifest's own SHA-256 at its end", "something else")
    stated, found = end[1].decode(), hashlib.sha256(data[:-_END_BYTES]).hexdigest()
    if stated != found:
        raise CheckpointDamaged(path, f"SHA-256 {stated}", found)
    body = parse_json(data, path)
    if not isinstance(body, dict):
        raise CheckpointDamaged(path, "an object", type(body).__name__)
    manifest = _manifest(path, migrate.manifest(path, body))
    named = DIRECTORY.fullmatch(directory.name)
    if named and (int(named[1]), named[2]) != (manifest.step, found[:8]):
        expected = f"the manifest of {directory.name}"
        raise CheckpointDamaged(path, expected, f"that of {manifest.step:09}-{found[:8]}")
    return manifest


def _manifest(path: Path, body: dict[str, Any]) -> Manifest:
    numbers = {}
    for name in ("format", "step", "sequence"):
        number = body.get(name)
        if type(number) is not int or not 0 <= number < _STEPS:
            raise CheckpointDamaged(path, f"a whole number as {name!r}", repr(number)[:60])
        numbers[name] = number
    facts, files = body.get("facts"), body.get("files")
    if not isinstance(facts, dict):
        raise CheckpointDamaged(path, "an object as 'facts'", type(facts).__name__)
    if not isinstance(files, dict) or STATE not in files:
        raise CheckpointDamaged(path, f"a record of {STATE} in 'files'", "none")
    records = {name: _record(path, name, entry) for name, entry in files.items()}
    return Manifest(**numbers, facts=facts, files=records)


def _record(path: Path, name: str, entry: Any) -> FileRecord:
    if not _FILE.fullmatch(name):
        raise CheckpointDamaged(path, f"file names like {array_file(0)}", repr(name)[:80])
    if not isinstance(entry, dict) or entry.keys() != {"bytes", "sha256"}:
        raise CheckpointDamaged(path, f"'bytes' and 'sha256' of {name}", repr(entry)[:80])
    size, digest = entry["bytes"], entry["sha256"]
    if type(size) is not int or size < 0:
        raise CheckpointDamaged(path, f"a size of {name}", repr(size)[:60])
    if not isinstance(digest, str) or not _SHA.fullmatch(digest):
        raise CheckpointDamaged(path, f"a SHA-256 of {name}", repr(digest)[:80])
    return FileRecord(size, digest)
