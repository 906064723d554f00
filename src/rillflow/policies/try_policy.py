"""A policy built from spaces alone and tried on generated inputs, before any environment runs.

RLgraph's idea (Schaarschmidt et al. 2018, arXiv:1810.09028): a component can be built and tested
by itself, so that a mistake in a network is found in it and not in the fifth minute of training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.try_network import build, call, observations, wrong

TIME, BATCH = 4, 3
CLOSE = 1e-4
"""the same sums in another order differ by less than this"""


@dataclass(frozen=True)
class Report:
    """What was tried, all of it with success."""

    parameters: int
    """numbers that can be learned"""
    checks: tuple[str, ...]
    """what holds"""

    def __str__(self) -> str:
        return f"{self.parameters} parameters; " + "; ".join(self.checks)


def exercise(spec: PolicySpec, seed: int = 0) -> Report:
    """Build the policy of a spec, run all of it on random inputs, and say what holds.

    Args:
        spec: the policy, possibly with a network of your own.
        seed: of the weights and the inputs.

    Raises:
        BuildError: names what is wrong.
    """
    policy = build(spec, seed)
    obs = observations(spec, (TIME, BATCH), seed)
    call(policy, obs)
    _check_pure(policy, obs)
    _check_acting(policy, obs)
    _check_gradients(policy, obs)
    _check_weights(policy, obs, seed)
    checks = [
        "results have the shapes and dtypes of the spec, and are finite",
        "rows do not depend on each other, nor on earlier calls",
        "actions fit their space and have the right log-probabilities",
        "a gradient reaches every parameter",
        "weights survive a round trip and follow from the seed",
    ]
    if spec.recurrent:
        _check_starts(policy, obs)
        checks.append("the start of an episode forgets the state")
    if spec.plain:
        _check_numpy(policy, obs[0], seed)
        checks.append("NumPy and torch agree")
    return Report(sum(p.numel() for p in policy.parameters()), tuple(checks))


@torch.no_grad()
def _check_pure(policy: TorchPolicy, obs: NDArray[Any]) -> None:
    first, again, alone = call(policy, obs), call(policy, obs), call(policy, obs[:, :1])
    if not _close(first, again):
        raise wrong(
            policy.spec,
            "the same observations gave other results the second time (dropout, or a counter?): "
            "acting and learning would disagree",
        )
    if not _close([result[:, :1] for result in first[:1]], alone[:1]):
        raise wrong(
            policy.spec,
            "results for one environment depend on the others in the batch (batch normalization, "
            "or a sum over the first axis?)",
        )


@torch.no_grad()
def _check_starts(policy: TorchPolicy, obs: NDArray[Any]) -> None:
    half = TIME // 2
    starts = np.zeros(obs.shape[:2], bool)
    starts[half] = True
    whole, second = call(policy, obs, starts), call(policy, obs[half:])
    if not _close([whole[0][half:], whole[-1]], [second[0], second[-1]]):
        raise wrong(
            policy.spec,
            "rows after the start of an episode depend on rows before it: "
            "forget the state where `starts` is true",
        )


@torch.no_grad()
def _check_acting(policy: TorchPolicy, obs: NDArray[Any]) -> None:
    spec = policy.spec
    none = np.zeros(BATCH, bool)
    if spec.recurrent:
        state = policy.initial_state(BATCH)
        actions, logp, _ = policy.act_recurrent(obs[0], state, none)
        greedy, _ = policy.greedy_recurrent(obs[0], state, none)
    else:
        actions, logp = policy.act(obs[0])
        greedy = policy.greedy(obs[0])
    for found in (actions, greedy):
        assert found.shape == (BATCH, *spec.actions.shape), found.shape
        assert found.dtype == spec.actions.dtype, found.dtype
    if spec.head == "q":
        return
    if spec.recurrent:
        evaluated = policy.evaluate_recurrent(obs[:1], actions[None], state, none[None])[0][0]
    else:
        evaluated = policy.evaluate(obs[0], actions)[0]
    if not np.allclose(logp, evaluated.cpu().numpy(), atol=CLOSE):
        raise wrong(spec, "actions have other log-probabilities when they are evaluated again")


def _check_gradients(policy: TorchPolicy, obs: NDArray[Any]) -> None:
    policy.noise.draw(np.random.default_rng(0))  # without it none reaches how noisy a layer is
    results = call(policy, obs)[: 2 if policy.spec.head == "actor_critic" else 1]
    random = torch.Generator().manual_seed(0)
    loss = torch.zeros(())
    for result in results:
        # -inf stands for an action that is ruled out, in which there is nothing to learn
        finite = result.masked_fill(result.isneginf(), 0)
        loss = loss + (finite * torch.randn(result.shape, generator=random)).sum()
    if policy.log_std is not None and policy.log_std.requires_grad:
        loss = loss + policy.log_std.sum()  # no part of the network's results
    names = [name for name, p in policy.model.named_parameters() if p.requires_grad]
    learned = [p for p in policy.parameters() if p.requires_grad]
    if not learned or not loss.requires_grad:
        raise wrong(policy.spec, "its results carry no gradient (detached, or no_grad inside?)")
    gradients = torch.autograd.grad(loss, learned, allow_unused=True)
    policy.noise.stop()
    unused = [name for name, g in zip(names, gradients, strict=True) if g is None]
    if unused:
        raise wrong(policy.spec, f"no gradient reaches {', '.join(unused)}: unused, or detached")
    if not all(g.isfinite().all() for g in gradients):
        raise wrong(policy.spec, "its gradients are not finite")


@torch.no_grad()
def _check_weights(policy: TorchPolicy, obs: NDArray[Any], seed: int) -> None:
    weights = policy.get_weights()
    other = build(policy.spec, seed + 1)
    other.set_weights(weights)
    if not _close(call(policy, obs), call(other, obs)):
        raise wrong(
            policy.spec,
            "another copy with the same weights gives other results: it keeps numbers that are "
            "neither parameters nor buffers, so a worker would not act as the learner does",
        )
    same = build(policy.spec, seed).get_weights()
    different = [name for name in weights if not np.array_equal(weights[name], same[name])]
    if different:
        raise wrong(policy.spec, f"the same seed gave other weights: {', '.join(different)}")


def _check_numpy(policy: TorchPolicy, obs: NDArray[Any], seed: int) -> None:
    actor = NumpyPolicy(policy.spec, seed + 1)
    actor.set_weights(policy.get_weights())
    expected = policy.outputs(obs).detach().numpy()
    if not np.allclose(actor.outputs(obs), expected, atol=CLOSE):
        raise wrong(policy.spec, "NumPy and torch compute different outputs")


def _close(found: Any, expected: Any) -> bool:
    def near(a: Tensor, b: Tensor) -> bool:
        return a.shape == b.shape and torch.allclose(a, b, rtol=CLOSE, atol=CLOSE)

    return all(near(a, b) for a, b in zip(found, expected, strict=True))
