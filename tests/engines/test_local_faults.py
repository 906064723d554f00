"""Workers that die, hang or misbehave, on the local engine: real processes, real signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

import rillflow as rf
from tests.engines.actors import (
    Counter,
    FailsInConstructor,
    FailsWhenAsked,
    Sleeper,
    Stops,
    Stuck,
)
from tests.engines.processes import PATIENCE, children, gone

pytestmark = pytest.mark.proc


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = children()
    yield
    left = list(children() - before)
    assert gone(left), f"processes left behind: {left}"


class PublishWeights(rf.Operator[Any, Any]):
    """Sends a new version to all workers for every item."""

    def __init__(self, workers: rf.Actors) -> None:
        self.workers = workers
        self.version = 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        self.version += 1
        ctx.send(self.workers, "set_weights", self.version, version=self.version)
        return item


def pull(run: rf.Run[Any], times: int) -> None:
    for _ in range(times):
        next(run)


def pull_for(run: rf.Run[Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        next(run)


def kill_worker(run: rf.Run[Any], name: str) -> int:
    pid = run.workers()[name]["pid"]
    os.kill(pid, signal.SIGKILL)
    return int(pid)


def test_a_killed_worker_raises_worker_lost() -> None:
    """Though another one goes on giving items; it was in the middle of a request."""
    workers = rf.Actors.of(Stuck, 2, name="worker", pause=0.01)
    with rf.from_actors(workers).gather_async().run("local") as run:
        while next(run)["actor"] != "worker-0":
            pass
        next(run)  # here worker-0 is asked for the second time
        kill_worker(run, "worker-0")
        with pytest.raises(rf.WorkerLost, match=r"worker-0.*SIGKILL"):
            pull_for(run, PATIENCE)
        # the flow is not dead: the other worker goes on, and the ledger knows what was lost
        assert {next(run)["actor"] for _ in range(5)} == {"worker-1"}
        [line] = run.ledger().balances()
        assert line.balanced
        assert line.dropped == {"worker_lost": 1}


def test_a_killed_worker_is_restarted_with_the_newest_weights() -> None:
    workers = rf.Actors.of(Counter, 2, name="worker", on_failure="restart", pause=0.005)
    flow = rf.from_actors(workers).gather_async().for_each(PublishWeights(workers))
    with flow.run("local") as run:
        for _ in range(10):
            next(run)
        kill_worker(run, "worker-1")
        for item in run:
            if item["actor"] == "worker-1" and item["incarnation"] == 1:
                break
        assert item["n"] == 1, "a new incarnation starts afresh"
        assert item["weights"] >= 10, "and has the newest weights before its first item"
        assert run.workers()["worker-1"]["restarts"] == 1
        assert run.ledger().balanced
        assert run.stats().operator("gather_async").items >= 11, "counters go on"


def test_a_killed_worker_is_left_out_under_shrink_also_in_sync_rounds() -> None:
    workers = rf.Actors.of(Counter, 3, name="worker", on_failure="shrink", pause=0.005)
    with rf.from_actors(workers).gather_sync().run("local") as run:
        assert len(next(run)) == 3
        kill_worker(run, "worker-2")
        sizes = [len(next(run)) for _ in range(4)]
        assert sizes[-1] == 2
        assert run.ledger().balanced


def test_shrinking_to_nothing_raises() -> None:
    workers = rf.Actors.of(Counter, 1, name="worker", on_failure="shrink", pause=0.005)
    with rf.from_actors(workers).gather_async().run("local") as run:
        next(run)
        kill_worker(run, "worker-0")
        with pytest.raises(rf.WorkerLost, match="worker-0"):
            pull(run, 50)


def test_a_dozen_kills_are_survived() -> None:
    workers = rf.Actors.of(
        Counter, 2, name="worker", pause=0.002,
        on_failure=rf.FailurePolicy(on_lost="restart", max_restarts=100, backoff=0.0),
    )  # fmt: skip
    with rf.from_actors(workers).gather_async(num_async=2).run("local") as run:
        next(run)
        for kill in range(12):
            name = f"worker-{kill % 2}"
            kill_worker(run, name)
            while run.workers()[name]["restarts"] <= kill // 2:
                next(run)
        pull(run, 10)
        assert run.ledger().balanced
        assert [worker["restarts"] for worker in run.workers().values()] == [6, 6]


def test_a_crash_loop_ends_with_the_users_own_error_and_few_restarts() -> None:
    policy = rf.FailurePolicy(on_lost="restart", max_restarts=3, backoff=0.01)
    actors = rf.Actors.of(FailsInConstructor, 1, on_failure=policy)
    with rf.from_actors(actors).gather_async().run("local") as run:
        with pytest.raises(rf.ActorStartError, match=r"no such environment: 'Pong-v99'"):
            next(run)
        assert run.workers()["failsinconstructor-0"]["restarts"] == 3


def test_a_constructor_that_raises_is_one_clear_error() -> None:
    with (
        rf.from_actors(rf.Actors.of(FailsInConstructor, 2)).gather_sync().run("local") as run,
        pytest.raises(rf.ActorStartError) as caught,
    ):
        next(run)
    message = str(caught.value)
    assert message.startswith("LookupError: no such environment")
    assert "actors.py" in message.splitlines()[1], "the user's own line comes first"


def test_what_a_worker_said_last_is_heard_though_it_left_orders_unread() -> None:
    """The system tells of the orders first, and of what it said only after that."""
    actors = rf.Actors.of(FailsWhenAsked, 1, name="worker")
    with (
        rf.from_actors(actors).gather_async().run("local") as run,
        pytest.raises(rf.ActorStartError, match="no such environment"),
    ):
        run.call("worker-0", "next")


def test_stop_iteration_from_user_code_is_an_error_not_the_end() -> None:
    with (
        rf.from_actors(rf.Actors.of(Stops, 1)).gather_async().run("local") as run,
        pytest.raises(rf.OperatorError, match="StopIteration"),
    ):
        list(run)


def test_a_hung_worker_is_killed_at_its_deadline_with_all_it_started() -> None:
    policy = rf.FailurePolicy(on_lost="raise", timeout=0.5)
    sleepers = rf.Actors.of(Sleeper, 1, name="sleeper", on_failure=policy)
    with rf.from_actors(sleepers).gather_async().run("local") as run:
        started = time.monotonic()
        with pytest.raises(rf.WorkerLost, match="hung"):
            next(run)
        assert time.monotonic() - started >= 0.5, "and not before it"


def test_children_of_an_actor_die_with_the_run() -> None:
    sleepers = rf.Actors.of(Sleeper, 1, 0.0, name="sleeper")
    with rf.from_actors(sleepers).gather_async().run("local") as run:
        child = next(run)
    assert gone([child])
