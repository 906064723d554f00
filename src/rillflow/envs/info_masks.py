"""Masks of actions that come in infos, as Gymnasium's Taxi has them, and masks that allow nothing.

Whether there are any is seen in the info of the first reset. From then on each has to be there;
of the last observation of an episode, after which nobody acts, it may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rillflow.envs.checks import found
from rillflow.envs.layout import MASK
from rillflow.envs.structured import flat_masks

STUCK = (
    f"{MASK}: expected at least one allowed action, found none: end the episode there, or allow an "
    "action that does nothing"
)
Bools = npt.NDArray[np.bool_]


class InfoMasks:
    """Reads the masks of a vector environment.

    Args:
        sizes: how many choices each part of an action has.
        num_envs: rows.
    """

    def __init__(self, sizes: tuple[int, ...], num_envs: int) -> None:
        self.size, self.num_envs = sum(sizes), num_envs

    def read(self, info: Mapping[str, Any], needed: Bools | None = None) -> Bools | str:
        """The masks [B, choices] of a step, or what is wrong with them.

        Args:
            info: of the vector.
            needed: rows that must have one; None: all of them.
        """
        raw = info.get(MASK)
        if raw is None:
            if needed is not None and not needed.any():
                return np.ones((self.num_envs, self.size), bool)
            return (
                f"info[{MASK!r}]: expected the allowed actions, as at the first reset; found the "
                f"keys {sorted(map(str, info))}"
            )
        given = np.asarray(info.get(f"_{MASK}", np.ones(self.num_envs, bool)), bool)
        if isinstance(raw, np.ndarray) and raw.dtype == object:
            given = given & np.array([one is not None for one in raw])
            return self._each(raw, given, needed)
        masks = flat_masks(raw, self.num_envs)
        if masks.shape[1] != self.size:
            return self._misshapen(masks.shape[1], raw)
        return self._completed(masks, given, needed)

    def _each(self, raw: Any, given: Bools, needed: Bools | None) -> Bools | str:
        masks = np.ones((self.num_envs, self.size), bool)
        for i in np.flatnonzero(given):
            one = flat_masks(raw[i])
            if len(one) != self.size:
                return self._misshapen(len(one), raw[i])
            masks[i] = one
        return self._completed(masks, given, needed)

    def _completed(self, masks: Bools, given: Bools, needed: Bools | None) -> Bools | str:
        missing = ~given if needed is None else ~given & needed
        if missing.any():
            rows = np.flatnonzero(missing).tolist()
            return f"info[{MASK!r}]: missing in the copies {rows}, though given at the first reset"
        masks[~given] = True
        return masks

    def _misshapen(self, size: int, raw: Any) -> str:
        return (
            f"info[{MASK!r}]: expected {self.size} numbers for each environment, one for each "
            f"choice of an action; found {size} ({found(raw)}). If it is something else, set "
            "action_masks=False"
        )

    def final(self, info: Mapping[str, Any], rows: npt.NDArray[np.intp]) -> Bools:
        """The masks of the last observations of `rows`; where there are none, all is allowed."""
        masks = np.ones((len(rows), self.size), bool)
        last = info.get("final_info")
        if isinstance(last, Mapping) and MASK in last:
            read = self.read(last, np.zeros(self.num_envs, bool))
            masks = masks if isinstance(read, str) else read[rows]
        elif isinstance(last, np.ndarray | list | tuple):
            for place, row in enumerate(rows):
                if isinstance(last[row], Mapping) and MASK in last[row]:
                    masks[place] = flat_masks(last[row][MASK])
        return masks


def stuck_row(
    masks: Bools, sizes: tuple[int, ...], rows: Bools | None = None
) -> tuple[int | None, str | None]:
    """The first of the rows that are acted on whose mask allows nothing, and what is told of it.

    Args:
        masks: what is allowed, [B, choices].
        sizes: how many choices each part of an action has; each needs one.
        rows: those that are acted on; None: all.
    """
    ends = list(accumulate(sizes, initial=0))
    stuck = np.zeros(len(masks), bool)
    for begin, end in pairwise(ends):
        stuck |= ~masks[:, begin:end].any(1)
    if rows is not None:
        stuck &= rows
    return (int(np.argmax(stuck)), STUCK) if stuck.any() else (None, None)
