"""What a learner on a device does otherwise: nothing there is waited for within a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rillflow.experience.batch import Array
from rillflow.learning.figures import Figures
from rillflow.policies.convolutions import Convolutions


def let_be_fast() -> None:
    """Let products of matrices be made in TF32, and cuDNN find out what is fastest for a shape.

    For the whole process, as torch has it. Convolutions are in TF32 by torch's own choice. Which
    algorithm cuDNN takes may differ from run to run, and with it the last digits.
    """
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True


def set_precision(networks: Iterable[torch.nn.Module], precision: str) -> None:
    """Let the convolutions of networks compute with so many digits; all else has its own."""
    reduced = torch.bfloat16 if precision == "bf16" else None
    for network in networks:
        for module in network.modules():
            if isinstance(module, Convolutions):
                module.reduced = reduced


class DeviceRates:
    """The learning rates of optimisers, as numbers on the device, and how many steps they made.

    A recorded update reads its rate from there; and a rate that falls with the steps need not ask
    the device how many there were.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.made: dict[str, int] = {}
        """steps of each optimiser"""
        self.recording = False
        """whether steps are recorded, and not made"""
        self.recorded: list[str] = []
        """the optimisers whose steps were recorded last"""
        self._there: dict[str, tuple[float, torch.Tensor]] = {}
        self._kind = torch.float64 if device.type == "cpu" else torch.float32  # as Adam wants it

    def next(self, name: str, rate: float) -> Any:
        """The rate of an optimiser's next step; it counts."""
        if self.recording:
            self.recorded.append(name)
            return self._there[name][1]
        self.made[name] = self.made.get(name, 0) + 1
        known = self._there.get(name)
        if known is None:
            self._there[name] = rate, torch.tensor(rate, dtype=self._kind, device=self.device)
        elif known[0] != rate:
            self._there[name] = rate, known[1].fill_(rate)
        return self._there[name][1]

    def forget_left_out(self, sizes: Sequence[float]) -> None:
        """Steps whose loss or gradient was not finite were not made."""
        left_out = sum(not math.isfinite(size) for size in sizes)
        for name in self.made if left_out else ():
            self.made[name] = max(0, self.made[name] - left_out)


def sent_together(
    orders: Iterator[Array | None], device: torch.device
) -> Iterator[torch.Tensor | None]:
    """The minibatches of one pass, whose numbers go to the device in one piece."""
    chosen = [order for order in orders if order is not None]
    if not chosen:
        yield None
        return
    numbers = torch.from_numpy(np.concatenate(chosen))
    if device.type != "cpu":
        numbers = numbers.pin_memory().to(device, non_blocking=True)
    begin = 0
    for order in chosen:
        yield numbers[begin : begin + len(order)]
        begin += len(order)


def fetched_together(figures: list[Figures], sizes: list[Any]) -> tuple[list[Figures], list[float]]:
    """Figures and sizes as plain numbers, from one transfer; figures of rows stay as they are."""
    asked = [size for size in sizes if isinstance(size, torch.Tensor)]
    for told in figures:
        asked += [value for value in told.values() if _is_number(value)]
    if not asked:
        return figures, [float(size) for size in sizes]
    numbers = iter(torch.stack([value.reshape(()).double() for value in asked]).tolist())
    plain = [next(numbers) if isinstance(size, torch.Tensor) else float(size) for size in sizes]
    return [
        {name: next(numbers) if _is_number(value) else value for name, value in told.items()}
        for told in figures
    ], plain


def _is_number(figure: Any) -> bool:
    return isinstance(figure, torch.Tensor) and figure.ndim == 0
