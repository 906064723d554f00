"""One writer per directory. The lock goes away with the process that holds it, however it ends."""

from __future__ import annotations

import fcntl
import os
import socket
import weakref
from contextlib import suppress
from pathlib import Path

from rillflow.checkpoint.errors import CheckpointError, StoreLocked

LOCK = ".lock"


class Lock:
    """An exclusive lock on a directory, held until `release`."""

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(OSError):  # who it is is for people: a full disk does not take it
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 300, 0).decode("utf-8", "replace").split()
            os.close(descriptor)
            raise _locked(directory, holder) from None
        except OSError as error:
            os.close(descriptor)
            raise CheckpointError(
                f"{path} cannot be locked ({error.strerror}), and one process at a time may write "
                "checkpoints: choose a directory on a file system with locks."
            ) from error
        self._release = weakref.finalize(self, os.close, descriptor)

    def release(self) -> None:
        """Let another writer in; safe to call twice."""
        self._release()


def _locked(directory: Path, holder: list[str]) -> StoreLocked:
    pid = int(holder[0]) if holder and holder[0].isdecimal() else None
    host = holder[1] if len(holder) > 1 else "?"
    who = "another process" if pid is None else f"process {pid}"
    if host not in ("?", socket.gethostname()):
        who += f" on {host}"
    elif pid is not None and not _alive(pid):
        who = f"a process that was started by process {pid}, which is gone,"
    return StoreLocked(
        f"{directory} is in use: {who} writes checkpoints there, and one run at a time may. Stop "
        "it, or choose another directory.",
        pid,
    )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
