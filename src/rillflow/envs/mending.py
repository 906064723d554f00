"""What becomes of one copy of an environment that raises: it is reset alone, the others go on.

A simulator that fails now and then costs the episode it was in, and nothing else. One that fails
from its first steps on, or again and again, is not mended: its author has to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from rillflow.envs.checks import EnvError, EnvFailed

_RARE = 100
"""steps of the copies for each failure that is let pass; so none is in the first steps of all"""
_TRIES = 5
"""resets of one copy, before its worker gives up"""
_PAUSE = 0.05
"""seconds before the third reset; doubled each time"""


class Mending:
    """Brings copies back, counts how often, and tells of some.

    Args:
        make: a new copy of the environment with this index, guarded; None: it cannot be made again.
    """

    def __init__(self, make: Callable[[int], Any] | None) -> None:
        self.allowed = False
        """whether to: else what a copy raises is raised"""
        self.count = 0
        """failures so far"""
        self.seed = 0
        """of the vector: new copies are seeded from it"""
        self._make = make
        self._texts: list[str] = []
        self._told = 0

    def pop(self) -> tuple[int, list[str]]:
        """Failures since the last call, and what was said of the first and of some later ones."""
        new, self._told = self.count - self._told, self.count
        texts, self._texts = self._texts, []
        return new, texts

    def reset(self, envs: list[Any], index: int, error: EnvFailed, steps: int) -> Any:
        """The first observation and info of a new episode of a copy that has raised.

        Args:
            envs: the copies; one that cannot be reset is replaced there.
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
            self._texts.append(f"{first} (failure {self.count}); that copy alone begins anew")
        for attempt in range(_TRIES):
            if attempt > 1:
                time.sleep(_PAUSE * 2 ** (attempt - 2))
            try:
                return self._reset(envs, index, anew=attempt > 0)
            except EnvFailed as again:
                error = again
        error.add_note(f"its reset was tried {_TRIES} times")
        raise error

    def _reset(self, envs: list[Any], index: int, *, anew: bool) -> Any:
        if not anew or self._make is None:
            return envs[index].reset()
        made = self._make(index)
        old, envs[index] = envs[index], made
        with suppress(Exception):  # it is broken: what it says of its end is of no use
            old.close()
        seed = np.random.SeedSequence([self.seed, index, self.count]).generate_state(1)[0]
        return made.reset(seed=int(seed) & 0x3FFFFFFF)


def failure_of(error: Exception, complain: Callable[[Exception], EnvFailed]) -> EnvFailed:
    """An exception as a failure of its environment; a broken promise is raised as it is."""
    if isinstance(error, EnvFailed):
        return error
    if isinstance(error, EnvError):
        raise error
    return complain(error)
