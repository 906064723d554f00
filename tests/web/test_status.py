"""The snapshot of a run: plain data, true, cheap, and from any thread."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

import rillflow as rf
from rillflow.runs.status import snapshot
from tests.web.flows import apex_flow, plain_flow


def advance(run: rf.Run[Any], items: int) -> None:
    for _ in range(items):
        next(run)


def test_a_snapshot_says_what_the_run_says() -> None:
    with plain_flow().run("sim") as run:
        advance(run, 20)
        now = json.loads(json.dumps(snapshot(run), allow_nan=False))
        stats = run.stats()
        assert [(o["name"], o["items"]) for o in now["operators"]] == [
            (o.name, o.items) for o in stats.operators
        ]
        assert now["verdict"] == stats.verdict
        assert now["ledger"]["balanced"]
        assert [w["name"] for w in now["workers"]] == list(run.workers())
    assert (now["format"], now["state"], now["error"]) == (1, "running", None)
    # all but the last of 20 items were answered with new weights for both workers
    assert [(r["kind"], r["name"], r["count"], r["messages"]) for r in now["resources"]] == [
        ("driver", "driver", 1, 0),
        ("actors", "worker", 2, 40),
    ]


def test_operators_and_queues_have_the_names_they_have_in_the_graph() -> None:
    flow = apex_flow()
    graph = flow.to_json()
    with flow.run("sim") as run:
        advance(run, 3)
        now = snapshot(run)
    boxes = {box["id"] for box in graph["nodes"]}
    assert {line["name"] for line in now["operators"]} == boxes
    assert [q["name"] for q in now["queues"]] == [q["name"] for q in graph["queues"]]
    assert all(q["depth"] <= q["capacity"] for q in now["queues"])


def test_two_queues_of_one_name_are_told_apart() -> None:
    one, other = (rf.Queue[int](capacity=n, name="q") for n in (2, 3))
    first = rf.from_range(9, num_shards=1).gather_sync().flatten().for_each(rf.Enqueue(one))
    second = rf.Dequeue(one).for_each(rf.Enqueue(other))
    flow = rf.Concurrently([first, second, rf.Dequeue(other)], mode="async", output_indexes=[2])
    with flow.run("sim") as run:
        now = snapshot(run)
    assert [(q["name"], q["capacity"]) for q in now["queues"]] == [("q", 2), ("q#2", 3)]


def test_the_state_is_running_then_how_it_ended() -> None:
    with rf.from_range(3, num_shards=1).gather_sync().run("sim") as run:
        assert snapshot(run)["state"] == "running"
        list(run)
        assert snapshot(run)["state"] == "finished"
    with plain_flow().run("sim") as run:
        advance(run, 2)
    ended = snapshot(run)
    assert ended["state"] == "stopped"
    assert {w["status"] for w in ended["workers"]} == {"ended"}
    assert snapshot(run, state="finished")["state"] == "finished"
    failed = snapshot(run, error=ValueError("no good"))
    assert (failed["state"], failed["error"]) == ("failed", "ValueError: no good")


def test_restarts_and_errors_are_counted_per_worker() -> None:
    policy = rf.FailurePolicy(on_error="drop")
    with plain_flow(fails=5).run("sim", on_failure=policy) as run:
        advance(run, 20)
        now = snapshot(run)
    assert all(w["errors"] > 0 for w in now["workers"])
    assert now["ledger"]["lines"][0]["dropped"]


@pytest.mark.proc
def test_processes_are_named_by_their_ids() -> None:
    with plain_flow().run("local") as run:
        advance(run, 4)
        assert {w["pid"] for w in snapshot(run)["workers"]} == {
            w["pid"] for w in run.workers().values()
        }


def test_another_thread_may_take_snapshots() -> None:
    taken, stop = [], threading.Event()

    def watch() -> None:
        while not stop.is_set():
            taken.append(snapshot(run))

    with plain_flow(workers=4).run("sim") as run:
        advance(run, 1)
        watcher = threading.Thread(target=watch)
        watcher.start()
        while len(taken) < 10 and watcher.is_alive():
            advance(run, 300)
        stop.set()
        watcher.join()
    assert len(taken) >= 10
    items = [now["operators"][-1]["items"] for now in taken]
    assert items == sorted(items)


def test_a_snapshot_of_thirty_operators_and_64_actors_is_cheap() -> None:
    """Below 2 ms of the processor; the bound leaves room for a slow one."""
    flow = rf.from_actors(rf.Actors.of(_Quiet, 64, name="worker"), "sample").gather_async()
    for _ in range(28):
        flow = flow.for_each(int)
    with flow.run("sim") as run:
        advance(run, 500)
        best = min(_timed(lambda: snapshot(run)) for _ in range(30))
    assert best < 0.004


class _Quiet:
    def sample(self) -> int:
        return 1


def _timed(call: Any) -> float:
    begin = time.thread_time()
    call()
    return time.thread_time() - begin
