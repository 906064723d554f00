"""Conformance: what is asked when (C2, C3, C4)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Union
from rillflow.flows.sources import from_actors
from rillflow.graph.context import Context, Operator
from rillflow.graph.handles import Actors
from rillflow.testing.actors import Answer, Worker

MakeEngine = Callable[[], Engine]


def check_gather_sync_is_a_barrier(make_engine: MakeEngine) -> None:
    """C2: a message sent for round t is seen by every item of round t+1; the lag is 0."""
    workers = Actors.of(Worker, 2, name="worker")
    rounds = from_actors(workers, "report").gather_sync(name="rounds")
    with rounds.for_each(Answer(workers)).run(make_engine()) as run:
        for number in range(6):
            told = list(range(1, number + 1))
            expected = [("worker-0", number, told), ("worker-1", number, told)]
            assert next(run) == expected, "a round must see the message of the round before"
        assert run.stats().operator("rounds").lag_max == 0


class _Acknowledge(Operator[Any, Any]):
    """Tells the source of each item that it is done with; gives how much was open and missed."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.sent = 0

    def __call__(self, item: tuple[str, int, list[int]], ctx: Context) -> tuple[int, int, int]:
        _, number, told = item
        missed = self.sent - len(told)
        self.sent += 1
        ctx.send(ctx.sources, "tell", self.sent, version=self.sent)
        return self.k, number + 1 - len(told), missed


def check_requests_in_flight_are_bounded(make_engine: MakeEngine) -> None:
    """C3: at most k requests per shard, the next after the downstream step: a lag below k."""
    branches: list[Flow[Any]] = []
    for k in (1, 2, 4):
        group = Actors.of(Worker, 1, name=f"k{k}")
        gather = from_actors(group, "report").gather_async(num_async=k, name=f"gather {k}")
        branches.append(gather.for_each(_Acknowledge(k)))
    with Union(*branches, weights=[1, 1, 1]).run(make_engine()) as run:
        for _ in range(45):
            k, unacknowledged, missed = next(run)
            assert unacknowledged <= k, "the actor was asked before an item was done with"
            assert missed <= k - 1, "an item missed too many messages"
            workers = run.workers()
            assert all(workers[f"k{k}-0"]["in_flight"] <= k for k in (1, 2, 4))
        stats = run.stats()
        assert all(stats.operator(f"gather {k}").lag_max <= k - 1 for k in (1, 2, 4))


def check_lag_behind_a_batch_is_bounded(make_engine: MakeEngine) -> None:
    """C3: items absorbed by a batch are done, so behind it the lag may reach k, never more."""
    branches: list[Flow[Any]] = []
    for k in (1, 2):
        group = Actors.of(Worker, 2, name=f"k{k}")
        gather = from_actors(group, "report").gather_async(num_async=k, name=f"gather {k}")
        branches.append(gather.batch(2).for_each(Answer()))
    with Union(*branches).run(make_engine()) as run:
        for _ in range(40):
            next(run)
        stats = run.stats()
        assert all(stats.operator(f"gather {k}").lag_max <= k for k in (1, 2))


def check_messages_come_before_later_requests(make_engine: MakeEngine) -> None:
    """C4: a request sees every message sent before it, in order."""

    def tell_three(item: tuple[str, int, list[int]], ctx: Context) -> list[int]:
        _, number, told = item
        for i in range(3):
            ctx.send(ctx.sources, "tell", 3 * number + i)
        return told

    workers = Actors.of(Worker, 2, name="worker")
    flow = from_actors(workers, "report").gather_async().for_each(tell_three)
    with flow.run(make_engine()) as run:
        for _ in range(20):
            told = next(run)
            assert told == list(range(len(told)))
            assert len(told) % 3 == 0, "a request overtook a message"
        assert [len(run.call(worker, "report")[2]) for worker in workers] != [0, 0]


def check_body_of_the_loop_is_part_of_the_step(make_engine: MakeEngine) -> None:
    """C4: nothing is requested until the next pull, so a message from the body comes first."""
    workers = Actors.of(Worker, 1, name="worker")
    for gather in ("gather_async", "gather_sync"):
        flow = getattr(from_actors(workers, "report"), gather)()
        with flow.run(make_engine()) as run:
            for number in range(4):
                item = next(run)
                _, count, told = item if gather == "gather_async" else item[0]
                assert (count, told) == (number, list(range(number)))
                assert run.workers()["worker-0"]["in_flight"] == 0
                run.send(workers, "tell", number)


class _Writer:
    """Writes what it is told to a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, number: int) -> None:
        """One more number."""
        with open(self.path, "a") as file:
            file.write(f"{number} ")


class _Note(Operator[Any, Any]):
    """Tells the writer how many items there were so far."""

    def __init__(self, writer: Actors, versioned: bool) -> None:
        self.writer = writer
        self.versioned = versioned
        self.count = 0

    def __call__(self, item: Any, ctx: Context) -> Any:
        self.count += 1
        ctx.send(self.writer, "write", self.count, version=self.count if self.versioned else None)
        return item


def check_last_message_of_a_flow_arrives(make_engine: MakeEngine) -> None:
    """C4: an actor is not ended before it has handled what the last item had to say to it."""
    for versioned in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "written")
            workers = Actors.of(Worker, 2, name="worker")
            writer = Actors.of(_Writer, 1, path, name="writer")
            flow = from_actors(workers).gather_async().for_each(_Note(writer, versioned)).limit(5)
            assert len(list(flow.run(make_engine()))) == 5
            with open(path) as file:
                written = file.read().split()
            assert written[-1] == "5", f"the last message was lost; it wrote {written}"
            assert versioned or len(written) == 5
