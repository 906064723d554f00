"""Optional libraries, files that appear whole or not at all, and arguments worth a check."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rillflow.errors import BuildError, RunError


def needs(module: str, extra: str, what: str) -> Any:
    """An optional module, or one line that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != library:
            raise  # it is there, and something that it needs itself is not
        raise BuildError(f"{what} needs {library}: pip install 'rillflow[{extra}]'") from None


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write beside `path` (same ending); it takes that name when all went well.

    If something is raised meanwhile it is removed, and a file that was there before stays. A disk
    that is full, or cannot be written, is told in one sentence.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(path)
    except OSError as error:
        kept = "what was there before is kept" if path.exists() else "nothing of it is left"
        why = error.strerror or error
        raise RunError(f"{str(path)!r} could not be written ({why}): {kept}.") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def path_ending_in(path: str | Path, endings: tuple[str, ...], what: str) -> Path:
    """The path, if its ending says how to write it."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise BuildError(f"{what} is written as {' or '.join(endings)}, found {str(path)!r}.")
    return path


def check_count(name: str, value: object) -> None:
    """Refuse what is not a whole number from 1 on."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise BuildError(f"{name} must be a whole number of at least 1, got {value!r}.")
