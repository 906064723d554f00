"""Simulated clusters: predictions from stated latencies, and from a recorded run."""

from __future__ import annotations

import json
import random
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

import rillflow as rf
from rillflow.engines.local import Local
from rillflow.engines.sim import Sim
from rillflow.engines.sim_latency import Cpu
from rillflow.errors import BuildError, RunError
from rillflow.flows.merge import Concurrently
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.graph.handles import Background
from rillflow.graph.program import Program
from rillflow.scheduler.run import Run
from rillflow.simulation import Calibration, simulate
from rillflow.simulation.calibrate import _transport, calibrate
from rillflow.simulation.cpu_meters import Meter
from rillflow.simulation.recorded_flow import replayed
from rillflow.simulation.recording_engine import Enough, Recorder, Seen
from rillflow.simulation.virtual_engine import VirtualEngine
from rillflow.simulation.worker_count import resized
from rillflow.types import Header, Placement


class Worker:
    """Counts, and remembers how often a worker was made in this process."""

    made = 0

    def __init__(self) -> None:
        Worker.made += 1
        self.n = 0

    def next(self) -> int:
        self.n += 1
        return self.n

    def set_weights(self, version: int) -> None:
        self.version = version


SLEEP_S = 0.02  # long beside what the driver needs for a result, however busy the machine


class Sleeper:
    def next(self) -> int:
        time.sleep(SLEEP_S)
        return 1


class Publish:
    """Answers each item with a versioned message: to its source, or to everybody."""

    def __init__(self, workers: rf.Actors | None = None) -> None:
        self.workers = workers
        self.version = 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        self.version += 1
        to = ctx.sources if self.workers is None else list(self.workers)
        ctx.send(to, "set_weights", self.version, version=self.version)
        return item


def double(x: int) -> int:
    return 2 * x


def workers(count: int = 2, **options: Any) -> rf.Actors:
    return rf.Actors.of(Worker, count, name="worker", **options)


def recorded(flow: rf.Flow[Any], latency: Any = 0.01, seconds: float = 0.05) -> Calibration:
    """A calibration without processes or waiting: the recorder also works on `sim`."""
    return calibrate(
        lambda _: flow.node, Sim(latency), workers=2, seconds=seconds, seed=0, cores=8, largest=2
    )


# -- stated latencies ------------------------------------------------------------------------------


def test_throughput_grows_with_the_workers() -> None:
    flow = rf.from_actors(workers()).gather_async()
    report = simulate(flow, workers=[1, 4, 100], latencies={"worker": 0.1})
    assert [round(row.throughput) for row in report.rows] == [10, 40, 1000]


def test_waiting_needs_no_core_and_processor_time_does() -> None:
    flow = rf.from_actors(workers()).gather_async()
    waiting = simulate(flow, workers=[8], latencies={"worker": 0.1}, cores=2)
    working = simulate(flow, workers=[8], latencies={"worker": Cpu(0.1)}, cores=2)
    assert waiting[8].throughput == pytest.approx(80, rel=0.02)
    assert working[8].throughput == pytest.approx(20, rel=0.02)
    assert "the 2 cores" in working[8].bottleneck


def test_saturated_driver_is_named() -> None:
    flow = rf.from_actors(workers()).gather_async().for_each(double, name="train")
    report = simulate(flow, workers=[2, 50], latencies={"worker": 0.1, "train": 0.01}, cores=None)
    assert report[50].throughput == pytest.approx(100, rel=0.02)
    assert report[50].operators["train"] == pytest.approx(1.0, abs=0.01)
    assert report[50].resources["driver"] == pytest.approx(1.0, abs=0.01)
    assert report[50].bottleneck.startswith("Bottleneck: driver")
    assert report[2].bottleneck.startswith("Bottleneck: actors 'worker'")
    assert report[2].resources["driver"] == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(("k", "lag"), [(1, 0), (4, 3)])
def test_staleness_follows_the_requests_in_flight(k: int, lag: int) -> None:
    flow = rf.from_actors(workers()).gather_async(num_async=k).for_each(Publish())
    row = simulate(flow, workers=[3], latencies={"worker": 0.1}).rows[0]
    assert row.lag_max == lag
    assert row.lag_mean == pytest.approx(lag, abs=0.1)


def test_source_may_be_called_by_its_operator_name() -> None:
    flow = rf.from_actors(workers()).for_each(double).gather_async()
    stated = {
        "from_actors(Worker.next)": 0.1,
        "for_each(double)": lambda rng: rng.uniform(0.4, 0.4),
    }
    assert simulate(flow, workers=[1], latencies=stated).rows[0].throughput == pytest.approx(2)


