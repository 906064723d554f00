"""Calling a network from the outside and looking at what comes back, suspiciously.

A network of a user's own is tried once before any worker starts: what it does wrong is told in one
sentence, and not as an IndexError of a learner in the fifth minute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rillflow.errors import BuildError, user_frame
from rillflow.policies.action_masks import network_input
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy


def observations(spec: PolicySpec, leading: tuple[int, ...], seed: int = 0) -> NDArray[Any]:
    """Random observations [*leading, ...] of the spec's space."""
    rng = np.random.default_rng(seed)
    if spec.layout is not None:
        return spec.layout.invented(leading, rng)
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
        _check(policy, name, result, shape)
    if spec.recurrent:
        return results
    return tuple(result.reshape(time, batch, *result.shape[1:]) for result in results)


def probe(
    spec: PolicySpec, obs: NDArray[Any] | None = None, *, envs: int = 3, device: str = "cpu"
) -> None:
    """Build the network of a spec and call it as workers and the learner will.

    >>> from gymnasium.spaces import Box, Discrete
    >>> from torch import nn
    >>> spec = PolicySpec(
    ...     observation_space=Box(-1, 1, (4,)),
    ...     action_space=Discrete(2),
    ...     model=lambda spec: nn.Linear(4, 2),
    ... )
    >>> probe(spec)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rillflow.errors.BuildError: model=<lambda>: with head='actor_critic' it must return ...

    Args:
        spec: the policy.
        obs: one observation of the environment [...]; None: random ones of its space.
        envs: how many environments a worker steps together; no more than a few are tried.
        device: where the network is to live.

    Raises:
        BuildError: names the network, what it returned, and what is needed.
    """
    batch = min(3, envs)
    with torch.random.fork_rng(devices=[]):
        policy = build(spec, 0, device)
        for time in (1, 4):  # one step, as a worker acts; and several, as the learner learns
            shape = (time, batch, *spec.observation_shape)
            rows = observations(spec, (time, batch)) if obs is None else np.broadcast_to(obs, shape)
            results = call(policy, rows)
    if not any(result.requires_grad for result in results):
        raise wrong(spec, "its results carry no gradient (detached, or no_grad inside?)")


def build(spec: PolicySpec, seed: int, device: str = "cpu") -> TorchPolicy:
    """The policy of a spec; what building its network raises is told with the network's name."""
    try:
        return TorchPolicy(spec, seed, device)
    except BuildError:
        raise
    except Exception as error:
        raise _raised(spec, "building it raised", error) from error


def _raised(spec: PolicySpec, what: str, error: Exception) -> BuildError:
    frame = user_frame(error)
    where = f"\n  your code: {frame}" if frame else ""
    return wrong(spec, f"{what} {type(error).__name__}: {error}{_memory_hint(spec, error)}{where}")


def _memory_hint(spec: PolicySpec, error: Exception) -> str:
    """A network called with more or fewer arguments than it takes: does it remember or not?"""
    if not isinstance(error, TypeError) or "argument" not in str(error):
        return ""
    if spec.recurrent:
        return ". It has a `state_shape`, so it is called with (observations, state, starts)"
    return (
        ". It is called with observations alone; a network that remembers needs an attribute "
        "`state_shape` on the function (or class) that is given as the model"
    )


def _call(policy: TorchPolicy, rows: NDArray[Any], starts: NDArray[np.bool_]) -> tuple[Any, ...]:
    spec = policy.spec
    arguments = [torch.tensor(rows)]
    if spec.recurrent:
        state = policy.initial_state(rows.shape[1])
        arguments += [torch.from_numpy(state), torch.tensor(starts)]
    try:
        obs, *others = (argument.to(policy.device) for argument in arguments)
        results = policy.model(network_input(spec, obs, policy.normalizer), *others)
    except Exception as error:
        problem = f"observations {list(rows.shape)} ({rows.dtype}) made it raise"
        raise _raised(spec, problem, error) from error
    lead = rows.shape[: 2 if spec.recurrent else 1]
    promised = _promised(spec, lead, rows.shape[1] if spec.recurrent else 0)
    found = (results,) if isinstance(results, Tensor) else results
    if not isinstance(found, tuple | list) or len(found) != len(promised):
        raise wrong(spec, _miscounted(policy, promised, results))
    return tuple(found)


def _miscounted(policy: TorchPolicy, promised: dict[str, tuple[int, ...]], found: Any) -> str:
    """That there are more or fewer results than promised, what they are, and what is missing."""
    spec = policy.spec
    needed = ", ".join(f"{name} {list(shape)}" for name, shape in promised.items())
    several = isinstance(found, tuple | list)
    shown = ", ".join(_shown(one) for one in found) if several else _shown(found)
    text = f"with head={spec.head!r} it must return ({needed}), found {shown}"
    if not several and spec.head == "actor_critic":
        text += (
            ". It has no value head: return also what the critic makes of each observation, such "
            "as nn.Linear(features, 1)(x).squeeze(-1); or use an algorithm of q values, such as dqn"
        )
    elif several and spec.head == "q" and len(found) > len(promised):
        text += ". An algorithm of q values needs no values beside them: return them alone"
    if several and not spec.recurrent and len(found) > len(promised):
        text += (
            ". If the last one is a state, give the function that is the model an attribute "
            "`state_shape`"
        )
    return text


def _shown(result: Any) -> str:
    """What a network returned, as far as it matters."""
    if isinstance(result, Tensor):
        return f"one tensor {list(result.shape)}"
    if isinstance(result, dict):
        return f"a dict of {', '.join(map(str, result))}"
    return f"{'an' if type(result).__name__[0] in 'aeiou' else 'a'} {type(result).__name__}"


def _promised(spec: PolicySpec, lead: tuple[int, ...], batch: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what the network returns."""
    shapes = {"q" if spec.head == "q" else "outputs": (*lead, spec.width)}
    if spec.head == "actor_critic":
        shapes["values"] = lead
    if spec.state_shape is not None:
        shapes["state"] = (batch, *spec.state_shape)
    return shapes


def _check(policy: TorchPolicy, name: str, result: object, shape: tuple[int, ...]) -> None:
    spec = policy.spec
    if not isinstance(result, Tensor):
        raise wrong(spec, f"{name} must be a tensor, found {_shown(result)}")
    if tuple(result.shape) != shape:
        raise wrong(
            spec,
            f"{name} must have shape {list(shape)}, found {list(result.shape)}{_meant(spec, name)}",
        )
    if result.dtype != torch.float32:
        raise wrong(spec, f"{name} must be torch.float32, found {result.dtype}")
    if result.device.type != policy.device.type:
        raise wrong(
            spec,
            f"{name} must be on {policy.device}, where its parameters are, found {result.device}: "
            "make tensors inside it with device=obs.device, or register them as buffers",
        )
    # -inf is allowed in outputs: it rules an action out
    if result.isnan().any() or result.isposinf().any():
        raise wrong(spec, f"{name} has NaN or infinity, although the observations are finite")


def _meant(spec: PolicySpec, name: str) -> str:
    """What the numbers in the shape of a result are for."""
    if name == "values":
        return ": one number for each observation, without an axis of its own"
    if name == "state":
        return f": `state_shape` {list(spec.state_shape or ())} for each environment"
    return f": {spec.width} numbers for each observation, for {spec.action_space}"
