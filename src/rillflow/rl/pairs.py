"""Items may come with the actor that made them: `zip_with_source_actor` is optional."""

from __future__ import annotations

from typing import Any

from rillflow.graph.handles import ActorHandle


def unpaired(item: Any) -> Any:
    """The item of an `(actor, item)` pair, or the item itself.

    >>> unpaired("batch")
    'batch'
    """
    if isinstance(item, tuple) and len(item) == 2 and _actors(item[0]):
        return item[1]
    return item


def _actors(first: object) -> bool:
    several = first if isinstance(first, tuple) and first else (first,)
    return all(isinstance(actor, ActorHandle) for actor in several)
