"""The learner of small networks on the processor: the same as `Learner`, without torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning.analytic.adam import Adam, clip_norm
from rillflow.learning.analytic.network import Network
from rillflow.learning.analytic.rows import Rows
from rillflow.learning.blas import blas_threads
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.learner_base import LearnerBase
from rillflow.learning.minibatches import minibatches
from rillflow.learning.results import Gradients, RowStats, TrainStats
from rillflow.learning.skips import finite_rows
from rillflow.policies.spec import PolicySpec

Figures = dict[str, Any]


class NumpyLearner(LearnerBase):
    """Owns the network that is being trained; what it does and saves equals `Learner`'s.

    Args:
        spec: the policy, an mlp.
        config: the algorithm's settings.
        seed: of the first weights and of the minibatches.
        postprocess: `numpy_postprocess` of the algorithm.
        loss: its `numpy_loss`.
    """

    def __init__(
        self,
        spec: PolicySpec,
        config: AlgorithmConfig,
        seed: int,
        postprocess: Callable[[Network, Mapping[str, Array], Any], Rows],
        loss: Callable[[Network, Rows, Any], Figures],
    ) -> None:
        super().__init__(config)
        self._postprocess, self._loss = postprocess, loss
        self._losses: tuple[str, ...] | None = None
        """names of the figures that are losses"""
        self.network = Network(spec, seed)
        self.optimizer = self._new_optimizer()
        self.rng = np.random.default_rng(seed)
        if self.target_freq is not None:
            self.target = Network(spec, seed)

    # -- learning ------------------------------------------------------------------------------

    def train(
        self, batch: SampleBatch, epochs: int = 1, minibatch: int | None = None
    ) -> TrainStats:
        """`epochs` passes over the batch in shuffled minibatches; None: the whole batch at once."""
        figures: list[Figures] = []
        sizes: list[float] = []
        with blas_threads(self.config.num_learner_threads):
            rows = self._rows(batch)
            number = len(next(iter(rows.values())))
            for _ in range(epochs if number else 0):
                for chosen in minibatches(number, minibatch, self.rng):
                    figures.append(self._gradient(rows, chosen))
                    sizes.append(self._step(figures[-1]))
        made = self.skips.see(sizes)
        self.version += 1
        self._count_for_target(batch.steps)
        return self.skips.tell(_result(batch.steps, figures, made))

    def assess(self, batch: SampleBatch) -> TrainStats:
        """The loss's figures on a batch, without learning from it."""
        with blas_threads(self.config.num_learner_threads):
            figures = self._gradient(self._rows(batch), None)
        return _result(batch.steps, [figures], [math.isfinite(self._size(figures, None))])

    def compute_gradients(self, batch: SampleBatch) -> Gradients:
        """Gradients of the loss on a batch, without applying them."""
        with blas_threads(self.config.num_learner_threads):
            figures = self._gradient(self._rows(batch), None)
        return Gradients(self.network.get_gradient(), batch.steps, _mean([figures]))

    def apply_gradients(self, gradients: Gradients) -> TrainStats:
        """One optimiser step with gradients computed elsewhere."""
        self.network.vector(gradients.values, self.network.gradient)
        (made,) = self.skips.see([self._step({})])
        self.version += 1
        return self.skips.tell(TrainStats(gradients.steps, gradients.stats if made else {}))

    def update_target(self) -> None:
        """Make the target network equal to the one that is being trained."""
        if self.target is not None:
            self.target.parameters[:] = self.network.parameters

    def _rows(self, batch: SampleBatch) -> Rows:
        rows = self._postprocess(self.network, batch, self.config)
        if self.target is not None:
            rows["next_q"] = self.target.q_values(rows["next_obs"]).T
        return rows

    def _gradient(self, rows: Rows, chosen: Array | None) -> Figures:
        """Leave the gradient of the chosen rows in the network; the loss's figures.

        A short fragment may hold nothing but resets: there is nothing to learn from it.
        """
        if not len(next(iter(rows.values()))):
            self.network.gradient[:] = 0
            return {}
        if chosen is not None:
            rows = {name: column[chosen] for name, column in rows.items()}
        return self._loss(self.network, rows, self.config)

    def _step(self, figures: Figures) -> float:
        """A step of the optimiser, if loss and gradient are finite; the size of both together."""
        size = self._size(figures, self.config.grad_clip)
        if math.isfinite(size):
            if self.config.final_lr is not None:
                self.optimizer.lr = self.config.learning_rate(self.optimizer.steps)
            self.optimizer.step(self.network.gradient)
        return size

    def _size(self, figures: Figures, clip: float | None) -> float:
        """Shorten the gradient; the length that it had, plus the losses among the figures."""
        size = clip_norm(self.network.gradient, clip)
        if figures:
            if self._losses is None:  # looked for once: each step has the same figures
                self._losses = tuple(name for name in figures if name.endswith("loss"))
            for name in self._losses:
                size += figures[name]
        return size

    # -- weights and state ---------------------------------------------------------------------

    def get_weights(self) -> Mapping[str, Array]:
        """A snapshot that later training does not change."""
        return self.network.get_weights()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Go on from these."""
        self.network.set_weights(weights)

    def get_state(self) -> dict[str, Any]:
        """Everything that training goes on from, in the form of `Learner.get_state`."""
        target = {} if self.target is None else {"target": dict(self.target.get_weights())}
        return {
            **target,
            "weights": dict(self.get_weights()),
            "optimizer": self._slots(),
            "rng": self.rng.bit_generator.state,
            "version": self.version,
            "since_target": self.since_target,
            "nonfinite_steps": self.skips.count,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` gave, of this learner or of a `Learner` like it."""
        self.set_weights(state["weights"])
        if self.target is not None:
            self.target.set_weights(state["target"])
        self.optimizer = self._new_optimizer()
        slots = state["optimizer"]
        if slots:
            self.optimizer.steps = int(next(iter(slots.values()))["step"])
            for key, vector in self._averages().items():
                self.network.vector({name: slots[name][key] for name in slots}, vector)
        self.rng.bit_generator.state = state["rng"]
        self.version = int(state["version"])
        self.since_target = int(state["since_target"])
        self.skips.count = int(state.get("nonfinite_steps", 0))

    def _new_optimizer(self) -> Adam:
        return Adam(self.network.parameters, self.config.lr, eps=self.config.adam_epsilon)

    def _averages(self) -> dict[str, Any]:
        """What the optimiser remembers, under torch's names."""
        return {"exp_avg": self.optimizer.mean, "exp_avg_sq": self.optimizer.square}

    def _slots(self) -> dict[str, dict[str, Array]]:
        """What the optimiser remembers of each parameter; nothing before its first step."""
        if not self.optimizer.steps:
            return {}
        step = np.array(self.optimizer.steps, np.float32)
        named = {k: self.network.named(v.copy()) for k, v in self._averages().items()}
        return {
            name: {"step": step.copy(), **{key: arrays[name] for key, arrays in named.items()}}
            for name in self.network.weights
        }


def _result(steps: int, figures: list[Figures], made: Sequence[bool]) -> TrainStats:
    """Means of the figures that are one number per step; those of each row, one after another.

    Steps that were not made have no part in the means.
    """
    names = [name for name, value in figures[0].items() if np.ndim(value)] if figures else []
    rows = {
        name: figures[0][name] if len(figures) == 1 else np.concatenate([f[name] for f in figures])
        for name in names
    }
    if not all(made):
        figures = [f for f, fine in zip(figures, made, strict=True) if fine]
        rows = finite_rows(rows)
    return RowStats(steps, _mean(figures), rows) if rows else TrainStats(steps, _mean(figures))


def _mean(figures: list[Figures]) -> dict[str, float]:
    names = [name for name, value in figures[0].items() if not np.ndim(value)] if figures else []
    return {name: math.fsum(float(f[name]) for f in figures) / len(figures) for name in names}
