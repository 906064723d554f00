"""Background operators that go on from a snapshot, and states without those who hang."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

import rillflow as rf
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.types import ActorInfo

pytestmark = pytest.mark.proc
PATIENCE = 60.0


class Counts:
    """A learner in small: knows how many items it was given, and who it is."""

    def __init__(self) -> None:
        self.count, self.life = 0, 0

    def begin(self, info: ActorInfo) -> None:
        self.life = info.incarnation

    def __call__(self, item: int) -> tuple[int, int]:
        self.count += 1
        return self.life, self.count

    def get_state(self) -> int:
        return self.count

    def set_state(self, state: int) -> None:
        self.count = state


def learning(**policy: Any) -> tuple[Any, rf.Background]:
    how = rf.FailurePolicy(on_lost="restart", **policy)
    learner = rf.Background(Counts(), name="learner", placement="process", on_failure=how)
    items = rf.from_range(10**9, num_shards=1).gather_async().for_each(Enqueue(learner.inqueue))
    results = Dequeue(learner.outqueue)
    return Concurrently([items, results], mode="async", output_indexes=[1]), learner


def test_a_learner_that_is_killed_goes_on_from_its_last_snapshot() -> None:
    flow, _ = learning(snapshot=0.0)
    with flow.run("local") as run:
        while next(run)[1] < 200:
            pass
        os.kill(run.workers()["learner-0"]["pid"], signal.SIGKILL)
        counts = []
        for life, count in run:
            counts.append((life, count))
            if life and len(counts) > 400:
                break
        first = next(count for life, count in counts if life == 1)
        last = max((count for life, count in counts if life == 0), default=200)
        assert first > 150, "it began from a snapshot, not anew"
        assert first <= last + 1
        assert run.ledger().balanced
        assert sum(line.dropped.get("worker_lost", 0) for line in run.ledger().balances()) >= 1


def test_without_a_snapshot_it_begins_anew() -> None:
    flow, _ = learning()
    with flow.run("local") as run:
        while next(run)[1] < 50:
            pass
        os.kill(run.workers()["learner-0"]["pid"], signal.SIGKILL)
        assert next(count for life, count in run if life == 1) == 1


def test_a_learner_that_is_stopped_is_noticed() -> None:
    flow, _ = learning(snapshot=0.0, timeout=1.0, start_timeout=PATIENCE)
    with flow.run("local") as run:
        while next(run)[1] < 50:
            pass
        os.kill(run.workers()["learner-0"]["pid"], signal.SIGSTOP)
        assert next(count for life, count in run if life == 1) > 1


def test_also_one_that_was_slow_to_start() -> None:
    """While an actor starts it has another limit; that one must not outlast the start."""
    flow, _ = learning(snapshot=0.0, timeout=0.2, start_timeout=1000.0)
    with flow.run("local") as run:
        for life in (0, 1):
            while next(run)[0] < life:
                pass
            os.kill(run.workers()["learner-0"]["pid"], signal.SIGSTOP)
        assert next(life for life, _ in run if life == 2)


class Ticks:
    """A source that counts."""

    def __init__(self) -> None:
        self.n = 0

    def next(self) -> int:
        self.n += 1
        return self.n

    def get_state(self) -> int:
        return self.n

    def set_state(self, state: int) -> None:
        self.n = state


def ticking(**policy: Any) -> Any:
    group = rf.Actors.of(Ticks, 3, name="worker", on_failure=rf.FailurePolicy(**policy))
    return rf.from_actors(group).gather_async()


def test_a_state_is_taken_without_who_hangs_and_the_run_goes_on_with_all() -> None:
    with ticking(on_lost="restart").run("local") as run:
        for _ in range(30):
            next(run)
        told: list[str] = []
        run.on_fault(told.append)
        os.kill(run.workers()["worker-1"]["pid"], signal.SIGSTOP)
        for _ in range(30):
            next(run)
        while (had := run.call("worker-0", "get_state")) <= 5:
            next(run)
        began = time.monotonic()
        state = run.get_state(timeout=1.0, partial=True)
        assert time.monotonic() - began < PATIENCE
        assert sorted(state["actors"]) == ["worker-0", "worker-2"]
        assert "worker-1" in told[0]
        assert "not part of this checkpoint" in told[0]
        while run.workers()["worker-1"]["slowest"] == 0.0 or not _answers(run, "worker-1"):
            next(run)
        assert run.ledger().balanced
    with ticking(on_lost="restart").run("local") as again:
        again.set_state(state)
        next(again)
        assert again.workers()["worker-1"]["incarnation"] > 0
        assert again.call("worker-0", "get_state") >= had  # after one item: it went on from there


def _answers(run: Any, name: str) -> bool:
    return bool(run._scheduler.fleet.actors[name].answered)


def test_whoever_would_be_raised_is_not_left_out() -> None:
    with ticking().run("local") as run:
        for _ in range(30):
            next(run)
        pid = run.workers()["worker-1"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        for _ in range(30):
            next(run)
        with pytest.raises(rf.RunError, match=r"worker-1 did not come to rest within 0\.5 s"):
            run.get_state(timeout=0.5, partial=True)
        os.kill(pid, signal.SIGCONT)
        assert sorted(run.get_state(timeout=PATIENCE)["actors"])[1] == "worker-1"
