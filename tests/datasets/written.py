"""Small datasets for tests: a chain whose numbers say where they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces

from rillflow.datasets.location import MAIN, METADATA
from rillflow.datasets.writing import DatasetWriter

VECTOR = spaces.Box(-1e6, 1e6, (4,), np.float32)
TWO = spaces.Discrete(2)


def chain(
    path: Path,
    lengths: Sequence[int] = (5, 3, 8),
    observation_space: Any = VECTOR,
    action_space: Any = TWO,
    *,
    terminated: bool = True,
    append: bool = False,
    **about: Any,
) -> Path:
    """Episodes in which observation t of episode e is [e, t, 0, 0], and its reward t."""
    with DatasetWriter(path, observation_space, action_space, about, append=append) as writer:
        for length in lengths:
            number = writer.episodes
            obs = [np.array([number, t, 0, 0], np.float32) for t in range(length + 1)]
            actions = [t % 2 for t in range(length)]
            rewards = [float(t) for t in range(length)]
            ends = {"terminated": terminated, "truncated": not terminated}
            writer.add(obs, actions, rewards, **ends)
    return path


def altered(path: Path, change: Callable[[Any], object]) -> Path:
    """The same dataset after something was done to its file."""
    with h5py.File(path / "data" / MAIN, "a") as file:
        change(file)
    return path


def renamed(path: Path, **values: Any) -> Path:
    """The same dataset with other metadata."""
    file = path / "data" / METADATA
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return path
