"""A saved policy from its file; `rf.load`, which takes runs too, is in `runs/load_policy.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rillflow.algorithms import NAMES, get_algorithm
from rillflow.errors import BuildError
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.suited_settings import AS_BEFORE, current
from rillflow.results.trained.policy import Origin, Trained
from rillflow.safety.consent import named_code, untrusted


def load(
    path: str | Path, *, env: Any = None, model: Any = None, trust: Collection[str] = ()
) -> Trained:
    """What `Trained.save` wrote, acting as it did.

    To load a file imports and calls nothing that it names, so a policy from anybody can act. To be
    evaluated it needs its environment: one that Gymnasium knows is made, code of the form
    `module:name` only if you name it too, by `env` or `trust`.

    Args:
        path: the file.
        env: to evaluate in; by default the one it was trained in, if that had a name.
        model: the network, if it was one of your own.
        trust: names of code in the file that may be imported, such as "my_envs:Maze".
    """
    from rillflow.policies.saved import load_policy

    spec, weights, about = load_policy(path, model)
    kind, saved, history = _checked(about, path)
    names = {field.name for field in dataclasses.fields(kind)}
    settings: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in current({"env": None, **AS_BEFORE, **saved}).items()
        if key in names  # another version may have had other settings
    }
    if env is not None:
        settings["env"] = env
    asks = {name: settings.get(name) for name in ("env", "env_config")}
    if env is not None:
        del asks["env"]  # the user has named it
    origin = Origin(Path(path), saved.get("env"), untrusted(named_code(asks), trust))
    if origin.untrusted:
        settings["env"] = None  # so that nobody makes it by mistake
    trained = Trained(kind(**settings), spec, weights, history, origin=origin)
    judged = about.get("judged")
    trained.judged = judged if isinstance(judged, Mapping) else None
    return trained


def _checked(
    about: Mapping[str, Any], path: str | Path
) -> tuple[type[AlgorithmConfig], dict[str, Any], list[dict[str, float]]]:
    """What a file says about a policy: its kind of settings, the settings, the history."""
    match about:
        case {"config": str(config), "settings": dict(settings), "history": list(history)} if (
            isinstance(settings.get("env"), str | None)
            and isinstance(settings.get("env_config", {}), dict)
            and all(isinstance(row, dict) for row in history)
        ):
            package, _, name = config.rpartition(".")
            known = package == "rillflow.algorithms" and name in NAMES
            kind = get_algorithm(name).Config if known else AlgorithmConfig
            return kind, settings, history
    raise BuildError(
        f"{str(path)!r} is not a policy saved by rillflow: its settings or its history are not "
        "what we write."
    )
