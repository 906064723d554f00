"""Steps whose rows look further ahead than their fragment goes: they wait for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rillflow.errors import RunError
from rillflow.experience.batch import BOOTSTRAP, NEXT_OBS, Array, SampleBatch
from rillflow.experience.fragment_writer import FragmentWriter


class WaitingSteps:
    """The last `n_step - 1` steps of each environment of a worker, until the next fragment.

    A row that looks n steps ahead can be made when the n - 1 steps after its own are known. So a
    fragment is written behind the last n - 1 steps of the one before, and its own last n - 1 steps
    are not `valid`: they are there to be looked at, and their rows come with the next fragment.
    Every step is valid in one fragment, and all fragments are alike: before a worker's first one
    stand rows of nothing.

    >>> waiting = WaitingSteps(n_step=3)
    >>> [waiting.begin(length=8).rows for _ in range(2)]
    [10, 10]

    They wait where the environments are, in the worker: whoever gathers, joins, loses or stores
    fragments need not know of each other's order, and a worker that replaces another begins anew.
    """

    def __init__(self, n_step: int, stacked: int = 1) -> None:
        self.count = n_step - 1
        self.stacked = stacked
        """frames in one observation"""
        self.kept: SampleBatch | None = None
        """those steps, and what followed them"""

    def begin(self, length: int) -> FragmentWriter:
        """What writes the next fragment, of `length` steps of its own."""
        # Not kept any longer: if the environment raises in the middle of the fragment, the next one
        # begins some steps later, and no window may reach over the gap.
        kept, self.kept = self.kept, None
        return FragmentWriter(length, self.count, kept, self.stacked)

    def hold_back(self, batch: SampleBatch) -> SampleBatch:
        """A fragment as it is given away, its last steps kept for the next one."""
        if not self.count:
            return batch
        valid: Array = batch["valid"].copy()
        valid[-self.count :] = False
        self.kept = SampleBatch(batch.last(self.count))
        return batch.with_columns(valid=valid)

    def cut(self) -> None:
        """The environments begin anew: what was kept ends here, as if truncated."""
        if self.kept is None:
            return
        truncated, following = self.kept["truncated"].copy(), self.kept.following().copy()
        following[-1] = self.kept[BOOTSTRAP]
        truncated[-1] |= ~self.kept["terminated"][-1]
        self.kept = self.kept.with_columns(truncated=truncated, **{NEXT_OBS: following})

    def get_state(self) -> dict[str, Any]:
        """The steps, as plain columns."""
        return {"kept": None if self.kept is None else dict(self.kept)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        kept = state["kept"]
        if kept is not None and len(kept["rewards"]) != self.count:
            raise RunError(
                f"{len(kept['rewards'])} steps of each environment waited when this state was "
                f"saved, n_step={len(kept['rewards']) + 1}; these settings have "
                f"n_step={self.count + 1}: go on with the one that was saved."
            )
        self.kept = None if kept is None else SampleBatch(kept)
