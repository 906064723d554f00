"""A dataset looked at before anybody learns from it: all of it, a stretch at a time.

A file that is no HDF5 at all, or that breaks off, is refused where it is opened: `reading.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rillflow.datasets.reading import Dataset
from rillflow.datasets.spaces_as_json import difference
from rillflow.safety.bounded import parse_json

_STRETCH_BYTES = 8 << 20


@dataclass(frozen=True)
class Summary:
    """What a dataset holds."""

    name: str
    episodes: int
    steps: int
    returns: tuple[float, ...]
    """of each episode, undiscounted"""
    env: str | None = None
    """where it was recorded, by its own word; nothing is made of it"""

    @property
    def mean_return(self) -> float:
        """Of its episodes."""
        return float(np.mean(self.returns)) if self.returns else float("nan")

    def __str__(self) -> str:
        told = f"{self.episodes:,} episodes, {self.steps:,} steps"
        return told + (f", mean return {self.mean_return:.1f}" if self.returns else "")


def check(
    dataset: Dataset,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    *,
    scan: bool = True,
) -> Summary:
    """Refuse what cannot be learned from, and tell what it is.

    Args:
        dataset: open.
        observation_space: of the environment; None: it is not compared.
        action_space: of the environment, whose bounds have to be those of the dataset.
        scan: whether every number is looked at, not shapes and types alone.
    """
    told = [
        found
        for key, own, wanted, bounds in (
            ("observations", dataset.observation_space, observation_space, False),
            ("actions", dataset.action_space, action_space, True),
        )
        if wanted is not None and (found := difference(own, wanted, key, bounds))
    ]
    if told:
        raise dataset.wrong("; ".join(told))
    for episode in range(len(dataset.episodes)):
        _check_shapes(dataset, episode)
    dataset.measure()
    returns: list[float] = []
    if scan:
        returns = [_scanned(dataset, episode) for episode in range(len(dataset.episodes))]
    count, steps = len(dataset.episodes), int(dataset.lengths.sum())
    return Summary(dataset.name, count, steps, tuple(returns), recorded_in(dataset))


def describe(data: str) -> Summary:
    """What is in a dataset, all of which is looked at: `print(describe("data/cartpole"))`."""
    with Dataset(data) as dataset:
        return check(dataset)


def recorded_in(dataset: Dataset) -> str | None:
    """The id of the environment, as the dataset tells it."""
    text = dataset.metadata.get("env_spec")
    try:
        spec = parse_json(text.encode()) if isinstance(text, str) else None
    except ValueError:
        return None
    name = spec.get("id") if isinstance(spec, dict) else None
    return name if isinstance(name, str) and name.isprintable() and len(name) < 200 else None


def _check_shapes(dataset: Dataset, episode: int) -> None:
    name = dataset.episodes[episode]
    arrays = list(dataset.arrays(episode))
    steps = next(a.shape[0] if a.shape else 0 for key, a, _ in arrays if key == "rewards")
    if not steps:
        raise dataset.wrong(f"{name} is empty: it has no step")
    for key, array, space in arrays:
        rows = steps + key.startswith("observations")
        shape = () if space is None else space.shape or ()
        if array.shape != (rows, *shape):
            raise dataset.wrong(
                f"{name}: {key} should be {[rows, *shape]}, and the file has {list(array.shape)}"
            )
        kinds = _KINDS[key] if space is None else _kinds(space)
        if array.dtype.kind not in kinds:
            wanted = space.dtype if space is not None else _NAMES[key]
            raise dataset.wrong(f"{name}: {key} should be {wanted}, and the file has {array.dtype}")
        _refuse_claims(dataset, name, key, array)


def _refuse_claims(dataset: Dataset, name: str, key: str, array: Any) -> None:
    """A file of a few bytes may say that it has any number of rows: what was never written reads as
    zeros, for as long as one likes."""
    if array.chunks:
        whole = prod(
            -(-size // piece) for size, piece in zip(array.shape, array.chunks, strict=True)
        )
        there, pieces = array.id.get_num_chunks(), "pieces"
    else:
        whole, there, pieces = array.nbytes, array.id.get_storage_size(), "bytes"
    if there < whole:
        raise dataset.wrong(
            f"{name}: {key} should have {len(array):,} rows, and not all were written: there are "
            f"{there:,} of {whole:,} {pieces}"
        )


_KINDS = {"rewards": "fiu", "terminations": "biu", "truncations": "biu"}
_NAMES = {"rewards": "numbers", "terminations": "bool", "truncations": "bool"}


def _kinds(space: Space[Any]) -> str:
    kind = space.dtype.kind if space.dtype is not None else "f"
    return {"i": "iu", "u": "iu", "b": "b"}.get(kind, kind)


def _scanned(dataset: Dataset, episode: int) -> float:
    """Look at every number of an episode; its return."""
    name, steps = dataset.episodes[episode], int(dataset.lengths[episode])
    for key, array, space in dataset.arrays(episode):
        row = prod(array.shape[1:]) * array.dtype.itemsize
        most = max(1, _STRETCH_BYTES // max(1, row))
        for begin in range(0, len(array), most):
            try:
                rows = array[begin : begin + most]
            except (OSError, RuntimeError) as error:
                raise dataset.wrong(
                    f"{name}: {key} cannot be read, it is damaged ({error})"
                ) from None
            problem = _problem(rows, space, key.startswith("actions"))
            if problem is not None:
                raise dataset.wrong(f"{name}: {key} {problem}")
    total = 0.0
    for begin in range(0, steps, _STRETCH_BYTES):
        some = dataset.rewards(episode, begin, begin + _STRETCH_BYTES).rewards
        total += float(some.sum(dtype=np.float64))
    return total


def _problem(rows: Any, space: Space[Any] | None, acted: bool) -> str | None:
    if rows.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what is too large for that becomes infinite
            numbers = rows.reshape(len(rows), -1).astype(np.float32)
        fine = np.isfinite(numbers).all(1)
        if not fine.all():
            place = int(np.flatnonzero(~fine)[0])
            large = ", more than float32 can say" if np.isfinite(rows[place]).all() else ""
            return f"are not all finite: row {place} is {rows[place]}{large}"
    if acted and isinstance(space, spaces.Box):
        slack = np.minimum(1e-4 * np.maximum(np.float64(space.high) - space.low, 1), 1)  # rounding
        if (rows < space.low - slack).any() or (rows > space.high + slack).any():
            return f"are not all in {space}"
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        low = space.start
        high = low + (space.n if isinstance(space, spaces.Discrete) else space.nvec)
        if (rows < low).any() or (rows >= high).any():
            return f"are not all in {space}"
    if isinstance(space, spaces.MultiBinary) and not np.isin(rows, (0, 1)).all():
        return f"are not all in {space}"
    return None
