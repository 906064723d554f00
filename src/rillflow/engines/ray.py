"""Ray actors and object references, on a cluster of any size. The only file that imports `ray`.

Ray carries processes, calls and data. Supervision is ours: Ray restarts no actor and repeats no
call, so that everything happens at most once.

- *An answer* is two objects: a small one with the header, which wakes the driver, and the item.
  A large item stays where it is until somebody reads it, and goes from actor to actor as a
  reference; a small one rides along with its header.
- *A message* leaves together with a request to its actor that is made in the same step of the
  driver: one call instead of two. (If it forwards another actor's data it leaves by itself: what is
  lost with that actor's node must not take a request with it.) A message has no answer. That it was
  handled, or that its handler raised, is told by the next answer, or else by the watch call.
- *User exceptions* come back as data. What Ray itself raises is infrastructure: the actor is lost.
- *The watch call* is not answered while the actor lives, in a concurrency group of its own. Ray
  fails it when the process dies (after 10 ms on one machine), so that the death of an idle actor is
  an event and nothing polls. Other calls keep their order and their latency; but Ray then runs them
  on one fixed thread of the process, which is not its main thread.
- *Objects are freed* by counting, which is Ray's own: a `RayRef` is the driver's hold on an object,
  and when the last one is gone, read or not, Ray takes the object back. What the engine keeps
  itself (code that it shipped) it lets go at its end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cloudpickle

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Lost, Port, Told
from rillflow.engines.packing import pack
from rillflow.engines.ray_actor import RayActor
from rillflow.engines.ray_address import remembered, why_silent
from rillflow.engines.ray_host import SMALL, actor_class, decode, encode, is_small
from rillflow.engines.replies import event_of
from rillflow.engines.same_process import SameProcess
from rillflow.errors import EngineError, UserFailure, describe_exception
from rillflow.types import Header, Ref, read

try:
    import ray
except ImportError:  # an optional extra; the constructor of the engine says so
    ray = None  # type: ignore[assignment]

_PATIENCE = 60.0
"""seconds to wait for data that is known to exist"""
_STARTING = 5.0
"""seconds a process may need to come up, for whoever asks for its id"""
_GRACE = 0.5
"""seconds the actors have to close themselves before they are killed"""
_QUIET = ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO")
"""what a Ray that the engine starts would otherwise tell the user about"""

Handler = Callable[..., list[Event]]


class RayRef(Ref):
    """A value in Ray's object store, or a small one that is here already."""

    __slots__ = ("remote", "sent")

    def __init__(self, sent: Any, remote: bool = False) -> None:
        self.sent = sent
        """an ObjectRef, or bytes"""
        self.remote = remote
        """an actor made the value, which is lost if that actor's node is"""

    @property
    def nbytes(self) -> int:
        """Bytes of what is here; what is in the object store is Ray's to bound."""
        return len(self.sent) if isinstance(self.sent, bytes) else 0

    def get(self) -> Any:
        if isinstance(self.sent, bytes):
            return decode(self.sent).get()
        try:
            return decode(ray.get(self.sent, timeout=_PATIENCE)).get()
        except ray.exceptions.RayError as error:  # lost, or not here in time
            raise EngineError(
                f"the data of an item is lost: {_reason(error)}. A request happens at most once, "
                "so it is not made again."
            ) from error


