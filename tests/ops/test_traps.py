"""What went wrong in RLlib Flow cannot happen here: one test for each trap that concerns streams.

Sixteen behavioural traps were found in its source; a test has the number of its trap. Trap 14 (two
plan signatures told apart by the text of an exception) has no counterpart: a plan is a function.
"""

import threading

import numpy as np
import pytest

import rillflow as rf
from rillflow.engines.local import Local
from rillflow.engines.sim import Sim
from rillflow.testing import Hang, flow_of
from tests.ops.parts import Count, everything


class Flaky:
    """Gives 0, 1, 2, ...; request 2 raises once."""

    def __init__(self, error=ValueError):
        self.error = error
        self.calls = 0

    def next(self):
        self.calls += 1
        if self.calls == 3:
            raise self.error("transient")
        return self.calls - 1


def pull(run, times):
    for _ in range(times):
        next(run)


class Broadcast(rf.Operator):
    """Sends a new version to the sources of each item and says who they are."""

    def __init__(self):
        self.version = 0

    def __call__(self, item, ctx):
        self.version += 1
        ctx.send(ctx.sources, "set", self.version, version=self.version)
        return sorted(actor.index for actor in ctx.sources)


@pytest.mark.parametrize("where", ["worker", "operator"])
def test_01_one_exception_does_not_end_the_flow(engine, where):
    """After an error was raised and caught the next pull gives the next item."""
    if where == "worker":
        flow = rf.from_actors(rf.Actors.of(Flaky, 1)).gather_sync().flatten()
        expected = [3, 4]
    else:

        def picky(x):
            if x == 2:
                raise ValueError("transient")
            return x

        flow = rf.from_range(5, 1).gather_sync().flatten().for_each(picky)
        expected = [3, 4]
    with flow.run(engine) as run:
        assert [next(run), next(run)] == [0, 1]
        with pytest.raises(ValueError, match="transient"):
            next(run)
        assert [next(run), next(run)] == expected


def test_02_a_transient_error_does_not_silence_a_worker(engine):
    """A worker that raised once goes on being asked, and its shard is never taken for ended."""
    actors = rf.Actors.of(Flaky, 2, name="worker")
    with rf.from_actors(actors).gather_sync().run(engine, on_failure="drop") as run:
        assert [next(run) for _ in range(4)] == [[0, 0], [1, 1], [3, 3], [4, 4]]
        assert [worker["errors"] for worker in run.workers().values()] == [1, 1]


@pytest.mark.parametrize("policy", ["raise", "retry"])
def test_02_a_generator_that_raised_is_not_an_ended_stream(policy):
    """A generator is dead after it raised; asking it again is an error, not the end."""

    def numbers():
        yield 1
        raise ValueError("half way")

    with rf.from_iterators([numbers]).gather_async().run("sim", on_failure=policy) as run:
        assert next(run) == 1
        with pytest.raises((ValueError, rf.OperatorError)):
            pull(run, 10)


@pytest.mark.parametrize("where", ["worker", "par_for_each", "filter", "driver", "combine"])
def test_03_stop_iteration_in_user_code_is_an_error(engine, where):
    """StopIteration from user code never ends a stream, and is never raised as such."""

    def stop(_):
        return next(iter([]))

    source = rf.from_range(3, 1)
    flows = {
        "worker": lambda: rf.from_actors(rf.Actors.of(Flaky, 1, StopIteration)).gather_sync(),
        "par_for_each": lambda: source.for_each(stop).gather_sync(),
        "filter": lambda: source.filter(stop).gather_sync(),
        "driver": lambda: source.gather_sync().for_each(stop),
        "combine": lambda: source.gather_sync().combine(stop),
    }
    with flows[where]().run(engine) as run:
        with pytest.raises(rf.OperatorError, match="StopIteration") as caught:
            pull(run, 5)
        assert not isinstance(caught.value, StopIteration)


def test_04_no_internal_marker_is_ever_an_item():
    """Parked, warming, starved and lagging branches: only items come out."""

    class Replay:
        def __init__(self):
            self.items = []

        def add(self, item):
            self.items.append(item)

        def replay(self):
            if len(self.items) < 3:
                raise rf.NotReady
            return max(self.items)

    replay = rf.Actors.of(Replay, 1, name="replay")

    class Store(rf.Operator):
        def __init__(self, replay):
            self.replay = replay

        def __call__(self, item, ctx):
            ctx.send(self.replay, "add", item)
            return item

    queue = rf.Queue(capacity=1)
    one, two = rf.from_range(30, 2).gather_async(num_async=2).split()
    branches = [
        one.for_each(Store(replay)),
        two.for_each(rf.Enqueue(queue)),
        rf.Dequeue(queue),
        rf.from_actors(replay, "replay").gather_async().limit(10),
    ]
    for mode in ("async", "round_robin"):
        assert {type(item) for item in everything(rf.Concurrently(branches, mode=mode))} == {int}


