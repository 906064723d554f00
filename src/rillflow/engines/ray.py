"""Ray actors and object references, on a cluster of any size. The only file that imports `ray`.

Ray carries processes, calls and data. Supervision is ours: Ray restarts no actor and repeats no
call, so that everything happens at most once.

- *An answer* is two objects: a small one with the header, which wakes the driver, and the item.
  A large item stays where it is until somebody reads it, and goes from actor to actor as a
  reference; a small one rides along with its header.
- *A message* leaves together with the next request to its actor, or when the driver has to wait:
  one call instead of two. (If it forwards another actor's data it leaves by itself: what is lost
  with that actor's node must not take a request with it.) It has no answer. If its handler
  raises, the next answer of the actor says so, or, when none is due, the watch call does.
- *User exceptions* come back as data. What Ray itself raises is infrastructure: the actor is lost.
- *The watch call* stays open while the actor lives, in a concurrency group of its own. Ray fails
  it when the process dies (after 10 ms on one machine), so that the death of an idle actor is an
  event and nothing polls. Other calls keep their order and their latency; but Ray then runs them
  on one fixed thread of the process, which is not its main thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from rillflow.engines.contract import ActorSpec, Completed, Engine, Event, Failed, Lost
from rillflow.engines.ray_host import SMALL, RayActor, actor_class, decode, encode, is_small
from rillflow.engines.same_process import Inside, call_job, install_job, request_job, tell_job
from rillflow.engines.serial import lend, pack, unpack
from rillflow.errors import EngineError, UserFailure, describe_exception
from rillflow.types import Header, Provenance, Ref, read

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
"""what a Ray of our own would otherwise tell the user about"""

Handler = Callable[..., list[Event]]


class RayRef(Ref):
    """A value in Ray's object store, or a small one that is here already."""

    __slots__ = ("remote", "sent")

    def __init__(self, sent: Any, remote: bool = False) -> None:
        self.sent = sent
        """an ObjectRef, or bytes"""
        self.remote = remote
        """an actor made it: it is lost if that actor's node is"""

    def get(self) -> Any:
        if isinstance(self.sent, bytes):
            return unpack(decode(self.sent))
        try:
            return unpack(decode(ray.get(self.sent, timeout=_PATIENCE)))
        except ray.exceptions.RayError as error:  # lost, or not here in time
            raise EngineError(
                f"the data of an item is lost: {_reason(error)}. A request happens at most once, "
                "so it is not made again."
            ) from error


