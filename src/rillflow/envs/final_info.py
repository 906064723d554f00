"""Figures that environments put into their infos, read where an episode ends.

A vector of our own has the info of each copy; a native one has arrays over its copies, with a mask
beside each (`is_success` and `_is_success`). In the SAME_STEP mode the info of the old episode
stands under `final_info`, for that of the step is already the new one's.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rillflow.envs.checks import EnvError, found

Figures = dict[str, float]
_UNSEEN = 20
"""episodes without a figure, after which the user is told what there is instead"""
_SHOWN = 12


class FinalInfos:
    """Reads the wanted figures of each episode that ends, and keeps them until somebody asks.

    >>> infos = FinalInfos(["is_success"], "Maze")
    >>> infos.read({"is_success": True, "moves": 7})
    >>> infos.read({})
    >>> infos.pop()
    [{'is_success': 1.0}, {}]

    Args:
        names: keys of the infos.
        env: what messages call the environment.
    """

    def __init__(self, names: Sequence[str], env: str) -> None:
        self.names, self.env = tuple(names), env
        self._ended: list[Figures] = []
        self._unseen = dict.fromkeys(self.names, 0)
        """episodes without each name, of names that no episode has had"""
        self._notes: list[str] = []

    def read(self, info: Mapping[str, Any]) -> None:
        """The info with which one episode ended; a key that is not there is left out."""
        given = {name: info[name] for name in self.names if info.get(name) is not None}
        values = {name: self._number(name, value) for name, value in given.items()}
        self._ended.append({n: value for n, value in values.items() if math.isfinite(value)})
        for name in [name for name in self._unseen if name in values]:
            del self._unseen[name]
        for name in self._unseen:
            self._unseen[name] += 1
            if self._unseen[name] == _UNSEEN:
                self._notes.append(self._missing(name, info))

    def pop(self) -> list[Figures]:
        """The figures of each episode that ended since the last call, in their order."""
        ended, self._ended = self._ended, []
        return ended

    def pop_notes(self) -> list[str]:
        """What there is to tell the user."""
        notes, self._notes = self._notes, []
        return notes

    def get_state(self) -> list[Figures]:
        """What has not been popped."""
        return [dict(one) for one in self._ended]

    def set_state(self, ended: Sequence[Figures], episodes: int) -> None:
        """Go on from there; of so many episodes, those that nobody read have no figures."""
        missing = episodes - len(ended)
        self._ended = [*({} for _ in range(missing)), *(dict(one) for one in ended)]

    def _number(self, name: str, value: Any) -> float:
        plain = isinstance(value, np.generic | np.ndarray) and value.size == 1
        one = value.item() if plain else value
        if isinstance(one, bool | numbers.Real):
            return float(one)
        raise EnvError(
            f"environment {self.env!r}: info[{name!r}] is {found(value)} at the end of an episode, "
            "and info_metrics takes numbers and True or False: leave it out of info_metrics, or "
            "have the environment, or a wrapper around it, put a number into its info"
        )

    def _missing(self, name: str, info: Mapping[str, Any]) -> str:
        there = sorted(key for key in map(str, info) if not key.startswith("_"))
        has = ", ".join(there[:_SHOWN]) + (", ..." if len(there) > _SHOWN else "")
        return (
            f"info_metrics: {_UNSEEN} episodes of {self.env!r} ended without info[{name!r}]; "
            f"the last info had {has or 'no keys at all'}"
        )


class ReadsInfos:
    """What a vector environment has for the infos of its copies."""

    name: str
    vector: Any
    _mode: str
    _infos: FinalInfos | None = None

    def want_infos(self, names: Sequence[str]) -> None:
        """From now on read these figures from the info with which each episode ends."""
        if names:
            self._infos = FinalInfos(names, self.name)
            self._ask_for_infos()

    def _ask_for_infos(self) -> None:
        """Have a vector of our own keep the infos of its copies."""
        if self._infos is not None and hasattr(self.vector, "infos"):
            self.vector.infos = []

    def _read_infos(self, rows: Sequence[int], info: Mapping[str, Any]) -> None:
        """Episodes have ended in these rows, with the info of this step."""
        if self._infos is None:
            return
        own, same_step = getattr(self.vector, "infos", None), self._mode == "SameStep"
        for row in rows:
            self._infos.read(row_of(info, row, same_step) if own is None else own[row])

    def pop_infos(self) -> tuple[list[Figures], list[str]]:
        """What was wanted of each episode of the next `pop_episodes`, and what to tell the user."""
        return ([], []) if self._infos is None else (self._infos.pop(), self._infos.pop_notes())


def row_of(info: Mapping[str, Any], row: int, same_step: bool) -> dict[str, Any]:
    """The info of one copy, out of that of a native vector.

    >>> info = {"coins": np.array([3, 0]), "_coins": np.array([True, False])}
    >>> row_of(info, 0, False), row_of(info, 1, False)
    ({'coins': np.int64(3)}, {})
    """
    final = info.get("final_info") if same_step else None
    if isinstance(final, np.ndarray):  # one dict for each copy, as before Gymnasium 1.0
        return dict(final[row] or {})
    source = final if isinstance(final, Mapping) else info
    return {
        name: column[row] if isinstance(column, np.ndarray | list | tuple) else column
        for name, column in source.items()
        if _is_there(source, name, row)
    }


def _is_there(info: Mapping[str, Any], name: str, row: int) -> bool:
    """Whether a copy has this key: its mask says so, or it is an array that needs none."""
    if name.startswith("_") and name[1:] in info:
        return False  # it is a mask itself
    mask = info.get(f"_{name}")
    if mask is not None:
        return bool(np.asarray(mask)[row])
    return isinstance(info[name], np.ndarray) and len(info[name]) > row


def mean_of(figures: Sequence[Figures]) -> Figures:
    """For each name its mean over the episodes that have it.

    >>> mean_of([{"is_success": 1.0}, {"is_success": 0.0, "coins": 3.0}, {}])
    {'is_success': 0.5, 'coins': 3.0}
    """
    names = dict.fromkeys(name for one in figures for name in one)
    return {name: math.fsum(_known(name, figures)) / len(_known(name, figures)) for name in names}


def _known(name: str, figures: Sequence[Figures]) -> list[float]:
    return [one[name] for one in figures if name in one]