def test_run_can_be_measured_in_items_or_in_virtual_seconds() -> None:
    flow = rf.from_actors(workers()).gather_async()
    by_items = simulate(flow, workers=[2], latencies={"worker": 0.1}, items=40).rows[0]
    by_seconds = simulate(flow, workers=[2], latencies={"worker": 0.1}, seconds=4.0).rows[0]
    assert by_items.items == 30
    assert by_seconds.seconds == pytest.approx(3.0, abs=0.2)


def test_flow_that_ends_is_reported_as_far_as_it_goes() -> None:
    flow = rf.from_actors(workers()).gather_async().limit(20)
    assert simulate(flow, workers=[2], latencies={"worker": 0.1}).rows[0].throughput > 15


def test_two_simulations_with_one_seed_are_equal() -> None:
    flow = rf.from_actors(workers()).gather_async(num_async=2).for_each(Publish())
    stated = {"worker": lambda rng: rng.expovariate(10)}
    first, second = (simulate(flow, workers=[1, 7], latencies=stated, seed=3) for _ in range(2))
    other = simulate(flow, workers=[1, 7], latencies=stated, seed=4)
    assert first.rows == second.rows != other.rows


# -- another number of actors ----------------------------------------------------------------------


def test_resized_graph_is_a_new_one_with_the_same_names() -> None:
    group = workers(2)
    flow = rf.from_actors(group).for_each(double).gather_sync().for_each(Publish(group))
    root = resized(flow.node, group, 5)
    before, after = Program(flow.node), Program(root)
    assert list(before.names.values()) == list(after.names.values())
    assert [len(g) for g in before.groups] == [2]
    assert [len(g) for g in after.groups] == [5]


def test_operator_that_holds_the_group_reaches_all_of_it() -> None:
    group = workers(2)

    def publish(item: Any, ctx: rf.Context) -> int:
        ctx.send(list(group), "set_weights", 1)
        return len(group)

    for operator in (publish, Publish(group)):
        flow = rf.from_actors(group).gather_sync().for_each(operator)
        seven = rf.Flow(resized(flow.node, group, 7))
        with seven.run("sim", trace=True) as run:
            next(run)
            next(run)  # before which those of the first have left, with a version or without
            told = [entry[2] for entry in run.trace if entry[1] == "tell"]
            assert set(told) == {f"worker-{index}" for index in range(7)}


def test_helpers_of_a_concurrent_map_grow_with_the_shards() -> None:
    group = workers(2)
    flow = rf.from_actors(group).for_each(double, max_concurrency=3).gather_async()
    sizes = [len(g) for g in Program(resized(flow.node, group, 4)).groups]
    assert sorted(sizes) == [4, 12]


def test_flow_without_the_group_is_left_alone() -> None:
    flow = rf.from_actors(workers()).gather_async()
    assert resized(flow.node, workers(), 9) is flow.node


def test_group_to_vary_must_be_clear() -> None:
    one, two = workers(), rf.Actors.of(Worker, 3, name="other")
    flow = rf.Union(rf.from_actors(one).gather_async(), rf.from_actors(two).gather_async())
    with pytest.raises(BuildError, match=r"2 groups.*'other', 'worker'.*group="):
        simulate(flow, workers=[1], latencies={"*": 0.1})
    row = simulate(flow, workers=[7], latencies={"*": 0.1}, group=two).rows[0]
    assert row.throughput == pytest.approx(90, rel=0.05)
    with pytest.raises(BuildError, match="not a source"):
        simulate(flow, workers=[1], latencies={"*": 0.1}, group=workers())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workers": []}, "empty"),
        ({"workers": [0]}, "workers must be a whole number of at least 1, got 0"),
        ({"cores": 0}, "cores must be"),
        ({"items": 1.5}, "items must be"),
        ({"seconds": 0}, "seconds must be more than 0"),
        ({"measure_seconds": -1}, "measure_seconds"),
        ({"latencies": {"wroker": 1}}, "no actor or operator is called 'wroker'. Did you mean 'wo"),
        ({"latencies": "mesured"}, "'measured' or a mapping"),
    ],
)
def test_wrong_argument_is_refused(wrong: dict[str, Any], message: str) -> None:
    flow = rf.from_actors(workers()).gather_async()
    arguments: dict[str, Any] = {"workers": [1], "latencies": {"worker": 0.1}, **wrong}
    with pytest.raises(BuildError, match=message):
        simulate(flow, **arguments)


