"""The directory of a run: what it is, what it does now, what it has done.

RUN/run.json        what was asked for: algorithm, environment, settings, limits, versions, machine;
                    and the run's id, which stands in each of its checkpoints, too
RUN/graph.json      the dataflow, and graph.svg its picture
RUN/metrics.jsonl   a line for each result; of a fast run for a few a second, of more than ten
                    thousand for some of them
RUN/status.json     the run now, replaced about once a second
RUN/machine.jsonl   processors, memory and GPUs that it took, every few seconds
RUN/policy.npz      the policy, as `Trained.save` writes it, renewed with each checkpoint;
                    policies/ of several agents
RUN/best_policy.npz the best so far, by evaluation or else by training; best_policies/ of several
                    agents
RUN/curve.png       its learning curve
RUN/films/          films of episodes, of a run with `record_every`
RUN/checkpoints/    what a run goes on from, whatever becomes of the other files
RUN/.lock           held while a process writes here
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.errors import BuildError, RunError
from rillflow.files import write_json, write_text
from rillflow.runs.machine_facts import machine, versions
from rillflow.safety import bounded
from rillflow.safety.own_code import sealed

if TYPE_CHECKING:
    from rillflow.checkpoint.lock import Lock

FORMAT = 1
"""of run.json; raised when an older reader could no longer understand it"""
_LARGEST = 16 << 20
"""bytes of a file of a run's directory that is read as a whole"""


