"""`Enqueue` and `Dequeue`: bounded queues between the branches of a flow."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from rillflow.errors import BuildError
from rillflow.flows.flow import Flow
from rillflow.flows.stream import gives_of
from rillflow.graph.annotations import output_type
from rillflow.graph.handles import Queue
from rillflow.graph.neighbours import either_of, require_agreement
from rillflow.graph.node import Node

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Enqueue(Generic[T_contra]):
    """Put each item on a queue and pass it on: `flow.for_each(Enqueue(queue))`.

    >>> import rillflow as rf
    >>> queue = rf.Queue(capacity=2)
    >>> fill = rf.from_range(4, 1).gather_async().for_each(Enqueue(queue))
    >>> both = rf.Concurrently([fill, Dequeue(queue)], mode="async", output_indexes=[1])
    >>> both.take(4, engine="sim")
    [0, 1, 2, 3]

    When the queue is full the branch waits for room (or drops, if the queue says so).
    """

    def __init__(self, queue: Queue[T_contra]) -> None:
        if not isinstance(queue, Queue):
            raise BuildError(f"Enqueue takes a rillflow Queue; got {queue!r}.")
        self.queue = queue

    def node(self, input_: Node, name: str | None) -> Node:
        """The graph node behind `input_`."""
        gives, producer = gives_of(input_), input_.name or input_.label
        for background in self.queue.ends:
            if background.inqueue == self.queue:
                require_agreement(gives, background.fn, producer, background.name)
        return Node(
            kind="enqueue",
            label=f"enqueue({self.queue.name})",
            inputs=(input_,),
            name=name,
            options={"queue": self.queue, "gives": gives},
        )

    def __call__(self, item: T_contra) -> Any:
        """Refused: waiting for room is the scheduler's work, which must see this operator."""
        raise BuildError(
            f"Enqueue({self.queue.name!r}) waits for room in its queue, so it must stand alone: "
            "write flow.for_each(Enqueue(queue)), not inside another function."
        )


def Dequeue(queue: Queue[T], *, name: str | None = None) -> Flow[T]:  # noqa: N802
    """The items of a queue as a flow, which ends when the queue is empty and its producers ended.

    >>> import rillflow as rf
    >>> Dequeue(rf.Queue(name="results"))
    Flow(dequeue(results))
    """
    if not isinstance(queue, Queue):
        raise BuildError(f"Dequeue takes a rillflow Queue; got {queue!r}.")
    makers = [background for background in queue.ends if background.outqueue == queue]
    gives = either_of(output_type(background.fn) for background in makers)
    node = Node(
        kind="dequeue",
        label=f"dequeue({queue.name})",
        name=name,
        options={"queue": queue, "gives": gives},
    )
    return Flow(node)
