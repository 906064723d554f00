"""Code that the user names, as `module:name`, may be a file in the current directory."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec


def look_here(name: str) -> None:
    """Put the current directory last on the path, if nothing else has a module that was named.

    Never first, and not for anything that the user has not named: a directory of somebody else's
    may hold a `numpy.py`, or a `wandb.py` where none is installed. Workers get the same path.
    """
    if ":" not in name and "." not in name:
        return  # an id, or an algorithm of ours
    module = name.partition(":")[0].partition(".")[0]
    here = os.getcwd()
    if module and here not in sys.path and not _is_found(module):
        sys.path.append(here)


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # it is loaded, and has no spec: `__main__`
        return True
