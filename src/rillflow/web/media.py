"""Pictures and films in a directory of a run: which there are, and one of them, opened.

What is shown is found by looking into the directory, never by putting a name together: a request
says a name, and gets the file if it is in the list. Links are not followed.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import IO

KINDS = {
    ".png": "image/png", ".gif": "image/gif", ".jpg": "image/jpeg", ".webp": "image/webp",
    ".mp4": "video/mp4", ".webm": "video/webm",
}  # fmt: skip
"""what is shown, by ending; a browser is told that it is that and nothing else"""
_MOST, _LOOKED_AT = 60, 2000
_FOLDERS = 20
_LARGEST = 1 << 30
_EVERY = 3.0
"""seconds"""
_OTHERS = {"checkpoints", "policies", "best_policies", "tensorboard"}
"""folders that hold no pictures"""


class Media:
    """The pictures and films of one run, the newest first; those in folders of it, too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names: list[str] = []
        self.version = ""
        self._looked = -_EVERY
        self._looking = threading.Lock()

    def refresh(self) -> None:
        """Look again, if the last time was a while ago; requests at one time wait for one look."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        if time.monotonic() - self._looked < _EVERY:
            return
        self._looked = time.monotonic()
        found: list[tuple[int, str]] = []
        folders = [("", self.directory)]
        for name in _folders(self.directory):
            folders.append((f"{name}/", self.directory / name))
        for prefix, folder in folders:
            found += _media_in(folder, prefix)
        found.sort(reverse=True)
        self.names = [name for _, name in found[:_MOST]]
        self.version = f"{hash(tuple(found[:_MOST])) & (2**48 - 1):x}"

    def open(self, name: str) -> tuple[IO[bytes], int, str] | None:
        """A file of the list, its size and its kind; None if there is none of this name."""
        self.refresh()
        if name not in self.names:
            return None
        path = self.directory
        *folders, last = name.split("/")
        try:
            here = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            for folder in folders:
                above, here = here, _inside(here, folder, os.O_DIRECTORY)
                os.close(above)
        except OSError:
            return None
        try:
            descriptor = _inside(here, last, os.O_NONBLOCK)
        except OSError:
            return None
        finally:
            os.close(here)
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            os.close(descriptor)
            return None
        return os.fdopen(descriptor, "rb"), about.st_size, KINDS[Path(name).suffix.lower()]


def _inside(directory: int, name: str, flags: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=directory)


def _folders(directory: Path) -> list[str]:
    names: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for count, entry in enumerate(entries):
                if count >= _LOOKED_AT or len(names) >= _FOLDERS:
                    break
                if entry.name not in _OTHERS and entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
    except OSError:
        return []
    return sorted(names)


def _media_in(folder: Path, prefix: str) -> list[tuple[int, str]]:
    """Times and names."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= _LOOKED_AT:
                    break
                if entry.name.startswith(".") or not _shown(entry.name):
                    continue
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(about.st_mode) and 0 < about.st_size <= _LARGEST:
                    found.append((about.st_mtime_ns, prefix + entry.name))
    except OSError:
        return found
    return found


def _shown(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in KINDS and name.isprintable()
