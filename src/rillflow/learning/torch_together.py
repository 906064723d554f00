"""Learners in several processes that average their gradients by `torch.distributed`."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from rillflow.errors import BuildError, RunError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning import rows as rows_of
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.devices import portions, shares
from rillflow.learning.figures import Figures
from rillflow.learning.learner_group import PATIENCE, LearnerGroup
from rillflow.learning.results import Gradients, TrainStats
from rillflow.learning.torch_learner import TorchLearner
from rillflow.learning.torch_modules import Policy
from rillflow.learning.torch_parts import detached
from rillflow.learning.update import Rows, steps_of
from rillflow.policies.spec import PolicySpec

_SET_FROM_OUTSIDE = ("version", "trained", "updates", "since_target", "target_freq")
"""what others may have changed of a learner between two batches"""


class Member(TorchLearner):
    """One of several learners, on one device: it learns from its part of each minibatch."""

    rank: int
    size: int

    def __init__(
        self, spec: PolicySpec, config: AlgorithmConfig, seed: int, rank: int, size: int
    ) -> None:
        device = f"cuda:{rank}" if config.num_gpus else "cpu"
        if config.num_gpus:
            torch.cuda.set_device(rank)
        super().__init__(spec, config, seed, (device,))
        self.rank, self.size = rank, size
        self.graphs = None
        self._share = 1.0

    def learn_from(self, everywhere: Any, chosen: Any) -> tuple[Figures, Any]:
        """All steps of one update, from this learner's part of the rows."""
        rows = everywhere[0]
        number = rows_of.count(rows) if chosen is None else len(chosen)
        portion = list(portions(number, self.size))
        if len(portion) < self.size:  # fewer rows than learners: each learns from all of them
            portion = [slice(0, number)] * self.size
        counts = [part.stop - part.start for part in portion]
        if "valid" in rows:
            valid = Rows(valid=rows["valid"])
            counts = [rows_of.weight(_part(valid, chosen, part)) for part in portion]
        self._share = shares(counts)[self.rank]
        return self.update_once([_part(rows, chosen, portion[self.rank])])

    def update_once(self, parts: list[Rows]) -> tuple[Figures, Any]:
        """The steps; what they tell, and how large losses and gradients were, of all learners."""
        figures: Figures = {}
        size: Any = 0.0
        for step in steps_of(self.update, self.m, parts[0], self.cfg):
            if not self.taken(step):
                continue
            names = self.trained_by(step.trains)
            loss = self._backward([step], [1.0], names)
            loss, told = self._averaged(names, loss, detached(step.stats))
            figures |= told
            if self.too_far(figures):
                break
            size = self._step(names, size + loss)
        return figures, size

    def _averaged(self, names: tuple[str, ...], loss: Any, told: Figures) -> tuple[Any, Figures]:
        """Gradients, loss and figures of all learners, each by the rows that it had."""
        gradients = [p.grad for name in names for p in self.lists[0][name] if p.grad is not None]
        single = [n for n, value in told.items() if torch.as_tensor(value).ndim == 0]
        numbers = [torch.as_tensor(value, device=self.device) for value in
                   (loss, *[told[name] for name in single])]  # fmt: skip
        flat = torch.cat([*[g.reshape(-1) for g in gradients],
                          torch.stack([number.float() for number in numbers])])  # fmt: skip
        flat *= self._share
        dist.all_reduce(flat)
        begin = 0
        for gradient in gradients:
            gradient.copy_(flat[begin : begin + gradient.numel()].view_as(gradient))
            begin += gradient.numel()
        loss, *values = flat[begin:].unbind()
        figures: Figures = dict(zip(single, values, strict=True))
        rows = {name: value for name, value in told.items() if name not in single}
        if rows:
            figures |= self._gathered(rows)
        return loss, figures

    def _gathered(self, rows: Figures) -> Figures:
        """Figures of rows, of all learners one after the other."""
        own = {name: self.array(value) for name, value in rows.items()}
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, own)
        return {
            name: torch.cat([torch.from_numpy(told[name].copy()) for told in found]) for name in own
        }

    def follow(self, known: Mapping[str, Any]) -> None:
        """What others have changed of the first learner holds here too."""
        for name, value in known.items():
            setattr(self, name, value)


