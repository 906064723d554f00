"""The ray engine: what is its own. What all engines share is in the conformance suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import numpy as np
import pytest

import rillflow as rf
from rillflow.engines import ray as ray_module
from rillflow.engines.contract import ActorSpec, Completed, Event, Lost, Port, Started, Told
from rillflow.engines.ray import RayEngine, RayRef
from rillflow.errors import ActorStartError, EngineError, OperatorError, WorkerLost
from tests.engines.processes import PATIENCE, gone

ray = pytest.importorskip("ray")

pytestmark = [pytest.mark.ray, pytest.mark.proc, pytest.mark.usefixtures("users_ray")]

# Actors need not import this file, with all that it imports, to find their classes in it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to start an actor."""
    monkeypatch.setattr(ray_module, "_STARTING", PATIENCE)


class Worker:
    """Answers with its name and the newest weights."""

    def __init__(self, info: Any) -> None:
        self.info, self.weights = info, 0

    def next(self) -> tuple[str, int, int]:
        time.sleep(0.001)
        return self.info.name, self.info.incarnation, self.weights

    def set_weights(self, weights: int) -> None:
        self.weights = weights

    def fail(self, _: Any) -> None:
        raise LookupError("in the handler")  # the user's line


class Publish(rf.Operator):  # type: ignore[type-arg]
    """Sends the number of items so far, as weights, to all workers or to those of the item."""

    def __init__(self, to: Any = None) -> None:
        self.to, self.version = to, 0

    def __call__(self, item: Any, ctx: rf.Context) -> Any:
        self.version += 1
        to = ctx.sources if self.to is None else self.to
        ctx.send(to, "set_weights", self.version, version=self.version)
        return item


# -- items and messages ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flow",
    [
        lambda: rf.from_range(7, 2).for_each(lambda x: x * x).gather_sync(),
        lambda: rf.from_range(9, 2).filter(lambda x: x % 3).batch(2).gather_sync().flatten(),
        lambda: rf.from_range(4, 1).gather_sync().flatten().for_each(lambda x: x + 1, on="thread"),
    ],
)
def test_synchronous_flows_give_what_sim_gives(flow: Callable[[], Any]) -> None:
    assert flow().take(20, engine="ray") == flow().take(20, engine="sim")


def test_actors_may_live_in_the_driver_and_its_threads() -> None:
    flow = rf.from_range(4, 2, placement="thread").gather_sync().flatten()
    assert flow.take(9, engine="ray") == [0, 2, 1, 3]
    flow = rf.from_range(4, 2, placement="driver").gather_sync().flatten()
    assert flow.take(9, engine="ray") == [0, 2, 1, 3]


def test_a_message_is_handled_before_later_requests() -> None:
    workers = rf.Actors.of(Worker, 2, name="worker")
    flow = rf.from_actors(workers).gather_sync().for_each(Publish(workers))
    with flow.run("ray") as run:
        for turn in range(20):
            assert [weights for _, _, weights in next(run)] == [turn, turn]


def test_each_worker_sees_the_answer_to_its_own_item() -> None:
    workers = rf.Actors.of(Worker, 2, name="worker")
    newest = {"worker-0": 0, "worker-1": 0}
    with rf.from_actors(workers).gather_async().for_each(Publish()).run("ray") as run:
        for version in range(1, 41):
            name, _, weights = next(run)
            assert weights == newest[name]
            newest[name] = version
        assert run.call("worker-0", "next")[2] == newest["worker-0"]
        assert run.ledger().balanced


@pytest.mark.parametrize("size", [10, 9_000, 150_000])  # in the call, in Ray's call, in its store
def test_arrays_arrive_read_only(size: int) -> None:
    class Arrays:
        writeable = None

        def next(self) -> Any:
            return np.full(size, 1.0), self.writeable

        def take(self, array: Any) -> None:
            self.writeable = array.flags.writeable

    class Send(rf.Operator):  # type: ignore[type-arg]
        def __call__(self, item: Any, ctx: rf.Context) -> Any:
            ctx.send(ctx.sources, "take", np.ones(size))
            return item

    actors = rf.Actors.of(Arrays, 1)
    first, second = rf.from_actors(actors).gather_async().for_each(Send()).take(2, engine="ray")
    assert first[0].sum() == size
    assert not first[0].flags.writeable
    assert second[1] is False


