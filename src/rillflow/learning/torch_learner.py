"""The learner in torch: any network, on the processor or on one or several devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from rillflow.errors import RunError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning import rows as rows_of
from rillflow.learning import torch_adam
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.device_clock import clock_of
from rillflow.learning.device_errors import LearningErrors
from rillflow.learning.devices import learner_devices, shares
from rillflow.learning.figures import Figures, result_of
from rillflow.learning.learner_base import LearnerBase
from rillflow.learning.results import Gradients, TrainStats
from rillflow.learning.torch_batches import on_device, tensor_of
from rillflow.learning.torch_graphs import UpdateGraphs, may_be_recorded
from rillflow.learning.torch_modules import TorchModules, resting
from rillflow.learning.torch_on_device import (
    DeviceRates,
    fetched_together,
    let_be_fast,
    sent_together,
    set_precision,
)
from rillflow.learning.torch_parts import (
    buffers_of_targets,
    detached,
    joined,
    leave_gradients,
    parameters_of_targets,
    parts_of,
)
from rillflow.learning.torch_recording import note_turn
from rillflow.learning.torch_repeats import RepeatedUpdates, recorded_step
from rillflow.learning.update import Rows, Step, lone_step, steps_of
from rillflow.policies.modules import Optimiser
from rillflow.policies.spec import PolicySpec


class TorchLearner(LearnerBase):
    """Owns the networks that are being trained.

    Args:
        spec: the policy that acts.
        config: the settings, which know their algorithm.
        seed: of the first weights, of the minibatches and of what networks draw.
        devices: where it computes; by default what `config.num_gpus` asks for. On several, each
            (mini)batch is split over copies of the networks and their gradients are averaged by
            rows. A loss that is a mean over rows then gives what one device gives, up to rounding.
    """

    m: TorchModules

    def __init__(
        self,
        spec: PolicySpec,
        config: AlgorithmConfig,
        seed: int,
        devices: Sequence[str] | None = None,
    ) -> None:
        super().__init__(spec, config, seed)
        torch.set_num_threads(config.num_learner_threads)
        names = learner_devices(config.num_gpus) if devices is None else tuple(devices)
        self.copies = [TorchModules(self.modules, seed, device) for device in names]
        """the networks, and their copies on further devices"""
        self.m, *self.others = self.copies
        for copy in self.copies:
            copy.draw_from(self.rng)
            if config.compile:
                copy.compile()
        self.device = torch.device(names[0])
        self.looks = self.device.type == "cpu"
        """whether each step looks at its numbers: to look at those of a GPU is to wait for it"""
        if not self.looks:
            let_be_fast()
        for copy in self.copies:
            set_precision([net.network for _, net in copy.all()], config.learner_precision)
        self.parameters = {
            name: dict(net.network.named_parameters()) for name, net in self.m.by_name.items()
        }
        self.lists = [
            {name: list(net.network.parameters()) for name, net in copy.by_name.items()}
            for copy in self.copies
        ]
        self.optimisers = {name: self._new_optimiser(name) for name in self.m.by_name}
        self.averages: dict[str, tuple[list[Any], ...]] = {}
        """what each optimiser remembers, slot by slot, once it has made a step"""
        self.rates = DeviceRates(self.device)
        """on a device: learning rates, and steps so far, which nobody has to ask it for"""
        self.clock = clock_of(self.device)
        self.graphs: RepeatedUpdates | UpdateGraphs | None = None
        """what repeats updates that are recorded; None: each is made as it is written"""
        if may_be_recorded(self):
            self.graphs = RepeatedUpdates(self) if self.looks else UpdateGraphs(self)
            self.m.compares = False
        self._followers = [parameters_of_targets(copy) for copy in self.copies]
        self._buffers = [buffers_of_targets(copy) for copy in self.copies]

    def _new_optimiser(self, name: str) -> torch.optim.Adam:
        own = self.modules.optimisers.get(name, _USUAL).lr
        lr = self.cfg.lr if own is None else own
        return torch_adam.new_adam(self.lists[0][name], self.config, lr)

    # -- learning ------------------------------------------------------------------------------

    def computing(self) -> AbstractContextManager[Any]:
        """Where an error of the device says what to do."""
        return LearningErrors(self.device, self.config)

    def rows(self, batch: SampleBatch) -> Rows:
        """What the algorithm's `prepare` makes of a batch, on the first device."""
        tensors = self.clock.copied(on_device(batch, self.device))
        with torch.no_grad():
            rows: Rows = self.prepare(self.m, tensors, self.cfg)
        return rows

    def spread(self, rows: Rows) -> list[Rows]:
        """The same rows on each device; where they are there already, the same tensors."""
        return [
            rows
            if copy is self.m
            else Rows({name: column.to(self._device(copy)) for name, column in rows.items()})
            for copy in self.copies
        ]

    def learn_from(self, everywhere: Any, chosen: Any) -> tuple[Figures, Any]:
        """All steps of one update; its figures, and how large losses and gradients were."""
        if self.graphs is not None:
            return self.graphs.learn_from(everywhere[0], chosen)
        return self.update_once(list(parts_of(everywhere, chosen)))

    def update_once(self, parts: list[Rows]) -> tuple[Figures, Any]:
        """The same, of rows of which each device has a part."""
        share = shares([rows_of.weight(part) for part in parts]) if len(parts) > 1 else [1.0]
        figures: Figures = {}
        size: Any = 0.0
        updates = [
            steps_of(self.update, m, part, self.cfg)
            for m, part in zip(self.copies, parts, strict=False)
        ]
        for steps in zip(*updates, strict=True):
            if not self.taken(steps[0]):
                continue
            figures |= joined([detached(step.stats) for step in steps], share)
            if self.too_far(figures):
                break
            names = self.trained_by(steps[0].trains)
            size = size + self._backward(steps, share, names)
            size = self._step(names, size)
        return figures, size

    def taken(self, step: Step) -> bool:
        """Whether it is the turn of a step that is not taken in every update."""
        due = super().taken(step)
        if step.every > 1:
            if self.rates.recording:
                raise RuntimeError("a step is taken only once in several updates")
            note_turn(step.every, due)
        return due

    def look_at(self, rows: Rows) -> tuple[Figures, float]:
        """The figures of one update and the sum of its losses, without a step."""
        figures: Figures = {}
        size = 0.0
        with torch.no_grad():
            for step in steps_of(self.update, self.m, rows, self.cfg):
                size += float(_loss(step))
                figures |= detached(step.stats)
        return figures, size

    def compute_gradients(self, batch: SampleBatch) -> Gradients:
        """Gradients of the loss on a batch, without applying them."""
        name = self.lone_network("ComputeGradients")
        self.follow_schedules()
        self.draw_noise()
        rows = self.rows(self.scaled(batch))
        if not rows_of.count(rows):  # a short fragment may hold nothing but resets
            shapes = {key: tuple(p.shape) for key, p in self.parameters[name].items()}
            zeros = {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}
            return Gradients(zeros, 0, {}, self.observations.of(batch))
        parts = list(parts_of(self.spread(rows), None))
        share = shares([rows_of.weight(part) for part in parts])
        steps = [
            lone_step(self.update, m, part, self.cfg)
            for m, part in zip(self.copies, parts, strict=False)
        ]
        self._backward(steps, share, (name,))
        values = {
            key: np.array(parameter.grad.cpu().numpy())
            for key, parameter in self.parameters[name].items()
            if parameter.grad is not None
        }
        figures = joined([detached(step.stats) for step in steps], share)
        told = result_of(batch.steps, [figures], [True], self.array)
        return Gradients(values, batch.steps, told.stats, self.observations.of(batch))

    def apply_gradients(self, gradients: Gradients) -> TrainStats:
        """One optimiser step with gradients computed elsewhere."""
        name = self.lone_network("ApplyGradients")
        self.follow_schedules()
        for key, parameter in self.parameters[name].items():
            value = gradients.values.get(key)
            parameter.grad = None if value is None else self._tensor(np.array(value))
        (made,) = self.skips.see([float(self._step((name,), 0.0))])
        self.observations.count_those_of(gradients)
        self.version += 1
        self.updates += 1
        self.trained += gradients.steps
        result = TrainStats(gradients.steps, gradients.stats if made else {})
        return self.with_settings(self.skips.tell(result))

    def copy_to_target(self, name: str, part: float) -> None:
        """Move a target towards its network, by this part of the way."""
        for copy, followers, buffers in zip(
            self.copies, self._followers, self._buffers, strict=True
        ):
            if part == 1.0:
                network = copy.by_name[name].network
                copy.targets[name].network.load_state_dict(network.state_dict())
            else:
                own, to = followers[name]
                torch._foreach_lerp_(own, to, part)
                for buffer, value in buffers[name]:
                    buffer.copy_(value)  # there is no part of the way between statistics

    def _backward(
        self, steps: Sequence[Step], share: Sequence[float], names: tuple[str, ...]
    ) -> Any:
        """Leave the gradients of a loss at the parameters that it trains; the loss."""
        losses = [_loss(step) for step in steps]
        if not getattr(losses[0], "requires_grad", False):
            raise RunError(
                f"a loss is computed from what the modules give, found {type(losses[0]).__name__}, "
                "which does not depend on them: there is nothing to learn from it."
            )
        trained = [p for lists in self.lists[: len(losses)] for name in names for p in lists[name]]
        for parameter in trained:
            parameter.grad = None
        with resting(net for copy in self.copies for net in copy.others(names)):
            return leave_gradients(losses, share, trained, self.device)

    def _step(self, names: tuple[str, ...], size: Any) -> Any:
        """A step of the optimisers, if loss and gradient are finite; the size of both together."""
        for name in names:
            size = size + self._clip(name)
        if recorded_step(self, names, size):
            return size
        if self.looks:
            size = float(size)
            if not math.isfinite(size):
                return size
        for name in names:
            gradients = [parameter.grad for parameter in self.lists[0][name]]
            if self.looks:
                self.step_by(name, gradients)
            else:  # the optimiser itself leaves the step out, on the device
                skip = size.isfinite().logical_not().float().reshape(())
                self._step_by(name, gradients, self.rate_there(name), skip)
            for copy in self.copies[1:]:
                copy.by_name[name].network.load_state_dict(
                    self.m.by_name[name].network.state_dict()
                )
        return size

    def rate_there(self, name: str) -> Any:
        """The learning rate of an optimiser's next step, on the device; that step counts."""
        optimiser = self.optimisers[name]
        if not self.rates.recording:
            self._set_rate(name, optimiser)
        return self.rates.next(name, optimiser.param_groups[0]["lr"])

    def step_by(self, name: str, gradients: list[Any]) -> None:
        """A step of a network's optimiser by these gradients, on the processor."""
        optimiser = self.optimisers[name]
        self._set_rate(name, optimiser)
        self._step_by(name, gradients, optimiser.param_groups[0]["lr"])

    def _step_by(
        self, name: str, gradients: list[Any], rate: Any, skip: torch.Tensor | None = None
    ) -> None:
        """As `optimiser.step()`, in a third of the time around it; none where `skip` is not 0."""
        optimiser, parameters = self.optimisers[name], self.lists[0][name]
        slots = self.averages.get(name)
        if slots is None or any(gradient is None for gradient in gradients):
            self.averages.pop(name, None)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            slots = torch_adam.first_step(optimiser, parameters, self.config.amsgrad, skip)
            if slots is not None:
                self.averages[name] = slots
            return
        torch_adam.adam_step(optimiser, parameters, gradients, slots, rate, skip)

    def normalizers(self) -> list[Any]:
        """Of all networks that see observations, on every device, that of the acting one first."""
        others = (network for copy in self.copies[1:] for network in copy.by_name.values())
        more = (network.normalizer for network in others)
        return [*super().normalizers(), *(one for one in more if one is not None)]

    def set_rate(self, name: str, rate: float) -> None:
        """Give a network's optimiser another learning rate."""
        for group in self.optimisers[name].param_groups:
            group["lr"] = rate

    def _set_rate(self, name: str, optimiser: torch.optim.Adam) -> None:
        usual = self.modules.optimisers.get(name, _USUAL).lr is None
        if self.config.final_lr is not None and usual:
            steps = _steps(optimiser) if self.looks else self.rates.made.get(name, 0)
            self.set_rate(name, self.config.learning_rate(steps))

    def _clip(self, name: str) -> torch.Tensor:
        """Shorten the gradient of a network, if it is too long; the length that it had."""
        clip = self.modules.optimisers.get(name, _USUAL).clip
        clip = self.cfg.grad_clip if clip is None else clip
        shorten = clip is not None and math.isfinite(clip)
        parameters, most = self.lists[0][name], self.cfg.grad_clip_value
        return torch_adam.shortened(parameters, clip if shorten else None, most, looks=self.looks)

    def fetched(self, figures: list[Figures], sizes: list[Any]) -> tuple[list[Figures], list[Any]]:
        """What updates have told, as plain numbers; of a device all is fetched together."""
        if self.looks:
            return figures, [float(size) for size in sizes]
        found, numbers = fetched_together(figures, sizes)
        self.rates.forget_left_out(numbers)
        return found, numbers

    def minibatches(self, rows: Rows, size: int | None) -> Iterator[Any]:
        """The examples of each update of one pass; on one device their numbers are there."""
        chosen = super().minibatches(rows, size)
        return chosen if self.looks or self.others else sent_together(chosen, self.device)

    def array(self, figure: Any) -> Array:
        """A figure as an array."""
        return np.asarray(figure.detach().cpu() if isinstance(figure, torch.Tensor) else figure)

    def _tensor(self, column: Array) -> torch.Tensor:
        """On the learner's device; over the same memory, if it can be and nobody else's is."""
        return tensor_of(column).to(self.device)

    def _device(self, copy: TorchModules) -> torch.device:
        device: torch.device = copy.by_name[self.modules.acts].device
        return device

    # -- state ---------------------------------------------------------------------------------

    def get_weights(self) -> Mapping[str, Array]:
        """A snapshot of the acting network, which later training does not change."""
        with self.computing():
            return super().get_weights()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Let the acting network go on from these, on all devices."""
        for copy in self.copies:
            copy.by_name[self.modules.acts].set_weights(dict(weights))

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` gave, of this learner or of one in the other framework."""
        super().set_state(state)
        for copy in self.copies[1:]:
            for name, net in copy.by_name.items():
                net.network.load_state_dict(self.m.by_name[name].network.state_dict())
            for name, net in copy.targets.items():
                net.network.load_state_dict(self.m.targets[name].network.state_dict())

    def optimiser_state(self, name: str) -> dict[str, dict[str, Array]]:
        """What the optimiser of a network remembers of each parameter; nothing before a step."""
        with self.computing():
            return torch_adam.remembered(self.optimisers[name], self.parameters[name])

    def set_optimiser_state(self, name: str, slots: Mapping[str, Mapping[str, Array]]) -> None:
        """Restore that."""
        torch_adam.remember(
            self.optimisers[name], self.parameters[name], slots, amsgrad=self.config.amsgrad
        )
        self.averages.pop(name, None)
        if self.graphs is not None:
            self.graphs.forget()  # they go on from what it remembered
        self.rates.made[name] = max((int(slot["step"]) for slot in slots.values()), default=0)


_USUAL = Optimiser()


def _loss(step: Step) -> Any:
    return step.loss() if callable(step.loss) else step.loss


def _steps(optimiser: torch.optim.Adam) -> int:
    """Optimiser steps so far; the optimiser counts them, and they are saved with it."""
    slots = next(iter(optimiser.state.values()), None)
    return 0 if slots is None else int(slots["step"])
