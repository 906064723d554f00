"""The learner of small networks on the processor: the same as `TorchLearner`, without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning import rows as rows_of
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.figures import Figures, result_of
from rillflow.learning.learner_base import LearnerBase
from rillflow.learning.numpy_adam import Adam, clip_norm
from rillflow.learning.numpy_modules import NumpyModules
from rillflow.learning.results import Gradients, TrainStats
from rillflow.learning.tape import Var
from rillflow.learning.update import Rows, Step, lone_step, steps_of
from rillflow.policies.blas import blas_threads
from rillflow.policies.modules import Optimiser
from rillflow.policies.spec import PolicySpec


class NumpyLearner(LearnerBase):
    """Owns the networks that are being trained; what it does and saves equals `TorchLearner`'s."""

    m: NumpyModules

    def __init__(self, spec: PolicySpec, config: AlgorithmConfig, seed: int) -> None:
        super().__init__(spec, config, seed)
        self.m = NumpyModules(self.modules, seed)
        self.m.draw_from(self.rng)
        self.optimisers = {name: self._new_optimiser(name) for name in self.m.by_name}
        self._falls = config.final_lr is not None

    # -- learning ------------------------------------------------------------------------------

    def computing(self) -> AbstractContextManager[Any]:
        """With as many threads of BLAS as the settings say."""
        return blas_threads(self.config.num_learner_threads)

    def rows(self, batch: SampleBatch) -> Rows:
        """What the algorithm's `prepare` makes of a batch."""
        rows: Rows = self.prepare(self.m, batch, self.cfg)
        return rows

    def learn_from(self, everywhere: Any, chosen: Array | None) -> tuple[Figures, Any]:
        """All steps of one update; its figures, and how large losses and gradients were."""
        rows = everywhere if chosen is None else rows_of.take(everywhere, chosen)
        figures: Figures = {}
        size = 0.0
        m = self.m
        m.record()
        try:
            for step in steps_of(self.update, m, rows, self.cfg):
                if not self.taken(step):
                    continue
                figures |= _figures(step)
                if self.too_far(figures):
                    break
                names = self.trained_by(step.trains)
                size += self._backward(step, names)
                for name in names:
                    size += self._shorten(name)
                if math.isfinite(size):
                    for name in names:
                        self._step(name)
        finally:
            m.stop()
        return figures, size

    def look_at(self, rows: Rows) -> tuple[Figures, float]:
        """The figures of one update and the sum of its losses, without a step."""
        figures: Figures = {}
        size = 0.0
        self.m.record()
        try:
            for step in steps_of(self.update, self.m, rows, self.cfg):
                size += float(_loss(step))
                figures |= _figures(step)
        finally:
            self.m.stop()
        return figures, size

    def compute_gradients(self, batch: SampleBatch) -> Gradients:
        """Gradients of the loss on a batch, without applying them."""
        name = self.lone_network("ComputeGradients")
        network = self.m.by_name[name]
        self.follow_schedules()
        with self.computing():
            self.draw_noise()
            rows = self.rows(self.scaled(batch))
            if not rows_of.count(rows):  # a short fragment may hold nothing but resets
                network.gradient[:] = 0
                return Gradients(network.get_gradient(), 0, {}, self.observations.of(batch))
            self.m.record()
            try:
                step = lone_step(self.update, self.m, rows, self.cfg)
                self._backward(step, (name,))
                figures = _figures(step)
            finally:
                self.m.stop()
        told = result_of(batch.steps, [figures], [True], self.array)
        return Gradients(
            network.get_gradient(), batch.steps, told.stats, self.observations.of(batch)
        )

    def apply_gradients(self, gradients: Gradients) -> TrainStats:
        """One optimiser step with gradients computed elsewhere."""
        name = self.lone_network("ApplyGradients")
        network = self.m.by_name[name]
        self.follow_schedules()
        network.vector(gradients.values, network.gradient)
        size = self._shorten(name)
        if math.isfinite(size):
            self._step(name)
        (made,) = self.skips.see([size])
        self.observations.count_those_of(gradients)
        self.version += 1
        self.updates += 1
        self.trained += gradients.steps
        result = TrainStats(gradients.steps, gradients.stats if made else {})
        return self.with_settings(self.skips.tell(result))

    def copy_to_target(self, name: str, part: float) -> None:
        """Move a target towards its network, by this part of the way."""
        follower, leader = self.m.targets[name], self.m.by_name[name]
        target, network = follower.parameters, leader.parameters
        if follower.normalizer is not None and leader.normalizer is not None:
            follower.normalizer.set(leader.normalizer.moments)  # there is no half of it
        if part == 1.0:
            target[:] = network
        else:
            target += np.float32(part) * (network - target)

    def _backward(self, step: Step, names: tuple[str, ...]) -> float:
        """Leave the gradients of a loss in the networks that it trains; the loss."""
        loss = _loss(step)
        for name, network in self.m.by_name.items():
            network.begin(name in names)
        self.m.tape.backward(loss)
        for name in names:
            self.m.by_name[name].end()
        return float(loss.value)

    def _shorten(self, name: str) -> float:
        """Shorten the gradient of a network, if it is too long; the length that it had."""
        gradient, most = self.m.by_name[name].gradient, self.cfg.grad_clip_value
        clip = self.modules.optimisers.get(name, _USUAL).clip
        clip = self.cfg.grad_clip if clip is None else clip
        if most is None:
            return clip_norm(gradient, clip)
        length = clip_norm(gradient, None)
        np.clip(gradient, np.float32(-most), np.float32(most), out=gradient)
        clip_norm(gradient, clip)
        return length

    def set_rate(self, name: str, rate: float) -> None:
        """Give a network's optimiser another learning rate."""
        self.optimisers[name].lr = rate

    def _step(self, name: str) -> None:
        optimiser = self.optimisers[name]
        if self._falls and self.modules.optimisers.get(name, _USUAL).lr is None:
            optimiser.lr = self.config.learning_rate(optimiser.steps)
        optimiser.step(self.m.by_name[name].gradient)

    # -- state ---------------------------------------------------------------------------------

    def _new_optimiser(self, name: str) -> Adam:
        lr = self.modules.optimisers.get(name, _USUAL).lr
        return Adam(
            self.m.by_name[name].parameters,
            self.cfg.lr if lr is None else lr,
            eps=self.config.adam_epsilon,
            amsgrad=self.config.amsgrad,
        )

    def optimiser_state(self, name: str) -> dict[str, dict[str, Array]]:
        """What the optimiser of a network remembers of each parameter; nothing before a step."""
        optimiser, network = self.optimisers[name], self.m.by_name[name]
        if not optimiser.steps:
            return {}
        step = np.array(optimiser.steps, np.float32)
        parts = {key: network.named(v.copy()) for key, v in _averages(optimiser).items()}
        return {
            weight: {"step": step.copy(), **{key: arrays[weight] for key, arrays in parts.items()}}
            for weight in network.weights
        }

    def set_optimiser_state(self, name: str, slots: Mapping[str, Mapping[str, Array]]) -> None:
        """Restore that."""
        network = self.m.by_name[name]
        optimiser = self.optimisers[name] = self._new_optimiser(name)
        if slots:
            optimiser.steps = int(next(iter(slots.values()))["step"])
            for key, vector in _averages(optimiser).items():
                own = network.named(vector)  # at first 0, as for weights no gradient has reached
                # saved without `amsgrad`: the largest squares are those of late
                known = key if all(key in slot for slot in slots.values()) else "exp_avg_sq"
                own |= {weight: slots[weight][known] for weight in slots}
                network.vector(own, vector)


_USUAL = Optimiser()


def _loss(step: Step) -> Any:
    return step.loss() if callable(step.loss) else step.loss


def _figures(step: Step) -> Figures:
    """What a step tells, as plain numbers and arrays."""
    return {
        n: figure.value if isinstance(figure, Var) else figure for n, figure in step.stats.items()
    }


def _averages(optimiser: Adam) -> dict[str, Any]:
    """What the optimiser remembers, under torch's names."""
    found = {"exp_avg": optimiser.mean, "exp_avg_sq": optimiser.square}
    return found if optimiser.largest is None else {**found, "max_exp_avg_sq": optimiser.largest}