def test_rollouts_reach_a_second_group_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rollouts:
        def next(self) -> Any:
            return {"obs": np.ones(150_000)}

    class Replay:
        total = 0.0

        def add(self, batch: Any) -> None:
            self.total += batch["obs"].sum()

        def sum(self) -> float:
            return self.total

    class Store(rf.Operator):  # type: ignore[type-arg]
        takes_ref = True

        def __init__(self, replay: Any) -> None:
            self.replay = replay

        def __call__(self, ref: Any, ctx: rf.Context) -> int:
            ctx.send(self.replay, "add", ref)
            return 0

    reads = []
    get = RayRef.get
    monkeypatch.setattr(RayRef, "get", lambda ref: reads.append(ref.sent) or get(ref))
    replay = rf.Actors.of(Replay, 1, name="replay")
    flow = rf.from_actors(rf.Actors.of(Rollouts, 2)).gather_async().for_each(Store(replay))
    with flow.run("ray") as run:
        for _ in range(6):
            next(run)
        assert reads == []
        assert run.call(replay[0], "sum") == 6 * 150_000.0


def count_puts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    puts: list[int] = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: puts.append(1) or put(value))
    return puts


def test_a_large_message_is_serialised_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class Send(rf.Operator):  # type: ignore[type-arg]
        def __init__(self, to: Any) -> None:
            self.to = to

        def __call__(self, item: Any, ctx: rf.Context) -> Any:
            ctx.send(self.to, "set_weights", np.ones(100_000))
            return item

    puts = count_puts(monkeypatch)
    workers = rf.Actors.of(Worker, 2)
    with rf.from_actors(workers).gather_sync().for_each(Send(workers)).run("ray") as run:
        next(run)
        next(run)
    assert len(puts) == 2


def test_large_code_is_shipped_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.arange(20_000)
    puts = count_puts(monkeypatch)
    flow = rf.from_range(4, 2).for_each(lambda x: int(table[-1]) + x).gather_sync()
    assert flow.take(2, engine="ray") == [[19_999, 20_001], [20_000, 20_002]]
    assert len(puts) == 1


# -- errors of user code ---------------------------------------------------------------------------


def test_a_constructor_error_is_the_users_own() -> None:
    class Broken:
        def __init__(self) -> None:
            raise ValueError("no such level")  # the user's line

        def next(self) -> None: ...

    with pytest.raises(ActorStartError, match="no such level") as caught:
        rf.from_actors(rf.Actors.of(Broken, 1, name="broken")).gather_sync().take(1, engine="ray")
    assert isinstance(caught.value.__cause__, ValueError)
    assert "the user's line" in caught.value.failure.frame


def test_an_error_in_a_request_names_operator_actor_and_line() -> None:
    def halve(x: int) -> float:
        return 1 / x  # the user's line

    flow = rf.from_range(3, 1).for_each(halve).gather_sync()
    with pytest.raises(ZeroDivisionError) as caught:
        flow.take(3, engine="ray")
    error = caught.value
    assert isinstance(error, OperatorError)
    assert error.actor == "range-0"
    assert "halve" in error.operator
    assert "the user's line" in error.failure.frame


def test_an_item_that_cannot_be_pickled_is_an_error_of_its_request() -> None:
    flow = rf.from_range(3, 1).for_each(lambda _: sys._getframe()).gather_sync()
    with pytest.raises(TypeError, match="pickle"):
        flow.take(3, engine="ray")


def test_an_error_in_a_message_handler_comes_with_the_next_answer() -> None:
    class Tease(rf.Operator):  # type: ignore[type-arg]
        def __call__(self, item: Any, ctx: rf.Context) -> Any:
            ctx.send(ctx.sources, "fail", None)
            return item

    run = rf.from_actors(rf.Actors.of(Worker, 1)).gather_async().for_each(Tease()).run("ray")
    with run:
        next(run)
        with pytest.raises(LookupError) as caught:
            next(run)
    assert isinstance(caught.value, OperatorError)
    assert "the user's line" in caught.value.failure.frame


# -- loss ------------------------------------------------------------------------------------------


@pytest.fixture
def engine() -> Iterator[RayEngine]:
    """An engine for one actor and no run."""
    engine = RayEngine()
    engine.open(0)
    yield engine
    engine.close()


