"""What both learners share: passes over a batch, targets, results with their weights, states."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from rillflow.errors import BuildError, RunError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.learning import rows as rows_of
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.device_clock import DeviceClock
from rillflow.learning.figures import Figures, result_of
from rillflow.learning.observation_statistics import ObservationStatistics
from rillflow.learning.results import Gradients, Learned, RowStats, TrainStats
from rillflow.learning.reward_scale import RewardScale
from rillflow.learning.saved_states import check_same_names, from_first_edition
from rillflow.learning.schedules import Scheduled
from rillflow.learning.skips import Skips
from rillflow.learning.update import Names, Rows, Step
from rillflow.policies.modules import Optimiser
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Hard, Polyak

KL_PATIENCE = 1.5
"""times `target_kl` that a policy may have moved before the passes over a batch end"""


class LearnerBase(ABC):
    """Owns the networks that are being trained. Everything random draws from its own generator.

    Args:
        spec: the policy that acts.
        config: the settings, which know their algorithm.
        seed: of the first weights, of the minibatches and of what networks draw.
    """

    m: Any
    """the networks, as an algorithm's `update` sees them"""
    others: Sequence[Any] = ()
    """their copies on further devices"""

    def __init__(self, spec: PolicySpec, config: AlgorithmConfig, seed: int) -> None:
        self.config = config
        self.spec = spec
        self._scheduled = Scheduled(config)
        self.trained = 0
        """rows learned from: by them schedules know how far the run is"""
        self.cfg = self._scheduled.at(config.steps_behind(0))
        """the settings of the moment, in which every schedule is a number"""
        self.modules = self.cfg.modules(spec)
        self.update: Callable[..., Any] = config.update or config.algorithm.update
        self.prepare: Callable[..., Any] = config.prepare or config.algorithm.prepare
        self.skips = Skips(config)
        self.reward_scale: RewardScale | None = None
        if config.scale_rewards is not False:
            self.reward_scale = RewardScale(required=config.scale_rewards is True)
        self.observations = ObservationStatistics(
            spec.normalize_observations, self.normalizers, spec.measured
        )
        self.kl_stops = 0
        """batches whose passes ended: the policy had moved too far"""
        self._moved_too_far = False
        self.target_kl: float | None = getattr(self.cfg, "target_kl", None)
        self.rng = np.random.default_rng(seed)
        self.version = 0
        self.updates = 0
        """batches and minibatches that were learned from"""
        hard = [
            target.every for target in self.modules.targets.values() if isinstance(target, Hard)
        ]
        self.target_freq: int | None = min(hard, default=None)
        """rows trained between two times that hard targets are renewed; None: somebody else, or
        nobody, sees to it"""
        self.since_target = 0
        self.clock = DeviceClock(None)
        """on a device: where the time of a batch goes"""
        self.noisy = any(getattr(one, "noisy", 0) for one in self.modules.networks.values())
        """whether a network has layers whose noise is drawn for each update"""

    # -- learning ------------------------------------------------------------------------------

    def train(
        self, batch: SampleBatch, epochs: int = 1, minibatch: int | None = None
    ) -> TrainStats:
        """`epochs` passes over the batch in shuffled minibatches; None: the whole batch at once."""
        figures: list[Figures] = []
        sizes: list[Any] = []
        self.follow_schedules()
        with self.computing():
            self.clock.begin()
            self.draw_noise()
            rows = self.rows(self.scaled(batch))
            everywhere = self.spread(rows)
            for chosen in self._minibatches(rows, epochs, minibatch):
                if figures:  # each update has its own
                    self.draw_noise()
                told, size = self.learn_from(everywhere, chosen)
                figures.append(told)
                sizes.append(size)
                if self._moved_too_far:
                    break
                self.updates += 1
                self._follow()
            self.clock.launched()
            figures, sizes = self.fetched(figures, sizes)
            self.clock.answered()
        made = self.skips.see(sizes)
        self.observations.count([batch])
        self.version += 1
        steps = batch.steps
        self.trained += steps
        self._count_for_target(steps)
        result = self.skips.tell(result_of(steps, figures, made, self.array))
        return self.with_settings(result)

    def _minibatches(self, rows: Rows, epochs: int, size: int | None) -> Iterator[Array | None]:
        """The examples of each update, pass by pass."""
        self._moved_too_far = False
        for _ in range(epochs if rows_of.count(rows) else 0):
            yield from self.minibatches(rows, size)

    def minibatches(self, rows: Rows, size: int | None) -> Iterator[Any]:
        """The examples of each update of one pass."""
        return rows_of.orders(rows, size, self.rng)

    def assess(self, batch: SampleBatch) -> TrainStats:
        """The figures of an update on a batch, without learning from it."""
        with self.computing():
            self.draw_noise()
            told, loss = self.look_at(self.rows(self.scaled(batch, see=False)))
        return result_of(batch.steps, [told], [math.isfinite(loss)], self.array)

    def learn(
        self,
        batch: SampleBatch,
        epochs: int = 1,
        minibatch: int | None = None,
        *,
        with_weights: bool = True,
    ) -> Learned:
        """As `train`, with the weights that it led to, if somebody wants them.

        Without `minibatch` a batch is one update, or as many as the settings say.
        """
        minibatch = self.config.minibatch if minibatch is None else minibatch
        result = self.train(batch, epochs, minibatch)
        rows = result.rows if isinstance(result, RowStats) else {}
        weights = self.get_weights() if with_weights else None
        return Learned(result.steps, result.stats, rows, weights, self.version)

    @abstractmethod
    def compute_gradients(self, batch: SampleBatch) -> Gradients:
        """Gradients of the loss on a batch, without applying them."""

    @abstractmethod
    def apply_gradients(self, gradients: Gradients) -> TrainStats:
        """One optimiser step with gradients computed elsewhere."""

    def draw_noise(self) -> None:
        """Noisy layers have new noise, for one update, the same on all devices."""
        if self.noisy:
            drawn = self.m.draw_noise(self.rng)
            for copy in self.others:
                copy.set_noise(drawn)

    @abstractmethod
    def rows(self, batch: SampleBatch) -> Rows:
        """What the algorithm's `prepare` makes of a batch."""

    @abstractmethod
    def learn_from(self, everywhere: Any, chosen: Array | None) -> tuple[Figures, Any]:
        """All steps of one update; its figures, and how large losses and gradients were."""

    @abstractmethod
    def look_at(self, rows: Rows) -> tuple[Figures, float]:
        """The figures of one update and the sum of its losses, without a step."""

    def spread(self, rows: Rows) -> Any:
        """Rows where they are computed with."""
        return rows

    def computing(self) -> AbstractContextManager[Any]:
        """Around everything that takes time."""
        return nullcontext()

    def fetched(self, figures: list[Figures], sizes: list[Any]) -> tuple[list[Figures], list[Any]]:
        """What updates have told, and the sizes of their steps as plain numbers."""
        return figures, sizes

    def array(self, figure: Any) -> Array:
        """A figure as an array."""
        return np.asarray(figure)

    def too_far(self, figures: Figures) -> bool:
        """Whether the policy has moved too far since the batch was made, as the loss tells it.

        If it has, the step at hand is not made, and no further one on this batch.
        """
        target = self.target_kl
        if target is None:
            return False
        if "kl" not in figures:
            raise RunError(
                "target_kl ends the passes over a batch by the figure `kl` of each Step, as "
                "losses.approximate_kl gives it, and this update tells none: add it to the Step's "
                "stats, or leave target_kl out."
            )
        self._moved_too_far = float(figures["kl"]) > KL_PATIENCE * target
        self.kl_stops += self._moved_too_far
        return self._moved_too_far

    def close(self) -> None:  # noqa: B027 - most have nothing
        """End what was started for learning."""

    # -- schedules, statistics -----------------------------------------------------------------

    def follow_schedules(self) -> None:
        """Take the settings of this moment, of which some may have changed."""
        if not self._scheduled:
            return
        self.cfg = self._scheduled.at(self.config.steps_behind(self.trained))
        self.target_kl = getattr(self.cfg, "target_kl", None)
        self.modules = self.cfg.modules(self.spec)
        for name in self.modules.networks:
            own = self.modules.optimisers.get(name, Optimiser()).lr
            if own is not None or self.config.final_lr is None:
                self.set_rate(name, self.cfg.lr if own is None else own)

    @abstractmethod
    def set_rate(self, name: str, rate: float) -> None:
        """Give a network's optimiser another learning rate."""

    def with_settings(self, result: TrainStats) -> TrainStats:
        """A result with the numbers of schedules, of passes that were ended, of a device's time."""
        more = {**self._scheduled.figures(self.cfg), **self.clock.told}
        if self.target_kl is not None:
            more["kl_stops"] = float(self.kl_stops)
        return dataclasses.replace(result, stats={**result.stats, **more}) if more else result

    def scaled(self, batch: SampleBatch, *, see: bool = True) -> SampleBatch:
        """A batch with rewards as they are learned from, by what this learner has seen of them: in
        a worker that computes gradients, by the worker's own experience."""
        return batch if self.reward_scale is None else self.reward_scale.scaled(batch, see=see)

    def normalizers(self) -> list[Any]:
        """Of all networks that see observations, that of the acting one first."""
        names = sorted(self.m.by_name, key=lambda name: name != self.modules.acts)
        found = (self.m.by_name[name].normalizer for name in names)
        return [one for one in found if one is not None]

    def taken(self, step: Step) -> bool:
        """Whether it is the turn of a step that is not taken in every update."""
        # in the update after which targets that follow as often do so
        return step.every <= 1 or (self.updates + 1) % step.every == 0

    def trained_by(self, names: Names) -> tuple[str, ...]:
        """The networks that a step trains."""
        known = self.modules.networks
        if names is None:
            return tuple(known)
        chosen = (names,) if isinstance(names, str) else tuple(names)
        for name in chosen:
            if name not in known:
                raise RunError(
                    f"a Step trains networks of the algorithm, found {name!r}; there are "
                    f"{', '.join(known)}."
                )
        return chosen

    def lone_network(self, what: str) -> str:
        """The name of the only network, which gradients that travel are of."""
        if not self.modules.alone:
            raise BuildError(
                f"{what} needs an algorithm with one network, but "
                f"{self.config.algorithm.name} has {', '.join(self.modules.networks)}: train it "
                "with TrainOneStep or a LearnerThread."
            )
        acts: str = self.modules.acts
        return acts

    # -- targets -------------------------------------------------------------------------------

    @property
    def target(self) -> Any:
        """The target of the network that acts; None: it has none."""
        return self.m.targets.get(self.modules.acts)

    def update_target(self) -> None:
        """Make the hard targets equal to their networks."""
        for name, kind in self.modules.targets.items():
            if isinstance(kind, Hard):
                self.copy_to_target(name, 1.0)

    def _count_for_target(self, steps: int) -> None:
        self.since_target += steps
        if self.target_freq is not None and self.since_target >= self.target_freq:
            self.since_target %= self.target_freq
            self.update_target()

    def _follow(self) -> None:
        """Let the targets that follow their networks do so."""
        for name, kind in self.modules.targets.items():
            if isinstance(kind, Polyak) and self.updates % kind.every == 0:
                self.copy_to_target(name, kind.tau)

    @abstractmethod
    def copy_to_target(self, name: str, part: float) -> None:
        """Move a target towards its network, by this part of the way."""

    def get_target_weights(self) -> Mapping[str, Array]:
        """A snapshot of the acting network's target."""
        assert self.target is not None, "this algorithm has no target network"
        weights: Mapping[str, Array] = self.target.get_weights()
        return weights

    def set_target_weights(self, weights: Mapping[str, Array]) -> None:
        """Make them the acting network's target's."""
        assert self.target is not None, "this algorithm has no target network"
        self.target.set_weights(weights)

    # -- weights and state ---------------------------------------------------------------------

    @property
    def acting(self) -> Any:
        """The network that acts."""
        return self.m.by_name[self.modules.acts]

    def get_weights(self) -> Mapping[str, Array]:
        """A snapshot of the acting network, which later training does not change."""
        weights: Mapping[str, Array] = self.acting.get_weights()
        return weights

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Let the acting network go on from these."""
        self.acting.set_weights(weights)

    def begin_with(self, weights: Mapping[str, Array]) -> None:
        """Let training begin with the acting network of another run; its target follows it.

        Other networks, as critics beside an actor, begin as they would; what is known of
        observations is known to all of them.
        """
        acts = self.modules.acts
        self.set_weights(weights)
        if acts in self.m.targets:
            self.copy_to_target(acts, 1.0)
        first, *others = self.normalizers() or [None]
        for other in others:
            other.set(first.moments)

    @abstractmethod
    def optimiser_state(self, name: str) -> dict[str, dict[str, Array]]:
        """What the optimiser of a network remembers of each parameter, under torch's names."""

    @abstractmethod
    def set_optimiser_state(self, name: str, slots: Mapping[str, Mapping[str, Array]]) -> None:
        """Restore that."""

    def get_state(self) -> dict[str, Any]:
        """Everything that training goes on from, as plain data; the same of either learner."""
        return {
            "networks": {name: dict(net.get_weights()) for name, net in self.m.by_name.items()},
            "targets": {name: dict(net.get_weights()) for name, net in self.m.targets.items()},
            "optimisers": {name: self.optimiser_state(name) for name in self.m.by_name},
            "rng": self.rng.bit_generator.state,
            "version": self.version,
            "updates": self.updates,
            "since_target": self.since_target,
            "nonfinite_steps": self.skips.count,
            "trained": self.trained,
            "kl_stops": self.kl_stops,
            "rewards": self.reward_scale and self.reward_scale.get_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` gave, of this learner or of one in the other framework."""
        if "networks" not in state:
            state = from_first_edition(state, self.modules.acts)
        for part, nets in (("networks", self.m.by_name), ("targets", self.m.targets)):
            check_same_names(part, state[part], nets)
            for name, net in nets.items():
                net.set_weights(state[part][name])
        for name in self.m.by_name:
            self.set_optimiser_state(name, state["optimisers"][name])
        self.rng.bit_generator.state = state["rng"]
        self.version = int(state["version"])
        self.updates = int(state["updates"])
        self.since_target = int(state["since_target"])
        self.skips.count = int(state.get("nonfinite_steps", 0))
        self.trained = int(state.get("trained", 0))  # version 0.1 had no schedules
        self.kl_stops = int(state.get("kl_stops", 0))
        if self.reward_scale is not None and state.get("rewards") is not None:
            self.reward_scale.set_state(state["rewards"])
