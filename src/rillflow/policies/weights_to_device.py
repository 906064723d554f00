"""Weights that come as arrays, loaded into a network on a device in one transfer."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rillflow.policies.device_wait import DeviceWait

_ALIGNED = 16
"""bytes at whose multiples each tensor begins, whatever its numbers are"""


class WeightsToDevice:
    """One buffer for all tensors of a network, here and on the device.

    A transfer for each of them would wait for the device each time. Here it is not waited for at
    all: weights are in place for whatever is computed next.

    Args:
        tensors: of the network, by name: what `state_dict` gives.
        device: where they are.
    """

    def __init__(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._sent = DeviceWait(device)
        places, size = _places(tensors)
        with self._sent.here:
            self._host = torch.empty(size, dtype=torch.uint8, pin_memory=self._sent.cuda)
            self._there = torch.empty_like(self._host, device=device, pin_memory=False)
        self._filled: dict[str, NDArray[Any]] = {}
        self._arrived: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            piece = slice(*places[name])
            self._filled[name] = _as(self._host[piece], tensor).numpy()
            self._arrived[name] = _as(self._there[piece], tensor)

    @torch.no_grad()
    def load(self, weights: Mapping[str, NDArray[Any]], tensors: Mapping[str, Tensor]) -> None:
        """Copy weights into the tensors, which stay the same objects."""
        self._sent.sleep()  # what was sent before may still be read from the buffer
        for name, filled in self._filled.items():
            np.copyto(filled, weights[name], casting="unsafe")
        with self._sent.here:
            self._there.copy_(self._host, non_blocking=True)
            for name, arrived in self._arrived.items():
                tensors[name].copy_(arrived)
            self._sent.mark()


def _places(tensors: Mapping[str, Tensor]) -> tuple[dict[str, tuple[int, int]], int]:
    """Where each tensor begins and ends in the buffer, and how long that is."""
    places, end = {}, 0
    for name, tensor in tensors.items():
        begin = -(-end // _ALIGNED) * _ALIGNED
        end = begin + prod(tensor.shape) * tensor.element_size()
        places[name] = begin, end
    return places, end


def _as(piece: Tensor, like: Tensor) -> Tensor:
    return piece.view(like.dtype).view(like.shape)
