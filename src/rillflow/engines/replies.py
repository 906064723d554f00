"""What a host answers (see `host.py`), and the event that the scheduler makes of it."""

from __future__ import annotations

from typing import Any

from rillflow.engines.contract import Completed, Event, Lost, Started, Told
from rillflow.errors import describe_exception
from rillflow.types import Header, Ref

Reply = tuple[tuple[Any, ...], Ref | None]


def spoiled(reply: Reply, error: BaseException) -> Reply:
    """The answer in place of one that cannot be sent, as for metrics that nobody can pickle."""
    (_, number, fields), _ = reply
    header = Header(*fields)
    lost = tuple((mark, "") for marks in header.items for mark in marks)
    failure = describe_exception(error)
    header = header._replace(
        items=(), dropped=(*header.dropped, *lost), ended=False, metrics=None, failure=failure
    )
    return ("done", number, tuple(header)), None


def event_of(name: str, incarnation: int, reply: Reply) -> Event:
    """What a host answered, as the scheduler hears it."""
    meta, payload = reply
    kind = meta[0]
    if kind == "done":
        return Completed(name, incarnation, meta[1], meta[2], payload)
    if kind == "told":
        return Told(name, incarnation, meta[1], meta[2])
    if kind == "started":
        return Started(name, incarnation)
    return Lost(name, incarnation, "its constructor raised", meta[1])
