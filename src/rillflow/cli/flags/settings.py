"""Settings of an algorithm as flags: names, types, defaults and help from its `Config` class."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rillflow.cli.flags.current_directory import look_here
from rillflow.cli.output.error_messages import Usage
from rillflow.runs.code_by_name import pointed_at
from rillflow.safety.consent import is_pointer

_ELSEWHERE = ("env",)
"""fields that have an argument of their own"""

_GROUPS = {
    "rollouts": (
        "env_config", "resize", "grayscale", "frame_stack", "num_workers", "num_envs_per_worker",
        "rollout_fragment_length",
    ),
    "faults": ("on_failure", "max_restarts", "worker_timeout", "env_timeout", "worker_memory"),
    "evaluation": (
        "eval_every", "eval_episodes", "eval_timeout", "max_eval_failures", "info_metrics",
    ),
    "network": ("hidden", "activation", "model", "memory", "memory_size", "channels"),
}  # fmt: skip
"""what every algorithm has, by subject; the rest is about learning"""


@dataclass(frozen=True)
class Setting:
    """One field of a configuration."""

    name: str
    hint: Any
    default: Any
    help: str
    group: str

    @property
    def flag(self) -> str:
        """As it is written on the command line: `lambda_` is `--lambda`."""
        return "--" + self.name.strip("_").replace("_", "-")

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off, or neither if nobody says so."""
        return self.hint in (bool, bool | None)

    @property
    def shown_default(self) -> str:
        """The default as one would type it."""
        return shown(self.default)

    @property
    def metavar(self) -> str:
        """What kind of value it takes."""
        return _metavar(self.hint)


def settings_of(config: type) -> list[Setting]:
    """Every setting of a class, with its default there and its help from where it is explained."""
    try:
        hints = typing.get_type_hints(config)
    except NameError:  # annotations of a user's that name what is not there at run time
        hints = {}
    about = _explained(config)
    found = []
    for field in dataclasses.fields(config):
        if field.name in _ELSEWHERE or not field.init:
            continue
        owner, text = about.get(field.name, (config, ""))
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        hint = hints.get(field.name, Any)
        found.append(Setting(field.name, hint, default, text, _group(owner, field.name)))
    return found


def _group(owner: type, name: str) -> str:
    if owner.__name__ == "AlgorithmConfig":
        return next((group for group, names in _GROUPS.items() if name in names), "learning")
    title = (owner.__doc__ or "").strip().splitlines()
    return title[0].rstrip(".") if title else f"Settings of {owner.__module__}"


def _explained(config: type) -> dict[str, tuple[type, str]]:
    """By field: the class whose source explains it, and the line under it there."""
    found: dict[str, tuple[type, str]] = {}
    for owner in reversed(config.__mro__):
        for name, text in _docs(owner):
            if text or name not in found:
                # a subclass that only changes the default leaves the field in its group
                first = found[name][0] if name in found else owner
                found[name] = (first, text)
    return found


def _docs(owner: type) -> Iterator[tuple[str, str]]:
    """Fields in the source of one class, with the string below each."""
    module = sys.modules.get(owner.__module__)
    try:
        tree = ast.parse(inspect.getsource(module)) if module else None
    except (OSError, TypeError, SyntaxError):
        return  # made at a prompt, or without source: flags without help
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
            for here, below in zip(node.body, [*node.body[1:], None], strict=True):
                if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name):
                    yield here.target.id, _string(below)


def _string(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        value = node.value.value
        return " ".join(value.split()) if isinstance(value, str) else ""
    return ""


# -- values -------------------------------------------------------------------------------------


def parse_value(hint: Any, text: str) -> Any:
    """Text as the type of a setting, as far as it can be; what cannot stays text.

    The configuration itself then says what is wrong, of every setting at once.

    >>> parse_value(tuple[int, ...], "64,64"), parse_value(float | None, "none")
    ((64, 64), None)
    >>> parse_value(int, "4e5"), parse_value(int, "20k"), parse_value(int, "two")
    (400000, 20000, 'two')
    """
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _first_that_fits(inside, text)
    if origin is tuple:
        parts = [part.strip() for part in text.strip("()[] ").split(",")]
        return tuple(parse_value(inside[0], part) for part in parts if part)
    if origin is dict or hint is dict:
        return parse_object(text)
    if hint is int or hint is float:
        return _number(hint, text)
    if hint is bool:
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    if hint is str or origin is typing.Literal:
        return text
    if text.lower() == "none":
        return None
    return _pointed_at(text) if ":" in text else text


def _pointed_at(name: str) -> Any:
    look_here(name)
    return pointed_at(name)


def _first_that_fits(hints: tuple[Any, ...], text: str) -> Any:
    if text.lower() in ("none", "null") and type(None) in hints:
        return None
    if any(text in typing.get_args(hint) for hint in hints):  # a word of a Literal
        return text
    values = [parse_value(hint, text) for hint in hints if hint is not type(None)]
    return next((value for value in values if not isinstance(value, str)), text)


_SUFFIXES = {"k": 1e3, "m": 1e6}


def _number(kind: type, text: str) -> Any:
    factor = _SUFFIXES.get(text[-1:].lower(), 1.0)
    try:
        value = float(text[:-1] if factor != 1.0 else text) * factor
        if kind is float:
            return value
        whole = value.is_integer() and ("." not in text or factor != 1.0)
        return int(value) if whole else text
    except (ValueError, OverflowError):
        return text


def parse_object(
    text: str, what: str = "value", example: str = '{"num_workers": 4}'
) -> dict[str, Any]:
    """An object of JSON, or what is wrong with it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Usage(
            f"{what} {text!r} is not JSON ({error}); write it as '{example}', with double quotes "
            "inside and single quotes around"
        ) from None
    if not isinstance(value, dict):
        raise Usage(f"{what} {text!r} must be an object of JSON, as '{example}'")
    return value


def from_json(hint: Any, value: Any) -> Any:
    """A value of JSON as a setting: lists are tuples, `module:name` is what it points at."""
    if isinstance(value, list):
        return tuple(value)
    takes_code = hint is Any or any(
        typing.get_origin(one) is Callable for one in (hint, *typing.get_args(hint))
    )
    return (
        _pointed_at(value) if takes_code and isinstance(value, str) and is_pointer(value) else value
    )


# -- words --------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value as one would type it.

    >>> shown((64, 64)), shown(0.0003), shown(None), shown({})
    ('64,64', '0.0003', 'none', '{}')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(shown(inner) for inner in value)
    if isinstance(value, dict):
        return json.dumps(value)
    return f"{value.__module__}:{value.__qualname__}" if callable(value) else str(value)


def _metavar(hint: Any) -> str:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return "|".join(dict.fromkeys(_metavar(one) for one in inside))
    if origin is tuple:
        return f"{_metavar(inside[0])},..."
    if origin is typing.Literal:
        return "|".join(map(str, inside))
    if origin is dict or hint is dict:
        return "JSON"
    if origin is Callable:
        return "module:name"
    names = {int: "N", float: "X", str: "NAME", type(None): "none", Any: "VALUE"}
    return names.get(hint, "VALUE")
