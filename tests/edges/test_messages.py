"""Messages are traffic like items: bounded, prompt, and every one accounted for."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.testing import Hang, Kill
from rillflow.testing.actors import Worker
from tests.edges.parts import (
    Bell,
    SendEach,
    Sink,
    Weighted,
    descriptors,
    lost,
    messages,
    pull_until,
    written,
)

pytestmark = pytest.mark.timeout(30)

MIB = 2**20


def source(name: str = "worker", count: int = 1, **options: Any) -> rf.Flow[Any]:
    actors = rf.Actors.of(Worker, count, name=name, **options)
    return rf.from_actors(actors).gather_async()


def slow_sinks(engine: str, pause: float = 0.002, **options: Any) -> rf.Actors:
    """On `sim` a sink is slow because it is asked for items that take long: see `on`."""
    return rf.Actors.of(Sink, 1, 0.0 if engine == "sim" else pause, name="sink", **options)


def on(engine: str, seconds: float = 1.0) -> Any:
    return rf.Sim(latency={"sink-0": seconds}) if engine == "sim" else engine


def beside(feed: rf.Flow[Any], sinks: rf.Actors) -> rf.Flow[Any]:
    """A flow that sends to sinks, merged with what the sinks themselves give."""
    return rf.Union(feed, rf.from_actors(sinks, "count").gather_async())


# -- credits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 3])
def test_no_more_messages_are_under_way_than_the_mailbox_takes(engine, times):
    """Two fast sources and a slow sink: its mailbox, overdrawn by at most one activation."""
    sinks = slow_sinks(engine, mailbox=8)
    flow = beside(source(count=2).for_each(SendEach(sinks, times=times)), sinks)
    with flow.run(on(engine)) as run:
        for _ in islice((item for item in run if isinstance(item, int)), 60):
            line = messages(run)
            assert line.under_way <= 8 + times - 1
            assert line.balanced
            assert run.ledger().balanced


def test_a_full_mailbox_holds_back_those_who_send_to_it(engine):
    """The sink gets its turns: senders wait for it, by default at 64 messages."""
    sinks = slow_sinks(engine)
    sends = source(count=2).for_each(SendEach(sinks)).for_each(lambda _: "sent")
    with beside(sends, sinks).run(on(engine)) as run:
        sent, counted = 0, 0
        while sent < 400:
            item = next(run)
            if item == "sent":
                sent += 1
                # one mailbox under way, one before its count, and what it took in between
                assert sent <= counted + 3 * 64, "nobody waited for the sink"
            else:
                counted = item[1]


@pytest.mark.proc
def test_large_messages_to_a_slow_sink_pile_up_nowhere(tmp_path: Path):
    """Neither the driver nor a socket holds more of them than the mailbox takes."""
    path = tmp_path / "handled"
    sinks = rf.Actors.of(Sink, 1, 0.003, path=str(path), name="sink")
    flow = source(count=2).for_each(SendEach(sinks, load=100_000))
    with flow.run("local") as run:
        next(run)
        before = descriptors()
        most = max(descriptors() for _ in islice(run, 300))
        assert len(written(path)) >= 301 - 64 - 1
        assert most - before <= 64 + 20


def test_a_mailbox_holds_64_mebibytes(engine):
    """Few large messages fill a mailbox as many small ones do."""
    sinks = slow_sinks(engine, 0.02)
    flow = beside(source().for_each(SendEach(sinks, load=16 * MIB)), sinks)
    with flow.run(on(engine)) as run:
        sent = (item for item in run if isinstance(item, int))
        most = max(messages(run).under_way for _ in islice(sent, 12))
    assert 1 <= most <= 4 + 1


def test_only_the_steps_that_send_are_held_back(engine):
    """A full mailbox blocks neither the driver nor a branch that sends nothing to it."""
    pause = 0.0 if engine == "sim" else 0.5
    sinks = rf.Actors.of(Sink, 1, pause, name="sink", mailbox=1)
    sends = source("sender").for_each(SendEach(sinks)).for_each(lambda _: "sends")
    silent = source("silent").for_each(lambda _: "silent")
    flow = rf.Union(sends, silent, rf.from_actors(sinks, "count").gather_async())
    with flow.run(on(engine, 1000.0)) as run:
        items: list[Any] = []
        while items.count("silent") < 100:
            items.append(next(run))
    assert items.count("sends") <= 10


def test_one_activation_may_overdraw(engine):
    """Three messages for each item to its own source, through a mailbox for one: in order."""

    def tell_three(item: Any, ctx: rf.Context) -> list[int]:
        _, number, told = item[0] if isinstance(item, list) else item
        for i in range(3):
            ctx.send(ctx.sources, "tell", 3 * number + i)
        return told  # type: ignore[no-any-return]

    workers = rf.Actors.of(Worker, 2, name="worker", mailbox=1)
    for gather in ("gather_async", "gather_sync"):
        flow = getattr(rf.from_actors(workers, "report"), gather)()
        with flow.for_each(tell_three).run(engine) as run:
            for told in islice(run, 20):
                assert told == list(range(len(told)))
            assert run.ledger().balanced


def test_senders_do_not_wait_for_an_actor_that_has_left():
    """What was under way to a lost actor is lost, and its credits hold nobody back."""
    sinks = rf.Actors.of(Sink, 1, name="sink", mailbox=4)
    flow = beside(source().for_each(SendEach(sinks)), sinks)
    faults = [Kill(actor="sink-0", at=5.5)]
    with flow.run(rf.Sim(latency={"sink-0": 10.0, "worker-0": 1.0}, faults=faults)) as run:
        next(run)
        errors = pull_until(run, lambda: messages(run).sent >= 50, rf.WorkerLost)
        assert len(errors) == 1
        line = messages(run)
        assert set(lost(line)) == {"worker_lost", "gone"}
        assert line.balanced


def test_credits_that_never_come_back_are_a_deadlock():
    """When everybody waits for the credits of an actor that hangs, an error names it."""
    sinks = rf.Actors.of(Sink, 1, name="sink", mailbox=4)
    flow = beside(source().for_each(SendEach(sinks)), sinks)
    with flow.run(rf.Sim(faults=[Hang(actor="sink-0", request=1)])) as run:
        for _ in range(4):
            next(run)
        with pytest.raises(rf.DeadlockError, match="sink"):
            list(islice(run, 10))


@pytest.mark.parametrize("placement", ["process", "thread", "driver"])
@pytest.mark.parametrize("mailbox", [1, 5, 9])
def test_steps_that_send_to_each_others_sources_never_wait_in_a_circle(engine, placement, mailbox):
    """Only steps of the driver wait for credits: an actor handles what it is told meanwhile, and
    says so before its mailbox is full again, with and without versions among its messages."""
    left = rf.Actors.of(Worker, 1, name="left", mailbox=mailbox, placement=placement)
    right = rf.Actors.of(Worker, 1, name="right", mailbox=mailbox, placement=placement)

    def branch(ours: rf.Actors, others: rf.Actors) -> rf.Flow[Any]:
        items = rf.from_actors(ours).gather_async()
        items = items.for_each(SendEach(others, times=mailbox + 2, method="tell"))
        return items.for_each(SendEach(others, method="tell", versioned=True))

    flow = rf.Union(branch(left, right), branch(right, left))
    with flow.run(engine) as run:
        assert len(list(islice(run, 60))) == 60
        assert run.ledger().balanced


@pytest.mark.parametrize("mailbox", [0, -1, 2.5, True, "many"])
def test_a_mailbox_takes_at_least_one_message(mailbox):
    """A mailbox that takes nothing, or no count at all, is refused when the group is written."""
    with pytest.raises(rf.BuildError, match="mailbox"):
        rf.Actors.of(Sink, 1, mailbox=mailbox)


# -- promptness ------------------------------------------------------------------------------------


@pytest.mark.proc
@pytest.mark.parametrize("placement", ["process", "driver"])
@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
def test_a_message_is_handled_while_the_user_holds_the_item(bell: Bell, placement, versioned):
    """A message leaves with the step, though no request goes to its actor."""
    sinks = rf.Actors.of(Sink, 1, bell=bell.path, name="sink")
    flow = source(placement=placement).for_each(SendEach(sinks, versioned=versioned))
    with flow.run("local") as run:
        for number in range(1, 4):
            next(run)
            assert bell.rung(number), "the message waits for the next pull"


@pytest.mark.proc
def test_an_actor_that_only_listens_does_not_starve(tmp_path: Path):
    """While the driver is busy within one pull, messages leave all the same."""
    path = tmp_path / "handled"
    sinks = rf.Actors.of(Sink, 1, path=str(path), name="sink")
    numbers = rf.from_range(400, 1, placement="driver").gather_async()
    flow = numbers.for_each(SendEach(sinks)).filter(lambda n: n == 399)
    with flow.run("local") as run:
        assert next(run) == 399
        assert len(written(path)) >= 400 - 64 - 1, "a mailbox at most is kept back"


def test_the_last_messages_of_a_flow_are_handled(engine, tmp_path: Path):
    """A flow ends when its messages have been handled; nothing is under way then."""
    path = tmp_path / "handled"
    sinks = rf.Actors.of(Sink, 2, path=str(path), name="sink")
    flow = rf.from_range(100, 1).gather_async().for_each(SendEach(sinks))
    with flow.run(engine) as run:
        assert len(list(run)) == 100
        line = messages(run)
    assert sorted(written(path)) == sorted([*range(100), *range(100)])
    assert (line.sent, line.handled, line.under_way, lost(line)) == (200, 200, 0, {})


# -- the newest of a versioned channel -------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2])
def test_only_the_newest_version_waits_for_a_busy_actor(engine, channels):
    """Many versions while an actor works: it handles the two that were under way, and the last."""

    def publish(item: Any, ctx: rf.Context) -> Any:
        number = item + 1
        ctx.send(busy, "set_weights", number, version=number)
        if channels == 2:
            ctx.send(busy, "set_epsilon", number, version=number)
        return ("published", number)

    busy = rf.Actors.of(Weighted, 1, 0.0 if engine == "sim" else 0.2, name="busy")
    flow = rf.Union(source().for_each(publish), rf.from_actors(busy, "history").gather_async())
    latency = {"busy-0": 10.0, "worker-0": 1.0}
    with flow.run(rf.Sim(latency=latency) if engine == "sim" else engine) as run:
        newest, histories = 0, []
        while len(histories) < 4:
            name, number, *told = next(run)
            if name == "published":
                newest = number
            else:
                histories.append(told[0])
        new = [len(later) - len(earlier) for earlier, later in pairwise(histories)]
        assert newest >= 20
        assert max(new) <= 3 * channels, f"between two requests it was told so often: {new}"
        line = messages(run, "busy")
        assert line.balanced
        assert line.sent == channels * newest
        assert set(lost(line)) == {"superseded"}
        assert line.under_way <= 4 * channels, "one with its request, two under way, the newest"


def test_messages_without_a_version_are_never_replaced(engine):
    """Plain messages to a busy actor are all handled, in order."""
    sinks = slow_sinks(engine)
    flow = beside(source().for_each(SendEach(sinks)), sinks)
    with flow.run(on(engine)) as run:
        sent = list(islice((item for item in run if isinstance(item, int)), 100))
        assert run.call("sink-0", "numbers") == sent == list(range(100))
        assert lost(messages(run)) == {}


# -- the account -----------------------------------------------------------------------------------


def test_messages_to_an_actor_that_restarts_are_kept_for_its_successor():
    """What is sent in the pause before a restart is handled after it, in order."""
    policy = rf.FailurePolicy(on_lost="restart", backoff=20.0)
    sinks = rf.Actors.of(Sink, 1, name="sink", on_failure=policy)
    flow = beside(source().for_each(SendEach(sinks)), sinks)
    faults = [Kill(actor="sink-0", request=1), Kill(actor="sink-0", request=2)]
    with flow.run(rf.Sim(latency=1.0, faults=faults)) as run:
        pull_until(run, lambda: run.workers()["sink-0"]["incarnation"] == 2)
        list(islice(run, 20))
        told = run.call("sink-0", "numbers")
        assert told == list(range(told[0], told[0] + len(told))), "none is missing, none is twice"
        assert told[0] <= 3, "those of the first two lives, which took a second"
        assert len(told) >= 20
        line = messages(run)
        assert set(lost(line)) <= {"worker_lost"}
        assert line.sent == line.handled + line.under_way + sum(line.lost.values())


@pytest.mark.proc
def test_messages_that_die_with_a_process_are_counted(tmp_path: Path):
    """Each message is in the file of the sink or in the ledger's account of what was lost."""
    path = tmp_path / "handled"
    sinks = rf.Actors.of(Sink, 1, path=str(path), name="sink", on_failure="restart")
    flow = source().for_each(SendEach(sinks))
    with flow.run("local") as run:
        list(islice(run, 30))
        run.send(sinks, "die")
        pull_until(run, lambda: run.workers()["sink-0"]["incarnation"] == 1)
        list(islice(run, 30))
        handled = run.call("sink-0", "numbers")
        line = messages(run)
        assert line.balanced
        assert line.under_way == 0, "a call is answered after all messages before it"
        assert set(lost(line)) == {"worker_lost"}
        assert line.sent - 1 <= len(written(path)) + line.lost["worker_lost"] - 1
        assert line.handled <= len(written(path))
        assert handled == written(path)[-len(handled) :]
        assert len(handled) >= 30


