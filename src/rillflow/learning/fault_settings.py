"""Settings of what a run does when its parts fail, checked before anything starts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig

FAULT_SETTINGS = ("on_failure", "max_restarts", "worker_timeout", "env_timeout", "worker_memory")
"""settings that a run which goes on may change: they say nothing of what is learned"""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def bytes_of(size: int | str | None) -> int | None:
    """A size of memory in bytes.

    >>> bytes_of("2GiB"), bytes_of("300 MB"), bytes_of(5000), bytes_of(None)
    (2147483648, 300000000, 5000, None)
    """
    if size is None or isinstance(size, int):
        return size
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", size.strip().lower())
    if found is None:
        raise BuildError(f"worker_memory is a size such as '2GiB' or '500MB', got {size!r}.")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def problems(config: AlgorithmConfig) -> list[str]:
    """What is wrong with these settings."""
    wrong = []
    if config.max_restarts < 0:
        wrong.append(f"max_restarts must be at least 0, got {config.max_restarts!r}")
    for name in ("worker_timeout", "env_timeout"):
        seconds = getattr(config, name)
        if seconds is not None and not seconds >= 0:  # so written, not a number is refused too
            wrong.append(f"{name} must be 0 or above, or None, got {seconds!r}")
    try:
        least = bytes_of(config.worker_memory)
        if least is not None and least < 1:
            wrong.append(f"worker_memory must be above 0, got {config.worker_memory!r}")
    except BuildError as error:
        wrong.append(str(error).rstrip("."))
    alone = [name for name in ("env_timeout", "worker_memory") if getattr(config, name)]
    if alone and config.num_workers == 0:
        wrong.append(
            f"{' and '.join(alone)} end a worker's process, and with num_workers=0 there is none "
            "but the driver's: give it a worker"
        )
    return wrong
