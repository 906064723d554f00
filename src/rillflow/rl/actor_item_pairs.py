"""Items may come with the actor that made them: `zip_with_source_actor` is optional."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

from rillflow.graph.handles import ActorHandle

T = TypeVar("T")
Paired: TypeAlias = T | tuple[ActorHandle | tuple[ActorHandle, ...], T]
"""an item, or an item with the actor or actors that made it"""


def unpaired(item: Paired[T]) -> T:
    """The item of an `(actor, item)` pair, or the item itself.

    >>> unpaired("batch")
    'batch'
    """
    if isinstance(item, tuple) and len(item) == 2 and _actors(item[0]):
        alone: Any = item[1]
    else:
        alone = item
    found: T = alone
    return found


def _actors(first: object) -> bool:
    several = first if isinstance(first, tuple) and first else (first,)
    return all(isinstance(actor, ActorHandle) for actor in several)
