"""What a learner on several devices takes apart and puts together: rows, gradients, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rillflow.learning import rows as rows_of
from rillflow.learning.devices import portions
from rillflow.learning.figures import Figures
from rillflow.learning.update import Rows


def parts_of(everywhere: Sequence[Rows], chosen: Any) -> Iterator[Rows]:
    """The chosen rows, a part for each device, from the rows that lie there already."""
    order = torch.from_numpy(chosen) if isinstance(chosen, np.ndarray) else chosen
    if len(everywhere) == 1:
        device = next(iter(everywhere[0].values())).device
        yield everywhere[0] if order is None else rows_of.take(everywhere[0], order.to(device))
        return
    number = rows_of.count(everywhere[0]) if order is None else len(order)
    portion = list(portions(number, len(everywhere)))
    for rows, part in zip(everywhere, portion, strict=False):
        device = next(iter(rows.values())).device
        yield rows_of.take(rows, part if order is None else order[part].to(device))


def leave_gradients(
    losses: Sequence[Any], share: Sequence[float], trained: list[Any], device: torch.device
) -> Any:
    """Leave the gradients of a loss, of which each device has a part, at the first one's
    parameters; the loss. `trained` are the parameters of all devices, one device after another."""
    # not `autograd.grad`: its gradients may lie in another order than the parameters, which
    # the fused optimiser does not look at
    if len(losses) == 1:
        losses[0].backward(inputs=trained)
        return losses[0].detach()
    parts = [loss * s for loss, s in zip(losses, share, strict=True)]
    # all at once: each device goes through its own part of the graph in its own thread
    torch.autograd.backward(parts, inputs=trained)
    count = len(trained) // len(losses)
    for index, parameter in enumerate(trained[:count]):
        for other in trained[index + count :: count]:
            parameter.grad = _sum_of(parameter.grad, other.grad, device)
    return sum(part.detach().to(device) for part in parts)


def _sum_of(
    one: torch.Tensor | None, other: torch.Tensor | None, device: torch.device
) -> torch.Tensor | None:
    """Of two gradients, of which some may not be there."""
    if other is None:
        return one
    return other.to(device) if one is None else one + other.to(device)


def detached(stats: Mapping[str, Any]) -> Figures:
    """Figures that hold no graph of computations."""
    return {
        name: figure.detach() if isinstance(figure, torch.Tensor) else figure
        for name, figure in stats.items()
    }


def joined(stats: Sequence[Figures], share: Sequence[float]) -> Figures:
    """The figures of parts as those of the whole: means by rows, and rows one after another."""
    if len(stats) == 1:
        return stats[0]
    whole: Figures = {}
    for name, first in stats[0].items():
        values = [part[name] for part in stats]
        if np.ndim(first):
            arrays = [v.cpu() if isinstance(v, torch.Tensor) else v for v in values]
            whole[name] = np.concatenate([np.asarray(array) for array in arrays])
        else:
            whole[name] = sum(float(v) * s for v, s in zip(values, share, strict=True))
    return whole


def buffers_of_targets(m: Any) -> dict[str, list[tuple[torch.Tensor, torch.Tensor]]]:
    """The buffers of each network that has a target: the target's, and beside it its own."""
    return {
        name: list(zip(target.network.buffers(), m.by_name[name].network.buffers(), strict=True))
        for name, target in m.targets.items()
    }


def parameters_of_targets(m: Any) -> dict[str, tuple[list[torch.Tensor], ...]]:
    """The parameters of each network that has a target: the target's, and beside them its own."""
    return {
        name: tuple(
            [parameter.detach() for parameter in net.network.parameters()]
            for net in (target, m.by_name[name])
        )
        for name, target in m.targets.items()
    }
