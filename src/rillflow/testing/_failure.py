"""Conformance: what happens when something goes wrong (C9, C10, C11)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from rillflow.engines.contract import Engine
from rillflow.errors import ActorStartError, OperatorError, WorkerLost
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently, Union
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.flows.sources import from_actors, from_items
from rillflow.graph.handles import Actors, Background
from rillflow.scheduler.run import Run
from rillflow.testing.actors import FailsAfter, Faulty, Worker
from rillflow.types import Placement, Reaction

MakeEngine = Callable[[], Engine]


def _error(run: Run[Any], kind: type[Exception], pulls: int = 1) -> Exception:
    """The error that one of the next pulls raises."""
    for _ in range(pulls):
        try:
            next(run)
        except kind as error:
            return error
    raise AssertionError(f"no {kind.__name__} was raised")


def check_learner_raises_its_own_error(make_engine: MakeEngine) -> None:
    """C9: a learner that fails raises its own exception, on a thread as in a process."""
    placements: tuple[Placement, ...] = ("thread", "process")
    for placement in placements:
        learner = Background(FailsAfter(2), name="learner", placement=placement)
        numbers = from_items(range(5), 1, placement="driver").gather_async()
        feed = numbers.for_each(Enqueue(learner.inqueue))
        results = Dequeue(learner.outqueue)
        flow = Concurrently([feed, results], mode="async", output_indexes=[1])
        items: list[int] = []
        errors: list[str] = []
        with flow.run(make_engine()) as run:
            while len(items) < 2 or not errors:
                try:
                    items.append(next(run))
                except LookupError as error:
                    errors.append(str(error))
        assert items == [0, 1], "what was done before the error is delivered"
        assert "the learner lost its way" in errors[0]
        assert "background(learner)" in errors[0]


def check_user_errors_meet_their_policy(make_engine: MakeEngine) -> None:
    """C10: raise, drop, retry, restart, shrink: one group each; every flow goes on."""
    policies: tuple[Reaction, ...] = ("raise", "drop", "retry", "restart", "shrink")
    branches: list[Flow[Any]] = []
    for policy in policies:
        count = 2 if policy == "shrink" else 1
        group = Actors.of(Faulty, count, name=policy, on_failure=policy)
        rollouts = from_actors(group, "named", name=f"{policy} source")
        branches.append(rollouts.gather_sync().flatten().limit(4))
    items: dict[str, list[int]] = {}
    errors: list[Exception] = []
    with Union(*branches).run(make_engine()) as run:
        while True:
            try:
                name, number = next(run)
            except StopIteration:
                break
            except ValueError as error:
                errors.append(error)
            else:
                items.setdefault(name, []).append(number)
        lines = {line.source.split()[0]: line for line in run.ledger().balances()}
        workers = run.workers()
    assert [error.actor for error in errors if isinstance(error, OperatorError)] == ["raise-0"]
    for policy in ("raise", "drop", "retry"):
        assert items[f"{policy}-0"] == [0, 2, 3, 4]
    assert items["restart-0"] == [0, 0, 1, 2]
    assert workers["restart-0"]["incarnation"] == 1
    assert (items["shrink-0"], items["shrink-1"]) == ([0], [0, 1, 2])
    assert [workers[f"shrink-{i}"]["status"] for i in range(2)] == ["gone", "live"]
    assert {policy: line.dropped for policy, line in lines.items()} == {
        policy: {"retried" if policy == "retry" else "error": 1} for policy in policies
    }
    assert all(line.balanced for line in lines.values())


def check_lost_workers_meet_their_policy(make_engine: MakeEngine) -> None:
    """C10: a process that dies is raised, restarted with the newest weights, or done without.

    Where actors do not have processes of their own there is nothing to lose.
    """
    policies: tuple[Reaction, ...] = ("raise", "restart", "shrink")
    groups = {
        policy: Actors.of(Worker, 2 if policy == "shrink" else 1, name=policy, on_failure=policy)
        for policy in policies
    }
    branches = [from_actors(group, "report").gather_async() for group in groups.values()]
    with Union(*branches).run(make_engine()) as run:
        if run.call("raise-0", "pid") == os.getpid():
            return
        for group in groups.values():
            run.send(group, "tell", "weights", version=1)
            run.send(group[0], "die")
        errors, reports = _until(
            run,
            60.0,
            lambda reports: (
                "restart-0" in _fresh(reports) and run.workers()["shrink-0"]["status"] == "gone"
            ),
        )
        assert [type(error) for error in errors] == [WorkerLost]
        assert "raise-0" in str(errors[0])
        (told,) = {tuple(told) for name, n, told in reports if (name, n) == ("restart-0", 0)} - {()}
        assert told == ("weights",), "a new incarnation begins with the newest weights"
        states = {name: worker["status"] for name, worker in run.workers().items()}
        assert states == {
            "raise-0": "gone", "restart-0": "live", "shrink-0": "gone", "shrink-1": "live"
        }  # fmt: skip
        assert run.ledger().balanced


def _fresh(reports: list[Any]) -> set[str]:
    """Who began to count again after the weights came."""
    return {name for name, number, told in reports if number == 0 and told}


def _until(
    run: Run[Any], seconds: float, enough: Callable[[list[Any]], bool]
) -> tuple[list[Exception], list[Any]]:
    """Pull until there is enough; what was raised and what came."""
    errors: list[Exception] = []
    items: list[Any] = []
    deadline = run.engine.now() + seconds
    while not (enough(items) and errors):
        assert run.engine.now() < deadline, f"nothing more after {seconds} s; got {errors}"
        try:
            items.append(next(run))
        except WorkerLost as error:
            errors.append(error)
    return errors, items


class _Unbuildable:
    def __init__(self) -> None:
        raise OSError("no such game")

    def next(self) -> int:
        """Never called."""
        return 0


def check_constructor_error_is_a_start_error(make_engine: MakeEngine) -> None:
    """C10: an actor that cannot be built says so, with the exception of its constructor."""
    broken = from_actors(Actors.of(_Unbuildable, 1, name="broken")).gather_async()
    whole = from_actors(Actors.of(Worker, 1, name="whole")).gather_async()
    with Union(broken, whole, weights=[1, 1]).run(make_engine()) as run:
        error = _error(run, ActorStartError)
        assert "no such game" in str(error)
        assert "broken" in str(error)
        assert isinstance(error.__cause__, OSError)
        assert [next(run), next(run)] == [0, 1]


def check_stop_iteration_is_an_error(make_engine: MakeEngine) -> None:
    """C10: StopIteration from user code neither ends the stream nor the user's own loop."""

    def stops(number: int) -> int:
        if number == 1:
            raise StopIteration("not the end")
        return number

    workers = Actors.of(Worker, 1, name="worker")
    with from_actors(workers).for_each(stops).gather_sync().run(make_engine()) as run:
        assert next(run) == [0]
        error = _error(run, OperatorError)
        assert not isinstance(error, StopIteration)
        assert "StopIteration: not the end" in str(error)
        assert [next(run), next(run)] == [[2], [3]]


def check_errors_name_operator_and_line(make_engine: MakeEngine) -> None:
    """C11: an error names the operators on the way, the actor, and the user's own line."""

    def remote(number: int) -> int:
        if number == 0:
            raise ValueError("broken in the actor")
        return number

    def local(number: int) -> int:
        raise KeyError("broken in the driver")

    workers = Actors.of(Worker, 1, name="worker")
    there = from_actors(workers).for_each(remote, name="there").gather_async()
    with there.for_each(local, name="here").run(make_engine()) as run:
        error = _error(run, ValueError)
        assert isinstance(error, OperatorError)
        text = str(error)
        for part in ("from_actors(Worker.next)", "there", "worker-0", "in remote"):
            assert part in text, f"{part!r} is missing in: {text}"
        first = text.index('raise ValueError("broken in the actor")')
        assert first < text.index("Traceback"), "the user's own line comes first"
        error = _error(run, KeyError)
        for part in ("gather_async > here", "in local", 'raise KeyError("broken in the driver")'):
            assert part in str(error), f"{part!r} is missing in: {error}"