def test_parallel_flow_and_missing_shards_are_refused() -> None:
    parallel: Any = rf.from_actors(workers(4))
    with pytest.raises(BuildError, match="Gather a parallel flow first"):
        simulate(parallel, workers=[1])
    flow = parallel.select_shards([3]).gather_async()
    with pytest.raises(BuildError, match="needs at least 4 shards"):
        simulate(flow, workers=[2], latencies={"worker": 0.1})


# -- a recorded run --------------------------------------------------------------------------------


def test_virtual_workers_give_recorded_items_and_execute_nothing() -> None:
    flow = rf.from_actors(workers()).for_each(double).gather_async()
    calibration = recorded(flow)
    Worker.made = 0
    with flow.run(VirtualEngine(calibration)) as run:
        items = [next(run) for _ in range(50)]
    assert Worker.made == 0
    assert set(items) <= {2 * n for n in range(1, 20)}


def test_recorded_latencies_predict_more_workers() -> None:
    """Latencies of a whole second, so that the driver's own time, which is real, is nothing."""
    flow = rf.from_actors(workers()).gather_async().for_each(double)
    report = simulate(flow, workers=[1, 20], latencies=recorded(flow, 1.0), cores=None)
    assert report[1].throughput == pytest.approx(1, rel=0.1)
    assert report[20].throughput == pytest.approx(20, rel=0.3)


def test_calibration_given_again_gives_the_same_report() -> None:
    flow = rf.from_actors(workers()).gather_async(num_async=2).for_each(Publish())
    first = simulate(flow, workers=[1, 8], latencies=recorded(flow))
    second = simulate(flow, workers=[1, 8], latencies=first.calibration)
    assert first.rows == second.rows
    assert first[8].lag_max == 1


def test_items_that_actors_hold_back_keep_the_ledger_balanced() -> None:
    flow = rf.from_actors(workers()).filter(lambda n: n % 5 > 0).batch(3).gather_async()
    calibration = recorded(flow)
    assert {len(segment) for segment in calibration.pipelines.popitem()[1]} <= {1, 3, 4, 15}
    with flow.run(VirtualEngine(recorded(flow))) as run:
        batches = [next(run) for _ in range(40)]
        assert all(len(batch) == 3 for batch in batches)
        assert run.ledger().balanced


def test_message_to_the_source_reaches_the_virtual_worker_that_answered() -> None:
    def answer(pair: tuple[rf.ActorHandle, int], ctx: rf.Context) -> str:
        ctx.send(pair[0], "set_weights", 1)
        return f"{pair[0]} {ctx.sources[0]}"

    group = workers(2)
    flow = rf.from_actors(group).zip_with_source_actor().gather_async().for_each(answer)
    calibration = recorded(flow)
    with rf.Flow(resized(flow.node, group, 6)).run(VirtualEngine(calibration)) as run:
        seen = {next(run) for _ in range(30)}
    assert seen == {f"<actor worker-{i}> <actor worker-{i}>" for i in range(6)}


def test_background_operator_is_a_resource_of_its_own() -> None:
    flow = rf.from_actors(workers()).gather_async().for_each(double, on="thread", name="learner")
    calibration = recorded(flow, {"worker": 0.01, "learner": 0.02})
    row = simulate(flow, workers=[4], latencies=calibration, cores=None).rows[0]
    assert row.throughput == pytest.approx(50, rel=0.1)
    assert row.bottleneck.startswith("Bottleneck: background 'learner'")


def test_actors_in_the_driver_work_one_after_another() -> None:
    flow = rf.from_actors(workers(2, placement="driver")).gather_async()
    calibration = recorded(flow, 0.01)
    row = simulate(flow, workers=[5], latencies=calibration, cores=None).rows[0]
    assert row.throughput == pytest.approx(100, rel=0.05)
    assert row.resources["driver"] == pytest.approx(1.0, abs=0.02)


def test_flow_that_gives_nothing_cannot_be_learned_from() -> None:
    class Empty:
        def next(self) -> int:
            raise rf.EndOfStream

    flow = rf.from_actors(rf.Actors.of(Empty, 2)).gather_async()
    with pytest.raises(RunError, match="no item while it was measured"):
        recorded(flow)


