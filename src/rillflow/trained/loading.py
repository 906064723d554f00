"""Saved policies from their files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from rillflow.algorithms import NAMES, get_algorithm
from rillflow.rl.config import AlgorithmConfig
from rillflow.trained.policy import Trained


def load(path: str | Path, *, env: Any = None, model: Any = None) -> Trained:
    """What `Trained.save` wrote, acting as it did.

    Args:
        path: the file.
        env: to evaluate in; by default the one it was trained in, if that had a name.
        model: the network, if it was one of your own.
    """
    from rillflow.policies.saved import load_policy

    spec, weights, about = load_policy(path, model)
    package, _, name = about["config"].rpartition(".")
    known = package == "rillflow.algorithms" and name in NAMES
    kind = get_algorithm(name).Config if known else AlgorithmConfig
    names = {field.name for field in dataclasses.fields(kind)}
    settings: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in {"env": None, **about["settings"]}.items()
        if key in names  # another version may have had other settings
    }
    if env is not None:
        settings["env"] = env
    return Trained(kind(**settings), spec, weights, about["history"])
