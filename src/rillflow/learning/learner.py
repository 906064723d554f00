"""The learner: a policy, an optimiser, and the two functions an algorithm supplies by value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rillflow.callables import label_of
from rillflow.errors import RunError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning import rows as rows_of
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.devices import learner_devices, portions, shares
from rillflow.learning.learner_base import LearnerBase
from rillflow.learning.results import Gradients, Loss, RowStats, TrainStats
from rillflow.learning.rows import Rows
from rillflow.learning.skips import finite_rows
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy


class Learner(LearnerBase):
    """Owns the policy that is being trained. Everything random draws from its own generator.

    Args:
        spec: the policy.
        config: the algorithm's settings, with its loss and its postprocessor.
        seed: of the first weights and of the minibatches.
        devices: where it computes; by default what `config.num_gpus` asks for. On several, each
            (mini)batch is split over copies of the network and their gradients are averaged by
            rows. A loss that is a mean over rows then gives what one device gives, up to rounding.
    """

    def __init__(
        self,
        spec: PolicySpec,
        config: AlgorithmConfig,
        seed: int,
        devices: Sequence[str] | None = None,
    ) -> None:
        super().__init__(config)
        torch.set_num_threads(config.num_learner_threads)
        names = learner_devices(config.num_gpus) if devices is None else tuple(devices)
        self.policies = [TorchPolicy(spec, seed, device) for device in names]
        """the policy, and its copies on further devices"""
        self.policy = self.policies[0]
        self.device = self.policy.device
        self.looks = self.device.type == "cpu"
        """whether each step looks at its numbers: to look at those of a GPU is to wait for it"""
        self.parameters = dict(self.policy.model.named_parameters())
        self.optimizer = torch.optim.Adam(
            self.parameters.values(), lr=config.lr, eps=config.adam_epsilon, fused=True
        )
        self.rng = np.random.default_rng(seed)
        if self.target_freq is not None:
            self.target = TorchPolicy(spec, seed, names[0])
        self._spread()

    # -- learning ------------------------------------------------------------------------------

    def train(
        self, batch: SampleBatch, epochs: int = 1, minibatch: int | None = None
    ) -> TrainStats:
        """`epochs` passes over the batch in shuffled minibatches; None: the whole batch at once."""
        rows = self._rows(batch)
        everywhere = [rows_of.move(rows, policy.device) for policy in self.policies]
        figures: list[dict[str, Any]] = []
        sizes: list[Any] = []
        for _ in range(epochs if rows_of.count(rows) else 0):
            for chosen in rows_of.orders(rows, minibatch, self.rng):
                loss = self._gradients(everywhere, chosen)
                figures.append(loss.stats)
                sizes.append(self._step(loss.total))
        made = self.skips.see(_numbers(sizes).tolist())
        self.version += 1
        self._count_for_target(batch.steps)
        return self.skips.tell(_result(batch.steps, figures, made))

    def assess(self, batch: SampleBatch) -> TrainStats:
        """The loss's figures on a batch, without learning from it."""
        with torch.no_grad():
            loss = self._loss(self.policy, self._rows(batch))
            return _result(batch.steps, [loss.stats], [math.isfinite(loss.total)])

    def compute_gradients(self, batch: SampleBatch) -> Gradients:
        """Gradients of the loss on a batch, without applying them."""
        rows = self._rows(batch)
        if not rows_of.count(rows):  # a short fragment may hold nothing but resets
            zeros = {
                name: np.zeros(tuple(p.shape), np.float32) for name, p in self.parameters.items()
            }
            return Gradients(zeros, 0, {})
        loss = self._gradients([rows_of.move(rows, p.device) for p in self.policies], None)
        values = {
            name: np.array(parameter.grad.cpu().numpy())
            for name, parameter in self.parameters.items()
            if parameter.grad is not None
        }
        return Gradients(values, batch.steps, _mean([loss.stats]))

    def apply_gradients(self, gradients: Gradients) -> TrainStats:
        """One optimiser step with gradients computed elsewhere."""
        for name, parameter in self.parameters.items():
            value = gradients.values.get(name)
            parameter.grad = None if value is None else self._tensor(np.array(value))
        (made,) = self.skips.see([float(self._step())])
        self.version += 1
        return self.skips.tell(TrainStats(gradients.steps, gradients.stats if made else {}))

    def update_target(self) -> None:
        """Make the target network equal to the one that is being trained."""
        if self.target is not None:
            self.target.model.load_state_dict(self.policy.model.state_dict())

    def _gradients(self, everywhere: Sequence[Rows], chosen: torch.Tensor | None) -> Loss:
        """Leave the gradients of the chosen rows at the parameters; their loss."""
        parts = list(_parts(everywhere, chosen))
        for policy in self.policies:
            policy.model.zero_grad(set_to_none=True)
        losses = [self._loss(p, part) for p, part in zip(self.policies, parts, strict=False)]
        if len(losses) == 1:
            losses[0].total.backward()
            return losses[0]
        share = shares([rows_of.weight(part) for part in parts])
        # all at once: each device goes through its own part of the graph in its own thread
        torch.autograd.backward([loss.total * s for loss, s in zip(losses, share, strict=True)])
        for copy in self.policies[1:]:
            for own, other in zip(self.policy.parameters(), copy.parameters(), strict=True):
                own.grad = _sum(own.grad, other.grad, self.device)
        total = sum(loss.total.detach().to(self.device) for loss in losses)
        return Loss(total, _joined([loss.stats for loss in losses], share))

    def _step(self, loss: Any = 0.0) -> Any:
        """A step of the optimiser, if loss and gradient are finite; the size of both together."""
        if self.config.final_lr is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = self.config.learning_rate(self._updates())
        size: Any = self._clip() + (loss.detach() if isinstance(loss, torch.Tensor) else loss)
        if self.looks:
            size = float(size)
            if math.isfinite(size):
                self.optimizer.step()
        else:  # the optimiser itself leaves the step out, on the device
            skip = size.isfinite().logical_not().float().reshape(())
            self.optimizer.found_inf = skip  # type: ignore[attr-defined]
            self.optimizer.step()
        self._spread()
        return size

    def _clip(self) -> torch.Tensor:
        """Shorten the gradient, if it is too long; the length that it had."""
        if self.config.grad_clip is not None:
            return torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.config.grad_clip)
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)

    def _updates(self) -> int:
        """Optimiser steps so far; the optimiser counts them, and they are saved with it."""
        slots = next(iter(self.optimizer.state.values()), None)
        return 0 if slots is None else int(slots["step"])

    def _spread(self) -> None:
        """Make the copies on further devices equal to the policy."""
        for copy in self.policies[1:]:
            copy.model.load_state_dict(self.policy.model.state_dict())

    def _loss(self, policy: TorchPolicy, rows: Rows) -> Loss:
        assert self.config.loss is not None, "an algorithm's plan sets its loss"
        loss = self.config.loss(policy, rows, self.config)
        if not isinstance(loss, Loss):
            raise RunError(
                "a loss function must return rillflow.learning.results.Loss(total, stats), found "
                f"{type(loss).__name__} from {label_of(self.config.loss)}."
            )
        return loss

    def _rows(self, batch: SampleBatch) -> Rows:
        assert self.config.postprocess is not None, "an algorithm's plan sets its postprocessor"
        tensors = {name: self._tensor(column) for name, column in batch.items()}
        rows: Rows = self.config.postprocess(self.policy, tensors, self.config)
        if self.target is not None:
            with torch.no_grad():
                rows["next_q"] = self.target.q_values(rows["next_obs"])
        return rows

    def _tensor(self, column: Array) -> torch.Tensor:
        """On the learner's device; over the same memory, if it can be and nobody else's is."""
        own = column if column.flags.writeable else np.array(column)
        return torch.from_numpy(own).to(self.device)

    # -- weights and state ---------------------------------------------------------------------

    def get_weights(self) -> dict[str, Array]:
        """A snapshot that later training does not change."""
        return self.policy.get_weights()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Go on from these."""
        self.policy.set_weights(dict(weights))
        self._spread()

    def get_state(self) -> dict[str, Any]:
        """Everything that training goes on from, as plain data on any device's behalf.

        The optimiser's slots stand under the names of the parameters they belong to.
        """
        target = {} if self.target is None else {"target": self.target.get_weights()}
        slots = self.optimizer.state
        return {
            **target,
            "weights": self.get_weights(),
            "optimizer": {
                name: {key: np.array(value.cpu().numpy()) for key, value in slots[p].items()}
                for name, p in self.parameters.items()
                if p in slots
            },
            "rng": self.rng.bit_generator.state,
            "version": self.version,
            "since_target": self.since_target,
            "nonfinite_steps": self.skips.count,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` gave, of this learner or of another one like it."""
        self.set_weights(state["weights"])
        if self.target is not None:
            self.target.set_weights(state["target"])
        self.optimizer.state.clear()
        for name, slots in state["optimizer"].items():
            self.optimizer.state[self.parameters[name]] = {
                key: self._tensor(np.array(value)) for key, value in slots.items()
            }
        self.rng.bit_generator.state = state["rng"]
        self.version = int(state["version"])
        self.since_target = int(state["since_target"])
        self.skips.count = int(state.get("nonfinite_steps", 0))


