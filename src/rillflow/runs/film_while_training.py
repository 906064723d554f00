"""Films of a policy while it learns: `record_every=`, `--record-every`.

Elsewhere than on `sim` a process of its own plays and films, and training does not wait for it. A
film that fails is told and left out; after some in a row there are no more.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import BuildError
from rillflow.learning.results import DEFAULT_POLICY
from rillflow.results.optional_libraries import needs
from rillflow.results.play_episodes import Watch
from rillflow.results.trained import Trained
from rillflow.runs.evaluator import Weights
from rillflow.runs.process_beside_training import Players, players_for

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig
    from rillflow.policies.spec import PolicySpec

FOLDER = "films"
"""of a run's directory"""
_MOST_FAILURES = 3
"""in a row, before there are no more films"""
_AT_THE_END = 30.0
"""seconds that a film of the end is waited for"""
_LOOK = 0.2
_LONGEST = 1000
"""steps of an episode that are filmed"""


@dataclass(frozen=True)
class Filmer:
    """Films one episode with the weights it is given, in an environment that it makes each time."""

    config: AlgorithmConfig
    spec: PolicySpec

    def play(self, order: tuple[Weights, str], watch: Watch = int) -> str:
        """One episode, greedily, into a file."""
        from rillflow.results.film_episodes import record

        weights, path = order
        trained = Trained(self.config, self.spec, dict(weights[DEFAULT_POLICY]), [])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an episode that is cut here is no news
            record(trained, path, max_steps=_LONGEST)
        return path


class Films:
    """The films of one run.

    Args:
        every: steps between two of them.
        folder: where they are written.
        players: who films.
        weights: gives those of the policy as they are now.
        steps: of the run so far.
    """

    def __init__(
        self,
        every: int,
        folder: Path,
        players: Players,
        weights: Callable[[], Weights],
        steps: int = 0,
    ) -> None:
        self.every, self.folder, self.players, self.weights = every, folder, players, weights
        self.due = (steps // every + 1) * every
        """steps at which the next is to begin"""
        self.newest: Path | None = None
        self.done = self._failed = 0
        self._under_way = False
        self._filmed = steps

    def after_step(self, steps: int) -> None:
        """Begin what is due; training goes on meanwhile, except on `sim`."""
        self._look()
        if steps >= self.due and not self._under_way and self._failed < _MOST_FAILURES:
            self.due = (steps // self.every + 1) * self.every
            self._begin(steps)
            self._look()

    def finish(self, steps: int, wanted: Callable[[], bool]) -> None:
        """The film of the last policy, if the user still waits."""
        self._until_ended(wanted)
        if steps > self._filmed and wanted() and self._failed < _MOST_FAILURES:
            self._begin(steps)
            self._until_ended(wanted)

    def _begin(self, steps: int) -> None:
        self.folder.mkdir(exist_ok=True)
        self._under_way, self._filmed = True, steps
        path = self.folder / f"step-{steps:09d}.mp4"
        self.players.begin((self.weights(), str(path)))

    def _look(self, patience: float = 0.0) -> None:
        found: Any = self.players.outcome(patience) if self._under_way else None
        if found is None:
            return
        self._under_way = False
        if not isinstance(found, Exception):
            self.newest, self._failed = Path(found), 0
            self.done += 1
            return
        self._failed += 1
        last = "; no more are tried" if self._failed >= _MOST_FAILURES else ""
        first = str(found).partition("\n  remote traceback:")[0].strip()
        warnings.warn(f"a film is left out{last}; training goes on: {first}", stacklevel=3)

    def _until_ended(self, wanted: Callable[[], bool]) -> None:
        ends = time.monotonic() + _AT_THE_END
        while self._under_way and wanted() and time.monotonic() < ends:
            self._look(_LOOK)

    def facts(self) -> dict[str, Any]:
        """For status.json."""
        newest = None if self.newest is None else f"{FOLDER}/{self.newest.name}"
        return {"every": self.every, "done": self.done, "newest": newest}

    def close(self) -> None:
        """End whoever films."""
        self.players.close()


def films_of(
    every: int, config: AlgorithmConfig, spec: PolicySpec, engine: str, run_dir: Path, **how: Any
) -> Films:
    """The films of a run; nothing is started.

    Raises:
        BuildError: a library is missing, or the environment cannot be made a second time.
    """
    check_films(every, config)
    players = players_for(Filmer(config, spec), engine, "filmer")
    return Films(every, run_dir / FOLDER, players, **how)


def check_films(every: int, config: AlgorithmConfig, agents: object = None) -> None:
    """Refuse what cannot be filmed, before anything starts."""
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise BuildError(f"record_every is a number of steps between two films, got {every!r}.")
    if agents is not None:
        raise BuildError("record_every films a policy of one agent, and this run has several.")
    if not (isinstance(config.env, str) or callable(config.env)):
        raise BuildError(
            f"a film is made in an environment of its own, and {type(config.env).__name__} is one "
            "that is made already: give a function that makes it, or leave record_every out."
        )
    needs("imageio_ffmpeg", "video", "a film")
