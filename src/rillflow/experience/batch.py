"""Experience as named columns of NumPy arrays: cheap to slice, join and ship."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import BuildError
from rillflow.experience.stacked_frames import (
    FrameParts,
    Stacks,
    over_one_pool,
    over_shared_frames,
    whole,
)

Array = NDArray[Any]

BOOTSTRAP = "bootstrap_obs"
"""the observation after the last step of a fragment; its shape is [B, ...], without time"""
STATE = "state"
"""what a recurrent policy remembered before the first step: [B, ...], without time"""
NEXT_OBS = "next_obs"
"""the true next observation of each step, where it is not always that of the next row"""
ACTION_VALUES = "action_values"
"""what a worker thought of each action when it acted, [T, B, actions]"""
TIMELESS = frozenset({BOOTSTRAP, STATE})


class SampleBatch(Mapping[str, Array]):
    """A fragment of experience, time-major: each column is [T, B, ...].

    T steps of B environments. `bootstrap_obs` is [B, ...]: what the policy saw after the last step.
    What followed a step is the observation of the next row; a batch in which an episode ended and
    the next one began within one step has it in a column `next_obs`.
    A recurrent policy adds `state` [B, ...], what it remembered before the first step, and `starts`
    [T, B], true where an episode begins.
    A step with `valid` false is not to be learned from: it was only the reset of its environment,
    or it is there for the steps before it to look at (see `WaitingSteps`).
    Stacked frames are kept and sent once (see `Stacks`); who reads such a column gets an array.

    >>> batch = SampleBatch({"rewards": np.ones((3, 2))})
    >>> batch.steps, SampleBatch.concat([batch, batch])["rewards"].shape
    (6, (3, 4))
    """

    __slots__ = ("_whole", "columns")

    def __init__(self, columns: Mapping[str, Array | Stacks]) -> None:
        self.columns = dict(columns)
        """arrays, and stacks as the frames they are made of"""
        self._whole: dict[str, Array] = {}
        """stacks that somebody has read"""

    def __getitem__(self, name: str) -> Array:
        try:
            column = self.columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {sorted(self.columns)}") from None
        return self._read(name, column) if isinstance(column, Stacks) else column

    def _read(self, name: str, stacks: Stacks) -> Array:
        whole = self._whole.get(name)
        if whole is None:
            whole = self._whole[name] = stacks.whole()
            whole.flags.writeable = False  # the next reader gets the same one
        return whole

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    # those of `Mapping` would call the three above for each column

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def items(self) -> ItemsView[str, Array]:
        """Names and columns; stacks are read, as one by one."""
        read = {n: self._read(n, c) for n, c in self.columns.items() if isinstance(c, Stacks)}
        columns: dict[str, Any] = {**self.columns, **read} if read else self.columns
        return columns.items()

    def __reduce__(self) -> Any:
        return SampleBatch, (self.columns,)

    def __ship__(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        columns, names = over_shared_frames(self.columns)
        if not names:
            return (), columns
        frames = list(columns[names[0]].pool.parts)
        places = {name: columns[name].places for name in names}
        return names, {"frames": frames, "columns": {**columns, **places}}

    @staticmethod
    def __unship__(fixed: tuple[str, ...], columns: dict[str, Any]) -> SampleBatch:
        if not fixed:
            return SampleBatch(columns)
        frames, columns = FrameParts(columns["frames"]), columns["columns"]
        return SampleBatch(columns | {name: Stacks(frames, columns[name]) for name in fixed})

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(column.shape)}" for name, column in self.columns.items())
        return f"SampleBatch({shapes})"

    @property
    def shape(self) -> tuple[int, int]:
        """Time and number of environments."""
        time, envs = self.columns["rewards"].shape[:2]
        return time, envs

    @property
    def steps(self) -> int:
        """Environment steps in it, without those that are not valid."""
        valid: Any = self.columns.get("valid")
        time, envs = self.shape
        return time * envs if valid is None else int(np.count_nonzero(valid))

    def with_columns(self, **columns: Array) -> SampleBatch:
        """The same batch with more, or other, columns."""
        return SampleBatch({**self.columns, **columns})

    def without(self, *names: str) -> SampleBatch:
        """The same batch with fewer columns."""
        return SampleBatch({n: column for n, column in self.columns.items() if n not in names})

    def last(self, count: int) -> dict[str, Array]:
        """The last steps, as arrays; columns without time are as they are."""
        return {
            name: self[name] if name in TIMELESS else whole(_steps(column, slice(-count, None)))
            for name, column in self.columns.items()
        }

    def at(self, name: str, chosen: Array) -> Array:
        """A column where `chosen` [T, B] is true, [N, ...]."""
        return whole(_steps(self.columns[name], chosen))

    def following(self) -> Array:
        """What followed each step, [T, B, ...]: `next_obs`, or a new array with the next rows."""
        return whole(self.what_followed())

    def what_followed(self) -> Any:
        """The same, as stacks if observations are: a column to put into a batch."""
        if NEXT_OBS in self.columns:
            return self.columns[NEXT_OBS]
        obs: Any = self.columns["obs"]
        last: Any = self.columns[BOOTSTRAP]
        if isinstance(obs, Stacks) and isinstance(last, Stacks) and last.pool is obs.pool:
            return obs.at(np.concatenate([obs.places[1:], last.places[None]]))
        return np.concatenate([whole(obs)[1:], whole(last)[None]])

    @staticmethod
    def concat(batches: Sequence[SampleBatch]) -> SampleBatch:
        """Fragments of the same length side by side: more environments, the same time."""
        if len(batches) == 1:
            return batches[0]
        if not batches:
            raise BuildError("there is nothing to concatenate.")
        if len({NEXT_OBS in batch for batch in batches}) > 1:
            batches = [batch.with_columns(next_obs=batch.what_followed()) for batch in batches]
        if len({"valid" in batch for batch in batches}) > 1:  # somewhere an environment failed
            batches = [
                batch if "valid" in batch else batch.with_columns(valid=np.ones(batch.shape, bool))
                for batch in batches
            ]
        names = set(batches[0])
        lengths = {batch.shape[0] for batch in batches}
        if any(set(batch) != names for batch in batches) or len(lengths) > 1:
            raise BuildError(
                "fragments are joined side by side, so they need the same columns and length; "
                f"got lengths {sorted(lengths)} and columns {[sorted(b) for b in batches]}."
            )
        parts, pool, stacked = over_one_pool([batch.columns for batch in batches])
        columns: dict[str, Any] = {
            name: np.concatenate([part[name] for part in parts], axis=0 if name in TIMELESS else 1)
            for name in batches[0]
        }
        for column in columns.values():
            column.flags.writeable = False  # a batch is a value: nobody need copy it
        return SampleBatch(columns | {name: Stacks(pool, columns[name]) for name in stacked})


def _steps(column: Any, chosen: Any) -> Any:
    return column.at(column.places[chosen]) if isinstance(column, Stacks) else column[chosen]


class MultiAgentBatch(Mapping[str, SampleBatch]):
    """Experience of several policies in one environment, each a batch under the policy's name.

    >>> both = MultiAgentBatch({"a": SampleBatch({"rewards": np.ones((3, 2))})})
    >>> MultiAgentBatch.concat([both, both])["a"].shape
    (3, 4)
    """

    __slots__ = ("batches",)

    def __init__(self, batches: Mapping[str, SampleBatch]) -> None:
        self.batches = dict(batches)

    def __getitem__(self, policy: str) -> SampleBatch:
        try:
            return self.batches[policy]
        except KeyError:
            raise KeyError(f"no policy {policy!r}; there are {sorted(self.batches)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)

    def __reduce__(self) -> Any:
        return MultiAgentBatch, (self.batches,)

    def __ship__(self) -> tuple[None, dict[str, Any]]:
        return None, self.batches

    @staticmethod
    def __unship__(fixed: None, batches: dict[str, Any]) -> MultiAgentBatch:
        return MultiAgentBatch(batches)

    def __repr__(self) -> str:
        return f"MultiAgentBatch({self.batches!r})"

    @property
    def steps(self) -> int:
        """Steps of all agents."""
        return sum(batch.steps for batch in self.batches.values())

    @staticmethod
    def concat(batches: Sequence[MultiAgentBatch]) -> MultiAgentBatch:
        """The batches of each policy side by side."""
        if not batches:
            raise BuildError("there is nothing to concatenate.")
        return MultiAgentBatch(
            {policy: SampleBatch.concat([b[policy] for b in batches]) for policy in batches[0]}
        )
