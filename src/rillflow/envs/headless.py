"""Environments drawn with SDL (pygame), where there is no screen or nobody looks at it.

SDL asks every driver it knows for a screen, and some complain on the terminal when there is none.
Its driver "dummy" draws into memory, which is all that frames and observations need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_DRIVER = "SDL_VIDEODRIVER"


def expect_no_screen() -> None:
    """Tell SDL that there is no screen, if so; what the user has said about it holds."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
        os.environ.setdefault(_DRIVER, "dummy")


@contextmanager
def no_window() -> Iterator[None]:
    """Draw into memory alone, also where there is a screen."""
    before = os.environ.get(_DRIVER)
    os.environ[_DRIVER] = "dummy"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_DRIVER, None)
        else:
            os.environ[_DRIVER] = before
