"""What becomes of an environment that raises: it begins anew, in its place, the others go on.

Of environments that are made one by one it is the one copy; of a vector of one piece it is all.
A simulator that fails now and then costs the episode it was in, and nothing else. One that fails
from its first steps on, or again and again, is not mended: its author has to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from rillflow.envs.checks import EnvError, EnvFailed, where

_RARE = 100
"""steps of the copies for each failure that is let pass; so none is in the first steps of all"""
_TRIES = 5
"""resets of one copy, before its worker gives up"""
_PAUSE = 0.05
"""seconds before the third reset; doubled each time"""


class Mending:
    """Brings back what has failed, counts how often, and tells of some.

    Args:
        begin: the first observation and info of a new episode of the copy with this index; with a
            seed, of one that is made anew, where that is possible.
        what: begins anew, as it is told.
        made_anew: whether that is the first thing to try, and not the last.
    """

    def __init__(
        self,
        begin: Callable[[int, int | None], Any],
        what: str = "that copy alone",
        *,
        made_anew: bool = False,
    ) -> None:
        self.allowed = False
        """whether to: else what a copy raises is raised"""
        self.count = 0
        """failures so far"""
        self.seed = 0
        """of the vector: new copies are seeded from it"""
        self.prepare: Callable[[Any], None] | None = None
        """what else a new copy has to be told, as the task that the others are at"""
        self._begin, self._what, self._made_anew = begin, what, made_anew
        self._texts: list[str] = []
        self._told = 0

    def pop(self) -> tuple[int, list[str]]:
        """Failures since the last call, and what was said of the first and of some later ones."""
        new, self._told = self.count - self._told, self.count
        texts, self._texts = self._texts, []
        return new, texts

    def reset(self, index: int, error: EnvFailed, steps: int) -> Any:
        """The first observation and info of a new episode of a copy that has raised.

        Args:
            index: of the copy.
            error: what it raised.
            steps: that all copies have made so far.

        Raises:
            EnvError: failures are not rare, or no reset works.
        """
        if not self.allowed or (self.count + 1) * _RARE > steps:
            raise error
        self.count += 1
        if self.count < 4 or str(self.count).rstrip("0") in ("1", "3"):
            first = str(error).partition("\n")[0]
            self._texts.append(f"{first} (failure {self.count}); {self._what} begins anew")
        for attempt in range(_TRIES):
            if attempt > 1:
                time.sleep(_PAUSE * 2 ** (attempt - 2))
            try:
                anew = self._made_anew or attempt > 0
                return self._begin(index, self._new_seed(index) if anew else None)
            except EnvFailed as again:
                error = again
        error.add_note(f"its reset was tried {_TRIES} times")
        raise error

    def _new_seed(self, index: int) -> int:
        """Of a copy that is made anew: it is not to repeat its first episodes."""
        seed = np.random.SeedSequence([self.seed, index, self.count]).generate_state(1)[0]
        return int(seed) & 0x3FFFFFFF

    def put(self, envs: list[Any], index: int, made: Any) -> None:
        """A new copy in the place of a broken one."""
        old, envs[index] = envs[index], made
        close(old)
        if self.prepare is not None:
            self.prepare(made)


def mending_of(
    vector: Any,
    again: Callable[[], Any] | None,
    begin_all: Callable[[int, int | None], Any],
    seed: int,
) -> Mending | None:
    """What mends a vector: its own means, else making another one; None: nothing can."""
    own: Mending | None = getattr(vector, "mending", None)
    if own is not None or again is None:
        return own
    whole = Mending(begin_all, "its whole vector", made_anew=True)
    whole.seed = seed
    return whole


def replaced(old: Any, again: Callable[[], Any], name: str) -> Any:
    """Another vector in the place of one that is broken.

    Raises:
        EnvError: it is not the same environment.
    """
    close(old)  # before the next one is made: it may hold memory, processes, a port
    vector = again()
    if vector.num_envs != old.num_envs:
        raise EnvError(
            f"{where(name)}: it was made anew with {vector.num_envs} copies instead of "
            f"{old.num_envs}; its factory must make the same environment at each call"
        )
    return vector


def close(broken: Any) -> None:
    """Let go of a broken environment: what it says of its end is of no use."""
    with suppress(Exception):
        broken.close()


def failure_of(error: Exception, complain: Callable[[Exception], EnvFailed]) -> EnvFailed:
    """An exception as a failure of its environment; a broken promise is raised as it is."""
    if isinstance(error, EnvFailed):
        return error
    if isinstance(error, EnvError):
        raise error
    return complain(error)
