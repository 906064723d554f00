"""Where time went: the driver's wall time line by line, and that of the actors."""

from __future__ import annotations

import time
from typing import Any

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.scheduler.stats import RunStats


class Worker:
    def next(self) -> int:
        return 1

    def set_weights(self, weights: int) -> None:
        self.weights = weights


class Telling(Worker):
    """Says what its time went into."""

    def pop_metrics(self) -> dict[str, Any]:
        return {"steps": 1, "seconds": {"policy": 0.3, "environments": 0.1}}


class LateStarter:
    """An operator whose start takes long, such as one that imports torch."""

    def on_start(self, ctx: rf.Context) -> None:
        time.sleep(0.2)

    def __call__(self, item: int) -> int:
        return item


def slow(item: int) -> int:
    return item


def lines(stats: RunStats, where: str = "driver") -> dict[str, float]:
    return {line.name: round(line.share, 2) for line in stats.times if line.where == where}


def after(flow: rf.Flow[Any], items: int, engine: Any = "sim") -> RunStats:
    with flow.run(engine) as run:
        for _ in range(items):
            next(run)
        return run.stats()


def test_driver_works_or_waits_for_somebody() -> None:
    workers = rf.Actors.of(Worker, 1, name="worker")
    flow = rf.from_actors(workers).gather_async().for_each(slow)
    stats = after(flow, 41, Sim({"worker": 0.4, "for_each(slow)": 0.1}))
    assert lines(stats) == {
        "for_each(slow)": 0.2,
        "waiting for from_actors(Worker.next)": 0.8,
        "scheduling": 0.0,
    }
    assert stats.attributed == pytest.approx(1.0)
    assert "The driver's time: 80% waiting for from_actors(Worker.next), 20%" in str(stats)


def test_table_and_verdict_agree() -> None:
    workers = rf.Actors.of(Worker, 1, name="worker")
    flow = rf.from_actors(workers).gather_async().for_each(slow)
    stats = after(flow, 41, Sim({"worker": 0.4, "for_each(slow)": 0.1}))
    driver, actors = stats.resources
    assert driver.utilisation == pytest.approx(stats.operator("for_each(slow)").utilisation)
    assert actors.utilisation == pytest.approx(0.8, abs=0.01)
    assert stats.driver_waiting == pytest.approx(0.8, abs=0.01)


def test_time_of_actors_is_that_of_their_operators() -> None:
    workers = rf.Actors.of(Worker, 2, name="worker")
    flow = rf.from_actors(workers).for_each(slow, name="inside").gather_sync()
    stats = after(flow, 11, Sim({"worker": 0.4}))
    inside = lines(stats, "worker")
    busy = inside["from_actors(Worker.next)"] + inside["inside"]
    assert busy == pytest.approx(1.0, abs=0.02)
    assert inside["idle, messages"] == pytest.approx(0.0, abs=0.02)


def test_actor_tells_the_parts_of_its_work() -> None:
    workers = rf.Actors.of(Telling, 1, name="worker")
    stats = after(rf.from_actors(workers).gather_async(), 11, Sim({"worker": 0.4}))
    parts = {line.name: line for line in stats.times if line.part_of is not None}
    assert {name: line.part_of for name, line in parts.items()} == {
        "policy": "from_actors(Telling.next)",
        "environments": "from_actors(Telling.next)",
    }
    assert parts["policy"].share == pytest.approx(0.75, abs=0.1)
    assert sum(x.share for x in stats.times if x.where == "worker" and not x.part_of) <= 1.01


def test_background_operator_has_its_own_time() -> None:
    workers = rf.Actors.of(Worker, 1, name="worker")
    flow = rf.from_actors(workers).gather_async().for_each(slow, on="thread", name="learner")
    stats = after(flow, 20, Sim({"worker": 0.1, "learner": 0.4}))
    assert lines(stats, "learner")["background(learner)"] == pytest.approx(1.0, abs=0.05)
    assert lines(stats)["waiting for background(learner)"] > 0.7


@pytest.mark.proc
def test_start_and_loop_are_told_apart_from_work() -> None:
    """What happens before the first answer counts nowhere; the body of the loop is a line."""
    workers = rf.Actors.of(Worker, 1, name="worker")
    flow = rf.from_actors(workers).gather_async().for_each(LateStarter(), name="late")
    with flow.run("local") as run:
        for _ in range(4):
            next(run)
            time.sleep(0.05)
        stats = run.stats()
    seconds = {line.name: line.seconds for line in stats.times if line.where == "driver"}
    assert seconds["late"] < 0.2  # its start alone took as long
    assert seconds["your loop"] >= 4 * 0.05
    assert sum(seconds.values()) == pytest.approx(stats.seconds)


@pytest.mark.proc
def test_work_of_actors_in_the_driver_is_no_waiting() -> None:
    class Sleeper(Worker):
        def next(self) -> int:
            time.sleep(0.01)
            return 1

        def set_weights(self, weights: int) -> None:
            time.sleep(0.01)

    group = rf.Actors.of(Sleeper, 1, name="here", placement="driver")

    def tell(item: int, ctx: rf.Context) -> int:
        ctx.send(group, "set_weights", 1)
        return item

    stats = after(rf.from_actors(group).gather_async().for_each(tell), 11, "local")
    seconds = {line.name: line.seconds for line in stats.times if line.where == "driver"}
    assert seconds["from_actors(Sleeper.next)"] >= 10 * 0.01
    assert seconds["messages to here"] >= 9 * 0.01
    assert stats.driver_waiting < 0.5 < stats.resources[0].utilisation


def test_counting_can_begin_anew() -> None:
    workers = rf.Actors.of(Worker, 1, name="worker")
    flow = rf.from_actors(workers).gather_async().for_each(slow)
    with flow.run(Sim({"worker": 0.4, "for_each(slow)": 0.1})) as run:
        for _ in range(5):
            next(run)
        run.count_from_now()
        assert run.stats().times == []
        for _ in range(20):
            next(run)
        stats = run.stats()
    assert stats.seconds == pytest.approx(10.0, abs=0.5)
    assert stats.operator("for_each(slow)").rate == pytest.approx(2.0, abs=0.1)
    assert stats.operator("for_each(slow)").items == 25
    assert lines(stats)["for_each(slow)"] == pytest.approx(0.2, abs=0.02)
