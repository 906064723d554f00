"""What a mask of actions does to a network's outputs, in NumPy and in torch.

A forbidden action gets an output so low that its probability is exactly 0 and it is never the best.
It is a finite one: 0 times infinity would be no number, in an entropy or where nothing follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.policies.spec import PolicySpec

if TYPE_CHECKING:
    from torch import Tensor

RULED_OUT = np.float32(-1e9)
"""the output of a forbidden action"""
_LOW = np.float32(-5e8)


def mask_of(spec: PolicySpec, obs: Any) -> Any:
    """Which outputs observations allow, [..., width] of truth values; None: the spec has none.

    Where choices and numbers are mixed, the numbers are always allowed.
    """
    mask = None if spec.layout is None else spec.layout.mask(obs)
    return mask if mask is None else with_numbers(spec, mask)


def with_numbers(spec: PolicySpec, mask: Any) -> Any:
    """A mask of choices [..., choices] as one of all outputs [..., width]."""
    if spec.actions.kind != "mixed":
        return mask
    shape = (*mask.shape[:-1], spec.actions.numbers)
    if isinstance(mask, np.ndarray):
        return np.concatenate([mask, np.ones(shape, bool)], -1)
    import torch

    return torch.cat([mask, mask.new_ones(shape)], -1)


def network_input(spec: PolicySpec, obs: Any, normalizer: Any, *, called: bool = True) -> Any:
    """What a network is given of observations: one of your own the parts in their structure.

    Args:
        spec: of the policy.
        obs: as they travel.
        normalizer: what they go through first; None: nothing.
        called: whether the network is called itself, which lets it normalise whole arrays.
    """
    own = spec.layout is not None and not isinstance(spec.model, str)
    if normalizer is not None and (own or not called):
        obs = normalizer(obs)
    return spec.layout.split(obs) if spec.layout is not None and own else obs


def rule_out(outputs: Tensor, mask: Tensor | None) -> Tensor:
    """Outputs [..., choices] in which what is forbidden has no chance; no gradient goes there."""
    return outputs if mask is None else outputs.masked_fill(~mask, float(RULED_OUT))


def allowed(outputs: Any) -> Any:
    """Where outputs are those of actions that are allowed."""
    return outputs > _LOW


def random_choice(allowed: Any, uniform: Any) -> Any:
    """One of the allowed choices of each column [choices, B], by uniform numbers [B] below 1."""
    counts = allowed.sum(0)
    wanted = np.minimum((uniform * counts).astype(np.int64), counts - 1)  # rounding may reach it
    return (np.cumsum(allowed, 0) > wanted).argmax(0)
