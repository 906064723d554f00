"""Warnings as one line each on stderr: what a person should know and what stops nothing."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def notes_as_lines() -> Iterator[None]:
    """Show each warning once as `note: ...`, without the line of code that gave it."""
    told: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in told:
            told.add(text)
            with suppress(OSError):  # a note that nobody can read any more ends no run
                print(f"note: {text}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # libraries warn their developers; users are told what is meant for them
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = show
        yield
