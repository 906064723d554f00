"""Batches on their way to the device that learns from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rillflow.experience.batch import Array, SampleBatch
from rillflow.experience.stacked_frames import Stacks


def tensor_of(column: Array) -> torch.Tensor:
    """A column as a tensor: over the same memory, if nobody else reads it."""
    return torch.from_numpy(column if column.flags.writeable else np.array(column))


def on_device(batch: SampleBatch, device: torch.device) -> dict[str, torch.Tensor]:
    """The columns of a batch there. Stacked frames go once, and are put together on the device."""
    if device.type == "cpu":
        return {
            name: torch.from_numpy(column.whole())
            if isinstance(column, Stacks)
            else tensor_of(column)
            for name, column in batch.columns.items()
        }
    pools: dict[int, torch.Tensor] = {}
    tensors = {}
    for name, column in batch.columns.items():
        if not isinstance(column, Stacks):
            tensors[name] = _sent(column, device)
            continue
        frames = pools.get(id(column.pool))
        if frames is None:
            frames = pools[id(column.pool)] = sent_as_one(column.pool.parts, device)
        tensors[name] = whole(frames, _sent(column.places, device))
    return tensors


def whole(frames: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Observations [..., *shape] of the places [..., count] of their frames, as `Stacks.whole`."""
    first, *rest = frames.shape[1:]
    picked = frames.index_select(0, places.reshape(-1))
    return picked.reshape(*places.shape[:-1], first * places.shape[-1], *rest)


def _sent(column: Array, device: torch.device) -> torch.Tensor:
    """From memory that the device reads by itself, so that nobody waits for it."""
    return sent_as_one((column,), device)


def sent_as_one(parts: Sequence[Array], device: torch.device) -> torch.Tensor:
    """The same of parts one behind the other, which are joined on their way."""
    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    kind = torch.from_numpy(np.empty(0, parts[0].dtype)).dtype
    pinned = torch.empty(shape, dtype=kind, pin_memory=device.type != "cpu")
    begin, memory = 0, pinned.numpy()
    for part in parts:
        memory[begin : begin + len(part)] = part
        begin += len(part)
    return pinned.to(device, non_blocking=True)
