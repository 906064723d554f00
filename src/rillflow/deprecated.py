"""Names of the last release that are called something else now: they work once more, and say so.

A name that users write lives on for one release under its old name. Using it gives a
`DeprecationWarning` that says the new name; the release after that it is gone.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     module = import_module("rillflow.rl.config")
    >>> print(told[0].message)
    rillflow.rl.config is called rillflow.learning.config now; the old name will go with 0.3
    >>> module.AlgorithmConfig.__module__
    'rillflow.learning.config'
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LAST = "0.3"
"""the release without the old names below"""

MODULES = {
    "rillflow.losses": "rillflow.learning.losses",
    "rillflow.rl.config": "rillflow.learning.config",
    "rillflow.rl.postprocess": "rillflow.learning.prepare",
    "rillflow.rl.results": "rillflow.learning.results",
}
"""modules that documentation told to import from, and where what they held is now"""

GONE = {
    "rillflow.rl.results.Loss": "an update yields rillflow.Step(loss, trains=..., stats={...})",
}
"""names that nothing stands for any more, and what to write instead"""


def renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Tell whoever used an old name of the new one."""
    text = f"{old} is called {new} now; the old name will go with {LAST}"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


class _Moved(ModuleType):
    """Stands where a module was; what it is asked for is the new module's."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if (whole := f"{self.__name__}.{name}") in GONE:
            raise ImportError(f"{whole} is gone: {GONE[whole]}")
        return getattr(import_module(MODULES[self.__name__]), name)


class _Loader:
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


class _Finder:
    """Asked for modules that nobody else has found."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None
        renamed(fullname, MODULES[fullname])  # frames of the import system do not count
        # loader and finder by their methods: their base classes are slow to import
        return ModuleSpec(fullname, _Loader())  # type: ignore[arg-type]


def find_moved_modules() -> None:
    """From now on, old names of modules can be imported."""
    if not any(type(finder).__name__ == "_Finder" for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
