"""The far side of the ray engine: what its actors do, and how values travel.

Nothing here imports `ray`; Ray only calls it.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import cloudpickle

from rillflow.engines.contract import Order
from rillflow.engines.host import Host
from rillflow.engines.packing import PackedRef, pack
from rillflow.engines.replies import Reply, spoiled
from rillflow.types import Ref

Sent = bytes | tuple[Any, ...]
"""a value as an argument or result of a call: one string of bytes, or a pickle and its buffers"""

SMALL = 64 * 1024
"""bytes up to which a value travels inside a call; through the object store the same takes 2 ms
more. Ray would move what exceeds 100 kB to the store by itself."""
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def encode(packed: PackedRef) -> Sent:
    """Prepare a packed value for Ray, which ships bytes as they are, and takes buffers straight
    into shared memory and out of it."""
    if packed.nbytes <= SMALL:
        return pickle.dumps((packed.layout, packed.detached().parts), 5)
    return (packed.layout, *map(pickle.PickleBuffer, packed.parts))


def decode(sent: Sent) -> PackedRef:
    """The opposite of `encode`; nothing is copied that was not small."""
    if isinstance(sent, bytes):
        return PackedRef(*pickle.loads(sent))
    return PackedRef(sent[0], [_buffer(part) for part in sent[1:]])


def _buffer(part: Any) -> Any:
    """What Ray gives back of a buffer, read-only and one byte after the other."""
    view = memoryview(part)
    return view.cast("B").toreadonly() if view.nbytes else b""


def is_small(sent: Sent) -> bool:
    """Whether a value travels inside a call rather than through the object store."""
    return isinstance(sent, bytes) and len(sent) <= SMALL * 3 // 2


class _Item(Ref):
    """A result in the form in which Ray takes it."""

    __slots__ = ("sent",)

    def __init__(self, sent: Sent) -> None:
        self.sent = sent

    def get(self) -> Any:
        return decode(self.sent).get()


def _pack(value: Any) -> Ref:
    return _Item(encode(pack(value, by_value=False)))


class RayHost:
    """One actor behind the calls of the driver; its host answers, whatever user code does."""

    def __init__(self) -> None:
        self._host: Host | None = None
        self._lock = threading.Lock()
        self._news: list[Reply] = []
        """reports of messages that no answer carries"""
        self._wake = threading.Event()

    def start(self, meta: bytes, code: bytes) -> bytes:
        """Build the actor; a call like any other, so that an error of its constructor is data."""
        info, handle, mailbox = pickle.loads(meta)
        for variable in _THREADS:  # Ray has set OMP_NUM_THREADS to the cores of this actor
            os.environ.setdefault(variable, os.environ.get("OMP_NUM_THREADS", "1"))
        random.seed(info.seed)
        self._host = Host(info, cloudpickle.loads(handle), mailbox)
        reply = self._host.start(code)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(info.seed)
        return pickle.dumps(reply, 5)

    def deliver(self, meta: bytes, *sent: Sent) -> None:
        """Handle orders that have no answer."""
        for order, payload in _orders(meta, sent):
            self._actor.handle(order, payload, _pack)
        self._report()

    def work(self, meta: bytes, *sent: Sent) -> tuple[bytes, Sent | None]:
        """Handle the orders that came with a request, then the request itself."""
        reply: Reply | None = None
        for order, payload in _orders(meta, sent):
            reply = self._actor.handle(order, payload, _pack)
        assert reply is not None
        self._report()
        try:
            return _answer(reply)
        except BaseException as error:
            return _answer(spoiled(reply, error))

    def watch(self) -> bytes:
        """Return when there is news of messages that no answer has carried; else, never."""
        while True:
            with self._lock:
                news, self._news = self._news, []
            if news:
                return pickle.dumps(news, 5)
            self._wake.wait()
            self._wake.clear()

    def close(self) -> None:
        """Call the actor's `close`, if there is one."""
        if self._host is not None:
            self._host.close()

    @property
    def _actor(self) -> Host:
        assert self._host is not None, "its constructor raised; the driver is about to end it"
        return self._host

    def _report(self) -> None:
        """What the driver waits to hear, and no answer says, goes out by the watch call."""
        host = self._actor
        if host.report_due:
            reply = host.acknowledge()
            if reply is not None:
                with self._lock:
                    self._news.append(reply)
                self._wake.set()


def _orders(meta: bytes, sent: tuple[Sent, ...]) -> Iterator[tuple[Order, Ref | None]]:
    """Orders with their payloads; those that have one say so."""
    payloads = iter(sent)
    for order, full in pickle.loads(meta):
        yield order, decode(next(payloads)) if full else None


def _answer(reply: Reply) -> tuple[bytes, Sent | None]:
    """What wakes the driver, and the item itself unless it is small enough to ride along."""
    meta, payload = reply
    item = None if payload is None else payload.sent  # type: ignore[attr-defined]
    along = None
    if item is not None and is_small(item):
        along, item = item, None
    news = (meta, payload is not None, along)
    try:
        return pickle.dumps(news, 5), item
    except Exception:  # metrics of a class that was shipped by value
        return cloudpickle.dumps(news), item


def actor_class() -> type:
    """The class to give to Ray. The class is local, so that Ray ships it by value: it puts the
    driver's paths in place before it imports anything, even on a Ray that was started without."""

    class RillflowActor:
        def __init__(self, name: str, paths: list[str]) -> None:
            import sys

            sys.path.extend(path for path in paths if path not in sys.path)
            from rillflow.engines.ray_host import RayHost

            self.name, self.host = name, RayHost()

        def __repr__(self) -> str:
            return self.name  # Ray puts the name before each line that the actor prints

        def pid(self) -> int:
            import os

            return os.getpid()

        def watch(self) -> Any:
            return self.host.watch()

        def start(self, meta: bytes, code: bytes) -> Any:
            return self.host.start(meta, code)

        def deliver(self, meta: bytes, *sent: Any) -> None:
            self.host.deliver(meta, *sent)

        def work(self, meta: bytes, *sent: Any) -> Any:
            return self.host.work(meta, *sent)

        def close(self) -> None:
            self.host.close()

    return RillflowActor