class RayEngine(Engine):
    """The ray engine: uses the Ray of this process, or the one at `address`, or starts one.

    Without an address, `RAY_ADDRESS` is respected, as in a Ray job. `num_cpus` and `init_options`
    go to `ray.init`. A Ray that was running before is left running.
    """

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        *,
        num_cpus: int | None = None,
        init_options: Mapping[str, Any] | None = None,
    ) -> None:
        if ray is None:
            raise EngineError("the ray engine needs Ray: pip install 'rillflow[ray]'")
        if tuple(map(int, ray.__version__.split(".")[:2])) < (2, 57):
            found = f"this is {ray.__version__}: pip install -U 'rillflow[ray]'"
            raise EngineError(f"the ray engine needs Ray 2.57 or newer, and {found}")
        _refuse_client(address)
        self.address, self.num_cpus = address, num_cpus
        self.init_options = dict(init_options or {})
        self.actors: dict[str, RayActor] = {}
        self.unsent: list[RayActor] = []
        """actors with orders that have not left"""
        self._arrived: queue.SimpleQueue[Callable[[], list[Event]]] = queue.SimpleQueue()
        self._here = SameProcess(self._emit, self._emit)
        self._shipped: dict[bytes, Any] = {}
        self._installed: dict[bytes, Ref] = {}
        self._remote_class: Any = None
        self._ours = self._alone = self._closed = False
        self._owner = os.getpid()
        self._lock = threading.Lock()

    # -- the contract --------------------------------------------------------------------------

    def open(self, seed: int) -> None:
        _refuse_client(self.address)
        if not ray.is_initialized():
            self._init()
        remote: Any = ray.remote  # Ray's types know nothing of concurrency groups
        self._remote_class = remote(
            num_cpus=0, max_restarts=0, max_task_retries=0, concurrency_groups={"watch": 1}
        )(actor_class())

    def start(self, spec: ActorSpec) -> Port:
        if spec.placement != "process":
            return self._here.start(spec)
        self._check_room(spec)
        paths = [path or os.getcwd() for path in sys.path]
        handle = self._remote_class.options(**_options(spec.resources)).remote(spec.name, paths)
        actor = self.actors[spec.name] = RayActor(self, spec, handle)
        self.when_done(actor.watch.remote(), actor, self._watched)
        meta = (spec.info, cloudpickle.dumps(spec.handle), spec.mailbox)
        started = handle.start.remote(pickle.dumps(meta), self._ship(spec.code))
        self.when_done(started, actor, self._started)
        return actor

    def put(self, value: Any) -> Ref:
        sent = encode(pack(read(value)))
        return RayRef(sent if is_small(sent) else ray.put(sent))

    def put_once(self, code: bytes) -> Ref:
        """Large code as a payload, the same for all actors."""
        if code not in self._installed:
            self._installed[code] = self.put(code)
        return self._installed[code]

    def wait(self, timeout: float | None) -> list[Event]:
        self.flush()
        if self._here.jobs:
            try:
                self._here.work(self._arrived.qsize)
            finally:
                self.inline_seconds = self._here.seconds
            self.flush()
            timeout = 0.0
        events: list[Event] = []
        with contextlib.suppress(queue.Empty):
            events += self._arrived.get(timeout=timeout)()
            while True:
                events += self._arrived.get_nowait()()
        return events

    def flush(self) -> None:
        while self.unsent:
            self.unsent.pop().deliver()

    def wake(self) -> None:
        self._arrived.put(list)

    def now(self) -> float:
        return time.monotonic()

    def inline_busy(self) -> dict[str, float]:
        return dict(self._here.busy)

    def pids(self) -> dict[str, int]:
        """Process ids, each on its actor's machine; an actor that does not run yet is left out."""
        pids, deadline = {}, time.monotonic() + _STARTING
        for name, actor in list(self.actors.items()):
            with contextlib.suppress(ray.exceptions.RayError):  # `wait` tells who died
                pids[name] = ray.get(actor.pid, timeout=max(0.0, deadline - time.monotonic()))
        return pids

    def close(self) -> None:
        with self._lock:
            if self._closed or os.getpid() != self._owner:
                return
            self._closed = True
        with contextlib.suppress(Exception):  # at the exit of the interpreter Ray may be half gone
            self._end_actors()
        self._here.close()
        self._arrived = queue.SimpleQueue()
        with contextlib.suppress(Exception):
            if self._ours and ray.is_initialized():
                ray.shutdown()

    # -- Ray -----------------------------------------------------------------------------------

    def _init(self) -> None:
        """Connect to a Ray, or start one for this run alone."""
        address = self.address or os.environ.get("RAY_ADDRESS")
        last = remembered() if address in (None, "auto") else address
        silent = why_silent(last) if last is not None else None
        if silent is not None and address is None:
            address = "local"  # the cluster that this machine had is gone
        elif silent is not None:
            raise EngineError(
                f"no Ray cluster answers at {last} ({silent}). `ray start --head` starts one and "
                "prints its address; `ray stop` forgets one that is gone."
            )
        self._alone = address in (None, "local")
        options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR}
        if self._alone:
            options |= {"include_dashboard": False, "num_cpus": self.num_cpus}
            for variable in _QUIET:
                os.environ.setdefault(variable, "0")
        self._ours = True  # from here on, also if Ctrl-C comes while it begins
        try:
            with _own_handlers():
                ray.init(**(options | self.init_options))
        except Exception as error:
            what = "start Ray" if self._alone else f"connect to Ray at {address!r}"
            raise EngineError(f"cannot {what}: {error}") from error

    def _check_room(self, spec: ActorSpec) -> None:
        """A Ray that the engine has started never grows: who does not fit would wait in vain."""
        if not self._alone or not spec.resources:
            return
        needed = Counter(spec.resources)
        for actor in self.actors.values():
            needed.update(actor.resources)
        there = ray.cluster_resources()  # type: ignore[no-untyped-call]
        for resource, amount in needed.items():
            has = there.get({"num_cpus": "CPU", "num_gpus": "GPU"}.get(resource, resource), 0)
            if amount > has:
                raise EngineError(
                    f"no room for actor {spec.name!r}: with it the actors need {amount:g} of "
                    f"{resource!r}, and this Ray has {has:g}. Ask for less in `resources` "
                    "(num_gpus_per_worker, of rollout workers), or give the engine the address "
                    "of a larger cluster."
                )

    def _ship(self, code: bytes) -> Any:
        """Code as an argument; if it is large, one copy of it for all actors alike."""
        if len(code) <= SMALL:
            return code
        if code not in self._shipped:
            self._shipped[code] = ray.put(code)
        return self._shipped[code]

    def end(self, actor: RayActor) -> None:
        """Kill an actor; nothing more is heard of it."""
        if self.actors.get(actor.name) is actor:
            del self.actors[actor.name]
        ray.kill(actor.handle, no_restart=True)

    def let_go(self, actor: RayActor) -> None:
        """Let an actor close itself, then end it."""
        if self.actors.get(actor.name) is actor:
            del self.actors[actor.name]

        def end() -> list[Event]:  # by the driver: Ray's own threads may not call Ray
            ray.kill(actor.handle, no_restart=True)
            return []

        actor.handle.close.remote()._on_completed(lambda _: self._arrived.put(end))

    def _end_actors(self) -> None:
        """Let the actors close what they hold, then end them."""
        actors, self.actors = self.actors, {}
        self._shipped.clear()
        self._installed.clear()
        if not actors or not ray.is_initialized():
            return
        closed = [actor.handle.close.remote() for actor in actors.values()]
        ray.wait(closed, num_returns=len(closed), timeout=_GRACE)
        for actor in actors.values():
            ray.kill(actor.handle, no_restart=True)

    # -- what comes back -----------------------------------------------------------------------

    def when_done(self, ref: Any, actor: RayActor, handler: Handler, *what: Any) -> None:
        """Have `wait` call `handler(actor, result, *what)` when a call has returned or failed.

        `ref.future()` does the same and costs 0.15 ms more, a tenth of a round trip.
        """

        def take(result: Any) -> list[Event]:
            if self.actors.get(actor.name) is not actor:
                return []  # the actor was killed, or is lost: nothing more is heard of it
            return handler(actor, result, *what)

        ref._on_completed(lambda result: self._arrived.put(lambda: take(result)))

    def _emit(self, event: Event) -> None:
        self._arrived.put(lambda: [event])

    def answered(self, actor: RayActor, result: Any, request: int, item: Any) -> list[Event]:
        """A request or a call has returned."""
        if isinstance(result, Exception):
            return actor.in_turn(request, self._broken(actor, result, request))
        meta, full, along = pickle.loads(result)
        payload: Ref | None = None
        if full:
            payload = RayRef(item, remote=True) if along is None else RayRef(along)
        return actor.in_turn(request, [event_of(actor.name, actor.incarnation, (meta, payload))])

    def _started(self, actor: RayActor, result: Any) -> list[Event]:
        if isinstance(result, Exception):
            return self._lost(actor, _reason(result))
        event = event_of(actor.name, actor.incarnation, pickle.loads(result))
        if isinstance(event, Lost):
            actor.kill()
        return [event]

    def delivered(self, actor: RayActor, result: Any, messages: int) -> list[Event]:
        """Orders without an answer have arrived, or their data is lost."""
        if not isinstance(result, Exception):
            return []
        events = self._broken(actor, result, None)
        return [e._replace(handled=-messages) if isinstance(e, Told) else e for e in events]

    def _watched(self, actor: RayActor, result: Any) -> list[Event]:
        if isinstance(result, Exception):
            return self._lost(actor, _reason(result))
        self.when_done(actor.watch.remote(), actor, self._watched)
        return [event_of(actor.name, actor.incarnation, reply) for reply in pickle.loads(result)]

    def _broken(self, actor: RayActor, error: Exception, request: int | None) -> list[Event]:
        """Ray failed a call: the actor is lost, unless only data on its way to the actor is."""
        if not isinstance(error, ray.exceptions.RayTaskError | ray.exceptions.ObjectLostError):
            return self._lost(actor, _reason(error))
        failure = describe_exception(error)
        if request is None:
            return [Told(actor.name, actor.incarnation, -1, (failure,))]
        header = Header(failure=failure)
        return [Completed(actor.name, actor.incarnation, request, header, None)]

    def _lost(self, actor: RayActor, why: str, failure: UserFailure | None = None) -> list[Event]:
        actor.kill()  # the actor may only be out of reach
        return [Lost(actor.name, actor.incarnation, why, failure)]


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """What the user does on a signal stays: Ray would end the process on SIGTERM instead."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if callable(handler) and handler is not signal.getsignal(number):
                    signal.signal(number, handler)


def _options(resources: Mapping[str, float]) -> dict[str, Any]:
    """What an actor needs, in Ray's terms; nothing by default, so that any number of them fits."""
    known = {key: resources[key] for key in ("num_cpus", "num_gpus", "memory") if key in resources}
    return known | {"resources": {k: v for k, v in resources.items() if k not in known}}


def _reason(error: Exception) -> str:
    """The telling part of one of Ray's messages, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, ray.exceptions.ActorDiedError):
        lines = lines[-1:]  # the lines before are a table of ids, or a traceback
    text = " ".join(lines).split(" Some common causes include")[0]
    return f"{type(error).__name__}: {text.rstrip('.')}"


def _refuse_client(address: str | None) -> None:
    address = address or os.environ.get("RAY_ADDRESS") or ""
    connected = ray.util.client.ray.is_connected()  # type: ignore[no-untyped-call]
    if address.startswith("ray://") or connected:
        raise EngineError(
            "the ray engine does not run over Ray Client (ray://): there the driver owns none of "
            "its data, and 30 s without a connection end the run. Run the driver on the cluster "
            "with address='auto', or submit it as a Ray job ('ray job submit')."
        )
