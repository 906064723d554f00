"""Calling a network from the outside and looking at what comes back, suspiciously."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rillflow.errors import BuildError
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy


def observations(spec: PolicySpec, leading: tuple[int, ...], seed: int = 0) -> NDArray[Any]:
    """Random observations [*leading, ...] of the spec's space."""
    rng = np.random.default_rng(seed)
    space: Any = spec.observation_space
    shape = (*leading, *spec.observation_shape)
    if np.issubdtype(space.dtype, np.floating):
        return np.clip(rng.standard_normal(shape), space.low, space.high).astype(space.dtype)
    low, high = int(space.low.min()), int(space.high.max())
    return rng.integers(low, high, shape, endpoint=True).astype(space.dtype)


def wrong(spec: PolicySpec, problem: str) -> BuildError:
    """The error that says what is wrong with the spec's network."""
    name = repr(spec.model)
    if not isinstance(spec.model, str):
        name = getattr(spec.model, "__qualname__", name)
    return BuildError(f"model={name}: {problem}")


def call(
    policy: TorchPolicy, obs: NDArray[Any], starts: NDArray[np.bool_] | None = None
) -> tuple[Tensor, ...]:
    """What the network makes of observations [T, B, ...], found to be what its spec promises.

    Returns:
        Outputs [T, B, width] and values [T, B], or q values; then the state if it remembers.
    """
    spec = policy.spec
    time, batch = obs.shape[:2]
    rows = obs if spec.recurrent else obs.reshape(time * batch, *obs.shape[2:])
    results = _call(policy, rows, np.zeros((time, batch), bool) if starts is None else starts)
    lead = rows.shape[: 2 if spec.recurrent else 1]
    for (name, shape), result in zip(_promised(spec, lead, batch).items(), results, strict=True):
        _check(spec, name, result, shape)
    if spec.recurrent:
        return results
    return tuple(result.reshape(time, batch, *result.shape[1:]) for result in results)


def _call(policy: TorchPolicy, rows: NDArray[Any], starts: NDArray[np.bool_]) -> tuple[Any, ...]:
    spec = policy.spec
    arguments = [torch.tensor(rows)]
    if spec.recurrent:
        state = policy.initial_state(rows.shape[1])
        arguments += [torch.from_numpy(state), torch.tensor(starts)]
    try:
        results = policy.model(*arguments)
    except Exception as error:
        problem = f"observations {list(rows.shape)} ({rows.dtype}) made it raise"
        raise wrong(spec, f"{problem} {type(error).__name__}: {error}") from error
    results = (results,) if isinstance(results, Tensor) else results
    names = list(_promised(spec, (), 0))
    if not isinstance(results, tuple) or len(results) != len(names):
        found = f"{len(results)} results" if isinstance(results, tuple) else type(results).__name__
        raise wrong(spec, f"with head={spec.head!r} it must return {tuple(names)}, found {found}")
    return results


def _promised(spec: PolicySpec, lead: tuple[int, ...], batch: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what the network returns."""
    shapes = {"outputs" if spec.head == "actor_critic" else "q": (*lead, spec.actions.width)}
    if spec.head == "actor_critic":
        shapes["values"] = lead
    if spec.state_shape is not None:
        shapes["state"] = (batch, *spec.state_shape)
    return shapes


def _check(spec: PolicySpec, name: str, result: object, shape: tuple[int, ...]) -> None:
    if not isinstance(result, Tensor):
        raise wrong(spec, f"{name} must be a tensor, found {type(result).__name__}")
    if tuple(result.shape) != shape:
        raise wrong(spec, f"{name} must have shape {list(shape)}, found {list(result.shape)}")
    if result.dtype != torch.float32:
        raise wrong(spec, f"{name} must be torch.float32, found {result.dtype}")
    # -inf is allowed in outputs: it rules an action out
    if result.isnan().any() or result.isposinf().any():
        raise wrong(spec, f"{name} has NaN or infinity, although the observations are finite")
