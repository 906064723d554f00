"""Classes whose values a checkpoint may hold, by registered name. No file can name any other.

A file says `SampleBatch`, never where to import it from: reading a checkpoint imports nothing and
calls nothing but the constructors listed here and those that you registered.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rillflow.errors import BuildError
from rillflow.experience.batch import MultiAgentBatch, SampleBatch
from rillflow.experience.named_vector import NamedVector
from rillflow.learning.results import Gradients, Learned, RowStats, TrainStats
from rillflow.types import Source

C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Kind:
    """A class that can be saved: its name in files, its fields, and how to build it again."""

    name: str
    cls: type
    fields: tuple[str, ...]
    take: Callable[[Any], tuple[Any, ...]]
    """the values of the fields, in that order"""
    build: Callable[[dict[str, Any]], Any]


_BY_CLASS: dict[type, Kind] = {}
_BY_NAME: dict[str, Kind] = {}


def register(cls: C, name: str | None = None) -> C:
    """Let checkpoints hold values of a dataclass or NamedTuple of yours; also a decorator.

    Files name it by `name`, by default the name of the class. Choose one that will stay when the
    class moves. Whoever reads such a checkpoint has to register the class as well.

    >>> from typing import NamedTuple
    >>> class Duel(NamedTuple):
    ...     left: int
    ...     right: int
    >>> _ = register(Duel, "doc.Duel")
    """
    if dataclasses.is_dataclass(cls):
        fields = tuple(f.name for f in dataclasses.fields(cls))
        if not all(f.init for f in dataclasses.fields(cls)):
            raise BuildError(
                f"register({cls.__name__}): every field has to be an argument of the constructor, "
                "so that the value can be built again; found a field with init=False."
            )
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        fields = tuple(cls._fields)
    else:
        raise BuildError(
            f"register takes a dataclass or a NamedTuple; found {cls.__name__}. Save another class "
            "as the plain data it is made of, in get_state."
        )
    _add(Kind(name or cls.__name__, cls, fields, _attributes(fields), lambda f: cls(**f)))
    return cls


def kind_of(value: object) -> Kind | None:
    """How a value is saved, if its class is registered; a subclass is another class."""
    return _BY_CLASS.get(type(value))


def kind_named(name: str) -> Kind | None:
    """The class of that name in files."""
    return _BY_NAME.get(name)


def _attributes(fields: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(getattr(value, field) for field in fields)


def _add(kind: Kind) -> None:
    taken = _BY_NAME.get(kind.name)
    same = taken is not None and _full_name(taken.cls) == _full_name(kind.cls)
    if taken is not None and not same:  # the same: a notebook cell that was run again
        raise BuildError(
            f"the name {kind.name!r} is taken by {_full_name(taken.cls)}; give "
            f"{_full_name(kind.cls)} another: register(cls, name)."
        )
    _BY_NAME[kind.name] = _BY_CLASS[kind.cls] = kind


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _container(cls: type, take: Callable[[Any], Mapping[str, Any]], build: Any) -> None:
    names = tuple(take(cls()))
    _add(Kind(cls.__name__, cls, names, lambda v: tuple(take(v).values()), build))


for _cls in (Gradients, TrainStats, RowStats, Learned, Source):
    register(_cls)
_add(Kind("SampleBatch", SampleBatch, ("columns",), lambda b: (dict(b),),
          lambda f: SampleBatch(f["columns"])))  # fmt: skip
_add(Kind("MultiAgentBatch", MultiAgentBatch, ("batches",), lambda b: (b.batches,),
          lambda f: MultiAgentBatch(f["batches"])))  # fmt: skip
_add(Kind("NamedVector", NamedVector, ("parts",), lambda v: (dict(v),),
          lambda f: NamedVector.of(f["parts"])))  # fmt: skip
_container(deque, lambda d: {"items": list(d), "maxlen": d.maxlen},
           lambda f: deque(f["items"], f["maxlen"]))  # fmt: skip
_container(Counter, lambda c: {"counts": dict(c)}, lambda f: Counter(f["counts"]))
_container(OrderedDict, lambda d: {"items": dict(d)}, lambda f: OrderedDict(f["items"]))
_container(set, lambda s: {"items": list(s)}, lambda f: set(f["items"]))
_container(frozenset, lambda s: {"items": list(s)}, lambda f: frozenset(f["items"]))
