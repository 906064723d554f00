"""The shapes of what a policy is given, checked at its door."""

from __future__ import annotations

import torch
from torch import Tensor

from rillflow.errors import RunError
from rillflow.policies.spec import PolicySpec


def as_rows(spec: PolicySpec, obs: Tensor) -> tuple[Tensor, torch.Size]:
    """Observations with any leading axes as [N, ...], and the axes they had."""
    shape = spec.observation_shape
    split = obs.ndim - len(shape)
    if split < 1 or tuple(obs.shape[split:]) != shape:
        raise RunError(
            f"observations must be [..., {', '.join(map(str, shape))}] with at least one "
            f"leading axis; found {list(obs.shape)}"
        )
    return obs.reshape(-1, *shape), obs.shape[:split]


def check_sequence(spec: PolicySpec, obs: Tensor, state: Tensor, starts: Tensor) -> None:
    """The observations are time-major, and state and starts belong to them."""
    time, batch = (*obs.shape, 0, 0)[:2]
    expected = {
        "observations": (obs, (time, batch, *spec.observation_shape)),
        "state": (state, (batch, *(spec.state_shape or ()))),
        "starts": (starts, (time, batch)),
    }
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise RunError(f"{name} must be {list(shape)}, found {list(tensor.shape)}")