def test_messages_to_an_actor_that_has_left_are_counted(engine):
    """A message to an actor that was removed is lost, with a reason; nobody is bothered."""
    sinks = rf.Actors.of(Sink, 2, name="sink")
    with rf.from_actors(sinks, "count").gather_async().run(engine) as run:
        list(islice(run, 4))
        run.remove_worker("sink-1")
        pull_until(run, lambda: run.workers()["sink-1"]["status"] == "gone")
        for number in range(3):
            run.send(sinks[1], "add", number)
            run.send(sinks[0], "add", number)
        assert run.call("sink-0", "numbers") == [0, 1, 2]
        line = messages(run)
        assert (line.handled, lost(line)) == (3, {"gone": 3})
        assert run.ledger().balanced


@pytest.mark.parametrize("policy", ["raise", "drop", "retry", "shrink"])
def test_a_message_whose_handler_raises_is_counted_and_destroys_nobody(engine, policy):
    """The error is raised once, with its own type; the actor keeps what it knows."""
    sinks = rf.Actors.of(Sink, 2, name="sink", on_failure=policy)
    with rf.from_actors(sinks, "count").gather_async().run(engine) as run:
        run.send(sinks, "add", 7)
        run.send(sinks[0], "fail", 0)
        with pytest.raises(LookupError, match="cannot be handled") as caught:
            for _ in run:  # until it comes to that: the other one may answer often before
                pass
        assert isinstance(caught.value, rf.OperatorError)
        assert len(list(islice(run, 10))) == 10
        run.send(sinks, "add", 8)
        assert [run.call(sink, "numbers") for sink in sinks] == [[7, 8], [7, 8]]
        workers = run.workers().values()
        assert [(w["status"], w["incarnation"]) for w in workers] == [("live", 0)] * 2
        line = messages(run)
        assert (line.sent, line.handled, lost(line)) == (5, 4, {"error": 1})


