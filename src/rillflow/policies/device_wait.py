"""How work that was queued on a device is waited for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class DeviceWait:
    """A mark in what a device has to do, and who sleeps until it is reached.

    Sleeps: a processor that spins meanwhile is taken from the environments. On the processor
    itself there is nothing to wait for.

    Args:
        device: whose work it is.
    """

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.here: AbstractContextManager[Any] = nullcontext()
        """inside, what is queued and allocated is this device's"""
        if self.cuda:
            self.here = torch.cuda.device(device)
            event: Any = torch.cuda.Event
            self._event = event(blocking=True)

    def mark(self) -> None:
        """Until here."""
        if self.cuda:
            self._event.record()

    def sleep(self) -> None:
        """Return when all that was queued before the last mark is done."""
        if self.cuda:
            self._event.synchronize()
