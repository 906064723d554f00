"""Libraries that only some users have: imported when they are needed, or said how to get."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rillflow.errors import BuildError


def needs(module: str, extra: str, what: str) -> Any:
    """An optional module, or one line that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != library:
            raise  # it is there, and something that it needs itself is not
        raise BuildError(f"{what} needs {library}: pip install 'rillflow[{extra}]'") from None
