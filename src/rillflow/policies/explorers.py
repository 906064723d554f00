"""How a worker chooses actions: values that an algorithm names, and what they are in a worker.

An `Explorer` is a value without state. In a worker its `begin` gives an `Exploring`, which turns a
policy and observations into actions, the logarithms of their probabilities, and further columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rillflow.experience.batch import ACTION_VALUES, BOOTSTRAP, NEXT_OBS, SampleBatch
from rillflow.policies.action_masks import mask_of, random_choice
from rillflow.policies.actions import Actions
from rillflow.policies.exploration_schedules import Place, Scale, scale_in
from rillflow.policies.sampling import Array, Floats
from rillflow.policies.spec import PolicySpec

Columns = dict[str, Array]


class Explorer(ABC):
    """How actions are chosen."""

    looks_at_starts: ClassVar[bool] = False
    """whether it must be told of each step where episodes begin; else of a fragment's first"""

    def begin(self, spec: PolicySpec, place: Place) -> Exploring:
        """What chooses them in a worker."""
        return Exploring(self, spec, place)

    def start(self, exploring: Exploring, steps: int) -> None:  # noqa: B027 - many need nothing
        """A fragment begins, after so many steps of this worker."""

    @abstractmethod
    def act(
        self, exploring: Exploring, policy: Any, obs: Array, starts: Array
    ) -> tuple[Array, Floats, Columns]:
        """Actions [B, *shape], their log-probabilities [B], and further columns [B, ...].

        Args:
            exploring: what is known in this worker: its place, its rate, its memory.
            policy: what acts, with `act`, `greedy`, `outputs` and `rng`.
            obs: one observation per environment.
            starts: where an episode begins.
        """

    def finish(self, exploring: Exploring, policy: Any, batch: SampleBatch) -> SampleBatch:
        """A whole fragment, with what can be told of it only now."""
        return batch


class Exploring:
    """An explorer at work: what it knows in one worker, and may change."""

    def __init__(self, explorer: Explorer, spec: PolicySpec, place: Place) -> None:
        self.explorer = explorer
        self.spec = spec
        self.place = place
        self.rate = 0.0
        """how often, or how much, it explores in this fragment"""
        self.at_random = False
        """whether this fragment is uniformly random"""
        self.noise: Array | None = None
        """what correlated noise was in the last step, [B, width]"""

    def start(self, steps: int) -> None:
        """A fragment begins, after so many steps of this worker."""
        self.explorer.start(self, steps)

    def act(self, policy: Any, obs: Array, starts: Array) -> tuple[Array, Floats, Columns]:
        """As the explorer says."""
        return self.way()(policy, obs, starts)

    def way(self) -> Callable[..., tuple[Array, Floats, Columns]]:
        """What `act` does in all steps of this fragment."""
        return self._at_random if self.at_random else partial(self.explorer.act, self)

    def _at_random(self, policy: Any, obs: Array, starts: Array) -> tuple[Array, Floats, Columns]:
        drawn = random_actions(self.spec, len(obs), policy.rng, mask_of(self.spec, obs))
        return drawn, _sure(len(obs)), {}

    def finish(self, policy: Any, batch: SampleBatch) -> SampleBatch:
        """A whole fragment, as the explorer gives it."""
        return self.explorer.finish(self, policy, batch)

    def get_state(self) -> dict[str, Any]:
        """What the next actions depend on."""
        return {"noise": self.noise}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.noise = state["noise"]


@dataclass(frozen=True, kw_only=True)
class RandomFirst(Explorer):
    """What begins with steps that are uniformly random."""

    random_first: int = 0
    """steps of all workers together that are uniformly random at first"""

    def start(self, exploring: Exploring, steps: int) -> None:
        """Look whether the first steps are over."""
        exploring.at_random = steps * exploring.place.workers < self.random_first


@dataclass(frozen=True)
class Sampled(RandomFirst):
    """Actions drawn from the policy's own distribution."""

    def act(
        self, exploring: Exploring, policy: Any, obs: Array, starts: Array
    ) -> tuple[Array, Floats, Columns]:
        """As the policy draws them."""
        return *policy.act(obs), {}


