"""Can a value travel to an actor? And if not: which variable inside it is to blame?

The pickler itself tells which object it failed on: the last one it met. What is left is to find
the shortest way to that object from the value a user knows, through names a user has written.
"""

from __future__ import annotations

import dis
import functools
import io
import sys
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle

from rillflow.callables import label_of

_STDLIB = sys.stdlib_module_names - {"builtins", "collections", "functools", "types"}
"""what is inside these modules' objects means nothing to a user: the object itself is named"""
_CONTAINERS = (list, tuple, dict, set, frozenset)
_FARTHEST = 100_000
"""objects looked at before the search is given up"""
_LONGEST = 200
"""letters of a path that still helps a reader"""


def is_shippable(value: object) -> bool:
    """Whether a value can be copied into an actor."""
    return _error(_Pickler(), value) is None


def why_unshippable(value: object, name: str | None = None) -> str | None:
    """None if the value can be copied into an actor, else which variable cannot be and why.

    `name` is what the reader of the message calls the value; by default an object is `self`, and
    the variables of a function stand for themselves.

    >>> why_unshippable([1, 2]) is None
    True
    >>> print(why_unshippable({"rows": (row for row in [])}, "data"))
    `data['rows']` is a generator (TypeError: cannot pickle 'generator' object)
    """
    if is_shippable(value):
        return None
    recorder = _Recorder()
    error = _error(recorder, value)
    found = _find(_Place(value, name or _name_of(value), top=name is None), recorder.met)
    return f"{found.text} is {_kind(found.value)} ({error})"


# -- a trial ---------------------------------------------------------------------------------------


class _Sink:
    """Where the bytes of a trial go: nowhere."""

    def write(self, data: Any) -> int:
        return len(data)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self) -> None:
        # buffers are taken out of the stream: large arrays are looked at and never copied
        super().__init__(_Sink(), protocol=5, buffer_callback=lambda _: None)


