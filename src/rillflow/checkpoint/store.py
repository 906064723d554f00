"""The checkpoints of a run: saved atomically, found again after any crash, kept few."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rillflow.arguments import is_count
from rillflow.checkpoint.encode import encode
from rillflow.checkpoint.errors import (
    CheckpointError,
    CheckpointNotSaved,
    CheckpointWarning,
    ForeignCheckpoint,
)
from rillflow.checkpoint.hashed_files import read_file, remove_tree, replace_file, sync_directory
from rillflow.checkpoint.lock import Lock
from rillflow.checkpoint.manifest import DIRECTORY, Manifest, check_facts, check_step
from rillflow.checkpoint.read import Checkpoint
from rillflow.checkpoint.search import (
    LATEST,
    QUARANTINE,
    checkpoints_in,
    find_newest,
    none_valid,
)
from rillflow.checkpoint.write import TEMPORARY, commit, discard, temporary
from rillflow.errors import BuildError


class CheckpointStore:
    """Writes and finds the checkpoints of one run in one directory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, CheckpointStore(folder, keep=2) as store:
    ...     for step in (100, 200, 300):
    ...         path = store.save(step=step, state={"loss": [0.5, float("nan")]})
    ...     newest = store.newest()
    ...     newest.step, newest.state, len(store.checkpoints())
    (300, {'loss': [0.5, nan]}, 2)

    Nothing is touched before the first call or the `with`; then the directory is locked, until
    `close` or the end of the process, and a second writer is refused. To look at the checkpoints of
    a run that goes on, use `newest_checkpoint` and `read_checkpoint`, which need no lock.

    Args:
        directory: made when it is needed.
        keep: how many to keep, the newest first; None keeps all.
        on_note: called with what a person should know and what stops nothing, such as a damaged
            checkpoint that was put aside; by default a `CheckpointWarning`.
        run: the id of the run that saves here. It stands in the facts of each checkpoint, and those
            of another run are neither taken nor removed.
        adopt: take those of another run all the same; what is saved from then on is this run's.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep: int | None = 3,
        on_note: Callable[[str], None] | None = None,
        run: str | None = None,
        adopt: bool = False,
    ) -> None:
        if keep is not None and not is_count(keep):
            raise BuildError(f"keep is a number of checkpoints, at least 1, or None; got {keep!r}.")
        self.directory = Path(directory)
        self.keep = keep
        self.run = run
        self.adopt = adopt
        self.notes: list[str] = []
        """all notes so far"""
        self.failures = 0
        """saves in a row that the disk did not take"""
        self._on_note = on_note
        self._lock: Lock | None = None

    def save(self, *, step: int, state: Any, facts: Mapping[str, Any] | None = None) -> Path:
        """Write a checkpoint and return its directory; when this returns, it is on the disk.

        Raises:
            UnsavableState: something in the state is not plain data; nothing was written.
            CheckpointNotSaved: the disk is full or failing; older checkpoints are as they were, and
                the run can go on and save later.
        """
        check_step(step)
        facts = {**(facts or {}), **({} if self.run is None else {"run": self.run})}
        check_facts(facts)
        encoded = encode(state)
        try:
            self._open()
            others = checkpoints_in(self.directory, self._put_aside)
            sequence = 1 + max((manifest.sequence for _, manifest in others), default=0)
            path = commit(self.directory, step, sequence, encoded, facts)
        except (OSError, CheckpointNotSaved) as error:
            self.failures += 1
            if isinstance(error, OSError):
                raise CheckpointNotSaved(self.directory, error, encoded.bytes) from error
            raise
        self.failures = 0
        self._point_to(path)
        ours = [old for old, manifest in others if self._is_ours(manifest)]
        for old in [] if self.keep is None else ours[self.keep - 1 :]:
            discard(old)
        return path

    def newest(self) -> Checkpoint | None:
        """The checkpoint written last that is whole; None if there never was one.

        A damaged one is moved to `quarantine/`, with a note, and the one before it is tried; one of
        another run is passed over, with a note. If there are some and none is both whole and ours,
        that is an error: a run must not begin anew unnoticed.
        """
        self.open()
        before = len(self.notes)
        foreign: list[str] = []

        def ours(path: Path, manifest: Manifest) -> bool:
            if self.adopt or self._is_ours(manifest):
                return True
            foreign.append(f"{path.name} (run {str(manifest.facts['run'])[:60]})")
            return False

        found = find_newest(self.directory, self._put_aside, ours)
        aside = self.directory / QUARANTINE
        if foreign and found is not None:
            self._note(f"{self.directory}: passed over {', '.join(foreign)}: of another run.")
        if found is None:
            if foreign and len(self.notes) == before:
                raise self._all_foreign(foreign)
            old = sorted(aside.iterdir()) if aside.is_dir() else []
            new = self.notes[before:]
            if new or old:
                raise none_valid(self.directory, new or [f"quarantine/{p.name}" for p in old])
            return None
        self._compare_with_hint(found)
        return dataclasses.replace(found, notes=tuple(self.notes[before:]))

    def checkpoints(self) -> list[tuple[Path, Manifest]]:
        """Directory and manifest of each checkpoint, the newest first, without reading states."""
        if not self.directory.is_dir():
            return []
        return checkpoints_in(self.directory, lambda path, error: None)

    def _is_ours(self, manifest: Manifest) -> bool:
        """Whether this run wrote it; so it was, if nobody says who did."""
        return self.run is None or manifest.facts.get("run", self.run) == self.run

    def _all_foreign(self, foreign: list[str]) -> ForeignCheckpoint:
        return ForeignCheckpoint(
            f"{self.directory} is for checkpoints of run {self.run}, and holds only those of "
            f"another: {', '.join(foreign)}. Put back the run's own, go on in the directory they "
            "came from, or take them over: `resume --adopt`, or adopt=True."
        )

    # -- the directory -------------------------------------------------------------------------

    def open(self) -> CheckpointStore:
        """Lock the directory and remove what a killed writer left; `with` does it, and `save`."""
        try:
            self._open()
        except OSError as error:
            raise CheckpointError(
                f"{self.directory} cannot be used for checkpoints: {error.strerror or error}."
            ) from error
        return self

    def _open(self) -> None:
        if self._lock is None:
            if not self.directory.is_dir():
                self.directory.mkdir(parents=True, exist_ok=True)
                sync_directory(self.directory.parent)
            self._lock = Lock(self.directory)
            for entry in list(os.scandir(self.directory)):
                if entry.name.startswith(TEMPORARY):
                    self._remove_left_over(Path(entry.path), entry.is_dir(follow_symlinks=False))

    def close(self) -> None:
        """Let another writer in. Safe to call twice; the next `save` locks again."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> CheckpointStore:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _remove_left_over(self, path: Path, is_directory: bool) -> None:
        if is_directory:
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)

    def _point_to(self, path: Path) -> None:
        """Name the newest in a file, for people and scripts; we do not rely on it."""
        try:
            replace_file(
                self.directory / LATEST, f"{path.name}\n".encode(), temporary(self.directory)
            )
        except OSError as error:
            self._note(f"{path.name} is saved, but {LATEST} could not be written: {error}")

    def _compare_with_hint(self, found: Checkpoint) -> None:
        try:
            data = read_file(self.directory / LATEST, None, 100)
        except CheckpointError:
            return
        name = data.decode("ascii", "replace").strip()
        aside = self.directory / QUARANTINE
        known = (self.directory / name, aside / name) if DIRECTORY.fullmatch(name) else ()
        if not any(path.exists() for path in known):
            self._note(f"{LATEST} names {name!r}, which is not there; {found.path.name} is used.")

    def _put_aside(self, path: Path, error: CheckpointError) -> None:
        aside = self.directory / QUARANTINE
        target = aside / path.name
        try:
            aside.mkdir(exist_ok=True)
            if target.exists():
                target = aside / f"{path.name}{temporary(aside).name}"
            os.rename(path, target)
            sync_directory(aside)
            sync_directory(self.directory)
            self._note(f"{error} It was moved to {QUARANTINE}/.")
        except OSError as reason:
            self._note(f"{error} It could not be moved to {QUARANTINE}/ ({reason}).")

    def _note(self, note: str) -> None:
        self.notes.append(note)
        if self._on_note is not None:
            self._on_note(note)
        else:
            warnings.warn(note, CheckpointWarning, stacklevel=3)
