"""The annotations of a function as types, each by itself: what cannot be read is left out."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any


def hints_of(function: types.FunctionType) -> dict[str, Any]:
    """The annotations that can be resolved without importing anything.

    >>> def f(x: int, y: "Nowhere") -> "list[str]": ...
    >>> hints_of(f)
    {'x': <class 'int'>, 'return': list[str]}
    """
    try:
        return dict(typing.get_type_hints(function))
    except Exception:  # a name that only a type checker sees, or an annotation that is no type
        return {
            name: found
            for name, annotation in inspect.get_annotations(function).items()
            if (found := _resolved(function, annotation)) is not None
        }


def _resolved(function: types.FunctionType, annotation: Any) -> Any:
    names = _ForTypes(function)
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, function.__globals__, names)["it"]
    except Exception:  # as above
        return None


class _ForTypes(dict[str, Any]):
    """Names that a function sees, and those that its module imports for type checkers only."""

    def __init__(self, function: types.FunctionType) -> None:
        closure = inspect.getclosurevars(function).nonlocals
        super().__init__(closure)
        self.function = function

    def __missing__(self, name: str) -> Any:
        if name in self.function.__globals__:
            raise KeyError(name)
        where, attribute = _imported_for_types(self.function.__module__)[name]
        found = sys.modules[where]  # whoever made such an item has imported it
        return getattr(found, attribute) if attribute else found


@functools.cache
def _imported_for_types(module: str) -> dict[str, tuple[str, str]]:
    """Names imported under `if TYPE_CHECKING`: the module, and the name there."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError, KeyError):
        return {}
    return dict(_imports(ast.parse(source), sys.modules[module].__package__ or ""))


def _imports(tree: ast.Module, package: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for branch in ast.walk(tree):
        if not isinstance(branch, ast.If) or "TYPE_CHECKING" not in ast.unparse(branch.test):
            continue
        for statement in branch.body:
            if isinstance(statement, ast.ImportFrom):
                parts = (
                    package.split(".")[: -statement.level + 1 or None] if statement.level else []
                )
                where = ".".join([*parts, *([statement.module] if statement.module else [])])
                for alias in statement.names:
                    yield alias.asname or alias.name, (where, alias.name)
            elif isinstance(statement, ast.Import):
                for alias in statement.names:
                    whole = alias.name if alias.asname else alias.name.split(".")[0]
                    yield alias.asname or whole, (whole, "")
