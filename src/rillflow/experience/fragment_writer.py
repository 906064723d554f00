"""The columns of one fragment, written step by step into arrays that are allocated once."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.envs.vector import Step
from rillflow.experience.batch import BOOTSTRAP, NEXT_OBS, STATE, Array, SampleBatch
from rillflow.experience.stacked_frames import FramePool, Stacks, differing

_ALWAYS = ("obs", "actions", "logp", "rewards", "terminated", "truncated")
_SEEN = ("obs", BOOTSTRAP, NEXT_OBS)
_VALID = len(_ALWAYS)
"""the place of `valid` among the columns, if there is one"""


class FragmentWriter:
    """Takes `length` steps of some environments and gives them as a time-major batch.

    There is a column `next_obs` only if an episode ended and the next one began within the same
    step: everywhere else the next observation is that of the next row. Of images it would be half
    of all the bytes. There is a column `valid` only if some step may be no transition.

    The steps come behind `lead` rows: those of `before`, the end of the fragment before, or rows of
    nothing, which are not valid (see `WaitingSteps`).

    Of observations that are `stacked` of several frames each frame is written once.
    """

    def __init__(
        self, length: int, lead: int = 0, before: SampleBatch | None = None, stacked: int = 1
    ) -> None:
        self.length = length
        self.lead = lead
        self.before = before
        self.t = lead
        self.columns: dict[str, Array] = {}
        self._rows: list[Array] = []
        self._some_invalid = False
        self.cut_before: Array | None = None
        """where the environment failed in the first step: what ran before the fragment was cut"""
        self._ends: list[tuple[int, Any, Array]] = []
        """steps and rows in which the observation to act on next is not the one that followed, and
        that"""
        self._pool = FramePool(stacked, self.rows + 1) if stacked > 1 else None
        """of stacked observations: columns of them then hold places in it"""
        self._lead_obs: Array = np.empty(0)
        self._known: Array | None = None
        """what followed the rows before, where it is not always the next row"""

    @property
    def rows(self) -> int:
        """Steps in the batch, those before its own included."""
        return self.lead + self.length

    @property
    def made(self) -> int:
        """Steps written that are transitions."""
        valid = self.columns.get("valid")
        if valid is None:
            return (self.t - self.lead) * len(self.columns["rewards"][0])
        return int(np.count_nonzero(valid[self.lead : self.t]))

    def write(self, obs: Array, actions: Array, logp: Array, step: Step, **more: Array) -> None:
        """One step: what was seen, done, and came of it; `more` are further columns."""
        if self.lead and not self.columns:
            self._lead_obs = self._before(obs)
        kept = obs if self._pool is None else self._pool.add(obs)
        values = [kept, actions, logp, step.rewards, step.terminated, step.truncated]
        if step.valid is not None or self._some_invalid:
            if not self._some_invalid:
                self._begin_valid(step.rewards.shape)
            values.append(np.True_ if step.valid is None else step.valid)  # type: ignore[arg-type]
        values.extend(more.values())
        if not self.columns:
            self._allocate(values, ["valid"] * self._some_invalid + list(more))
        t = self.t
        for column, value in zip(self._rows, values, strict=True):
            column[t] = value
        if step.cut is not None and t == self.lead:
            self.cut_before = step.cut
        if step.cut is not None and t:  # else the fragment before ended there, with an open end
            self.columns["truncated"][t - 1] |= step.cut
        if step.next_obs is not None and step.next_obs is not step.obs:
            self._ends.append(self._end(t, step.next_obs, step.obs))
        self.t = t + 1

    def _before(self, obs: Array) -> Array:
        """The observations before the first one of its own, which looks like `obs`."""
        before = self.before
        rows = np.zeros((self.lead, *obs.shape), obs.dtype) if before is None else before["obs"]
        known = before[NEXT_OBS] if before is not None and NEXT_OBS in before else None
        if self._pool is None:
            self._known = known
            return rows
        places, after = [], []
        for t, row in enumerate(rows):
            places.append(self._pool.add(row))
            if known is not None:
                after.append(self._pool.add(known[t], goes_on=False))
        self._known = np.stack(after) if after else None
        return np.stack(places)

    def _end(self, t: int, followed: Array, obs: Array) -> tuple[int, Any, Array]:
        """What followed a step; of stacks, where it is not what is acted on next."""
        if self._pool is None:
            return t, slice(None), followed
        rows = np.flatnonzero(differing(np.ascontiguousarray(followed), np.ascontiguousarray(obs)))
        return t, rows, self._pool.add_some(followed[rows], rows)

    def _begin_valid(self, envs: tuple[int, ...]) -> None:
        """From now on steps say whether they are transitions; those before all were."""
        self._some_invalid = True
        if self.columns:
            self.columns.setdefault("valid", np.ones((self.rows, *envs), bool))
            self._rows.insert(_VALID, self.columns["valid"])

    def _allocate(self, values: list[Array], more: list[str]) -> None:
        names = [*_ALWAYS, *more]
        self._rows = [np.empty((self.rows, *value.shape), value.dtype) for value in values]
        self.columns = dict(zip(names, self._rows, strict=True))
        if not self.lead:
            return
        if "valid" not in self.columns:  # of what is written here every step is
            self.columns["valid"] = np.ones((self.rows, len(values[0])), np.bool_)
        for name, column in self.columns.items():
            if name == "obs":
                column[: self.lead] = self._lead_obs
            else:
                column[: self.lead] = 0 if self.before is None else self.before[name]

    def finish(self, obs: Array, state: Array | None = None) -> SampleBatch:
        """The batch, with the observation after it and the memory before it."""
        self.columns[BOOTSTRAP] = np.array(obs) if self._pool is None else self._pool.add(obs)
        if state is not None:
            self.columns[STATE] = state
        if self._ends or self._known is not None:
            self.columns[NEXT_OBS] = following = SampleBatch(self.columns).following()
            if self._known is not None:
                following[: self.lead] = self._known
            for t, rows, true in self._ends:
                following[t, rows] = true
        return SampleBatch({**self.columns, **self._stacks()})

    def _stacks(self) -> dict[str, Stacks]:
        """The columns of observations that are stacks."""
        if self._pool is None:
            return {}
        places = {name: self.columns[name] for name in _SEEN if name in self.columns}
        first = self._pool.column(places["obs"])
        return {name: first.at(of) for name, of in places.items()}