@pytest.fixture
def port(engine: RayEngine) -> Port:
    """An actor of that engine, whose constructor has returned."""
    actors = rf.Actors.of(Worker, 1, name="worker")
    code = cloudpickle.dumps((Worker, (), {}))
    spec = ActorSpec(rf.ActorInfo("worker-0", 0, 0, 1), "process", code, actors[0])
    port = engine.start(spec)
    assert events_of(engine, 1) == [Started("worker-0", 0)]
    return port


def events_of(engine: RayEngine, count: int) -> list[Event]:
    """The first `count` events; several may come together."""
    deadline, found = time.monotonic() + PATIENCE, list[Event]()
    while len(found) < count and (left := deadline - time.monotonic()) > 0:
        found += engine.wait(left)
    assert len(found) >= count, f"{found} in {PATIENCE} s"
    return found


def first_event(engine: RayEngine) -> Event:
    return events_of(engine, 1)[0]


@pytest.mark.usefixtures("port")
def test_the_death_of_an_idle_actor_is_noticed(engine: RayEngine) -> None:
    os.kill(engine.pids()["worker-0"], signal.SIGKILL)
    event = first_event(engine)
    assert isinstance(event, Lost)
    assert event.reason.startswith("ActorDiedError: ")
    assert "\n" not in event.reason
    assert engine.wait(0.2) == []
    assert engine.pids() == {}


def test_an_idle_actor_reports_a_message_that_failed(engine: RayEngine, port: Port) -> None:
    for count in (1, 2):
        port.send(("tell", "fail", False, None, None), engine.put(None))
        event = first_event(engine)
        assert isinstance(event, Told)
        assert event.handled == count
        assert [failure.type_name for failure in event.failures] == ["LookupError"]


class Owner:
    """Data that an actor puts itself is lost with it."""

    def put(self) -> list[Any]:
        return [ray.put(np.ones(100_000))]


def lost_object() -> Any:
    owner = ray.remote(num_cpus=0)(Owner).remote()
    [ref] = ray.get(owner.put.remote())
    ray.kill(owner)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            ray.get(ref)
        except ray.exceptions.OwnerDiedError:
            return ref
        time.sleep(0.1)
    raise AssertionError("the object outlived its owner")


@pytest.mark.parametrize("alone", [True, False])
def test_a_message_whose_data_is_lost_is_reported(
    engine: RayEngine, port: Port, alone: bool
) -> None:
    port.send(("install", "line", cloudpickle.dumps(("next", []))))
    engine.flush()
    ref = RayRef(lost_object(), remote=True)
    port.send(("tell", "set_weights", False, None, None), ref)
    if not alone:
        port.send(("request", 1, "line", 0, ()))
    event, *answer = events_of(engine, 1 if alone else 2)
    assert isinstance(event, Told)
    assert (event.handled, len(event.failures)) == (-1, 1), "one message has not arrived"
    assert alone or isinstance(answer[0], Completed)
    with pytest.raises(EngineError, match="is lost: OwnerDiedError"):
        ref.get()


def test_nothing_is_heard_of_a_killed_actor(engine: RayEngine, port: Port) -> None:
    pid = engine.pids()["worker-0"]
    port.kill()
    assert gone([pid])
    assert engine.wait(0.2) == []


def workers_and_run(on_failure: Any) -> tuple[Any, dict[str, int]]:
    workers = rf.Actors.of(Worker, 2, name="worker")
    flow = rf.from_actors(workers).gather_async().for_each(Publish(workers))
    run = flow.run("ray", on_failure=on_failure)
    for _ in range(10):
        next(run)
    return run, {name: about["pid"] for name, about in run.workers().items()}


