"""Code by its name: `module:name`."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from rillflow.errors import BuildError


def pointed_at(path: str) -> Any:
    """What `module:name` points at."""
    name, _, attribute = path.partition(":")
    try:
        module = import_module(name)
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
