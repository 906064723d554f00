"""A run in one file, to keep or to hand on: its policies, a model card, its curve, its film.

The file is a ZIP without compression. What is in it has the names of a run's directory, so that it
becomes one again: see `unpack.py`, which reads such a file from anybody.

card.md, card.json            what it is, for people; and for machines, with the hash of each file
run.json, metrics.jsonl       what was asked for, and what came of it
policy.npz, best_policy.npz   or policies/ and best_policies/ of several agents
graph.json, curve.png         the dataflow and the learning curve
video.mp4 or video.gif        a film, if the run has one
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from rillflow.errors import BuildError
from rillflow.files import to_json, whole_file
from rillflow.results.model_card import card_as_text, card_of
from rillflow.safety.bounded import read_json, regular_file

ENDING = ".rill"
_ABOUT_BYTES = 16 << 20
_LARGEST_FILM = 256 << 20
_PIECE = 1 << 20
_THEN = (1980, 1, 1, 0, 0, 0)
"""when each file says that it was written: the same run gives the same file"""
_SINGLE = ("run.json", "metrics.jsonl", "graph.json", "policy.npz", "best_policy.npz")
_OWN = ("consent", "init_from")
"""of run.json: which code its user agreed to, and where on this machine it began"""
_FOLDERS = ("policies", "best_policies")


def pack_run(run: str | Path, path: str | Path | None = None) -> Path:
    """Write a run into one file: `pack_run("runs/ppo-CartPole-v1-1", "pole.rill")`.

    Args:
        run: its directory; it may still go on, and is packed as it was saved last.
        path: by default the name of the directory, beside it, with the ending `.rill`.
    """
    run = Path(run)
    about = _about(run)
    path = run.with_name(run.name + ENDING) if path is None else Path(path)
    if path.suffix.lower() != ENDING:
        raise BuildError(f"a packed run is written as {ENDING}, not as {str(path)!r}.")
    files = dict(_files(run))
    if not any(name.startswith("polic") for name in files):
        raise BuildError(
            f"{str(run)!r} has saved no policy yet, and a packed run is about that: wait for its "
            "first checkpoint, or let it come to its end."
        )
    card = card_of(run, about, sorted(files))
    with whole_file(path) as part, ZipFile(part, "w", ZIP_STORED) as archive:
        hashes = {name: _add_file(archive, name, own) for name, own in sorted(files.items())}
        _add(archive, "run.json", hashes, to_json(_to_hand_on(about), indent=2).encode())
        _add(archive, "card.md", hashes, card_as_text(card, path.name).encode())
        _add(archive, "card.json", {}, to_json({**card, "files": hashes}, indent=2).encode())
    return path


def _about(run: Path) -> dict[str, Any]:
    if not run.is_dir():
        raise BuildError(f"there is no run {str(run)!r}; `rillflow list runs` shows them.")
    try:
        about = read_json(run / "run.json", _ABOUT_BYTES)
    except (OSError, ValueError) as error:
        raise BuildError(f"{str(run)!r} is no run: run.json: {error}.") from None
    if not isinstance(about, dict):
        raise BuildError(f"{str(run)!r} is no run: its run.json is not that of one.")
    return about


def _to_hand_on(about: dict[str, Any]) -> dict[str, Any]:
    """What a stranger may know: not the name of the machine, nor which code its user agreed to."""
    kept = {name: value for name, value in about.items() if name not in _OWN}
    machine = about.get("machine")
    if isinstance(machine, dict):
        kept["machine"] = {k: v for k, v in machine.items() if k != "host"}
    return kept


def _files(run: Path) -> Iterator[tuple[str, Path]]:
    """Names in the packed file, and where each comes from; run.json is written anew."""
    for name in _SINGLE[1:]:
        if (run / name).is_file():
            yield name, run / name
    for folder in _FOLDERS:
        for path in sorted((run / folder).glob("*.npz")):
            yield f"{folder}/{path.name}", path
        if (run / folder / "agents.json").is_file():
            yield f"{folder}/agents.json", run / folder / "agents.json"
    curve = _curve(run)
    if curve is not None:
        yield "curve.png", curve
    film = _film(run)
    if film is not None:
        yield f"video{film.suffix.lower()}", film


def _curve(run: Path) -> Path | None:
    """The picture of its curve, drawn if the run has not done so yet."""
    from rillflow.errors import RillflowError
    from rillflow.results.plots import plot_runs

    path = run / "curve.png"
    if not path.is_file():
        try:
            plot_runs([run], path)
        except (RillflowError, OSError):
            return None
    return path


def _film(run: Path) -> Path | None:
    """The newest that is not too large."""
    patterns = ("*.mp4", "*/*.mp4", "*.gif", "*/*.gif")
    found = [path for pattern in patterns for path in run.glob(pattern)]
    fine = [path for path in found if path.is_file() and path.stat().st_size <= _LARGEST_FILM]
    return max(fine, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def _add_file(archive: ZipFile, name: str, path: Path) -> dict[str, Any]:
    """A file as it is; a run that goes on replaces its files, so each is opened but once."""
    digest, size = hashlib.sha256(), 0
    with regular_file(path) as (source, length), archive.open(_entry(name), "w") as into:
        while size < length and (piece := source.read(min(_PIECE, length - size))):
            digest.update(piece)
            size += len(piece)
            into.write(piece)
    return {"bytes": size, "sha256": digest.hexdigest()}


def _add(archive: ZipFile, name: str, hashes: dict[str, Any], data: bytes) -> None:
    archive.writestr(_entry(name), data)
    hashes[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(name, _THEN)
    entry.external_attr = 0o644 << 16
    return entry


def size_of(path: Path) -> str:
    """For people."""
    size = os.path.getsize(path)
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
