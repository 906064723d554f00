"""The newest message of a channel is one fact, which joiners, restarts and restores read."""

from __future__ import annotations

import copy
import time
from itertools import islice
from typing import Any

import pytest

import rillflow as rf
from rillflow.testing import Kill
from tests.edges.parts import PATIENCE, Publish, Weighted, pull_until

pytestmark = pytest.mark.timeout(20)


def group(count: int = 2, **options: Any) -> rf.Actors:
    return rf.Actors.of(Weighted, count, name="worker", **options)


def histories(workers: rf.Actors) -> rf.Flow[Any]:
    """Items: name, incarnation, and everything that the worker was told."""
    return rf.from_actors(workers, "history").gather_async()


def first_of(run: rf.Run[Any], name: str, incarnation: int = 0) -> list[Any]:
    """What a worker was told before its first item."""
    deadline = time.monotonic() + PATIENCE
    for item, life, told in run:
        if (item, life) == (name, incarnation):
            return told  # type: ignore[no-any-return]
        assert time.monotonic() < deadline, f"no item of {name} came"
    raise AssertionError("the run has ended")


# -- joining ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_newcomer_has_the_newest_weights_of_its_group(engine, order):
    """Whichever sibling was told them: the last message of the channel counts."""
    workers = group()
    with histories(workers).run(engine) as run:
        next(run)
        for version, index in enumerate(order, start=1):
            run.send(workers[index], "set_weights", version, version=version)
        (name,) = run.add_workers()
        assert first_of(run, name) == [2]


def test_a_newcomer_has_the_newest_weights_though_who_had_them_left(engine):
    """The channel keeps its newest message when its last receiver goes."""
    workers = group()
    with histories(workers).run(engine) as run:
        next(run)
        run.send(workers[0], "set_weights", 9, version=9)
        run.send(workers[1], "set_weights", 107, version=107)
        run.remove_worker("worker-1")
        pull_until(run, lambda: run.workers()["worker-1"]["status"] == "gone")
        (name,) = run.add_workers()
        assert first_of(run, name) == [107]


def test_a_newcomer_does_not_have_the_weights_of_one_who_left_long_ago(engine):
    """What a departed worker was told last is not the newest for ever."""
    workers = group()
    with histories(workers).run(engine) as run:
        next(run)
        run.send(workers, "set_weights", 9, version=9)
        run.remove_worker("worker-0")
        pull_until(run, lambda: run.workers()["worker-0"]["status"] == "gone")
        run.send(workers[1], "set_weights", 107, version=107)
        (name,) = run.add_workers()
        assert first_of(run, name) == [107]


def test_a_newcomer_has_the_newest_of_every_channel(engine):
    """Two channels, and a third by its key: one message of each, in the order they were sent."""
    workers = group()
    with histories(workers).run(engine) as run:
        next(run)
        for version in (1, 2, 3):
            run.send(workers[version % 2], "set_weights", version, version=version)
            run.send(workers, "set_epsilon", 10 * version, version=version)
        (name,) = run.add_workers()
        assert sorted(first_of(run, name), key=str) == [3, "epsilon 30"]


def test_a_plain_message_with_a_key_is_kept_for_newcomers(engine):
    """A key without a version names a channel as well: its newest message is sent again."""

    def send(item: Any, ctx: rf.Context) -> Any:
        ctx.send(ctx.sources, "set_epsilon", 5, key="epsilon")
        return item

    workers = group(1)
    with histories(workers).for_each(send).run(engine) as run:
        next(run)
        (name,) = run.add_workers()
        assert first_of(run, name) == ["epsilon 5"]


# -- restarting ------------------------------------------------------------------------------------


def test_a_restarted_worker_has_the_newest_weights_of_its_group():
    """Not those that it was told last itself."""
    workers = group(on_failure="restart")
    faults = [Kill(actor="worker-0", request=3)]
    with histories(workers).run(rf.Sim(latency=1.0, faults=faults)) as run:
        next(run)
        run.send(workers[0], "set_weights", 1, version=1)
        run.send(workers[1], "set_weights", 2, version=2)
        assert first_of(run, "worker-0", incarnation=1) == [2]


@pytest.mark.proc
def test_a_restarted_process_has_the_newest_weights_of_its_group():
    """The same with a process that dies."""
    workers = group(on_failure="restart")
    with histories(workers).run("local") as run:
        next(run)
        run.send(workers[0], "set_weights", 1, version=1)
        run.send(workers[1], "set_weights", 2, version=2)
        run.send(workers[0], "die")
        assert first_of(run, "worker-0", incarnation=1) == [2]