def test_a_killed_worker_raises() -> None:
    run, pids = workers_and_run("raise")
    with run, pytest.raises(WorkerLost, match="'worker-1'"):  # noqa: PT012
        os.kill(pids["worker-1"], signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            next(run)
    assert gone(list(pids.values()))


def test_a_killed_worker_is_restarted_with_the_newest_weights() -> None:
    run, pids = workers_and_run("restart")
    with run:
        os.kill(pids["worker-1"], signal.SIGKILL)
        deadline, incarnation = time.monotonic() + PATIENCE, 0
        while incarnation == 0:
            assert time.monotonic() < deadline
            name, incarnation, weights = next(run)
        assert name == "worker-1"
        assert weights >= 10
        assert run.workers()["worker-1"]["pid"] != pids["worker-1"]
        assert run.workers()["worker-1"]["restarts"] == 1
        assert run.ledger().balanced


def test_a_flow_goes_on_without_a_killed_worker() -> None:
    run, pids = workers_and_run("shrink")
    with run:
        os.kill(pids["worker-1"], signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while run.counters["shrunk"] == 0 and time.monotonic() < deadline:
            next(run)
        assert run.counters["shrunk"] == 1
        assert {next(run)[0] for _ in range(10)} == {"worker-0"}


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


# -- the engine and its Ray ------------------------------------------------------------------------


def test_stop_ends_the_actors_and_leaves_the_users_ray(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_module, "_GRACE", PATIENCE)

    class Closing:
        def next(self) -> int:
            return os.getpid()

        def close(self) -> None:
            (tmp_path / "closed").touch()

    run = rf.from_actors(rf.Actors.of(Closing, 1)).gather_sync().flatten().run("ray")
    pid = next(run)
    run.stop()
    run.stop()
    assert (tmp_path / "closed").exists()
    assert gone([pid])
    assert ray.is_initialized()


def test_ray_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="submit it as a Ray job"):
        RayEngine("ray://127.0.0.1:10001")
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:10001")
    with pytest.raises(EngineError, match="Ray Client"):
        RayEngine()


def test_a_missing_or_old_ray_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "__version__", "2.9.3")
    with pytest.raises(EngineError, match=r"2\.57 or newer"):
        RayEngine()
    monkeypatch.setattr(ray_module, "ray", None)
    with pytest.raises(EngineError, match=r"pip install 'rillflow\[ray\]'"):
        RayEngine()


def test_an_actor_has_the_resources_of_its_group() -> None:
    class Assigned:
        def next(self) -> Any:
            return ray.get_runtime_context().get_assigned_resources()

    for resources in ({}, {"num_cpus": 1}):
        flow = rf.from_actors(rf.Actors.of(Assigned, 1, resources=resources)).gather_sync()
        [[assigned]] = flow.take(1, engine="ray")
        assert assigned.get("CPU", 0) == resources.get("num_cpus", 0)


def test_an_actor_for_which_there_is_no_room_is_one_clear_error(
    engine: RayEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a Ray of our own, which never grows; that of a user may."""
    monkeypatch.setattr(engine, "_alone", True)
    actors = rf.Actors.of(Worker, 1, name="big")
    spec = ActorSpec(rf.ActorInfo("big-0", 0, 0, 1), "process", b"", actors[0], {"num_cpus": 1e6})
    with pytest.raises(EngineError, match="no room for actor 'big-0'"):
        engine.start(spec)


CONNECTING = """
import sys
import rillflow as rf
from rillflow.engines.ray import RayEngine
sys.path.append({path!r})
from a_module_of_the_user import Source

run = rf.from_actors(rf.Actors.of(Source, 1)).gather_sync().flatten().run(RayEngine({address!r}))
print(next(run))
run.stop()
"""


def test_an_engine_connects_to_a_cluster_and_brings_its_paths(tmp_path: Any) -> None:
    (tmp_path / "a_module_of_the_user.py").write_text(
        "class Source:\n    def next(self): return 'found'\n"
    )
    address = ray.get_runtime_context().gcs_address
    done = run_script(CONNECTING.format(path=str(tmp_path), address=address))
    assert (done.stdout, done.stderr) == ("found\n", "")
    assert ray.nodes()[0]["Alive"]


OF_ITS_OWN = """
import os, time
import rillflow as rf

class Item:
    def __init__(self, x): self.x = x

class Source:
    def __init__(self): self.n = 0
    def next(self):
        self.n += 1
        return Item((self.n, os.getpid()))

flow = rf.from_actors(rf.Actors.of(Source, 1)).gather_sync().flatten()
run = flow.run("ray")
first, second = next(run), next(run)
assert type(first) is type(second) is Item
import ray
assert ray.is_initialized()
run.stop()
assert not ray.is_initialized()
print(first.x[1])
"""


def test_a_script_gets_a_ray_of_its_own_and_takes_it_down_again() -> None:
    done = run_script(OF_ITS_OWN)
    assert done.stderr == ""
    assert gone([int(done.stdout)])
