"""A dataset that is open for reading: its spaces, its episodes, and stretches of them.

The file may be of anybody, and larger than memory. So nothing is read but arrays of numbers that
lie in the file itself, a stretch at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rillflow.datasets.location import MAIN, METADATA, folder_of, h5py_of, wrong
from rillflow.datasets.spaces_as_json import from_data
from rillflow.experience.batch import Array
from rillflow.safety.bounded import parse_json, read_json

_CHUNK_BYTES = 256 << 20
"""of a compressed piece of a file, which is unpacked as a whole"""


@dataclass(frozen=True)
class Stretch:
    """Some steps of one episode, in the structure of the environment."""

    obs: Any
    """one more than there are steps"""
    actions: Any
    rewards: Array
    terminated: Array
    truncated: Array


class Dataset:
    """The episodes of a dataset.

    Args:
        data: a directory, or an id; see `folder_of`.
    """

    def __init__(self, data: str | os.PathLike[str]) -> None:
        self.name = os.fspath(data)
        self.folder = folder_of(data)
        self.metadata = _metadata(self.name, self.folder)
        self.observation_space = self._space("observation_space")
        self.action_space = self._space("action_space")
        self._refuse_jpeg()
        self.file = _opened(self.name, self.folder / MAIN)
        try:
            self.episodes: list[str] = self._names()
        except BaseException:
            self.close()
            raise
        self.lengths: Array = np.empty(0, np.int64)
        """steps of each episode, once `measure` was called"""

    def measure(self) -> Dataset:
        """Look at the length of every episode."""
        lengths = [len(self._array(episode, "rewards")) for episode in self.episodes]
        self.lengths = np.array(lengths, np.int64)
        return self

    def read(self, episode: int, begin: int = 0, end: int | None = None) -> Stretch:
        """The steps `begin` to `end` of an episode, with the observation after the last."""
        name = self.episodes[episode]
        end = int(self.lengths[episode]) if end is None else end
        try:
            return Stretch(
                self._read(name, "observations", self.observation_space, begin, end + 1),
                self._read(name, "actions", self.action_space, begin, end),
                self._array(name, "rewards")[begin:end],
                self._array(name, "terminations")[begin:end].astype(bool, copy=False),
                self._array(name, "truncations")[begin:end].astype(bool, copy=False),
            )
        except (OSError, RuntimeError) as error:
            raise self.wrong(f"{name} cannot be read, the file is damaged ({error})") from None

    def rewards(self, episode: int, begin: int, end: int) -> Stretch:
        """As `read`, without observations and actions."""
        name = self.episodes[episode]
        columns = (self._array(name, key)[begin:end] for key in _FLAT)
        return Stretch(None, None, *columns)

    def arrays(self, episode: int) -> Iterator[tuple[str, Any, Any]]:
        """The arrays of an episode: for each its name, itself and the space of its rows."""
        name = self.episodes[episode]
        for key, space in (
            ("observations", self.observation_space),
            ("actions", self.action_space),
        ):
            for path, leaf in leaves(space):
                yield "/".join((key, *path)), self._array(name, key, path), leaf
        for key in _FLAT:
            yield key, self._array(name, key), None

    def wrong(self, problem: str) -> Exception:
        """The error for this dataset."""
        return wrong(self.name, problem)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what it is made of --------------------------------------------------------------------

    def _space(self, key: str) -> Space[Any]:
        text = self.metadata.get(key)
        if not isinstance(text, str):
            raise self.wrong(f"its {METADATA} says nothing of its {key}, as Minari 0.5 does")
        try:
            return from_data(parse_json(text.encode()))
        except ValueError as error:
            raise self.wrong(f"its {key} is not one that can be learned from: {error}") from None

    def _refuse_jpeg(self) -> None:
        packed = self.metadata.get("jpeg_encoding", True)  # where it says nothing, Minari packs
        if packed and any(_jpeg(leaf) for _, leaf in leaves(self.observation_space)):
            raise self.wrong(
                "its images are packed as JPEG, which is not read here: write them as they are "
                "(jpeg_encoding=False)"
            )

    def _names(self) -> list[str]:
        names = [name for name in self.file if name.startswith("episode_")]
        if not names:
            raise self.wrong("it is empty: there is no episode in it")
        numbers = [name.removeprefix("episode_") for name in names]
        if not all(number.isdecimal() for number in numbers):
            raise self.wrong("its episodes are not numbered as Minari does it")
        return sorted(names, key=lambda name: int(name.removeprefix("episode_")))

    def _array(self, episode: str, key: str, path: tuple[str, ...] = ()) -> Any:
        """One array, which lies in this file; `wrong` if it does not."""
        h5py = h5py_of("a dataset")
        place, found = self.file, self.file
        for part in (episode, key, *path):
            place = found
            link = place.get(part, getlink=True) if isinstance(place, h5py.Group) else None
            if link is None:
                raise self.wrong(f"{episode} has no {key}{''.join(f'/{p}' for p in path)}")
            if not isinstance(link, h5py.HardLink):
                raise self.wrong(f"{episode}/{key} lies elsewhere, in what the file links to")
            found = place[part]
        if not isinstance(found, h5py.Dataset):
            raise self.wrong(f"{episode}/{key} is no array")
        self._refuse_tricks(found, episode, key)
        return found

    def _refuse_tricks(self, array: Any, episode: str, key: str) -> None:
        if array.external or array.is_virtual:
            raise self.wrong(f"{episode}/{key} lies in another file")
        if array.dtype.kind not in "fiub":
            raise self.wrong(f"{episode}/{key} holds {array.dtype}, and numbers are learned from")
        chunk = array.chunks and int(np.prod(array.chunks)) * array.dtype.itemsize
        if chunk and chunk > _CHUNK_BYTES:
            raise self.wrong(f"{episode}/{key} is packed in pieces of {chunk:,} bytes")

    def _read(
        self,
        episode: str,
        key: str,
        space: Space[Any],
        begin: int,
        end: int,
        path: tuple[str, ...] = (),
    ) -> Any:
        if isinstance(space, spaces.Dict):
            parts = space.spaces.items()
            return {k: self._read(episode, key, s, begin, end, (*path, k)) for k, s in parts}
        if isinstance(space, spaces.Tuple):
            several = enumerate(space.spaces)
            return tuple(
                self._read(episode, key, s, begin, end, (*path, f"_index_{i}")) for i, s in several
            )
        rows = self._array(episode, key, path)[begin:end]
        dtype = space.dtype
        return rows if dtype is None else rows.astype(dtype, copy=False)


_FLAT = ("rewards", "terminations", "truncations")


def leaves(
    space: Space[Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Space[Any]]]:
    """The parts of a space that are arrays, and where they are kept."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from leaves(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            yield from leaves(part, (*path, f"_index_{index}"))
    else:
        yield path, space


def _metadata(name: str, folder: Path) -> Mapping[str, Any]:
    try:
        found = read_json(folder / METADATA)
    except (OSError, ValueError) as error:
        raise wrong(name, f"its {METADATA} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise wrong(name, f"its {METADATA} is no object")
    kind = found.get("data_format", "hdf5")
    if kind != "hdf5":
        raise wrong(name, f"it is in the format {kind!r}, and Minari's hdf5 is what is read here")
    return found


def _opened(name: str, path: Path) -> Any:
    h5py = h5py_of("a dataset")
    if not path.is_file():
        raise wrong(name, f"there is no {MAIN} beside its {METADATA}")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise wrong(name, f"{MAIN} is no whole HDF5 file ({error})") from None


def _jpeg(space: Space[Any]) -> bool:
    """Whether Minari packs elements of this space, if it packs any."""
    shape = space.shape or ()
    large = len(shape) in (2, 3) and min(shape[:2]) >= 32
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and large
