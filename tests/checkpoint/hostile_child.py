"""Reads checkpoints from strangers, and watches what that does.

    python -m tests.checkpoint.hostile_child DIRECTORY

For each checkpoint in the directory: the error, the processor time, the memory at its highest, and
everything that reading one has no business to do. Printed as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

from rillflow.checkpoint import read_checkpoint
from rillflow.checkpoint.errors import CheckpointError

FORBIDDEN = (
    "exec", "compile", "import", "marshal", "pickle", "subprocess", "os.system", "os.exec",
    "os.fork", "os.posix_spawn", "os.spawn", "socket", "ctypes", "code.__new__", "os.remove",
    "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.link", "os.symlink",
)  # fmt: skip


class Watch:
    """Notes events of the interpreter that reading a checkpoint must not cause."""

    def __init__(self) -> None:
        self.inside: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.inside is None:
            return
        if event == "open":
            path, _, flags = args
            reads = not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            own = str(path).startswith(f"{self.inside}/") and ".." not in str(path)
            if not (reads and (own or str(path) == "/proc/meminfo")):
                self.seen.append(f"open {path}")
        elif event.startswith(FORBIDDEN):
            self.seen.append(f"{event} {args!r}"[:200])


def read(watch: Watch, path: Path) -> dict[str, Any]:
    """Read it twice: once for the time it takes, once for the memory."""
    tracing = sys.gettrace()
    sys.settrace(None)  # a tool that counts lines takes longer than what it counts
    began = time.process_time()
    row = attempt(watch, path)
    row["seconds"] = time.process_time() - began
    sys.settrace(tracing)
    tracemalloc.start()
    attempt(watch, path)
    row["megabytes"] = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    row["events"], watch.seen = watch.seen, []
    return row


def attempt(watch: Watch, path: Path) -> dict[str, Any]:
    watch.inside = path
    try:
        read_checkpoint(path)
        error, message = None, ""
    except CheckpointError as raised:
        error, message = type(raised).__name__, str(raised)
    except BaseException as raised:
        error, message = f"UNEXPECTED {type(raised).__name__}: {raised}", ""
    finally:
        watch.inside = None
    return {"name": path.name, "error": error, "message": message}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    read_checkpoint(folder / "harmless")  # whatever Python imports late, it has by now
    watch = Watch()
    print(json.dumps([read(watch, path) for path in sorted(folder.iterdir())]))
