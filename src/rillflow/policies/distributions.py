"""Log-probabilities and entropies of actions, in torch; `sampling` is their twin in NumPy.

The squashed Gaussian of SAC is not among them: `squashed_logp` is in `sampling`, and its form in
torch is the layer `Squashed` of `learning/torch_layers.py`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rillflow.policies.actions import Actions


def evaluate(
    actions: Actions, outputs: Tensor, log_std: Tensor | None, taken: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of actions taken, and entropies of the distributions they came from.

    Categorical for Discrete, independent categoricals for MultiDiscrete, and for a Box a Gaussian
    with independent components whose width does not depend on the observation. Mixed actions have
    both, independent of each other.

    Args:
        actions: the kind of action.
        outputs: logits or means [N, width].
        log_std: of a Gaussian [width].
        taken: the actions [N, *shape].

    Returns:
        Two tensors [N].
    """
    if actions.kind == "continuous":
        assert log_std is not None
        return _gaussian(outputs, log_std, taken.reshape(len(outputs), -1))
    if actions.kind == "discrete":
        return _categorical(outputs, taken.reshape(len(outputs)))
    taken = taken.reshape(len(outputs), -1)
    if actions.kind == "mixed":
        assert log_std is not None
        count, width = len(actions.choices), sum(actions.choices)
        chosen = _categoricals(actions, outputs[:, :width], taken[:, :count])
        drawn = _gaussian(outputs[:, width:], log_std, taken[:, count:])
        return chosen[0] + drawn[0], chosen[1] + drawn[1]
    return _categoricals(actions, outputs, taken)


def _categoricals(actions: Actions, outputs: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over the choices, of logits [N, width] and actions [N, choices]."""
    logits = torch.split_with_sizes(outputs, actions.choices, -1)
    choices = taken.unbind(-1)
    evaluated = [_categorical(part, choice) for part, choice in zip(logits, choices, strict=True)]
    logps, entropies = zip(*evaluated, strict=True)
    return torch.stack(logps).sum(0), torch.stack(entropies).sum(0)


def _categorical(logits: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
    logp = logits.log_softmax(-1)
    chosen = logp.gather(-1, taken.long().unsqueeze(-1)).squeeze(-1)
    p = logp.exp()
    # an action ruled out by a logit of -inf adds nothing: 0 * -inf would be NaN
    return chosen, -(p * logp.masked_fill(p == 0, 0)).sum(-1)


def _gaussian(mean: Tensor, log_std: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
    distance = (taken - mean) * (-log_std).exp()
    constant = 0.5 * log_std.numel() * math.log(2 * math.pi)
    logp = -0.5 * distance.square().sum(-1) - (log_std.sum() + constant)
    entropy = log_std.sum() + constant + 0.5 * log_std.numel()
    return logp, entropy.expand(len(mean))