def test_measured_run_replayed_has_the_same_trace() -> None:
    """Measured latencies are recorded once, then replayed: the same events at the same times."""

    class Busy:
        def next(self) -> int:
            return sum(range(random.randrange(200, 2000)))

    flow = rf.from_actors(rf.Actors.of(Busy, 3)).gather_async(num_async=2).for_each(double).batch(2)

    def trace(engine: Sim) -> list[tuple[Any, ...]]:
        with flow.run(engine, trace=True) as run:
            for _ in range(40):
                next(run)
            return run.trace

    measured = Sim("measured", cores=2, transport=1e-4)
    first = trace(measured)
    again = [
        trace(Sim("measured", cores=2, transport=1e-4).replay(measured.recorded)) for _ in "ab"
    ]
    assert first[-1][0] > 0
    assert again == [first, first]


def observed(on_the_way: list[float], delay: float = 0.0) -> Any:
    """What a recorder saw of one process: 1 ms of work each, so long on their way."""
    header = Header(wall=1e-3, cpu=1e-3)
    key = ("worker", "next", ())
    seen = [Seen(key, "worker-0", "p", 0, header, None, seconds) for seconds in on_the_way]
    return SimpleNamespace(
        seen=seen, before=0, messages=2 * len(seen), engine_cpu=0.0,
        specs={"worker-0": SimpleNamespace(placement="process")},
        meters={"worker-0": Meter(0, "worker", delay=delay * len(seen))},
    )  # fmt: skip


def test_transport_is_what_is_left_of_the_way() -> None:
    """Half of it, without the work, the waiting for a core, and what only outliers have."""
    assert _transport(observed([1.4e-3] * 40), {}) == pytest.approx(0.2e-3)
    assert _transport(observed([1.4e-3] * 40), {"worker": 0.1e-3}) == pytest.approx(0.15e-3)
    assert _transport(observed([1.4e-3] * 40, delay=0.3e-3), {}) == pytest.approx(0.05e-3)
    assert _transport(observed([1.2e-3, 9e-3, 9e-3]), {}) == pytest.approx(0.1e-3)
    assert _transport(observed([]), {}) == 0.0


@pytest.mark.proc
def test_nothing_is_sent_to_actors_that_live_in_the_driver() -> None:
    source = rf.from_actors(rf.Actors.of(Sleeper, 1, name="sleeper")).gather_async()
    counts = {}
    places: tuple[Placement, ...] = ("driver", "thread")
    for place in places:
        learner = Background(double, name="learner", placement=place)
        feed = source.for_each(Enqueue(learner.inqueue))
        flow = Concurrently([feed, Dequeue(learner.outqueue)], mode="async", output_indexes=[1])
        recorder = Recorder(Local(), seconds=0.2)
        run: Run[Any] = Run(flow.node, recorder)
        with run, suppress(Enough):
            for _ in run:
                recorder.came_out = True
        answers = [one.actor for one in recorder.seen[recorder.before :]]
        counts[place] = recorder.messages / answers.count("sleeper-0")
    assert counts["driver"] == pytest.approx(2, abs=0.5)  # a question and its answer
    assert counts["thread"] == pytest.approx(4, abs=0.5)


# -- larger items ----------------------------------------------------------------------------------


def work(parts: list[int]) -> int:
    """Takes longer for more parts."""
    return sum(sum(range(40_000)) for _ in parts)


def grown(flow: rf.Flow[Any], group: rf.Actors, largest: int = 16) -> Calibration:
    return calibrate(
        lambda n: resized(flow.node, group, n), Sim(0.001), workers=2, seconds=0.02, seed=0,
        cores=8, largest=largest,
    )  # fmt: skip


def test_operator_takes_longer_for_a_round_of_more_workers() -> None:
    """Its time is measured on several sizes, and is a line through them.

    Real time is measured here, so the limits are wide: 8 and 32 are exact, 1 would be no growth.
    """
    group = workers(2)
    flow = rf.from_actors(group).gather_sync().for_each(work, name="train")
    calibration = grown(flow, group)
    line = calibration.growth["train"]
    assert set(line.seen) == {2, 4, 8, 16}
    assert 2 < line.at(16) / line.at(2) < 30
    few, many = simulate(flow, workers=[2, 64], latencies=calibration, cores=None).rows
    assert 2 < few.throughput / many.throughput < 200
    assert many.limit == "driver"


def test_costly_operator_is_not_really_called_again_and_again() -> None:
    calls: list[int] = []

    def train(parts: list[int], ctx: rf.Context) -> int:
        calls.append(len(parts))
        ctx.send(group, "set_weights", len(calls), version=len(calls))
        ctx.mark("trained")
        ctx.count("updates")
        return work(parts)

    group = workers(2)
    flow = rf.from_actors(group).gather_sync().for_each(train, name="train")
    calibration = grown(flow, group, largest=4)
    assert calibration.costly == {"train"}
    before = len(calls)
    row = simulate(flow, workers=[32], latencies=calibration, items=40).rows[0]
    assert len(calls) == before
    assert row.items == 30
    with rf.Flow(replayed(flow.node, calibration.recordings, calibration.costly)).run("sim") as run:
        for _ in range(20):
            next(run)
        assert run.stats().operator("train").counters["updates"] == 20
        assert run.ledger().balances()[0].done == {"trained": 40}
        assert run.workers()["worker-1"]["in_flight"] == 0
        assert run.ledger().balanced


