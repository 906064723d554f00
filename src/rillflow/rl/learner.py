"""The learner: a policy, an optimiser, and the two functions an algorithm supplies by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from rillflow.batch import Array, SampleBatch
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.rl.config import AlgorithmConfig
from rillflow.rl.results import Gradients, Loss, RowStats, TrainStats

Rows = dict[str, torch.Tensor]


class Learner:
    """Owns the policy that is being trained. Everything random draws from its own generator."""

    def __init__(self, spec: PolicySpec, config: AlgorithmConfig, seed: int) -> None:
        self.config = config
        torch.set_num_threads(config.num_learner_threads)
        self.policy = TorchPolicy(spec, seed)
        self.parameters = dict(self.policy.model.named_parameters())
        self.optimizer = torch.optim.Adam(
            self.parameters.values(), lr=config.lr, eps=1e-5, fused=True
        )
        self.rng = np.random.default_rng(seed)
        self.version = 0
        self.target: TorchPolicy | None = None
        """a copy of the policy that changes only in `update_target`"""
        self.target_freq = config.target_freq
        """rows trained between two updates of it; None: somebody else sees to it"""
        self.since_target = 0
        if self.target_freq is not None:
            self.target = TorchPolicy(spec, seed)

    # -- learning ------------------------------------------------------------------------------

    def train(
        self, batch: SampleBatch, epochs: int = 1, minibatch: int | None = None
    ) -> TrainStats:
        """`epochs` passes over the batch in shuffled minibatches; None: the whole batch at once."""
        rows = self._rows(batch)
        figures: list[dict[str, Any]] = []
        for _ in range(epochs):
            for part in self._minibatches(rows, minibatch):
                loss = self._loss(part)
                self.optimizer.zero_grad(set_to_none=True)
                loss.total.backward()
                self._step()
                figures.append(loss.stats)
        self.version += 1
        self._count_for_target(batch.steps)
        return _result(batch.steps, figures)

    def assess(self, batch: SampleBatch) -> TrainStats:
        """The loss's figures on a batch, without learning from it."""
        with torch.no_grad():
            return _result(batch.steps, [self._loss(self._rows(batch)).stats])

    def compute_gradients(self, batch: SampleBatch) -> Gradients:
        """Gradients of the loss on a batch, without applying them."""
        loss = self._loss(self._rows(batch))
        self.optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        values = {
            name: parameter.grad.numpy().copy()
            for name, parameter in self.parameters.items()
            if parameter.grad is not None
        }
        return Gradients(values, batch.steps, _mean([loss.stats]))

    def apply_gradients(self, gradients: Gradients) -> TrainStats:
        """One optimiser step with gradients computed elsewhere."""
        for name, parameter in self.parameters.items():
            value = gradients.values.get(name)
            parameter.grad = None if value is None else torch.from_numpy(np.array(value))
        self._step()
        self.version += 1
        return TrainStats(gradients.steps, gradients.stats)

    def update_target(self) -> None:
        """Make the target network equal to the one that is being trained."""
        if self.target is not None:
            self.target.model.load_state_dict(self.policy.model.state_dict())

    def _count_for_target(self, steps: int) -> None:
        self.since_target += steps
        if self.target_freq is not None and self.since_target >= self.target_freq:
            self.since_target %= self.target_freq
            self.update_target()

    def _step(self) -> None:
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.config.grad_clip)
        self.optimizer.step()

    def _loss(self, rows: Rows) -> Loss:
        assert self.config.loss is not None, "an algorithm's plan sets its loss"
        loss: Loss = self.config.loss(self.policy, rows, self.config)
        return loss

    def _rows(self, batch: SampleBatch) -> Rows:
        assert self.config.postprocess is not None, "an algorithm's plan sets its postprocessor"
        tensors = {name: _tensor(column) for name, column in batch.items()}
        rows: Rows = self.config.postprocess(self.policy, tensors, self.config)
        if self.target is not None:
            with torch.no_grad():
                rows["next_q"] = self.target.q_values(rows["next_obs"])
        return rows

    def _minibatches(self, rows: Rows, size: int | None) -> Iterator[Rows]:
        count = len(next(iter(rows.values())))
        if size is None or size >= count:
            yield rows
            return
        order = torch.from_numpy(self.rng.permutation(count))
        for start in range(0, count - count % size, size):
            chosen = order[start : start + size]
            yield {name: column[chosen] for name, column in rows.items()}

    # -- weights and state ---------------------------------------------------------------------

    def get_weights(self) -> dict[str, Array]:
        """A snapshot that later training does not change."""
        return self.policy.get_weights()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Go on from these."""
        self.policy.set_weights(dict(weights))

    def get_target_weights(self) -> dict[str, Array]:
        """A snapshot of the target network."""
        assert self.target is not None, "this algorithm has no target network"
        return self.target.get_weights()

    def set_target_weights(self, weights: Mapping[str, Array]) -> None:
        """Make them the target network's."""
        assert self.target is not None, "this algorithm has no target network"
        self.target.set_weights(dict(weights))

    def get_state(self) -> dict[str, Any]:
        """Everything that training goes on from: parameters, optimiser, generator, version."""
        optimizer = self.optimizer.state_dict()["state"]
        target = {} if self.target is None else {"target": self.target.get_weights()}
        return {
            **target,
            "weights": self.get_weights(),
            "optimizer": {
                str(index): {key: value.numpy().copy() for key, value in slots.items()}
                for index, slots in optimizer.items()
            },
            "rng": self.rng.bit_generator.state,
            "version": self.version,
            "since_target": self.since_target,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` gave."""
        self.set_weights(state["weights"])
        if self.target is not None:
            self.target.set_weights(state["target"])
        slots = {
            int(index): {key: torch.from_numpy(np.array(value)) for key, value in saved.items()}
            for index, saved in state["optimizer"].items()
        }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": slots, "param_groups": groups})
        self.rng.bit_generator.state = state["rng"]
        self.version = state["version"]
        self.since_target = state["since_target"]


def _tensor(column: Array) -> torch.Tensor:
    """A tensor over the same memory; what came straight from another process is copied first."""
    return torch.from_numpy(column if column.flags.writeable else np.array(column))


def _result(steps: int, figures: list[dict[str, Any]]) -> TrainStats:
    rows = _per_row(figures)
    return RowStats(steps, _mean(figures), rows) if rows else TrainStats(steps, _mean(figures))


def _mean(figures: list[dict[str, Any]]) -> dict[str, float]:
    """Means of the figures that are one number per optimiser step."""
    names = [name for name, value in figures[0].items() if not np.ndim(value)] if figures else []
    return {name: float(np.mean([float(f[name]) for f in figures])) for name in names}


def _per_row(figures: list[dict[str, Any]]) -> dict[str, Array]:
    """The figures that are one number per row, such as TD errors, of all optimiser steps."""
    names = [name for name, value in figures[0].items() if np.ndim(value)] if figures else []
    return {name: np.concatenate([np.asarray(f[name]) for f in figures]) for name in names}