class _Recorder(_Pickler):
    """Keeps every object the pickler meets, but for plain data and built-in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[object] = []

    def reducer_override(self, obj: object) -> Any:
        self.met.append(obj)
        return super().reducer_override(obj)


def _error(pickler: _Pickler, value: object) -> str | None:
    try:
        pickler.dump(value)
    except Exception as error:  # any class may refuse in any way
        text = str(error).splitlines()
        return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return None


# -- the way to the culprit ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """A value inside another, and the words that lead to it."""

    value: Any
    path: str
    holder: str = ""
    """the function, other than the one that is asked about, whose variable the path begins with"""
    top: bool = False
    """this is the value that is asked about, under no name of its own"""
    parent: _Place | None = None

    @property
    def text(self) -> str:
        return f"`{self.path}`" + (f" in `{self.holder}`" if self.holder else "")

    def within(self, value: object, step: str) -> _Place:
        """A part of the value: an attribute or an element."""
        return _Place(value, self.path + step, self.holder, parent=self)

    def variable(self, value: object, name: str) -> _Place:
        """What a function refers to by `name`."""
        return _Place(value, name, "" if self.top else self.path, parent=self)

    def owner(self, value: object) -> _Place:
        """The object a method is bound to."""
        return self.same(value, "self") if self.top else self.within(value, ".__self__")

    def same(self, value: object, name: str) -> _Place:
        """What the value wraps: to a reader they are one thing."""
        return _Place(value, name if self.top else self.path, self.holder, self.top, self)


def _find(root: _Place, met: list[object]) -> _Place:
    """The place of the last object met, by the shortest way through what was met; else the root."""
    shipped = {id(obj) for obj in met}
    places = deque([root])
    seen = {id(root.value): root.value}  # with the values: the id of a dead one is given out again
    while met and places and len(seen) < _FARTHEST:
        place = places.popleft()
        if place.value is met[-1]:
            return _as_users_know_it(place)
        for part in _parts(place):
            known = id(part.value) in shipped or isinstance(part.value, _CONTAINERS)
            if known and id(part.value) not in seen and len(part.path) < _LONGEST:
                seen[id(part.value)] = part.value
                places.append(part)
    return root


def _as_users_know_it(place: _Place) -> _Place:
    """The lock of an Event is nothing that its owner has ever seen: it is the Event."""
    best, here = place, place.parent
    while here is not None:
        module = type(here.value).__module__.partition(".")[0]
        if module in _STDLIB and not isinstance(here.value, type):
            best = here
        here = here.parent
    return best


def _parts(place: _Place) -> Iterator[_Place]:
    value = place.value
    if isinstance(value, types.FunctionType):
        yield from _variables(place)
    elif isinstance(value, types.MethodType):
        yield place.owner(value.__self__)
        yield place.same(value.__func__, value.__name__)
    elif isinstance(value, types.BuiltinMethodType):
        yield place.owner(value.__self__)
    elif isinstance(value, functools.partial):
        yield place.same(value.func, _name_of(value.func))
        yield from (place.variable(arg, f"args[{i}]") for i, arg in enumerate(value.args))
        yield from (place.variable(arg, key) for key, arg in value.keywords.items())
    elif isinstance(value, type):
        yield from (place.within(member, f".{name}") for name, member in vars(value).items())
        yield from (_Place(base, base.__name__, parent=place) for base in value.__bases__)
    elif isinstance(value, staticmethod | classmethod):
        yield place.same(value.__func__, place.path)
    elif isinstance(value, property):
        yield from (place.same(fn, place.path) for fn in (value.fget, value.fset))
    else:
        yield from _elements(place)
        yield from _state(place)


def _variables(place: _Place) -> Iterator[_Place]:
    """What a function carries: enclosing variables, defaults, globals, attributes."""
    fn: types.FunctionType = place.value
    code = fn.__code__
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield place.variable(cell.cell_contents, name)
        except ValueError:  # a name that is not bound yet
            continue
    defaults = fn.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    for name, default in zip(positional[len(positional) - len(defaults) :], defaults, strict=True):
        yield place.variable(default, name)
    for name, default in (fn.__kwdefaults__ or {}).items():
        yield place.variable(default, name)
    for name in _globals_of(code):
        if name in fn.__globals__:
            yield place.variable(fn.__globals__[name], name)
    for name, attribute in vars(fn).items():
        yield place.within(attribute, f".{name}")


def _globals_of(code: types.CodeType) -> list[str]:
    """Names that a function, or one defined inside it, looks up in its module."""
    names = {i.argval: None for i in dis.get_instructions(code) if i.opname.endswith("_GLOBAL")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= dict.fromkeys(_globals_of(constant))
    return list(names)


def _elements(place: _Place) -> Iterator[_Place]:
    value = place.value
    if isinstance(value, list | tuple | deque):
        yield from (place.within(item, f"[{i}]") for i, item in enumerate(value))
    elif isinstance(value, dict):
        yield from (place.within(item, f"[{key!r}]") for key, item in value.items())
    elif isinstance(value, set | frozenset):
        yield from (place.within(item, "{...}") for item in value)


def _state(place: _Place) -> Iterator[_Place]:
    """What an object is rebuilt from, as its `__reduce_ex__` tells it."""
    try:
        reduced = place.value.__reduce_ex__(5)
    except Exception:  # a module, for one: cloudpickle treats modules in another way
        return
    if not isinstance(reduced, tuple):  # the object travels by its name
        return
    state = reduced[2] if len(reduced) > 2 else None
    for attributes in state if isinstance(state, tuple) else (state,):  # with slots there are two
        if isinstance(attributes, dict):
            yield from (place.within(part, f".{name}") for name, part in attributes.items())
    for argument in reduced[1]:
        if isinstance(argument, type):
            yield _Place(argument, argument.__name__, parent=place)
        else:
            yield place.same(argument, place.path)


# -- words -----------------------------------------------------------------------------------------


def _name_of(value: object) -> str:
    plain = isinstance(value, types.FunctionType | types.BuiltinFunctionType | type)
    return label_of(value) if plain else "self"


def _kind(value: object) -> str:
    if isinstance(value, io.IOBase):
        return "an open file"
    name = type(value).__name__
    if "lock" in name.lower():  # of threading and of multiprocessing, by whatever name
        return "a lock"
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
