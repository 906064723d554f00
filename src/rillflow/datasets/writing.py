"""A dataset in Minari's format, written an episode at a time; it is there when it is whole."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rillflow.datasets.location import MAIN, METADATA, h5py_of
from rillflow.datasets.reading import Dataset
from rillflow.datasets.spaces_as_json import difference, to_json
from rillflow.errors import BuildError
from rillflow.experience.batch import Array

FORMAT = "0.5.0"
"""the version of Minari's format that is written"""
_ID = re.compile(r"[-_\w]+-v\d+")


class DatasetWriter:
    """Writes episodes into a new dataset, or behind those of one that is there.

        with DatasetWriter("data/cartpole", env.observation_space, env.action_space) as writer:
            writer.add(observations, actions, rewards, terminated=True, truncated=False)

    Until it is closed everything is in a directory beside it; what raises, leaves nothing.

    Args:
        path: the directory to be made; its name is the id of the dataset.
        observation_space: of the environment.
        action_space: of the environment.
        about: more metadata, such as `algorithm_name`.
        append: whether a dataset that is there gets more episodes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        observation_space: Space[Any],
        action_space: Space[Any],
        about: Mapping[str, Any] | None = None,
        *,
        append: bool = False,
    ) -> None:
        h5py = h5py_of("a dataset")
        self.path = Path(path)
        self.spaces = observation_space, action_space
        self.episodes = self.steps = 0
        there = self.path.exists()
        if there and not append:
            raise BuildError(
                f"{str(path)!r} is there already: write to another directory, or add to it with "
                "append=True (--append)."
            )
        self._part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self.about = self._begun(about or {}, there)
        self._part.joinpath("data").mkdir(parents=True)
        try:
            if there:
                shutil.copyfile(self.path / "data" / MAIN, self._part / "data" / MAIN)
            self._file = h5py.File(self._part / "data" / MAIN, "a", track_order=True)
        except BaseException:
            shutil.rmtree(self._part, ignore_errors=True)
            raise

    def _begun(self, about: Mapping[str, Any], there: bool) -> dict[str, Any]:
        """The metadata that it begins with."""
        observation_space, action_space = self.spaces
        try:
            texts = to_json(observation_space), to_json(action_space)
        except ValueError as error:
            raise BuildError(f"{str(self.path)!r}: {error}.") from None
        if there:
            with Dataset(self.path) as known:
                self._refuse_others(known)
                known.measure()
                self.episodes, self.steps = len(known.episodes), int(known.lengths.sum())
                return dict(known.metadata)
        name = self.path.name
        return {
            "dataset_id": name if _ID.fullmatch(name) else re.sub(r"[^-_\w]", "-", name) + "-v0",
            "data_format": "hdf5",
            "jpeg_encoding": False,
            "observation_space": texts[0],
            "action_space": texts[1],
            "minari_version": FORMAT,
            **about,
        }

    def _refuse_others(self, known: Dataset) -> None:
        found = known.observation_space, known.action_space
        differing = [
            text
            for what, own, wanted in zip(
                ("observations", "actions"), found, self.spaces, strict=True
            )
            if (text := difference(own, wanted, what, True))
        ]
        if differing:
            raise known.wrong("; ".join(differing))

    def add(
        self,
        observations: Sequence[Any],
        actions: Sequence[Any],
        rewards: Sequence[float],
        *,
        terminated: bool,
        truncated: bool,
        seed: int | None = None,
    ) -> None:
        """One whole episode: one observation more than there are actions."""
        steps = len(rewards)
        if len(observations) != steps + 1 or len(actions) != steps or not steps:
            raise BuildError(
                "an episode has a reward and an action for each step and one observation more, got "
                f"{len(observations)}, {len(actions)} and {steps}."
            )
        group = self._file.create_group(f"episode_{self.episodes}")
        group.attrs["id"] = self.episodes
        group.attrs["total_steps"] = steps
        group.create_group("infos")  # none are kept; Minari asks for it
        if seed is not None:
            group.attrs["seed"] = seed
        _put(group, "observations", self.spaces[0], observations)
        _put(group, "actions", self.spaces[1], actions)
        _array(group, "rewards", np.asarray(rewards, np.float64))
        ends = np.zeros(steps, bool)
        for name, value in (("terminations", terminated), ("truncations", truncated)):
            flags = ends.copy()
            flags[-1] = value
            _array(group, name, flags)
        self.episodes += 1
        self.steps += steps

    def close(self) -> None:
        """Put it in its place."""
        self._file.close()
        main = self._part / "data" / MAIN
        size = round(main.stat().st_size / 1e6, 1)
        counts = {"total_episodes": self.episodes, "total_steps": self.steps, "dataset_size": size}
        text = json.dumps(self.about | counts)
        (self._part / "data" / METADATA).write_text(text, encoding="utf-8")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        older = self._part.with_suffix(".old")
        if self.path.exists():
            self.path.rename(older)
        self._part.rename(self.path)
        shutil.rmtree(older, ignore_errors=True)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        shutil.rmtree(self._part, ignore_errors=True)

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _put(group: Any, name: str, space: Space[Any], rows: Sequence[Any]) -> None:
    """Elements of a space, as an array, or as a group with one for each part."""
    if isinstance(space, spaces.Dict):
        inner = group.create_group(name)
        for key, part in space.spaces.items():
            _put(inner, key, part, [row[key] for row in rows])
    elif isinstance(space, spaces.Tuple):
        inner = group.create_group(name)
        for index, part in enumerate(space.spaces):
            _put(inner, f"_index_{index}", part, [row[index] for row in rows])
    else:
        _array(group, name, np.asarray(rows, space.dtype))


def _array(group: Any, name: str, values: Array) -> None:
    group.create_dataset(name, data=values, chunks=True, maxshape=(None, *values.shape[1:]))
