"""A packed run read again, whoever has written it.

Nothing is imported, nothing that is in the file is run, and nothing is written but into a new
directory, under names that this module knows. An entry takes as many bytes as the file has for it:
what is compressed, twice there, or larger than the file is refused before anything is written.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo, is_zipfile

from rillflow.errors import BuildError, RunError
from rillflow.policies.archive import PROBLEMS, Careful
from rillflow.results.pack import ENDING
from rillflow.safety.bounded import parse_json, regular_file

FORMAT = 1
"""of card.json; raised when an older reader could no longer understand the file"""
_KNOWN = re.compile(
    r"(card\.md|card\.json|run\.json|metrics\.jsonl|graph\.json|curve\.png|video\.(mp4|gif)"
    r"|(best_)?policy\.npz|(best_)?policies/(agents\.json|\w[\w.-]{0,100}\.npz))",
    re.ASCII,
)
_ENTRIES = 2000
_CARD_BYTES = 16 << 20
_PIECE = 1 << 20


def is_packed(path: str | Path) -> bool:
    """Whether this is a packed run, and no saved policy: that is a ZIP, too."""
    path = Path(path)
    try:
        if path.suffix.lower() == ENDING:
            return path.is_file()
        if not path.is_file() or path.suffix.lower() == ".npz" or not is_zipfile(path):
            return False
        with regular_file(path) as (file, _), ZipFile(Careful(file)) as archive:
            return "card.json" in archive.namelist()
    except (OSError, *PROBLEMS):
        return False


def read_card(path: str | Path) -> dict[str, Any]:
    """The card of a packed run, for machines; nothing else of the file is read."""
    with _Packed(Path(path)) as packed:
        return packed.card


def card_text(path: str | Path) -> str:
    """The card of a packed run, for people, without what a terminal would obey."""
    with _Packed(Path(path)) as packed:
        words = packed.text("card.md")
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in words)


def unpack_run(path: str | Path, directory: str | Path | None = None) -> Path:
    """Write a packed run into a directory of its own, where it can be evaluated, filmed and viewed.

    Args:
        path: the file; anybody may have written it.
        directory: a new one, or one that is empty; by default the file's name without its ending.
    """
    path = Path(path)
    if path.is_dir():
        raise BuildError(f"{str(path)!r} is a directory; what `rillflow pack` writes is one file.")
    directory = path.with_suffix("") if directory is None else Path(directory)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BuildError(f"{str(directory)!r} exists and is not empty: choose another directory.")
    part = directory.with_name(f".{directory.name}.{os.getpid()}.part")
    with _Packed(path) as packed:
        try:
            part.mkdir(parents=True)
            packed.write_all(part)
            if directory.exists():
                directory.rmdir()
            part.rename(directory)
        except OSError as error:
            why = error.strerror or error
            raise RunError(f"{str(directory)!r} could not be written ({why}).") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return directory


class _Packed:
    """A packed run that was found to be one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.card: dict[str, Any] = {}
        self._opened = regular_file(path)
        self._archive: ZipFile | None = None

    def __enter__(self) -> _Packed:
        try:
            file, size = self._opened.__enter__()
        except FileNotFoundError:
            raise BuildError(f"there is no file {str(self.path)!r}.") from None
        except OSError as error:
            raise BuildError(f"{str(self.path)!r}: {error.strerror or error}.") from None
        try:
            self._archive = ZipFile(Careful(file))
            self._entries = _checked(self._archive.infolist(), size)
            self.card = _card(self._read("card.json", _CARD_BYTES))
        except PROBLEMS as error:
            self._opened.__exit__(None, None, None)
            raise self._refusal(error) from None
        except BaseException:
            self._opened.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.__exit__(None, None, None)

    def _refusal(self, error: Exception) -> BuildError:
        return BuildError(
            f"{str(self.path)!r} is not a run packed by rillflow ({type(error).__name__}: "
            f"{str(error)[:300]})."
        )

    def _read(self, name: str, most: int) -> bytes:
        if name not in self._entries:
            raise ValueError(f"it has no {name}")
        if self._entries[name].file_size > most:
            raise ValueError(f"{name} has more than {most:,} bytes")
        assert self._archive is not None, "opened"
        with self._archive.open(self._entries[name]) as file:
            return file.read(most)

    def text(self, name: str) -> str:
        """A small file of it, as text."""
        try:
            return self._read(name, _CARD_BYTES).decode(errors="replace")
        except PROBLEMS as error:
            raise self._refusal(error) from None

    def write_all(self, directory: Path) -> None:
        """Every entry, compared with its hash."""
        assert self._archive is not None, "opened"
        try:
            for name, entry in self._entries.items():
                path = directory / name
                path.parent.mkdir(exist_ok=True)
                with self._archive.open(entry) as source, path.open("xb") as into:
                    found = _copied(source, into)
                if name != "card.json" and found != _hash(self.card, name):
                    raise ValueError(f"{name} is not as its card says")
        except PROBLEMS as error:
            raise self._refusal(error) from None


def _checked(entries: list[ZipInfo], size: int) -> dict[str, ZipInfo]:
    """By name, after the table of contents was found to be one of ours."""
    if len(entries) > _ENTRIES:
        raise ValueError(f"{len(entries):,} files, and at most {_ENTRIES:,} are read")
    found: dict[str, ZipInfo] = {}
    for entry in entries:
        name = entry.filename
        if not _KNOWN.fullmatch(name):
            raise ValueError(f"{name[:60]!r} is no name of a file in a packed run")
        if name.lower() in {other.lower() for other in found}:
            raise ValueError(f"two files called {name!r}")
        if entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size:
            raise ValueError(f"{name!r} is compressed, and we write none that are")
        found[name] = entry
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError(f"files of more bytes than the {size:,} that are there")
    return found


def _card(data: bytes) -> dict[str, Any]:
    card = parse_json(data)
    if not isinstance(card, dict) or not isinstance(card.get("files"), dict):
        raise ValueError("card.json is not what we write")
    if card.get("format") != FORMAT:
        raise ValueError(
            f"it has format {str(card.get('format'))[:40]}, and this rillflow reads {FORMAT}"
        )
    return card


def _hash(card: Mapping[str, Any], name: str) -> object:
    told = card["files"].get(name)
    return told.get("sha256") if isinstance(told, dict) else None


def _copied(source: IO[bytes], into: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := source.read(_PIECE):
        digest.update(piece)
        into.write(piece)
    return digest.hexdigest()
