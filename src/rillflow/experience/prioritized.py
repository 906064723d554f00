"""Prioritized replay: rows that surprised the learner come back more often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rillflow.errors import BuildError, RunError
from rillflow.experience.buffer import ReplayBuffer, ReplaySample
from rillflow.experience.columns import Keys, as_rows, require_same
from rillflow.experience.sum_tree import Floats, MinTree, SumTree


class PrioritizedReplayBuffer(ReplayBuffer):
    """Proportional prioritization (Schaul et al. 2016, arXiv:1511.05952).

    Row i is drawn with probability P(i) = p_i^alpha / sum_k p_k^alpha, where p_i is its priority
    plus `epsilon`, and has the importance weight (P(i) / min_k P(k))^-beta, which is its
    (N P(i))^-beta divided by the largest of them, so that weights only ever scale down.

    A new row gets the largest priority seen so far (1 at first), so that each is likely to be drawn
    once before its own error is known, or the priority that whoever produced it has computed.

    >>> buffer = PrioritizedReplayBuffer(100, alpha=1.0, beta=1.0)
    >>> keys = buffer.add({"x": np.arange(4)}, priorities=np.array([1.0, 1.0, 1.0, 3.0]))
    >>> sample = buffer.sample(6)
    >>> sample.columns["x"], sample.weights.round(2)
    (array([0, 1, 2, 3, 3, 3]), array([1.  , 1.  , 1.  , 0.33, 0.33, 0.33], dtype=float32))
    """

    def __init__(
        self,
        capacity: int,
        *,
        alpha: float = 0.6,
        beta: float = 0.4,
        epsilon: float = 1e-6,
        seed: int = 0,
    ) -> None:
        super().__init__(capacity, seed=seed)
        self.alpha = _not_negative("alpha", alpha)
        self.beta = _not_negative("beta", beta)
        self.epsilon = _not_negative("epsilon", epsilon)
        self.max_priority = 1.0
        """the largest priority seen so far: what new rows get"""
        self.stale_updates = 0
        """priorities that came for rows that were no longer here"""
        self._masses = SumTree(self.capacity)
        self._least = MinTree(self.capacity)

    def add(self, columns: Mapping[str, Any], *, priorities: ArrayLike | None = None) -> Keys:
        """Copy rows in, with the largest priority seen so far or the ones given."""
        arrays, rows = as_rows(columns)
        if priorities is None:
            given = np.full(rows, self.max_priority)
        else:
            given = self._checked(priorities, rows, "rows")
        masses = self._masses_of(given)
        keys = super().add(arrays)
        self.max_priority = float(given.max(initial=self.max_priority))
        # Of a batch larger than the ring several rows claim one slot; as there, the last one stays.
        self._set_masses(keys, masses)
        return keys

    def sample(self, n: int, *, beta: float | None = None) -> ReplaySample:
        """`n` rows, drawn in proportion to their priorities, in the order of their slots.

        `beta` is for this sample only, for those who anneal it. Shuffle before cutting a sample
        into minibatches: neighbours in it were mostly inserted one after the other.
        """
        n = self._drawable(n)
        beta = self.beta if beta is None else _not_negative("beta", beta)
        total = self._masses.total
        if not total:
            raise RunError(
                "cannot sample: the priority of every row is zero; "
                "give epsilon > 0, so that no row is lost for good"
            )
        # Stratified: one point in each of n equal pieces of the total, instead of n points anywhere
        # in it. The expectation is the same and the variance smaller: a row that holds 3/n of the
        # mass is drawn two to four times, never zero times by bad luck.
        points = (np.arange(n) + self._rng.random(n)) * (total / n)
        slots = self._masses.find(points)
        # Slots are a key's remainder, and the resident keys are one run of at most `capacity`
        # numbers from the oldest on, so each slot belongs to exactly one of them.
        oldest = self._columns.oldest
        keys = oldest + (slots - oldest) % self.capacity
        # N and the total cancel in the ratio of two weights. What is left needs no division by a
        # tiny probability, and is exactly 1 for the rarest row. Rows of mass zero are never drawn,
        # so they are not among those the minimum is taken over (see `_set_masses`).
        ratios = self._least.smallest / self._masses.get(slots)
        weights = (ratios**beta).astype(np.float32)
        return ReplaySample(self._columns.take(keys), keys, weights)

    def update_priorities(self, keys: ArrayLike, priorities: ArrayLike) -> None:
        """Give the rows of `keys` new priorities; where a key comes twice, the last one stays.

        By key, not by slot: while a batch was on its way through the learner its rows may have been
        replaced, and the error of an old row says nothing about the new one in its place. Updates
        for rows that are not here are ignored and counted in `stale_updates`.
        """
        known = np.asarray(keys)
        if known.ndim != 1 or (known.size and known.dtype.kind not in "iu"):
            raise RunError(
                "keys must be a list of whole numbers, as `add` and `sample` return them; "
                f"got {known.dtype} of shape {known.shape}"
            )
        known = known.astype(np.int64, copy=False)
        given = self._checked(priorities, len(known), "keys")
        masses = self._masses_of(given)
        here = self._columns.holds(known)
        self.stale_updates += len(known) - int(np.count_nonzero(here))
        self.max_priority = float(given.max(initial=self.max_priority, where=here))
        self._set_masses(known[here], masses[here])

    def get_state(self) -> dict[str, Any]:
        """As for `ReplayBuffer`, with what each row weighs in the draw."""
        keys = np.arange(self._columns.oldest, self.inserted, dtype=np.int64)
        return {
            **super().get_state(),
            "alpha": self.alpha,
            "epsilon": self.epsilon,
            "masses": self._masses.get(self._columns.slots(keys)),
            "max_priority": self.max_priority,
            "stale_updates": self.stale_updates,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the buffer that `state` was taken from."""
        require_same(state, self, "capacity", "alpha", "epsilon")
        super().set_state(state)
        self.max_priority = float(state["max_priority"])
        self.stale_updates = int(state["stale_updates"])
        self._masses, self._least = SumTree(self.capacity), MinTree(self.capacity)
        self._set_masses(np.arange(self._columns.oldest, self.inserted), state["masses"])

    def _checked(self, priorities: ArrayLike, count: int, of: str) -> Floats:
        given = np.asarray(priorities, dtype=np.float64)
        if given.shape != (count,):
            raise RunError(
                f"expected {count} priorities, one for each of the {of}; found shape {given.shape}"
            )
        bad = ~((given >= 0) & (given < math.inf))  # a NaN fails every comparison
        if bad.any():
            at = int(bad.argmax())
            raise RunError(
                "priorities must be finite and not negative (give absolute errors); "
                f"found {given[at]} at position {at}, {np.count_nonzero(bad)} of {count} are wrong"
            )
        return given

    def _masses_of(self, priorities: Floats) -> Floats:
        """p^alpha, checked to be small enough that no sum of them can overflow."""
        with np.errstate(over="ignore"):
            masses: Floats = (priorities + self.epsilon) ** self.alpha
        largest = masses.max(initial=0.0)
        if largest > np.finfo(np.float64).max / (2 * self.capacity):
            raise RunError(
                f"priority {priorities.max()} to the power of alpha={self.alpha} is too large "
                "to be summed: something has diverged, or priorities need clipping"
            )
        return masses

    def _set_masses(self, keys: Keys, masses: Floats) -> None:
        slots = self._columns.slots(keys)
        self._masses.set(slots, masses)
        self._least.set(slots, np.where(masses > 0, masses, math.inf))


def _not_negative(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise BuildError(f"{name} must be a finite number of at least 0, got {value!r}")
    return float(value)
