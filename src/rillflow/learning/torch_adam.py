"""Steps of Adam and lengths of gradients in torch, with little around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rillflow.experience.batch import Array
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.torch_batches import tensor_of

_SLOTS, _LARGEST = ("exp_avg", "exp_avg_sq", "step"), "max_exp_avg_sq"

Slots = tuple[list[Any], ...]
"""what an optimiser remembers, by slot, of each parameter; the fourth has what the third is a view
of, if there is such a thing"""


def new_adam(
    parameters: list[torch.Tensor], config: AlgorithmConfig, lr: float
) -> torch.optim.Adam:
    """An optimiser as the settings have it."""
    return torch.optim.Adam(
        parameters, lr=lr, eps=config.adam_epsilon, amsgrad=config.amsgrad, fused=True
    )


def first_step(
    optimiser: torch.optim.Adam,
    parameters: Sequence[torch.Tensor],
    amsgrad: bool,
    skip: torch.Tensor | None,
) -> Slots | None:
    """A step as torch makes it, which begins what the optimiser remembers; None: not of all."""
    optimiser.found_inf = skip  # type: ignore[attr-defined]
    optimiser.step()
    state = [optimiser.state.get(parameter, {}) for parameter in parameters]
    if not all(state):
        return None
    together = []
    if skip is None:  # steps are counted in one operation
        together = [torch.stack([own["step"] for own in state])]
        for own, count in zip(state, together[0].unbind(), strict=True):
            own["step"] = count
    slots = [[own[slot] for own in state] for slot in _SLOTS]
    return (*slots, together, *([own[_LARGEST] for own in state] for _ in range(amsgrad)))


def adam_step(
    optimiser: torch.optim.Adam,
    parameters: list[torch.Tensor],
    gradients: list[torch.Tensor],
    slots: Slots,
    rate: Any,
    skip: torch.Tensor | None = None,
) -> None:
    """As `optimiser.step()`, in a third of the time around it; none where `skip` is not 0."""
    mean, square, steps, together, *largest = slots
    told = {} if skip is None else {"found_inf": skip}
    group = optimiser.param_groups[0]
    with torch.no_grad():
        if together:
            together[0].add_(1)
        else:
            torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            parameters,
            gradients,
            mean,
            square,
            largest[0] if largest else [],
            steps,
            lr=rate,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=group["eps"],
            amsgrad=bool(largest),
            maximize=False,
            **told,
        )
        if skip is not None:
            torch._foreach_sub_(steps, [skip] * len(steps))


def shortened(
    parameters: list[torch.Tensor], clip: float | None, most: float | None, *, looks: bool
) -> torch.Tensor:
    """Shorten a gradient to `clip`, its numbers to `most`; the length that it had."""
    if most is None and clip is not None:
        return torch.nn.utils.clip_grad_norm_(parameters, clip)
    length = _length([p.grad for p in parameters if p.grad is not None], looks=looks)
    if most is not None:
        torch.nn.utils.clip_grad_value_(parameters, most)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
    return length


def _length(gradients: list[torch.Tensor], *, looks: bool) -> torch.Tensor:
    if looks and gradients:  # `get_total_norm` sorts them by device, and asks for each length
        length: torch.Tensor = torch.linalg.vector_norm(
            torch.cat([gradient.reshape(-1) for gradient in gradients])
        )
        return length
    return torch.nn.utils.get_total_norm(gradients)


def remembered(
    optimiser: torch.optim.Adam, parameters: Mapping[str, Any]
) -> dict[str, dict[str, Array]]:
    """What an optimiser remembers of each parameter, by name; nothing before a step."""
    slots = optimiser.state
    return {
        key: {slot: np.array(value.cpu().numpy()) for slot, value in slots[p].items()}
        for key, p in parameters.items()
        if p in slots
    }


def remember(
    optimiser: torch.optim.Adam,
    parameters: Mapping[str, Any],
    slots: Mapping[str, Mapping[str, Array]],
    *,
    amsgrad: bool,
) -> None:
    """Let an optimiser go on from what `remembered` gave."""
    optimiser.state.clear()
    for key, saved in slots.items():
        own = parameters[key]
        restored = {
            slot: tensor_of(np.array(value)).to(own.device) for slot, value in saved.items()
        }
        if amsgrad:  # saved without: the largest squares are those of late
            restored.setdefault(_LARGEST, restored["exp_avg_sq"].clone())
        optimiser.state[own] = restored