def _parts(everywhere: Sequence[Rows], chosen: torch.Tensor | None) -> Iterator[Rows]:
    """The chosen rows, a part for each device, from the rows that lie there already."""
    if len(everywhere) == 1:
        yield everywhere[0] if chosen is None else rows_of.take(everywhere[0], chosen)
        return
    number = rows_of.count(everywhere[0]) if chosen is None else len(chosen)
    portion = list(portions(number, len(everywhere)))
    for rows, part in zip(everywhere, portion, strict=False):
        yield rows_of.take(rows, part if chosen is None else chosen[part])


def _sum(
    one: torch.Tensor | None, other: torch.Tensor | None, device: torch.device
) -> torch.Tensor | None:
    if other is None:
        return one
    return other.to(device) if one is None else one + other.to(device)


def _joined(stats: Sequence[dict[str, Any]], share: Sequence[float]) -> dict[str, Any]:
    """The figures of parts as those of the whole: means by rows, and rows one after another."""
    joined: dict[str, Any] = {}
    for name, first in stats[0].items():
        values = [part[name] for part in stats]
        if np.ndim(first):
            joined[name] = np.concatenate([_array(value) for value in values])
        else:
            joined[name] = sum(float(v) * s for v, s in zip(values, share, strict=True))
    return joined


