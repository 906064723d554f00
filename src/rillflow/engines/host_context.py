"""What operators inside an actor are given: their context, and an account of what they drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.engines.transforms import Marks
from rillflow.errors import BuildError
from rillflow.types import Provenance, Source, Versions

if TYPE_CHECKING:
    from rillflow.engines.host import Host


class HostContext:
    """The context of an operator inside an actor."""

    def __init__(self, host: Host, operator: str) -> None:
        self.operator = operator
        self.seed = host.info.seed
        self.actor = host.actor
        self.info = host.info
        self.provenance: Provenance = ()
        self._host = host

    @property
    def sources(self) -> tuple[Any, ...]:
        """The actor itself."""
        return (self._host.handle_,)

    def send(self, *_: Any, **__: Any) -> None:
        """Refused: messages go through the driver, which keeps their order."""
        raise BuildError(
            f"operator {self.operator!r} runs inside an actor and cannot send messages from there. "
            "Return what is needed and send it from an operator after the gather."
        )

    put = send
    defer = send
    mark = send
    shared = send
    on_metrics = send

    @property
    def lag(self) -> int:
        """Always 0: inside an actor nothing is newer than what the actor has."""
        return 0

    def count(self, counter: str, n: int = 1) -> None:
        """Add to a counter that travels with the next answer."""
        self._host.counters[counter] = self._host.counters.get(counter, 0) + n


class Accounts:
    """Marks inside an actor are sequence numbers; what is dropped travels with the answer."""

    def __init__(self, host: Host, operator: str) -> None:
        self.host = host
        self.operator = operator
        self.ctx = HostContext(host, operator)

    def drop(self, marks: Marks, reason: str) -> None:
        self.host.dropped.extend((seq, self.operator) for seq in marks)

    def share(self, marks: Marks, extra: int) -> None:
        pass  # the driver counts how often each number comes back

    def context(self, marks: Marks) -> HostContext:
        info, versions = self.host.info, Versions(self.host.versions)
        self.ctx.provenance = tuple(Source(info.name, info.incarnation, s, versions) for s in marks)
        return self.ctx

    def handle(self, marks: Marks) -> Any:
        return self.host.handle_
