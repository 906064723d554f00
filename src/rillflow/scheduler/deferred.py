"""A value that is serialised only if it is really sent."""

from __future__ import annotations

from typing import Any

from rillflow.engines.contract import Engine
from rillflow.types import Ref


class Deferred(Ref):
    """Serialised when it is first sent, once for all who get it; nobody may change it meanwhile.

    Of weights that are replaced before anybody was asked for an item again, none are.
    """

    __slots__ = ("_engine", "_ref", "_value")

    def __init__(self, engine: Engine, value: Any) -> None:
        self._engine = engine
        self._value = value
        self._ref: Ref | None = None

    def get(self) -> Any:
        return self._value

    def sendable(self) -> Ref:
        """What an engine can send."""
        if self._ref is None:
            self._ref = self._engine.put(self._value)
        return self._ref
