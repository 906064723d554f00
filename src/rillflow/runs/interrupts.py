"""Ctrl-C: once finishes the update, saves and stops; twice stops now. So do SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

LIMIT = 20.0
"""seconds for which the end of what is being done is waited for; then it is stopped at once"""


class Interrupts:
    """While its `with` block lasts, turns signals into a wish to stop that a loop can look at.

    Before `ready`, when there is nothing to save yet, the first signal stops at once. Signals reach
    the main thread only: elsewhere nothing is changed, and Ctrl-C is what it always is.
    """

    def __init__(self, on_wish: Callable[[], None] | None = None) -> None:
        self.wished = False
        """whether to stop after what is being done"""
        self.since: float | None = None
        """when that was first wished, on the clock of `time.monotonic`"""
        self.ready = False
        """whether there is something to finish and to save"""
        self.saving = False
        """whether what was being done has ended, and is being saved"""
        self.signal = signal.SIGINT
        """the one that came"""
        self._on_wish = on_wish
        self._before: dict[int, Any] = {}

    def wish(self) -> None:
        """Wish to stop, from any thread: as the first signal, but that there may be nothing yet."""
        if not self.wished:
            self.wished, self.since = True, time.monotonic()

    def pass_on(self) -> None:
        """When everything is saved: let a signal that ends programs do so, as it would have."""
        if self.wished and self.signal != signal.SIGINT:
            signal.raise_signal(self.signal)

    def __enter__(self) -> Interrupts:
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue  # `nohup` wants the run to outlive its terminal
                self._before[number] = signal.signal(number, self._heard)
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._late)
        except ValueError:
            pass  # not the main thread
        return self

    def __exit__(self, *_: object) -> None:
        if signal.SIGALRM in self._before:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        if self.wished or not self.ready:
            self.wished = True
            raise KeyboardInterrupt
        self.wished, self.since = True, time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        if self._on_wish is not None:
            self._on_wish()

    def _late(self, number: int, frame: FrameType | None) -> None:
        """Code of the user's, in the driver itself, has not returned since the wish to stop."""
        if not self.saving:
            raise KeyboardInterrupt

    @property
    def exit_code(self) -> int:
        """As a shell gives it: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return 128 + self.signal
