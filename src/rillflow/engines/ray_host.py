"""The far side of the ray engine: what its actors do, and how values travel.

Nothing here imports `ray`; Ray only calls it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import cloudpickle

from rillflow.engines.contract import ActorSpec, Event, Lost
from rillflow.engines.host import ActorHost, OperatorFailed
from rillflow.engines.serial import Packed, PackedRef, pack
from rillflow.errors import UserFailure, describe_exception

Sent = bytes | tuple[Any, ...]
"""a value as an argument or result of a call: one string of bytes, or a pickle and its buffers"""

SMALL = 64 * 1024
"""bytes up to which a value travels inside a call; through the object store the same takes 2 ms
more. Ray would move what exceeds 100 kB to the store by itself."""
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def encode(packed: Packed) -> Sent:
    """Prepare a packed value for Ray, which ships bytes as they are, and takes buffers straight
    into shared memory and out of it."""
    if not packed.buffers or packed.nbytes <= SMALL:
        return pickle.dumps((packed.body, [bytes(buffer) for buffer in packed.buffers]), 5)
    return (packed.body, *map(pickle.PickleBuffer, packed.buffers))


def decode(sent: Sent) -> Packed:
    """The opposite of `encode`; nothing is copied that was not small."""
    if isinstance(sent, bytes):
        return Packed(*pickle.loads(sent))
    return Packed(sent[0], sent[1:])


def is_small(sent: Sent) -> bool:
    """Whether a value travels inside a call rather than through the object store."""
    return isinstance(sent, bytes) and len(sent) <= SMALL * 3 // 2


class RayHost:
    """One actor behind the calls of the driver. Exceptions of user code are answers, as data."""

    def __init__(self) -> None:
        self._host: ActorHost | None = None
        self._failures: list[UserFailure] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def start(self, meta: bytes, code: bytes) -> bytes | None:
        """Build the actor; a call like any other, so that an error of its constructor is data."""
        info, handle = pickle.loads(meta)
        for variable in _THREADS:  # Ray has set OMP_NUM_THREADS to the cores of this actor
            os.environ.setdefault(variable, os.environ.get("OMP_NUM_THREADS", "1"))
        random.seed(info.seed)
        try:
            handle = cloudpickle.loads(handle)
            self._host = ActorHost(info, code, handle)
        except Exception as error:
            return pickle.dumps(describe_exception(error))
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(info.seed)
        return None

    def install(self, pipeline: str, code: bytes) -> None:
        """Learn a pipeline."""
        with self._noting(pipeline):
            self._actor.install(pipeline, code)

    def tell(self, meta: bytes, *sent: Sent) -> None:
        """Handle messages, in order."""
        for about, one in zip(pickle.loads(meta), sent, strict=True):
            self._handle(about, one)

    def request(self, meta: bytes, *sent: Sent) -> tuple[bytes, Sent | None]:
        """Handle the messages that came with a request, then make the item."""
        messages, pipeline, seq, provenance = pickle.loads(meta)
        for about, one in zip(messages, sent, strict=False):
            self._handle(about, one)
        rest = sent[len(messages) :]
        payload = PackedRef(decode(rest[0])) if rest else None
        try:
            header, value = self._actor.request(pipeline, seq, payload, provenance)
            return self._answer(tuple(header), value, bool(header.items))
        except OperatorFailed as failed:
            return self._answer(describe_exception(failed.error, failed.operator))
        except Exception as error:
            return self._answer(describe_exception(error))

    def call(self, method: str, sent: Sent) -> tuple[bytes, Sent | None]:
        """Answer a question."""
        try:
            return self._answer((), self._actor.call(method, PackedRef(decode(sent))), True)
        except Exception as error:
            return self._answer(describe_exception(error, method))

    def watch(self) -> bytes:
        """Return when a message has failed and no answer has said so; else, never."""
        while not self._failures:
            self._wake.wait()
            self._wake.clear()
        return pickle.dumps(self._take_failures())

    def close(self) -> None:
        """Let the actor release what it holds."""
        if self._host is not None:
            self._host.close()

    def _handle(self, about: tuple[str, bool, int | None], sent: Sent) -> None:
        method, spread, version = about
        with self._noting(method):
            self._actor.tell(method, PackedRef(decode(sent)), spread, version)

    @property
    def _actor(self) -> ActorHost:
        assert self._host is not None, "its constructor raised; the driver is about to end it"
        return self._host

    def _answer(
        self, about: Any, value: Any = None, full: bool = False
    ) -> tuple[bytes, Sent | None]:
        """What wakes the driver, and the item itself unless it is small enough to ride along."""
        item = encode(pack(value, by_value=False)) if full else None
        along = None
        if item is not None and is_small(item):
            along, item = item, None
        news = (about, full, along, self._take_failures() if self._failures else ())
        try:
            return pickle.dumps(news, 5), item
        except Exception:  # metrics of a class that was shipped by value
            return cloudpickle.dumps(news), item

    def _take_failures(self) -> list[UserFailure]:
        with self._lock:
            failures, self._failures = self._failures, []
        return failures

    @contextlib.contextmanager
    def _noting(self, operator: str) -> Iterator[None]:
        """A message has no answer: keep its exception for the next answer, or for `watch`."""
        try:
            yield
        except Exception as error:
            with self._lock:
                self._failures.append(describe_exception(error, operator))
            self._wake.set()


def actor_class() -> type:
    """The class to give to Ray. It is local, so that Ray ships it by value: it puts the driver's
    paths in place before it imports anything, even on a Ray that was started without them."""

    class RillflowActor:
        def __init__(self, name: str, paths: list[str]) -> None:
            import sys

            sys.path.extend(path for path in paths if path not in sys.path)
            from rillflow.engines.ray_host import RayHost

            self.name, self.host = name, RayHost()

        def __repr__(self) -> str:
            return self.name  # Ray puts it before each line that the actor prints

        def pid(self) -> int:
            import os

            return os.getpid()

        def watch(self) -> Any:
            return self.host.watch()

        def start(self, meta: bytes, code: bytes) -> Any:
            return self.host.start(meta, code)

        def install(self, pipeline: str, code: bytes) -> None:
            self.host.install(pipeline, code)

        def tell(self, meta: bytes, *sent: Any) -> None:
            self.host.tell(meta, *sent)

        def request(self, meta: bytes, *sent: Any) -> Any:
            return self.host.request(meta, *sent)

        def call(self, method: str, sent: Any) -> Any:
            return self.host.call(method, sent)

        def close(self) -> None:
            self.host.close()

    return RillflowActor


class RayActor:
    """One incarnation of an actor, as the driver sees it."""

    def __init__(self, spec: ActorSpec, handle: Any) -> None:
        self.name, self.incarnation, self.resources = spec.name, spec.incarnation, spec.resources
        self.handle = handle
        self.request = handle.request.options(num_returns=2)
        self.watch = handle.watch.options(concurrency_group="watch")
        self.pid = handle.pid.options(concurrency_group="watch").remote()
        self.outbox: list[tuple[tuple[Any, ...], Any]] = []
        """messages that have not left yet: what they are, and their payloads"""
        self.lossy = False
        """whether one of them points to data that may be lost before it arrives"""
        self.due: deque[int] = deque()
        """requests that have not been answered, in the order they were made"""
        self.early: dict[int, list[Event]] = {}

    def in_turn(self, request: int, events: list[Event]) -> list[Event]:
        """Answers in the order of their requests; Ray may report two the other way round."""
        if any(isinstance(event, Lost) for event in events):
            return events
        self.early[request] = events
        ready: list[Event] = []
        while self.due and self.due[0] in self.early:
            ready += self.early.pop(self.due.popleft())
        return ready

    def collected(self) -> tuple[list[tuple[Any, ...]], list[Any]]:
        """The messages that leave now."""
        outbox, self.outbox, self.lossy = self.outbox, [], False
        return [about for about, _ in outbox], [sent for _, sent in outbox]
