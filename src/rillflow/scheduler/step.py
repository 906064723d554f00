"""What every operator of the driver is: a step that is pulled, and keeps what it knows.

    pull()                        the next item, or why there is none; consumes at most one input
    detach()                      whoever reads the step wants no more
    held()                        tickets of the items inside, for the audit of the ledger
    depth, capacity, in_flight    what `run.stats()` shows
    cut()                         a snapshot is taken: no item inside keeps its source waiting
    get_state(), set_state()      what a checkpoint needs of the step

A kind of node is one such class, listed in `kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.scheduler.envelope import Pulled
from rillflow.scheduler.ledger import Ticket

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler

Puller = Callable[[], Pulled]


class Step:
    """One operator of the driver at work."""

    kind: ClassVar[str]
    capacity: int | None = None
    in_flight: int = 0

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        self.scheduler = scheduler
        self.node = node
        self.name = name
        self.stats = scheduler.stats_of(name)
        self.upstream: list[Puller] = [
            scheduler.pull_of(input_) for input_ in node.inputs if not input_.parallel
        ]

    @classmethod
    def problems(cls, program: Program, node: Node) -> Iterator[str]:
        """What is wrong with a node of this kind where it stands; found before anything starts."""
        yield from ()

    def pull(self) -> Pulled:
        """The next item, or why there is none; consumes at most one input."""
        raise NotImplementedError

    def start(self) -> None:
        """The run begins, or goes on after a pause."""

    def detach(self) -> None:
        """Whoever reads this step wants no more: steps upstream need not keep items for it."""
        for input_ in self.node.inputs:
            if not input_.parallel:
                self.scheduler.detach(input_)

    def held(self) -> list[tuple[Ticket, ...]]:
        """Tickets of the items inside the step."""
        return []

    @property
    def depth(self) -> int:
        """Items waiting inside the step."""
        return 0

    def cut(self) -> None:
        """Items on their way through no longer keep their source waiting."""

    def why(self) -> str | None:
        """What to say of this step when nothing can happen any more."""
        return None

    def release(self) -> None:
        """The run is over: let go of every item."""

    def get_state(self, save: Saver) -> Any:
        """Plain data for a checkpoint."""
        return None

    def set_state(self, state: Any, load: Loader) -> None:
        """Go on from what `get_state` gave."""