def test_operators_that_share_something_really_run() -> None:
    class Store:
        def __init__(self) -> None:
            self.count = 0

        def get_state(self) -> int:
            return self.count

        def set_state(self, state: int) -> None:
            self.count = state

    def write(parts: list[int], ctx: rf.Context) -> int:
        ctx.shared("store", Store).count += 1
        return work(parts)

    def read(item: int, ctx: rf.Context) -> int:
        return ctx.shared("store", Store).count

    group = workers(2)
    flow = rf.from_actors(group).gather_sync().for_each(write).for_each(read)
    assert grown(flow, group, largest=2).costly == frozenset()


def test_operator_before_one_that_asks_for_sizes_really_runs() -> None:
    group = workers(2)
    joined = rf.from_actors(group).gather_sync().for_each(lambda parts: [work(parts)] * len(parts))
    assert grown(joined.combine(lambda part: [part]), group, largest=2).costly == frozenset()
    assert grown(joined, group, largest=2).costly == {"for_each(lambda)"}


def test_plan_may_look_at_the_number_of_workers() -> None:
    def plan(count: int) -> rf.Flow[Any]:
        sources = rf.from_actors(workers(count)).gather_async()
        return sources.batch(count).for_each(double_all, name="train")

    def double_all(items: list[int]) -> list[int]:
        return [2 * item for item in items]

    report = simulate(plan, workers=[1, 10], latencies={"worker": 0.1})
    assert [round(row.throughput) for row in report.rows] == [10, 10]
    with pytest.raises(BuildError, match="group= is for one flow"):
        simulate(plan, workers=[1], latencies={"worker": 0.1}, group=workers())
    with pytest.raises(BuildError, match="gives a flow; got 3"):
        simulate(lambda count: 3, workers=[3], latencies={"worker": 0.1})  # type: ignore


def test_steps_that_workers_tell_are_counted() -> None:
    class Stepper(Worker):
        def pop_metrics(self) -> dict[str, int]:
            return {"steps": 5}

    for gather in ("gather_sync", "gather_async"):
        flow = getattr(rf.from_actors(rf.Actors.of(Stepper, 1, name="worker")), gather)()
        report = simulate(flow, workers=[1, 8], latencies={"worker": 0.1})
        assert [round(row.steps or 0) for row in report.rows] == [50, 400]
        assert "steps/s" in str(report)


def test_rows_are_told_as_soon_as_they_are_known() -> None:
    seen: list[tuple[int, int]] = []
    flow = rf.from_actors(workers()).gather_async()
    simulate(
        flow, workers=[1, 4], latencies={"worker": 0.1},
        on_row=lambda row, report: seen.append((row.workers, len(report.rows))),
    )  # fmt: skip
    assert seen == [(1, 1), (4, 2)]


# -- the report ------------------------------------------------------------------------------------


def test_report_is_a_table_and_plain_data() -> None:
    flow = rf.from_actors(workers()).gather_async().for_each(double, name="train")
    stated = {"worker": 0.1, "train": 0.01}
    report = simulate(flow, workers=[1, 64], latencies=stated, cores=4)
    text = str(report)
    assert "Predicted for 'worker' on 4 cores, with stated latencies." in text
    assert "workers  items/s  lag mean  lag max  driver  actors 'worker'  cores" in text
    assert "64 workers: Bottleneck: driver, busy 100% of the time" in text
    plain = json.loads(json.dumps(report.to_json()))
    assert [row["workers"] for row in plain["rows"]] == [1, 64]
    with pytest.raises(KeyError, match="2 workers were not simulated"):
        report[2]


@pytest.mark.proc
def test_latencies_are_measured_on_local_by_default() -> None:
    flow = rf.from_actors(rf.Actors.of(Sleeper, 2, name="sleeper")).gather_async()
    report = simulate(flow, workers=[1, 4], measure_seconds=0.3)
    # at most: a sleep may take longer than it was told to, and on a busy machine much longer
    assert 0 < report[1].throughput < 1 / SLEEP_S
    assert report[4].throughput > 2 * report[1].throughput
    assert "measured on 'local'" in str(report)