class RunDirectory:
    """A run's directory; `create` makes one for a new run, `open` takes one that exists."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: Lock | None = None

    # -- making and finding ---------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        root: str | Path = "runs",
        name: str | None = None,
        *,
        algorithm: str,
        env: str,
        engine: str,
        seed: int,
        config: Mapping[str, Any],
        until: Mapping[str, float],
        **more: Any,
    ) -> RunDirectory:
        """A new directory under `root`, locked, with its run.json.

        Args:
            root: made if it is not there.
            name: of the directory; by default the algorithm, the environment and a number.
            algorithm: by name.
            env: by name.
            engine: by name.
            seed: of the run.
            config: every setting, as plain data.
            until: when the run is to end.
            more: further entries of run.json.
        """
        wanted = None if name is None else _named(name)
        directory = cls(_made(Path(root), wanted, _plain_name(f"{algorithm}-{env}")))
        directory.lock()
        facts = {
            "format": FORMAT,
            "algorithm": algorithm,
            "env": env,
            "engine": engine,
            "seed": seed,
            "config": dict(config),
            "until": dict(until),
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "id": str(uuid.uuid4()),
            "versions": versions(),
            "machine": machine(),
            **more,
        }
        consent = sealed(facts)
        if consent is not None:
            facts["consent"] = consent
        try:
            write_json(directory.path / "run.json", facts, indent=2, durable=True)
            directory.checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            directory.release()
            shutil.rmtree(directory.path, ignore_errors=True)  # it was new, or empty
            raise _unwritable(directory.path, error) from None
        return directory

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """An existing run; what is no run directory is refused."""
        directory = cls(path)
        if not directory.path.is_dir():
            raise BuildError(f"there is no run {str(path)!r}; `rillflow list runs` shows them.")
        about = directory.about or directory._recovered()
        if not about:
            raise BuildError(
                f"{str(path)!r} is no run: it has no run.json that can be read, and no checkpoint "
                "to write it again from."
            )
        if about.get("format") != FORMAT:
            raise BuildError(
                f"{str(path)!r} was written in format {about.get('format')!r}, and this rillflow "
                f"reads format {FORMAT}: use the version that wrote it, or a newer one."
            )
        return directory

    def _recovered(self) -> dict[str, Any]:
        """run.json as it was, from the newest checkpoint that knows it; empty: none does."""
        from rillflow.checkpoint import CheckpointStore

        for path, manifest in CheckpointStore(self.checkpoints).checkpoints():
            about = manifest.facts.get("about")
            if isinstance(about, dict) and about.get("format") == FORMAT:
                try:
                    write_json(self.path / "run.json", about, indent=2, durable=True)
                except OSError as error:
                    raise _unwritable(self.path, error) from None
                warnings.warn(f"{self}: wrote run.json again, from {path.name}", stacklevel=3)
                return about
        return {}

    # -- what is in it --------------------------------------------------------------------------

    @property
    def about(self) -> dict[str, Any]:
        """run.json."""
        return read_json(self.path / "run.json")

    @property
    def status(self) -> dict[str, Any]:
        """status.json."""
        return read_json(self.path / "status.json")

    @property
    def metrics(self) -> Path:
        """A line for each result of training."""
        return self.path / "metrics.jsonl"

    @property
    def policy(self) -> Path:
        """The trained policy; of several agents, the directory of theirs."""
        return self.path / ("policies" if self.about.get("agents") else "policy.npz")

    @property
    def best_policy(self) -> Path:
        """The best policy so far; of several agents, the directory of theirs."""
        return self.path / ("best_policies" if self.about.get("agents") else "best_policy.npz")

    def remember_limits(self, until: Mapping[str, float]) -> None:
        """Those that it goes on to, into its run.json: the next to resume it need not say them."""
        about = self.about
        if not about or about.get("until") == dict(until):
            return
        try:
            told = {**about, "until": dict(until)}
            write_json(self.path / "run.json", told, indent=2, durable=True)
        except OSError:
            return  # they hold for this time; on a full disk training goes on, too

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """What came of the run, into its run.json; a disk that is full costs no more than that."""
        about = self.about
        if not about:
            return  # it is lost: a checkpoint has it, and a summary alone would stand in its way
        try:
            told = {**about, "summary": dict(summary)}
            write_json(self.path / "run.json", told, indent=2, durable=True)
        except OSError:
            return  # the same figures are in metrics.jsonl

    @property
    def curve(self) -> Path:
        """The learning curve, drawn when the run ended."""
        return self.path / "curve.png"

    @property
    def checkpoints(self) -> Path:
        """What a run goes on from."""
        return self.path / "checkpoints"

    def write_graph(self, flow: Any) -> None:
        """graph.json and graph.svg of a flow."""
        write_json(self.path / "graph.json", flow.to_json())
        write_text(self.path / "graph.svg", flow.to_svg())

    # -- one writer -----------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other runs out, until `release` or the end of this process, however it ends."""
        from rillflow.checkpoint.errors import StoreLocked
        from rillflow.checkpoint.lock import Lock  # with NumPy: looking at runs needs neither

        if self._lock is not None:
            return
        try:
            self._lock = Lock(self.path)
        except StoreLocked as error:
            who = "another process" if error.pid is None else f"process {error.pid}"
            raise RunError(
                f"{str(self.path)!r} is in use by {who}, and one run at a time may write there: "
                "stop that one, or choose another directory."
            ) from None
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def release(self) -> None:
        """Let another run in; safe to call twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> RunDirectory:
        self.lock()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __str__(self) -> str:
        return str(self.path)


def runs_in(root: str | Path) -> Iterator[RunDirectory]:
    """The runs under a directory, the oldest first."""
    found = [path.parent for path in Path(root).glob("*/run.json")]
    for path in sorted(found, key=lambda path: (path / "run.json").stat().st_mtime):
        yield RunDirectory(path)


def _named(name: str) -> str:
    if not name or name != Path(name).name or name in (".", ".."):
        raise BuildError(
            f"a run's name is the name of a directory, without slashes; got {name!r}. "
            "Where it is made is said by the root."
        )
    return name


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "env"


def _made(root: Path, name: str | None, stem: str) -> Path:
    """A directory that was not there, or was empty; numbered if nobody named it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if name is not None:
            return _new(root / name)
        number = 1 + max((_number(path.name, stem) for path in root.iterdir()), default=0)
        while True:  # somebody else may start a run at the same moment
            try:
                path = root / f"{stem}-{number}"
                path.mkdir()
                return path
            except FileExistsError:
                number += 1
    except OSError as error:
        raise _unwritable(root, error) from None


def _new(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    if any(path.iterdir()):
        raise BuildError(
            f"{str(path)!r} exists and is not empty: choose another name, or go on with that run "
            f"by `rillflow resume {path}`."
        )
    if not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied")
    return path


def _number(name: str, stem: str) -> int:
    head, _, tail = name.rpartition("-")
    return int(tail) if head == stem and tail.isdecimal() else 0


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"cannot write a run under {str(path)!r} ({error.strerror or error}): choose a directory "
        "of your own with --run-dir."
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none that can be read."""
    try:
        content = bounded.read_json(path, _LARGEST)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
