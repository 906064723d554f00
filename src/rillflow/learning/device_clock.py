"""Where the time of a batch goes on a device, and how long the learner waits for it.

One batch of several is looked at. Marks are left in the queue of the device, and read when its
figures have been fetched anyway: nothing waits for a mark.

    device_copy_ms     until the batch is there, its stacked frames put together
    device_learn_ms    from then until the last step is done
    launch_ms          of the processor, until all of that has been asked for
    device_wait_ms     of the processor, until the device has answered
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

EVERY = 8
"""batches of which one is looked at"""


T = TypeVar("T")


class DeviceClock:
    """Marks the stages of some batches.

    Args:
        mark: leaves a mark in the queue of the device, and gives it: it has `query()`, whether the
            device has come there, and `elapsed_time(later)`, in milliseconds. None: on the
            processor nothing is looked at.
        every: of how many batches one is looked at.
        now: the processor's clock, in seconds.
    """

    def __init__(
        self,
        mark: Callable[[], Any] | None,
        every: int = EVERY,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._mark, self._every, self._now = mark, every, now
        self._count = 0
        self._marks: list[Any] = []
        self._began = self._launched = 0.0
        self.told: dict[str, float] = {}
        """of the batch that was looked at last; empty before the first"""

    def begin(self) -> None:
        """A batch is on its way."""
        if self._mark is None:
            return
        looks = self._count % self._every == 0
        self._count += 1
        self._marks = [self._mark()] if looks else []
        self._began = self._now()

    def copied(self, tensors: T) -> T:
        """It has been sent to the device, as these."""
        if self._mark is not None and len(self._marks) == 1:
            self._marks.append(self._mark())
        return tensors

    def launched(self) -> None:
        """All steps have been asked for."""
        if self._mark is not None and len(self._marks) == 2:
            self._marks.append(self._mark())
            self._launched = self._now()

    def answered(self) -> None:
        """The figures of the batch are there, and so the device is done with it."""
        if len(self._marks) < 3:
            return
        begun, copied, learned = self._marks
        self._marks = []
        if not learned.query():  # nobody has asked for a figure: another batch will tell
            return
        self.told = {
            "device_copy_ms": begun.elapsed_time(copied),
            "device_learn_ms": copied.elapsed_time(learned),
            "launch_ms": 1000 * (self._launched - self._began),
            "device_wait_ms": 1000 * (self._now() - self._launched),
        }


def clock_of(device: Any) -> DeviceClock:
    """For a learner on this device of torch."""
    if device.type != "cuda":
        return DeviceClock(None)
    import torch

    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(device))
        return event

    return DeviceClock(mark)
