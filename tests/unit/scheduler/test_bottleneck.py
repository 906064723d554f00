"""The verdict on what limits a flow: decided in one place, the same wherever it is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rillflow as rf
from rillflow.engines.sim import Sim
from rillflow.runs.status import snapshot
from rillflow.scheduler.bottleneck import FULL, SATURATED, bottleneck, driver_bound
from rillflow.scheduler.stats import ResourceStats
from rillflow.scheduler.times import TimeShare

SRC = Path(__file__).parents[3] / "src" / "rillflow"
DRIVER, WORKERS = ResourceStats("driver", 1, 0.6), ResourceStats("actors 'worker'", 4, 0.8)
LEARNER = ResourceStats("background 'learner'", 1, 0.7)


@pytest.mark.parametrize(
    ("resources", "name", "way_out"),
    [
        ([DRIVER, WORKERS], "actors 'worker'", "add actors"),
        ([DRIVER, LEARNER], "background 'learner'", "more producers will not help"),
        ([DRIVER], "driver", "move work of the driver's operators"),
        ([ResourceStats("driver", 1, SATURATED - 0.01)], None, "latency or a barrier"),
        ([DRIVER, WORKERS, ResourceStats("cores", 2, FULL)], "cores", "add cores"),
        ([DRIVER, ResourceStats("cores", 2, FULL - 0.01)], "driver", "move work"),
        ([], None, "Nothing has run yet."),
    ],
)
def test_place_and_sentence_say_the_same(
    resources: list[ResourceStats], name: str | None, way_out: str
) -> None:
    found = bottleneck(resources, seconds=1.0)
    assert found.name == name
    assert way_out in found.sentence
    if name is not None:
        assert re.match(rf"Bottleneck: (the \d+ )?{name}, busy", found.sentence)


def test_nothing_is_said_before_time_has_passed() -> None:
    found = bottleneck([DRIVER], seconds=0.0)
    assert found.name is None
    assert found.sentence.startswith(
        "No time has passed, so nothing limits the flow yet. On the sim"
    )


class Worker:
    """Gives a number."""

    def next(self) -> int:
        return 1


def test_statistics_and_the_status_file_name_the_same_place() -> None:
    workers = rf.Actors.of(Worker, 1, name="worker")
    flow = rf.from_actors(workers).gather_async()
    with flow.run(Sim({"worker": 0.4})) as run:
        for _ in range(20):
            next(run)
        stats, status = run.stats(), snapshot(run)
    assert stats.bottleneck == "actors 'worker'"
    assert stats.verdict.startswith("Bottleneck: actors 'worker'")
    assert status["bottleneck"] == {"kind": "actors", "name": "worker"}


def test_time_of_the_driver_is_sorted_by_what_it_is_for() -> None:
    training = TimeShare("for_each(TrainOneStep)", "driver", "operator", 1, 2.0, 0.2)
    waiting = TimeShare("waiting for rollouts", "driver", "waiting", 1, 5.0, 0.5)
    messages = TimeShare("sending and receiving", "driver", "messages", 1, 3.0, 0.3)
    assert driver_bound([training, waiting, messages]).bound == "sampling"
    assert driver_bound([training, messages]).bound == "message"
    busy = TimeShare("background(learner)", "learner", "operator", 1, 9.0, 0.9)
    limit = driver_bound([waiting, busy])
    assert (limit.bound, limit.saturated) == ("learner", True)


def test_nobody_else_decides_how_busy_is_too_busy() -> None:
    """One file has the thresholds; whoever wants a verdict asks it."""
    word = re.compile(r"^_?(SATURATED|NEVER_RESTS)\b", re.M)
    deciding = {p.relative_to(SRC) for p in SRC.rglob("*.py") if word.search(p.read_text())}
    assert deciding == {Path("scheduler/bottleneck.py")}