def _result(steps: int, figures: list[dict[str, Any]], made: Sequence[bool]) -> TrainStats:
    """The figures of all steps as one result; those that were not made have no part in means."""
    rows = _per_row(figures)
    if not all(made):
        figures = [f for f, fine in zip(figures, made, strict=True) if fine]
        rows = finite_rows(rows)
    return RowStats(steps, _mean(figures), rows) if rows else TrainStats(steps, _mean(figures))


def _mean(figures: list[dict[str, Any]]) -> dict[str, float]:
    """Means of the figures that are one number per optimiser step."""
    names = [name for name, value in figures[0].items() if not np.ndim(value)] if figures else []
    return {name: float(np.mean(_numbers([f[name] for f in figures]))) for name in names}


def _per_row(figures: list[dict[str, Any]]) -> dict[str, Array]:
    """The figures that are one number per row, such as TD errors, of all optimiser steps."""
    names = [name for name, value in figures[0].items() if np.ndim(value)] if figures else []
    return {name: np.concatenate([_array(f[name]) for f in figures]) for name in names}


def _numbers(values: list[Any]) -> Array:
    """Figures in double precision; those on a device are fetched together, not one by one."""
    if values and all(isinstance(value, torch.Tensor) for value in values):
        return torch.stack(values).detach().cpu().numpy().astype(np.float64)
    return np.array([float(value) for value in values])


def _array(value: Any) -> Array:
    return np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