class RayEngine(Engine):
    """The ray engine: uses the Ray of this process, or the one at `address`, or starts its own.

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
        self._actors: dict[str, RayActor] = {}
        self._arrived: queue.SimpleQueue[Callable[[], list[Event]]] = queue.SimpleQueue()
        self._inside = Inside(self._emit, self._emit)
        self._unsent: list[RayActor] = []
        self._shipped: dict[bytes, Any] = {}
        self._remote_class: Any = None
        self._ours = self._alone = self._closed = False
        self._owner = os.getpid()
        self._lock = threading.Lock()

    # -- the contract --------------------------------------------------------------------------

    def open(self, seed: int) -> None:
        _refuse_client(self.address)
        if not ray.is_initialized():
            self._init()
        remote: Any = ray.remote  # its types know nothing of concurrency groups
        self._remote_class = remote(
            num_cpus=0, max_restarts=0, max_task_retries=0, concurrency_groups={"watch": 1}
        )(actor_class())

    def start(self, spec: ActorSpec) -> None:
        if spec.placement != "process":
            self._inside.start(spec)
            return
        self._check_room(spec)
        paths = [path or os.getcwd() for path in sys.path]
        handle = self._remote_class.options(**_options(spec.resources)).remote(spec.name, paths)
        actor = self._actors[spec.name] = RayActor(spec, handle)
        self._when_done(actor.watch.remote(), actor, self._watched)
        meta = (spec.info, cloudpickle.dumps(spec.handle))
        started = handle.start.remote(pickle.dumps(meta), self._ship(spec.code))
        self._when_done(started, actor, self._started)

    def install(self, actor: str, pipeline: str, code: bytes) -> None:
        if actor in self._inside.actors:
            self._inside.post(actor, install_job(pipeline, code))
        elif there := self._actors.get(actor):
            there.handle.install.options(num_returns=0).remote(pipeline, self._ship(code))

    def request(
        self, actor: str, request: int, pipeline: str, seq: int,
        payload: Ref | None = None, provenance: Provenance = (),
    ) -> None:  # fmt: skip
        if actor in self._inside.actors:
            self._inside.post(actor, request_job(request, pipeline, seq, payload, provenance))
        elif there := self._actors.get(actor):
            if there.lossy:
                self._deliver(there)
            messages, sent = there.collected()
            if payload is not None:
                sent.append(_sendable(payload))
            meta = pickle.dumps((messages, pipeline, seq, provenance), 5)
            header, item = there.request.remote(meta, *sent)
            there.due.append(request)
            self._when_done(header, there, self._answered, request, item)

    def tell(
        self, actor: str, method: str, payload: Ref, spread: bool, version: int | None
    ) -> None:  # fmt: skip
        if actor in self._inside.actors:
            self._inside.post(actor, tell_job(method, payload, spread, version))
        elif there := self._actors.get(actor):
            if not there.outbox:
                self._unsent.append(there)
            there.outbox.append(((method, spread, version), _sendable(payload)))
            there.lossy |= isinstance(payload, RayRef) and payload.remote

    def call(self, actor: str, request: int, method: str, payload: Ref) -> None:
        if actor in self._inside.actors:
            self._inside.post(actor, call_job(request, method, payload))
        elif there := self._actors.get(actor):
            self._deliver(there)
            ask = there.handle.call.options(num_returns=2)
            header, item = ask.remote(method, _sendable(payload))
            there.due.append(request)
            self._when_done(header, there, self._answered, request, item)

    def put(self, value: Any) -> Ref:
        sent = encode(pack(read(value)))
        return RayRef(sent if is_small(sent) else ray.put(sent))

    def lend(self, actor: str, value: Any) -> Ref:
        return lend(value) if actor in self._inside.actors else self.put(value)

    def give(self, actor: str, value: Any) -> Ref:
        return lend(value, copy=True) if actor in self._inside.actors else self.put(value)

    def kill(self, actor: str) -> None:
        self._inside.kill(actor)
        there = self._actors.pop(actor, None)
        if there is not None:
            ray.kill(there.handle, no_restart=True)

    def wait(self, timeout: float | None) -> list[Event]:
        if self._inside.inline:
            self._inside.run_inline(self._arrived.qsize)
            timeout = 0.0
        while self._unsent:
            self._deliver(self._unsent.pop(0))
        events: list[Event] = []
        with contextlib.suppress(queue.Empty):
            events += self._arrived.get(timeout=timeout)()
            while True:
                events += self._arrived.get_nowait()()
        return events

    def now(self) -> float:
        return time.monotonic()

    @property
    def inline_seconds(self) -> float:
        return self._inside.seconds

    def inline_busy(self) -> dict[str, float]:
        return dict(self._inside.busy)

    def pids(self) -> dict[str, int]:
        """On their own machines; an actor that is not running yet is left out."""
        pids, deadline = {}, time.monotonic() + _STARTING
        for name, actor in self._actors.items():
            with contextlib.suppress(ray.exceptions.RayError):  # if it died `wait` will say so
                pids[name] = ray.get(actor.pid, timeout=max(0.0, deadline - time.monotonic()))
        return pids

    def close(self) -> None:
        with self._lock:
            if self._closed or os.getpid() != self._owner:
                return
            self._closed = True
        with contextlib.suppress(Exception):  # at the exit of the interpreter Ray may be half gone
            self._end_actors()
        self._inside.close()
        self._arrived = queue.SimpleQueue()
        with contextlib.suppress(Exception):
            if self._ours and ray.is_initialized():
                ray.shutdown()

    # -- Ray -----------------------------------------------------------------------------------

    def _init(self) -> None:
        """Connect to a Ray, or start one for this run alone."""
        address = self.address or os.environ.get("RAY_ADDRESS")
        self._alone = address in (None, "local")
        options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR}
        if self._alone:
            options |= {"include_dashboard": False, "num_cpus": self.num_cpus}
            for variable in _QUIET:
                os.environ.setdefault(variable, "0")
        try:
            ray.init(**(options | self.init_options))
        except Exception as error:
            what = "start Ray" if self._alone else f"connect to Ray at {address!r}"
            raise EngineError(f"cannot {what}: {error}") from error
        self._ours = True

    def _check_room(self, spec: ActorSpec) -> None:
        """A Ray of our own never grows: an actor that does not fit would be waited for in vain."""
        if not self._alone or not spec.resources:
            return
        needed = Counter(spec.resources)
        for actor in self._actors.values():
            needed.update(actor.resources)
        there = ray.cluster_resources()  # type: ignore[no-untyped-call]
        for resource, amount in needed.items():
            has = there.get({"num_cpus": "CPU", "num_gpus": "GPU"}.get(resource, resource), 0)
            if amount > has:
                raise EngineError(
                    f"no room for actor {spec.name!r}: with it the actors need {amount:g} of "
                    f"{resource!r}, and this Ray has {has:g}. Ask for less in `resources`, or give "
                    "the engine the address of a larger cluster."
                )

    def _ship(self, code: bytes) -> Any:
        """Code as an argument; if it is large, one copy of it for all actors alike."""
        if len(code) <= SMALL:
            return code
        if code not in self._shipped:
            self._shipped[code] = ray.put(code)
        return self._shipped[code]

    def _deliver(self, actor: RayActor) -> None:
        """Send messages without a request."""
        lossy = actor.lossy
        messages, sent = actor.collected()
        if messages and self._actors.get(actor.name) is actor:
            tell = actor.handle.tell.options(num_returns=int(lossy))
            told = tell.remote(pickle.dumps(messages, 5), *sent)
            if lossy:  # data that is lost must not vanish without a word
                self._when_done(told, actor, self._told)

    def _end_actors(self) -> None:
        """Let the actors close what they hold, then end them."""
        actors, self._actors = self._actors, {}
        self._shipped.clear()
        if not actors or not ray.is_initialized():
            return
        closed = [actor.handle.close.remote() for actor in actors.values()]
        ray.wait(closed, num_returns=len(closed), timeout=_GRACE)
        for actor in actors.values():
            ray.kill(actor.handle, no_restart=True)

    # -- what comes back -----------------------------------------------------------------------

    def _when_done(self, ref: Any, actor: RayActor, handler: Handler, *what: Any) -> None:
        """Have `wait` call `handler(actor, result, *what)` when a call has returned or failed.

        `ref.future()` does the same and costs 0.15 ms more, a tenth of a round trip.
        """

        def take(result: Any) -> list[Event]:
            if self._actors.get(actor.name) is not actor:
                return []  # killed, or lost: nothing more is heard of it
            return handler(actor, result, *what)

        ref._on_completed(lambda result: self._arrived.put(lambda: take(result)))

    def _emit(self, event: Event) -> None:
        self._arrived.put(lambda: [event])

    def _answered(self, actor: RayActor, result: Any, request: int, item: Any) -> list[Event]:
        if isinstance(result, Exception):
            return actor.in_turn(request, self._broken(actor, result, request))
        about, full, along, failures = pickle.loads(result)
        events: list[Event] = _failed(actor, failures)
        if isinstance(about, UserFailure):
            events.append(Failed(actor.name, actor.incarnation, request, about))
        else:
            payload = RayRef(item, remote=True) if along is None else RayRef(along)
            done = Completed(actor.name, actor.incarnation, request, Header(*about), payload)
            events.append(done if full else done._replace(payload=None))
        return actor.in_turn(request, events)

    def _started(self, actor: RayActor, result: Any) -> list[Event]:
        if isinstance(result, bytes):
            return self._lost(actor, "its constructor raised", pickle.loads(result))
        return [] if result is None else self._lost(actor, _reason(result))

    def _told(self, actor: RayActor, result: Any) -> list[Event]:
        return self._broken(actor, result, None) if isinstance(result, Exception) else []

    def _watched(self, actor: RayActor, result: Any) -> list[Event]:
        if isinstance(result, Exception):
            return self._lost(actor, _reason(result))
        self._when_done(actor.watch.remote(), actor, self._watched)
        return _failed(actor, pickle.loads(result))

    def _broken(self, actor: RayActor, error: Exception, request: int | None) -> list[Event]:
        """Ray failed a call: the actor is lost, unless it was only the data on its way to it."""
        if isinstance(error, ray.exceptions.RayTaskError | ray.exceptions.ObjectLostError):
            return [Failed(actor.name, actor.incarnation, request, describe_exception(error))]
        return self._lost(actor, _reason(error))

    def _lost(self, actor: RayActor, why: str, failure: UserFailure | None = None) -> list[Event]:
        self.kill(actor.name)  # it may only be out of reach
        return [Lost(actor.name, actor.incarnation, why, failure)]


def _failed(actor: RayActor, failures: list[UserFailure]) -> list[Event]:
    return [Failed(actor.name, actor.incarnation, None, failure) for failure in failures]


def _options(resources: Mapping[str, float]) -> dict[str, Any]:
    """What an actor needs, in Ray's terms; nothing by default, so that any number of them fits."""
    known = {key: resources[key] for key in ("num_cpus", "num_gpus", "memory") if key in resources}
    return known | {"resources": {k: v for k, v in resources.items() if k not in known}}


def _sendable(payload: Ref) -> Any:
    """A payload as an argument; Ray puts the value in the place of a reference of its own."""
    return payload.sent if isinstance(payload, RayRef) else encode(pack(payload.get()))


def _reason(error: Exception) -> str:
    """The telling part of one of Ray's messages, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, ray.exceptions.ActorDiedError):
        lines = lines[-1:]  # before it: a table of ids, or a traceback
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