class FirstLearner(Member):
    """The learner that all others see: it has the others learn what it learns."""

    def __init__(self, spec: PolicySpec, config: AlgorithmConfig, seed: int) -> None:
        super().__init__(spec, config, seed, 0, config.num_learners)
        self.group: LearnerGroup | None = None
        """the others, once there is something to learn"""
        drawing = [name for name, net in self.m.all() if type(net) is not Policy]
        if drawing:
            raise BuildError(
                f"num_learners={config.num_learners} is for updates that draw no random numbers, "
                f"as those of ppo, impala, appo, a2c and dqn; {config.algorithm.name} has "
                f"{', '.join(drawing)}: leave num_learners out."
            )

    def _others(self) -> LearnerGroup:
        if self.group is None:
            self.group = self._started()
        return self.group

    def _started(self) -> LearnerGroup:
        if dist.is_initialized():
            raise RunError(
                "num_learners needs torch.distributed for itself, and this process has a group "
                "already, such as that of another run: stop that one, or learn with num_learners=1."
            )
        limit = self.config.worker_timeout or PATIENCE
        store = _store(0, self.size, limit)
        job = {"spec": self.spec, "config": self.config, "seed": 0, "size": self.size,
               "port": store.port, "limit": limit}  # fmt: skip
        group = LearnerGroup(job, self.size, limit)
        cuda = bool(self.config.num_gpus)
        group.together(lambda: _joined(store, 0, self.size, limit, cuda=cuda))
        group.tell("set_state", super().get_state())
        return group

    def train(
        self, batch: SampleBatch, epochs: int = 1, minibatch: int | None = None
    ) -> TrainStats:
        """`epochs` passes over the batch, each learner with its part of every minibatch."""
        group = self._others()
        group.tell("follow", {name: getattr(self, name) for name in _SET_FROM_OUTSIDE})
        group.tell("train", batch, epochs, minibatch)
        train = super().train
        return group.together(lambda: train(batch, epochs, minibatch))

    def assess(self, batch: SampleBatch) -> TrainStats:
        """The figures of an update on a batch, from the first learner alone."""
        if self.noisy:
            self._others().tell("draw_noise")
        return super().assess(batch)

    def compute_gradients(self, batch: SampleBatch) -> Gradients:
        """Refused: gradients that travel are made by workers."""
        raise self._alone()

    def apply_gradients(self, gradients: Gradients) -> TrainStats:
        """Refused: there is nothing to divide."""
        raise self._alone()

    def _alone(self) -> BuildError:
        return BuildError(
            f"num_learners={self.size} divides minibatches that are learned where they are: with "
            "TrainOneStep or a LearnerThread. Gradients that workers compute need one learner: "
            "leave num_learners out."
        )

    # -- what changes one learner changes all --------------------------------------------------

    def _too(self, method: str, *arguments: Any) -> None:
        if self.group is not None:
            self.group.tell(method, *arguments)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` gave, in all learners."""
        super().set_state(state)
        self._too("set_state", state)

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Let the acting network go on from these, in all learners."""
        super().set_weights(weights)
        self._too("set_weights", dict(weights))

    def set_target_weights(self, weights: Mapping[str, Array]) -> None:
        """Make them the acting network's target's, in all learners."""
        super().set_target_weights(weights)
        self._too("set_target_weights", dict(weights))

    def begin_with(self, weights: Mapping[str, Array]) -> None:
        """Let training begin with the acting network of another run, in all learners."""
        super().begin_with(weights)
        self._too("begin_with", dict(weights))

    def update_target(self) -> None:
        """Make the hard targets equal to their networks, in all learners."""
        super().update_target()
        if not self._counting:
            self._too("update_target")

    _counting = False

    def _count_for_target(self, steps: int) -> None:
        self._counting = True  # the others count for themselves
        super()._count_for_target(steps)
        self._counting = False

    def close(self) -> None:
        """End the other learners."""
        if self.group is not None:
            self.group.close()
            self.group = None
            if dist.is_initialized():
                dist.destroy_process_group()


class Beside(Member):
    """A learner that is told what to do."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        spec, config, seed = job["spec"], job["config"], job["seed"]
        super().__init__(spec, config, seed, job["rank"], job["size"])
        self.port, self.limit = job["port"], job["limit"]

    def join(self) -> None:
        """Wait for all others."""
        store = _store(self.port, self.size, self.limit)
        _joined(store, self.rank, self.size, self.limit, cuda=bool(self.config.num_gpus))


def member(**job: Any) -> Beside:
    """A learner beside the first one."""
    return Beside(job)


def _store(port: int, size: int, limit: float) -> Any:
    """Where learners find each other; the first one, who knows no port yet, keeps it."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", port, size, is_master=not port, wait_for_workers=False,
        timeout=datetime.timedelta(seconds=limit),
    )  # fmt: skip


def _joined(store: Any, rank: int, size: int, limit: float, *, cuda: bool) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all of them are on this machine
    if cuda:
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")  # an error, not the process's end
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo", store=store, rank=rank, world_size=size,
        timeout=datetime.timedelta(seconds=limit),
    )  # fmt: skip


def _part(rows: Rows, chosen: Any, portion: slice) -> Rows:
    """A portion of the chosen rows."""
    if chosen is None:
        return rows_of.take(rows, portion)
    order = chosen[portion]
    if not isinstance(order, torch.Tensor):
        order = torch.from_numpy(order)
    return rows_of.take(rows, order)