def test_messages_under_way_at_the_end_are_counted():
    """A run that is stopped says how many messages nobody handled."""
    sinks = rf.Actors.of(Sink, 1, name="sink")
    flow = beside(source().for_each(SendEach(sinks)), sinks)
    with flow.run(rf.Sim(latency={"sink-0": 1000.0, "worker-0": 1.0})) as run:
        list(islice(run, 5))
        assert messages(run).under_way == 5
    line = messages(run)
    assert (line.sent, line.handled, line.under_way) == (5, 0, 0)
    assert lost(line) == {"ended": 5}
    assert run.ledger().balanced


def test_there_is_one_line_for_each_group(engine):
    """Groups that nobody wrote to are there too, and messages to all members count one by one."""
    one = rf.Actors.of(Sink, 1, name="one")
    three = rf.Actors.of(Sink, 3, name="three")

    def send(item: int, ctx: rf.Context) -> int:
        ctx.send(one, "add", item)
        ctx.send(three, "add", item)
        return item

    with rf.from_range(5, 1).gather_async().for_each(send).run(engine) as run:
        assert list(run) == [0, 1, 2, 3, 4]
        lines = {line.group: (line.sent, line.handled) for line in run.ledger().messages}
    assert lines.pop("range", (0, 0)) == (0, 0)
    assert lines == {"one": (5, 5), "three": (15, 15)}
