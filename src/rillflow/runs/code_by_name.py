"""Code by its name: `module:name`."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from rillflow.errors import BuildError

_MOVED = {
    "rl.q_learning": "learning.q_learning",
    "rl.postprocess": "learning.prepare",
    "rl.meta_learner": "learning.meta_learner",
    "models.mlp": "policies.mlp",
    "models.lstm": "policies.recurrent",
    "policies.lstm": "policies.recurrent",
    "models.nature_cnn": "policies.cnn",
    "policies.nature_cnn": "policies.cnn",
    "envs.points": "envs.toy_point_goal",
    "envs.poles": "envs.toy_multiagent_cartpole",
}
"""modules of rillflow that older run directories name for their code, and where it is now"""


def pointed_at(path: str) -> Any:
    """What `module:name` points at, also where an older rillflow had it."""
    name, _, attribute = path.partition(":")
    try:
        module = import_module(_today(name))
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise BuildError(
                f"{path!r}: there is no module {name!r} here; 'module:name' is a file in this "
                "directory (without .py), or an installed package"
            ) from None
        raise
    found = getattr(module, attribute, None)
    if found is None:
        near = difflib.get_close_matches(attribute, vars(module), n=1)
        hint = f"; did you mean '{name}:{near[0]}'?" if near else ""
        raise BuildError(f"{path!r}: {name} has no {attribute!r}{hint}")
    return found


def _today(module: str) -> str:
    package, _, inner = module.partition(".")
    return f"{package}.{_MOVED.get(inner, inner)}" if package == "rillflow" and inner else module