def test_04_a_child_of_a_split_read_alone_gives_only_items():
    """A child whose sibling lags waits for it; it never gives anything but items."""
    one, two = flow_of([1, 2, 3]).split()
    assert everything(rf.Concurrently([one, two], output_indexes=[0])) == [1, 2, 3]


def test_05_union_neither_restarts_its_inputs_nor_forgets_their_counters():
    """Every item comes once, and what was counted upstream of the union is still there."""
    made = []

    def count(item, ctx):
        made.append(item)
        ctx.count("seen")
        return item

    left = flow_of([1, 2, 3]).for_each(count, name="left")
    right = flow_of([4, 5, 6]).for_each(count, name="right")
    with rf.Union(left, right).run("sim") as run:
        assert list(run) == [1, 4, 2, 5, 3, 6]
        assert run.stats().operator("left").counters == {"seen": 3}
        assert run.stats().operator("right").counters == {"seen": 3}
    assert sorted(made) == [1, 2, 3, 4, 5, 6]


def test_06_a_filter_that_rejects_everything_is_no_livelock():
    """The sibling that would make the predicate true gets its turns."""
    stored = []
    forever = rf.from_items([0], 1, repeat=True, placement="driver").gather_sync().flatten()
    replay = forever.filter(lambda _: len(stored) >= 5)
    store = flow_of(list(range(8))).for_each(stored.append)
    flow = rf.Concurrently([replay, store], output_indexes=[0])
    assert flow.take(3, engine="sim") == [0, 0, 0]
    assert 5 <= len(stored) <= 8