@dataclass(frozen=True)
class EpsilonGreedy(Explorer):
    """The best action, or now and then any: for q values."""

    rate: Callable[[Place, int], float]
    """how often it is any, of a worker after so many steps of its own"""
    tells_values: bool = False
    """whether each step says what the worker thought of it: columns `action_values`, `acted_q`, the
    value of the action taken, and `next_best_q`, that of the best one after it"""

    def start(self, exploring: Exploring, steps: int) -> None:
        """The rate of this fragment."""
        exploring.rate = self.rate(exploring.place, steps)

    def act(
        self, exploring: Exploring, policy: Any, obs: Array, starts: Array
    ) -> tuple[Array, Floats, Columns]:
        """The best action, or now and then any."""
        if not self.tells_values:
            return *policy.act(obs, exploring.rate), {}
        actions, logp, values = policy.act_and_value(obs, exploring.rate)
        return actions, logp, {ACTION_VALUES: values}

    def finish(self, exploring: Exploring, policy: Any, batch: SampleBatch) -> SampleBatch:
        """With the values of the action taken and of the best one after it, if values are told.

        What came after is known from acting on the next observation. The policy is asked for those
        that nobody acted upon: the ones behind the last step, and behind a step that was truncated.
        """
        if ACTION_VALUES not in batch:  # they are not told, or by a policy with memory
            return batch
        unseen, cut = batch[BOOTSTRAP], np.zeros(batch.shape, bool)
        if NEXT_OBS in batch:
            cut = batch["truncated"] & ~batch["terminated"]
            unseen = np.concatenate([unseen, batch.at(NEXT_OBS, cut)])
        values = policy.action_values(unseen).max(1)
        q, lanes = batch[ACTION_VALUES], batch.shape[1]
        acted = np.take_along_axis(q, batch["actions"][..., None], 2)[..., 0]
        following = np.concatenate([q[1:].max(2), values[None, :lanes]])
        following[cut] = values[lanes:]
        return batch.with_columns(acted_q=acted, next_best_q=following)


@dataclass(frozen=True)
class Gaussian(RandomFirst):
    """The policy's best action and independent noise, within the bounds (Fujimoto et al. 2018)."""

    scale: Scale = 0.1
    """standard deviation, where the bounds are -1 and 1"""

    def act(
        self, exploring: Exploring, policy: Any, obs: Array, starts: Array
    ) -> tuple[Array, Floats, Columns]:
        """The best action and noise."""
        best = policy.greedy(obs)
        noise = policy.rng.standard_normal((len(obs), exploring.spec.actions.width), np.float32)
        scale = scale_in(self.scale, exploring.place)
        return within(exploring.spec, best, scale * noise), _sure(len(obs)), {}


@dataclass(frozen=True)
class OrnsteinUhlenbeck(RandomFirst):
    """The policy's best action and noise that drifts, within the bounds (Lillicrap et al. 2015).

    The noise of an environment begins anew with each episode.
    """

    looks_at_starts: ClassVar[bool] = True

    scale: Scale = 0.2
    """how much it is pushed in a step, where the bounds are -1 and 1"""
    theta: float = 0.15
    """how much of it is taken back in a step"""

    def act(
        self, exploring: Exploring, policy: Any, obs: Array, starts: Array
    ) -> tuple[Array, Floats, Columns]:
        """The best action and noise."""
        shape = (len(obs), exploring.spec.actions.width)
        before = np.zeros(shape, np.float32) if exploring.noise is None else exploring.noise
        before = np.where(starts[:, None], np.float32(0), before)
        scale = scale_in(self.scale, exploring.place)
        push = np.float32(scale) * policy.rng.standard_normal(shape, np.float32)
        exploring.noise = before * np.float32(1 - self.theta) + push
        return within(exploring.spec, policy.greedy(obs), exploring.noise), _sure(len(obs)), {}


def random_actions(
    spec: PolicySpec, count: int, rng: np.random.Generator, mask: Array | None = None
) -> Array:
    """Uniformly random actions [count, *shape], of those that a mask allows."""
    actions = spec.actions
    if actions.kind == "continuous":
        return _random_numbers(spec, count, rng).reshape(count, *actions.shape)
    chosen = _random_choices(actions, count, rng, mask)
    if actions.kind != "mixed":
        return chosen.reshape(count, *actions.shape)
    return np.concatenate([chosen, _random_numbers(spec, count, rng)], 1, dtype=np.float32)


def _random_numbers(spec: PolicySpec, count: int, rng: np.random.Generator) -> Floats:
    """The continuous numbers of actions [count, numbers], between their bounds."""
    middle, half = (side[-spec.actions.numbers :] for side in spec.action_scale)
    unit = rng.uniform(-1, 1, (count, spec.actions.numbers)).astype(np.float32)
    return middle + half * unit


def _random_choices(
    actions: Actions, count: int, rng: np.random.Generator, mask: Array | None
) -> Array:
    """Indices [count, parts] of what there is to choose; a mask may say more than that."""
    sizes = actions.choices
    if mask is not None:
        parts = np.split(mask.T[: sum(sizes)], np.cumsum(sizes)[:-1])
        uniform = rng.random((len(parts), count))
        fine = [part | ~part.any(0) for part in parts]
        return np.stack([random_choice(*pair) for pair in zip(fine, uniform, strict=True)], 1)
    return rng.integers(0, sizes, (count, len(sizes)))


def within(spec: PolicySpec, actions: Array, noise: Array) -> Array:
    """Actions with noise [B, width], of a scale where the bounds are -1 and 1, cut off at them."""
    middle, half = spec.action_scale
    moved = actions.reshape(len(actions), -1) + half * noise
    return np.clip(moved, middle - half, middle + half).astype(np.float32).reshape(actions.shape)


def _sure(count: int) -> Floats:
    return np.zeros(count, np.float32)
