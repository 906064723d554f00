"""A file system of its own with little room, for `faults.py` and the tests of random moments."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Disk:
    """A small file system that can be filled."""

    def __init__(self, path: Path) -> None:
        self.path, self.filler = path, path / "filler"

    def fill(self) -> None:
        """Until nothing more goes in, not even a byte."""
        with self.filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue

    def empty(self) -> None:
        """Room again."""
        self.filler.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, size: str = "24m") -> Iterator[Disk | None]:
    """One below a folder, while the block lasts; None: only root may."""
    path = folder / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
