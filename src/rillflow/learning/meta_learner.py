"""Learning to adapt: the step that adapts a policy to a task, and the one that sees through it.

A *round* is one batch of a task. All rounds but the last were followed by a step of adaptation, so
the last one was made by the adapted policy (Finn et al. 2017, arXiv:1703.03400).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning import losses
from rillflow.learning.results import TrainStats
from rillflow.learning.torch_learner import TorchLearner
from rillflow.learning.torch_parts import detached
from rillflow.learning.update import Rows, Step, steps_of
from rillflow.policies.torch_policy import TorchPolicy

Parameters = Mapping[str, Tensor]

RIDGE = 1e-5
"""keeps the baseline's fit solvable where a feature never varies"""


class MetaLearner(TorchLearner):
    """A learner of the weights from which adaptation goes best. In a worker it only adapts."""

    config: Any

    def adapt(self, batch: SampleBatch) -> dict[str, Array]:
        """One step of adaptation to the task of this batch; the weights it leads to."""
        parameters = self.parameters[self.modules.acts]
        self.follow_schedules()
        after = adapted(self.acting, parameters, self.rows(batch), self.cfg.inner_lr)
        with torch.no_grad():
            size = float(torch.stack([value.sum() for value in after.values()]).sum())
            # what is not finite teaches nothing: the task is played on as it was
            if all(self.skips.see([size])):
                for name, parameter in parameters.items():
                    parameter.copy_(after[name])
        return dict(self.get_weights())

    def meta_train(self, tasks: Sequence[Sequence[SampleBatch]]) -> TrainStats:
        """Some optimiser steps on the rounds of several tasks."""
        self.follow_schedules()
        rows = [[self.rows(batch) for batch in rounds] for rounds in tasks]
        acts = self.modules.acts
        figures: list[dict[str, Any]] = []
        sizes: list[Any] = []
        for _ in range(self.config.maml_optimizer_steps):
            self.optimisers[acts].zero_grad(set_to_none=True)
            total: Any = 0.0
            for rounds in rows:
                step = self.meta_step(rounds)
                (step.loss / len(rows)).backward()  # task by task: one graph in memory at a time
                total = total + step.loss.detach()
                figures.append(detached(step.stats))
            sizes.append(self._step((acts,), total))
            self.updates += 1
        made = self.skips.see([float(size) for size in sizes])
        self.observations.count(batch for rounds in tasks for batch in rounds)
        self.version += 1
        kept = [figure for i, figure in enumerate(figures) if made[i // len(rows)]]
        names = kept[0] if kept else ()
        means = {name: float(np.mean([float(f[name]) for f in kept])) for name in names}
        steps = sum(batch.steps for rounds in tasks for batch in rounds)
        self.trained += steps
        result = TrainStats(steps, {**returns_by_step(tasks), **means})
        return self.with_settings(self.skips.tell(result))

    def meta_step(self, rounds: Sequence[Rows]) -> Step:
        """The loss of the adapted policy on the last round, as a function of the meta-weights."""
        *before, after = rounds
        parameters: Parameters = self.parameters[self.modules.acts]
        for rows in before:
            parameters = adapted(
                self.acting, parameters, rows, self.cfg.inner_lr, differentiable=True
            )
        with self.acting.using(parameters):
            return next(steps_of(self.update, self.m, after, self.cfg))


def adapted(
    policy: TorchPolicy,
    parameters: Parameters,
    rows: Mapping[str, Tensor],
    lr: float,
    *,
    differentiable: bool = False,
) -> dict[str, Tensor]:
    """The parameters after one policy-gradient step on a round.

    The gradient is that of the likelihood ratio against whoever acted. Where the parameters are
    those that acted it is the usual policy gradient, and its own derivative is right as well, which
    that of `logp * advantages` is not (Rothfuss et al. 2018, arXiv:1810.06784, section 5).

    Args:
        policy: what to evaluate the parameters with.
        parameters: before the step; those that do not decide what is done stay as they are.
        rows: flat rows with `obs`, `actions`, `logp` and `advantages`.
        lr: the size of the step.
        differentiable: whether gradients flow through the step.
    """
    with policy.using(parameters):
        logp, _, _ = policy.evaluate(rows["obs"], rows["actions"])
    loss = -((logp - rows["logp"]).exp() * rows["advantages"]).mean()
    gradients = torch.autograd.grad(
        loss, list(parameters.values()), create_graph=differentiable, allow_unused=True
    )
    return {
        name: parameter if gradient is None else parameter - lr * gradient
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True)
    }


def returns_by_step(tasks: Sequence[Sequence[SampleBatch]]) -> dict[str, float]:
    """Mean returns over the tasks before adaptation, after each step of it, and after the last."""
    means = [float(np.mean([mean_return(batch) for batch in r])) for r in zip(*tasks, strict=True)]
    between = {f"return_after_{step}": mean for step, mean in enumerate(means[1:-1], start=1)}
    return {"return_before": means[0], **between, "return_after": means[-1]}


def mean_return(batch: SampleBatch) -> float:
    """The mean return of a round's episodes; if none has ended, of those that have begun.

    >>> ended = np.array([[False], [True], [False]])
    >>> rewards = np.array([[1.0], [2.0], [9.0]])
    >>> mean_return(SampleBatch({"rewards": rewards, "terminated": ended, "truncated": ended}))
    3.0
    """
    ended = batch["terminated"] | batch["truncated"]
    if not ended.any():
        return float(batch["rewards"].sum(0).mean())
    finished = np.cumsum(ended, 0) - ended < ended.sum(0)  # rows of episodes that end in it
    return float((batch["rewards"] * finished).sum() / ended.sum())


@torch.no_grad()
def finite_horizon_rows(batch: Mapping[str, Tensor], gamma: float, lam: float) -> dict[str, Tensor]:
    """Standardised advantages over a linear baseline that is fitted to the batch, as flat rows.

    An episode counts as over where it was cut: a task is what can be had within its limit. The
    baseline is linear in the observation, its square, and powers of the time, as is usual where a
    few episodes have to do (Duan et al. 2016, arXiv:1604.06778).
    """
    ended = batch["terminated"] | batch["truncated"]
    valid = batch.get("valid", torch.ones_like(ended))
    ended = ended | ~valid
    ended[-1] = True
    none = torch.zeros_like(batch["rewards"])
    returns, _ = losses.gae(batch["rewards"], none, none, ended, ended, gamma, 1.0)
    values = fitted(time_features(batch["obs"], ended), returns, valid)
    after = torch.cat([values[1:], values[-1:]])
    advantages, _ = losses.gae(batch["rewards"], values, after, ended, ended, gamma, lam)
    chosen = valid.flatten().nonzero().squeeze(1)
    rows = {name: batch[name] for name in ("obs", "actions", "logp")}
    flat = {name: column.flatten(0, 1)[chosen] for name, column in rows.items()}
    return {**flat, "advantages": losses.standardized(advantages.flatten()[chosen])}


def time_features(obs: Tensor, ended: Tensor) -> Tensor:
    """What the baseline is linear in: [T, B, F]. Of an image only the time is used."""
    time = torch.zeros_like(ended, dtype=torch.float64)
    for t in range(1, len(time)):
        time[t] = (time[t - 1] + 1).masked_fill(ended[t - 1], 0)
    time = time[..., None] / 100
    powers = [torch.ones_like(time), time, time**2, time**3]
    if obs.ndim > 3:
        return torch.cat(powers, -1)
    seen = obs.double().clamp(-10, 10)
    return torch.cat([seen, seen**2, *powers], -1)


def fitted(features: Tensor, targets: Tensor, valid: Tensor) -> Tensor:
    """Targets [T, B] as a linear function of features [T, B, F], by least squares."""
    x, y = features[valid], targets[valid].double()
    ridge = RIDGE * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    coefficients: Tensor = torch.linalg.solve(x.T @ x + ridge, x.T @ y)
    return (features @ coefficients).to(targets.dtype)