@pytest.mark.parametrize("kind", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_07_an_idle_flow_does_not_poll(kind):
    """While nothing happens the driver sleeps: one wait per event, not one per millisecond."""
    base = Sim if kind == "sim" else Local
    waits = []

    class Counted(base):
        def wait(self, timeout):
            waits.append(timeout)
            return super().wait(timeout)

    engine = Counted(latency=3600.0) if kind == "sim" else Counted()
    actor = Count if kind == "sim" else Slow
    sources = [rf.from_actors(rf.Actors.of(actor, 1)).gather_async() for _ in range(2)]
    with rf.Union(*sources).run(engine) as run:
        pull(run, 4)
    assert len(waits) <= 40


class Slow:
    """Gives an item after a tenth of a second."""

    def next(self):
        threading.Event().wait(0.1)
        return 0


def test_08_there_is_no_ambient_context():
    """A flow run inside an operator of another leaves the outer one's counters alone."""

    def count(item, ctx):
        ctx.count("n")
        return item

    def nested(item, ctx):
        flow_of([1, 2, 3]).for_each(count, name="count").take(3, engine="sim")
        ctx.count("n")
        return item

    with flow_of([1, 2]).for_each(nested, name="count").run("sim") as run:
        assert list(run) == [1, 2]
        assert run.stats().operator("count").counters == {"n": 2}


@pytest.mark.parametrize("collect", ["batch", "combine", "round", "split"])
def test_09_weights_reach_every_contributing_worker(collect):
    """After batch, combine, a round or a split the sources are all who contributed."""
    workers = rf.Actors.of(Count, 3, name="worker")
    parallel = rf.from_actors(workers)
    flow = {
        "batch": lambda: parallel.gather_async().batch(3),
        "combine": lambda: parallel.gather_async().combine(Every(3)),
        "round": lambda: parallel.gather_sync(),
        "split": lambda: rf.Concurrently(parallel.gather_sync().split(), output_indexes=[1]),
    }[collect]()
    with flow.for_each(Broadcast()).run("sim") as run:
        assert next(run) == [0, 1, 2]
        assert [run.call(worker, "seen")[1] for worker in workers] == [1, 1, 1]


class Every:
    """Collects n items, then gives them as one."""

    def __init__(self, n):
        self.n = n
        self.items = []

    def __call__(self, item):
        self.items.append(item)
        if len(self.items) < self.n:
            return []
        out, self.items = self.items, []
        return [out]


class Watched:
    """A value that knows in how many processes it was read."""

    def __init__(self, reads=0):
        self.reads = reads
        self.data = np.zeros(50_000)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.reads += 1


class Maker:
    def next(self):
        return Watched()


class Taker:
    def __init__(self):
        self.reads = []

    def add(self, value):
        self.reads.append(value.reads)

    def next(self):
        if not self.reads:
            raise rf.NotReady
        return self.reads[-1]


class Forward(rf.Operator):
    takes_ref = True

    def __init__(self, to):
        self.to = to

    def __call__(self, ref, ctx):
        ctx.send(self.to, "add", ref)


def test_10_items_are_forwarded_without_being_read(engine):
    """From worker to replay actor a value is read once: there, not in the driver."""
    takers = rf.Actors.of(Taker, 1, name="taker")
    store = rf.from_actors(rf.Actors.of(Maker, 1)).gather_async().for_each(Forward(takers))
    flow = rf.Union(store.filter(lambda _: False), rf.from_actors(takers).gather_async())
    assert flow.take(2, engine=engine) == [1, 1]


def test_11_turns_count_activations_and_fractions_are_exact():
    """1:1 with a batch of ten is 1:1 in items consumed; 1:2.5 is exact, not drawn."""
    taken = {"left": 0, "right": 0}

    def tally(side):
        def count(item):
            taken[side] += 1
            return item

        return count

    numbers = list(range(1000))
    left = flow_of(numbers).for_each(tally("left")).batch(10)
    right = flow_of(numbers).for_each(tally("right"))
    rf.Union(left, right, weights=[1, 1]).take(110, engine="sim")
    assert abs(taken["left"] - taken["right"]) <= 1
    taken.update(left=0, right=0)
    flow = rf.Union(
        flow_of(numbers).for_each(tally("left")), flow_of(numbers).for_each(tally("right")),
        weights=[1, 2.5],
    )  # fmt: skip
    flow.take(70, engine="sim")
    assert taken == {"left": 20, "right": 50}


def test_12_a_worker_that_hangs_does_not_stall_the_round_for_ever():
    """With a timeout a hung worker is restarted and the round is completed."""
    policy = rf.FailurePolicy(on_lost="restart", timeout=30.0)
    workers = rf.Actors.of(Count, 2, name="worker")
    engine = Sim(latency=1.0, faults=[Hang(actor="worker-1", request=2)])
    with rf.from_actors(workers).gather_sync().run(engine, on_failure=policy) as run:
        assert next(run) == [0, 0]
        assert next(run) == [1, 0]  # a fresh incarnation counts from 0
        assert 31.0 <= engine.now() <= 35.0
        (line,) = run.ledger().balances()
        assert line.dropped == {"worker_lost": 1}


def test_13_building_has_no_side_effects(monkeypatch):
    """Writing a flow, checking and drawing it constructs no actor and starts no process."""
    started = []
    monkeypatch.setattr(Local, "start", lambda self, spec: started.append(spec))

    class Loud:
        def __init__(self):
            raise AssertionError("built too early")

        def next(self):
            return 0

    workers = rf.Actors.of(Loud, 256, resources={"num_gpus": 1})
    background = rf.Background(lambda x: x)
    feed = rf.from_actors(workers).gather_async().for_each(rf.Enqueue(background.inqueue))
    flow = rf.Concurrently([feed, rf.Dequeue(background.outqueue)], output_indexes=[1])
    assert flow.check() == []
    assert "256" in flow.explain()
    run = flow.run("local")
    assert started == []
    run.stop()


def test_15_a_shard_that_ended_is_not_asked_again():
    """After its end a shard costs nothing: no further request is made."""
    flow = rf.from_iterators([range(1), range(50)]).gather_async()
    with flow.run("sim", trace=True) as run:
        assert len(list(run)) == 51
        requests = [e for e in run.trace if e[1] == "request" and e[2] == "iterators-0"]
    assert len(requests) == 2  # the item, and the end


def test_16_a_run_may_be_pulled_from_another_thread(engine):
    """Nothing is kept per thread: a run started here goes on there."""
    flow = rf.from_range(6).gather_sync().flatten().for_each(lambda x, ctx: ctx.count("n") or x)
    with flow.run(engine) as run:
        out = [next(run)]
        thread = threading.Thread(target=lambda: out.extend(run))
        thread.start()
        thread.join()
        assert out == [0, 3, 1, 4, 2, 5]
        assert sum(line.counters.get("n", 0) for line in run.stats().operators) == 6
