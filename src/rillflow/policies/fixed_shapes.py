"""A function of tensors that is called with arrays: once there, once back, and one wait.

On a CUDA device each combination of shapes has buffers that stay where they are: arrays are copied
into memory of the host that the device reads by itself, from there into tensors of the device, and
what comes out goes the same way back. Everything is queued, and the processor waits once, at the
end, asleep. What is called again and again with one combination is recorded as a CUDA graph, which
is one call instead of one for each kernel. On the processor it is the function, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rillflow.policies.device_wait import DeviceWait

Array = NDArray[Any]
Function = Callable[..., tuple[Tensor, ...]]
Replay = tuple[Callable[[], None], tuple[Tensor, ...]]
"""what computes the outputs anew from the inputs that lie in their buffers, and these outputs"""
Record = Callable[[Function, Sequence[Tensor]], Replay]

_FIRST_CALLS = 2
"""calls of one combination of shapes before it is recorded: libraries choose their kernels there"""
_KEPT = 4
"""combinations of shapes with buffers of their own; each further one has them for one call"""


class FixedShapes:
    """A function from tensors to tensors, as one from arrays to new arrays.

    Args:
        function: of tensors on the device; gives a tuple of tensors there.
        device: where it computes.
        record: what makes a recording of it (`cuda_graph.recorded`); None: it is called each time.
    """

    def __init__(
        self, function: Function, device: torch.device, record: Record | None = None
    ) -> None:
        self.function = function
        self.device = device
        self.record = record
        self.why_not = ""
        """why it could not be recorded, if it was tried"""
        self._lanes: dict[Any, Lane] = {}
        self._done = DeviceWait(device)

    @torch.no_grad()
    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The outputs for these inputs, in arrays of their own."""
        with self._done.here:
            lane = self._lane(arrays)
            lane.put(arrays)
            return lane.fetch(self._outputs(lane), self._done)

    def _lane(self, arrays: Sequence[Array]) -> Lane:
        shapes = tuple((array.shape, array.dtype) for array in arrays)
        lane = self._lanes.get(shapes)
        if lane is None:
            lane = Lane(arrays, self.device)
            if len(self._lanes) < _KEPT:
                self._lanes[shapes] = lane
        return lane

    def _outputs(self, lane: Lane) -> tuple[Tensor, ...]:
        lane.calls += 1
        if lane.replay is None and self.record is not None and lane.calls > _FIRST_CALLS:
            self._try_to_record(lane)
        if lane.replay is None:
            return self.function(*lane.inputs)
        again, outputs = lane.replay
        again()
        return outputs

    def _try_to_record(self, lane: Lane) -> None:
        """Where a library refuses to be recorded, the function is called as before."""
        assert self.record is not None
        try:
            lane.replay = self.record(self.function, lane.inputs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.record = None
            self.why_not = str(error).partition("\n")[0]


class Lane:
    """The buffers of one combination of shapes."""

    def __init__(self, arrays: Sequence[Array], device: torch.device) -> None:
        self.calls = 0
        self.replay: Replay | None = None
        self._cuda = device.type == "cuda"
        self._host = [
            torch.empty(array.shape, dtype=_dtype(array), pin_memory=self._cuda) for array in arrays
        ]
        self._filled = [tensor.numpy() for tensor in self._host]
        self.inputs = self._host
        if self._cuda:
            self.inputs = [torch.empty_like(t, device=device, pin_memory=False) for t in self._host]
        self._back: list[Tensor] = []

    def put(self, arrays: Sequence[Array]) -> None:
        """Have these as the inputs; a device begins to copy them."""
        for filled, array in zip(self._filled, arrays, strict=True):
            np.copyto(filled, array)
        if self._cuda:
            for there, host in zip(self.inputs, self._host, strict=True):
                there.copy_(host, non_blocking=True)

    def fetch(self, outputs: Sequence[Tensor], done: DeviceWait) -> tuple[Array, ...]:
        """The outputs as arrays of their own, when the device has computed them."""
        if not self._cuda:
            return tuple(output.numpy().copy() for output in outputs)
        if not self._back:
            self._back = [torch.empty(o.shape, dtype=o.dtype, pin_memory=True) for o in outputs]
        for back, output in zip(self._back, outputs, strict=True):
            back.copy_(output, non_blocking=True)
        done.mark()
        done.sleep()  # the only wait; what was sent is read by now, too
        return tuple(back.numpy().copy() for back in self._back)


def _dtype(array: Array) -> torch.dtype:
    return torch.from_numpy(np.empty(0, array.dtype)).dtype
