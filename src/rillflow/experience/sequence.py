"""Sequence replay: stretches of experience in their order, for models with memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import BuildError, RunError
from rillflow.experience.buffer import ReplayBuffer, ReplaySample
from rillflow.experience.columns import Array, Keys, at_least, require_same
from rillflow.experience.fragment import ENDS, as_fragment, flags


class SequenceReplayBuffer(ReplayBuffer):
    """The last `capacity` steps, drawn as sequences of `burn_in + length` steps each.

    It is fed time-major fragments, columns of shape [T, B, ...]: B environments, T steps of each. A
    sequence lies in one fragment and one environment, and begins at every `stride`-th step of it
    from which enough steps follow. Drawn are n sequences, uniformly, as [burn_in + length, n, ...];
    the first `burn_in` steps are there to warm up the model's memory, not to be learned from. The
    key of a sequence is that of its first step.

    No sequence crosses the end of an episode, known from `terminated` and `truncated`, unless the
    step behind it is marked as the first of the next one in a column `starts`: then the model can
    reset its memory there. Without such marks the steps of an episode shorter than a sequence are
    never drawn; `sequences` counts what can be.

    Columns named in `state_columns` hold what the model remembered before each step; of these a
    sample has only the value at the beginning of each sequence, [n, ...].

    >>> buffer = SequenceReplayBuffer(1000, length=3, state_columns=["memory"])
    >>> steps = np.arange(5)[:, None] + np.array([0, 100])
    >>> ends = np.array([[0, 0], [0, 0], [0, 1], [0, 0], [0, 0]], dtype=bool)
    >>> columns = {"x": steps, "memory": steps, "terminated": ends, "truncated": ends & False}
    >>> keys = buffer.add(columns)
    >>> buffer.resident, buffer.sequences
    (10, 4)
    >>> sample = buffer.sample(4)
    >>> sample.columns["x"].shape, sample.columns["memory"].shape
    ((3, 4), (4,))
    """

    def __init__(
        self,
        capacity: int,
        *,
        length: int,
        burn_in: int = 0,
        stride: int = 1,
        state_columns: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(capacity, seed=seed)
        self.length = at_least("length", length, 1)
        self.burn_in = at_least("burn_in", burn_in, 0)
        self.stride = at_least("stride", stride, 1)
        self.state_columns = tuple(state_columns)
        self._total = self.length + self.burn_in
        if self._total > self.capacity:
            raise BuildError(
                f"a sequence of {self._total} steps (length {length}, burn_in {burn_in}) "
                f"cannot fit into a buffer of capacity {self.capacity}"
            )
        # Keys of the steps at which a sequence may begin, in a ring of their own: entry number i,
        # from `_dropped` to `_listed`, is at i % capacity. Drawing an entry is uniform over the
        # sequences, however few of the steps can begin one.
        self._begins: Keys = np.empty(self.capacity, np.int64)
        self._listed = self._dropped = 0

    @property
    def sequences(self) -> int:
        """The number of different sequences that can be drawn."""
        return self._listed - self._dropped

    def add(self, columns: Mapping[str, Array]) -> Keys:
        """Copy a fragment [T, B, ...] in and return the keys of its steps, [T, B]."""
        arrays, steps, lanes = as_fragment(columns, *self.state_columns)
        self._check(arrays, steps)
        begins = self._beginnings(arrays, steps, lanes)
        # One environment after the other: the steps of a sequence then have consecutive keys. As
        # the ring evicts in the order of keys, a sequence whose first step is here is here whole,
        # so neither drawing nor evicting has anything to check.
        rows = {
            name: array.swapaxes(0, 1).reshape(steps * lanes, *array.shape[2:])
            for name, array in arrays.items()
        }
        keys = super().add(rows).reshape(lanes, steps)
        self._list(keys[begins.T], steps * lanes)
        return keys.T

    def sample(self, n: int) -> ReplaySample:
        """`n` sequences, drawn uniformly and with replacement, time first."""
        n = self._drawable(n)
        if not self.sequences:
            raise RunError(
                f"no episode in the buffer has {self._total} steps in one fragment: give shorter "
                "sequences, or a column 'starts' so that they may run across episodes"
            )
        keys = self._begins[self._rng.integers(self._dropped, self._listed, n) % self.capacity]
        names = tuple(name for name in self._columns.names if name not in self.state_columns)
        columns = self._columns.take(keys + np.arange(self._total)[:, None], names)
        return ReplaySample(columns | self._columns.take(keys, self.state_columns), keys)

    def get_state(self) -> dict[str, Any]:
        """As for `ReplayBuffer`, with the keys at which sequences begin."""
        begins = self._begins[np.arange(self._dropped, self._listed) % self.capacity]
        settings = {name: getattr(self, name) for name in ("length", "burn_in", "stride")}
        return {**super().get_state(), **settings, "begins": begins}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the buffer that `state` was taken from."""
        require_same(state, self, "capacity", "length", "burn_in", "stride")
        super().set_state(state)
        begins = state["begins"]
        self._dropped, self._listed = 0, len(begins)
        self._begins[: self._listed] = begins

    def _check(self, arrays: Mapping[str, Array], steps: int) -> None:
        if "starts" not in arrays and not arrays.keys() >= set(ENDS):
            raise RunError(
                "sequence replay must know where episodes end: give the columns "
                f"{' and '.join(ENDS)}, or starts; found {', '.join(sorted(arrays))}"
            )
        if steps < self._total:
            raise RunError(
                f"a fragment must be at least as long as a sequence ({self._total} steps), since "
                f"none spans two; found {steps}: give longer fragments or shorter sequences"
            )

    def _beginnings(self, arrays: Mapping[str, Array], steps: int, lanes: int) -> NDArray[np.bool_]:
        """Where in the fragment, [T, B], a sequence may begin."""
        last = steps - self._total
        begins = np.zeros((steps, lanes), np.bool_)
        begins[: last + 1 : self.stride] = True
        ended = flags(arrays, *ENDS)
        if "starts" in arrays:
            ended[:-1] &= ~flags(arrays, "starts")[1:]
        # An end at the very last step of a sequence is inside it, any earlier one would be crossed:
        # count the ends before each step, and compare the counts at first and last step.
        before = ended.cumsum(axis=0) - ended
        begins[: last + 1] &= before[: last + 1] == before[self._total - 1 :]
        return begins

    def _list(self, begins: Keys, added: int) -> None:
        oldest = self._columns.oldest
        begins = begins[begins >= oldest]
        # Beginnings leave in the order in which they came, as their steps do: those of evicted
        # steps are at the front of the list, and no more than steps were added.
        front = np.arange(self._dropped, min(self._dropped + added, self._listed))
        self._dropped += int(np.searchsorted(self._begins[front % self.capacity], oldest))
        self._begins[np.arange(self._listed, self._listed + len(begins)) % self.capacity] = begins
        self._listed += len(begins)