def test_weights_sent_while_a_worker_waits_for_its_restart_are_its_first():
    """In the pause before a restart newer weights come: only the newest are told."""
    policy = rf.FailurePolicy(on_lost="restart", backoff=10.0)
    workers = group(on_failure=policy)
    faults = [Kill(actor="worker-0", request=1), Kill(actor="worker-0", request=2)]
    flow = histories(workers).for_each(Publish())
    with flow.run(rf.Sim(latency=1.0, faults=faults)) as run:
        told = first_of(run, "worker-0", incarnation=2)
    assert len(told) == 1
    assert told[0] >= 8


# -- restoring -------------------------------------------------------------------------------------


def test_a_restored_flow_gives_its_newcomers_the_newest_weights(engine):
    """The newest message of a channel is part of the state, though its receiver is gone."""
    workers = group()
    with histories(workers).run(engine) as run:
        next(run)
        run.send(workers[0], "set_weights", 9, version=9)
        run.send(workers[1], "set_weights", 107, version=107)
        run.remove_worker("worker-1")
        pull_until(run, lambda: run.workers()["worker-1"]["status"] == "gone")
        state = copy.deepcopy(run.get_state())
    with histories(group()).run(engine) as resumed:
        resumed.set_state(state)
        next(resumed)
        (name,) = resumed.add_workers()
        assert first_of(resumed, name) == [107]


# -- provenance ------------------------------------------------------------------------------------


def versions(item: Any, ctx: rf.Context) -> Any:
    """The item, and the versions of its only source; and the one version, if it is one."""
    (source,) = ctx.provenance
    return item, dict(source.versions), source.version if len(source.versions) < 2 else None


def test_provenance_has_a_version_for_each_channel(engine):
    """Channels do not mix: weights 3 and epsilon 70 are two facts about an item."""
    workers = group(1)
    flow = rf.from_actors(workers).gather_async().for_each(versions)
    with flow.run(engine) as run:
        assert next(run) == (("worker-0", 0), {}, 0)
        run.send(workers, "set_weights", 3, version=3)
        assert next(run) == (("worker-0", 3), {"set_weights": 3}, 3)
        run.send(workers, "set_epsilon", 1, version=70)
        item, found, _ = next(run)
        assert (item, found) == (("worker-0", 3), {"set_weights": 3, "set_epsilon": 70})
        run.send(workers, "set_weights", 4, version=4)
        item, found, _ = next(run)
        assert (item, found) == (("worker-0", 4), {"set_weights": 4, "set_epsilon": 70})


def test_a_channel_is_named_by_its_key(engine):
    """Two methods under one key are one channel; the newer replaces the older."""

    def send(item: Any, ctx: rf.Context) -> Any:
        _, found, version = item
        method = "set_weights" if version % 2 else "set_epsilon"
        ctx.send(ctx.sources, method, version + 1, version=version + 1, key="both")
        return found

    workers = group(1)
    flow = rf.from_actors(workers).gather_async().for_each(versions).for_each(send)
    with flow.run(engine) as run:
        assert list(islice(run, 4)) == [{}, {"both": 1}, {"both": 2}, {"both": 3}]


def test_provenance_inside_an_actor_has_versions_too(engine):
    """An operator next to the source sees what the driver sees later."""
    workers = group(1)
    flow = rf.from_actors(workers).for_each(versions).gather_async().for_each(versions)
    with flow.run(engine) as run:
        next(run)
        run.send(workers, "set_weights", 3, version=3)
        run.send(workers, "set_epsilon", 1, version=70)
        (_, inside, _), outside, _ = next(run)
        assert inside == outside == {"set_weights": 3, "set_epsilon": 70}


def test_a_source_is_actor_incarnation_number_and_versions(engine):
    """In this order; a background operator is given the same."""

    def parts(item: Any, ctx: rf.Context) -> Any:
        return [(a, i, s, dict(v)) for a, i, s, v in ctx.provenance]

    workers = group(2)
    flow = rf.from_actors(workers).gather_sync().for_each(parts, on="thread", capacity=1)
    with flow.run(engine) as run:
        run.send(workers, "set_weights", 3, version=3)
        given = [next(run) for _ in range(4)]
    assert given[0] == [("worker-0", 0, 0, {"set_weights": 3}), ("worker-1", 0, 0,
                        {"set_weights": 3})]  # fmt: skip
    assert [sources[0][2] for sources in given] == [0, 1, 2, 3]


def test_a_restart_does_not_lose_the_versions_of_its_channels():
    """Items of the new incarnation claim the versions that it was given again."""
    workers = group(1, on_failure="restart")
    faults = [Kill(actor="worker-0", request=3)]
    flow = rf.from_actors(workers).gather_async().for_each(versions)
    with flow.run(rf.Sim(latency=1.0, faults=faults)) as run:
        next(run)
        run.send(workers, "set_weights", 3, version=3)
        run.send(workers, "set_epsilon", 1, version=70)
        items = list(islice(run, 4))
        assert run.workers()["worker-0"]["incarnation"] == 1
    assert items[-1][:2] == (("worker-0", 3), {"set_weights": 3, "set_epsilon": 70})
