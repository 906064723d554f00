"""What the loops by hand talk through: the local engine's own packets, without engine or flow."""

from __future__ import annotations

import multiprocessing
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import cloudpickle

from rillflow.engines.local_wire import Packet, Receiver, Sender, make_room, packed
from rillflow.engines.local_worker import let_the_driver_go_first
from rillflow.types import Ref

_SPAWN = multiprocessing.get_context("spawn")

Answer = tuple[int, Any, Ref]
"""who answered, what it reported of its episodes, and the item, unread"""
Make = Callable[[], Any]
"""makes an actor, where it will live"""


class Channel:
    """Actors by number: `tell` them something, `ask` them for an item, take answers as they come.

    Answers of one actor come in the order in which it was asked.
    """

    def start(self, makers: Sequence[Make]) -> list[int]:
        """Bring actors to life; returns their numbers."""
        raise NotImplementedError

    def put(self, value: Any) -> Any:
        """Serialise once what is told to several."""
        raise NotImplementedError

    def tell(self, actor: int, method: str, argument: Any) -> None:
        """Call a method with what `put` gave or an answer held; it has no answer."""
        raise NotImplementedError

    def ask(self, actor: int, method: str) -> None:
        """Call a method; an answer will come."""
        raise NotImplementedError

    def answers(self, block: bool) -> list[Answer]:
        """What has come. Blocks, if nothing has, until something comes or `wake` is called."""
        raise NotImplementedError

    def wake(self) -> None:
        """From another thread: let `answers` return."""
        raise NotImplementedError

    def close(self) -> None:
        """End all actors."""
        raise NotImplementedError


def serve(sock: socket.socket, code: bytes) -> None:
    """The main loop of an actor's process."""
    # as the engine's workers: Linux shares the processor out among sessions
    os.setsid()
    let_the_driver_go_first()
    actor = cloudpickle.loads(code)()
    pop_metrics = getattr(actor, "pop_metrics", lambda: None)
    receiver, sender = Receiver(sock), Sender()
    with suppress(ConnectionError):  # the driver closes its end when it has enough
        while (messages := receiver.receive()) is not None:
            for (method, asked), payload in messages:
                result = getattr(actor, method)(*(() if payload is None else (payload.get(),)))
                if asked:
                    item = packed(result, by_value=False)
                    sender.add(("done", pop_metrics()), item)
                    Packet(*sender.take()).send(sock)
    os._exit(0)


class LocalChannel(Channel):
    """Processes, Unix sockets, shared memory and one epoll.

    As on the `local` engine, what an actor is told leaves with the next question to it, or when
    the driver has nothing else to do.
    """

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.receivers: list[Receiver] = []
        self.senders: list[Sender] = []
        self.by_fd: dict[int, int] = {}
        self.processes: list[Any] = []
        self.epoll = select.epoll()
        self.wake_in, self.wake_out = socket.socketpair()
        self.wake_in.setblocking(False)
        self.epoll.register(self.wake_out.fileno(), select.EPOLLIN)

    def start(self, makers: Sequence[Make]) -> list[int]:
        started = []
        for make in makers:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            make_room(ours)
            make_room(theirs)
            process = _SPAWN.Process(
                target=serve, args=(theirs, cloudpickle.dumps(make)), daemon=True
            )
            process.start()
            theirs.close()
            started.append(len(self.sockets))
            self.by_fd[ours.fileno()] = len(self.sockets)
            self.epoll.register(ours.fileno(), select.EPOLLIN)
            self.sockets.append(ours)
            self.receivers.append(Receiver(ours))
            self.senders.append(Sender())
            self.processes.append(process)
        return started

    def put(self, value: Any) -> Any:
        return packed(value)

    def tell(self, actor: int, method: str, argument: Any) -> None:
        self.senders[actor].add((method, False), argument)

    def ask(self, actor: int, method: str) -> None:
        self.senders[actor].add((method, True), None)
        self._send(actor)

    def _send(self, actor: int) -> None:
        for packet in self.senders[actor].packets():
            packet.send(self.sockets[actor])

    def answers(self, block: bool) -> list[Answer]:
        if block:
            for actor, sender in enumerate(self.senders):
                if sender.table:
                    self._send(actor)
        found: list[Answer] = []
        for fd, _ in self.epoll.poll(None if block else 0):
            actor = self.by_fd.get(fd, -1)
            if actor < 0:
                self.wake_out.recv(4096)
                continue
            messages = self.receivers[actor].receive()
            assert messages is not None, f"actor {actor} has died"
            for (_, metrics), item in messages:
                assert item is not None
                found.append((actor, metrics, item))
        return found

    def wake(self) -> None:
        with suppress(BlockingIOError):  # full: it is awake already
            self.wake_in.send(b"\0")

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()
        for process in self.processes:
            process.join()
        self.epoll.close()
        self.wake_in.close()
        self.wake_out.close()


class RayItem(Ref):
    """An item in Ray's object store."""

    __slots__ = ("remote",)

    def __init__(self, remote: Any) -> None:
        self.remote = remote

    def get(self) -> Any:
        import ray

        return ray.get(self.remote)


class RayChannel(Channel):
    """Ray actors and `ray.wait`, as in listing A2 of the paper's appendix."""

    POLL = 0.005
    """`ray.wait` cannot be woken: seconds until a loop with a learner thread looks up from it"""

    def __init__(self) -> None:
        import ray

        class Host:
            def __init__(self, code: bytes) -> None:
                self.actor = cloudpickle.loads(code)()
                self.pop_metrics = getattr(self.actor, "pop_metrics", lambda: None)

            def ask(self, method: str) -> tuple[Any, Any]:
                result = getattr(self.actor, method)()
                return self.pop_metrics(), result

            def tell(self, method: str, argument: Any) -> None:
                getattr(self.actor, method)(argument)

        self.ray = ray
        self.remote = ray.remote(Host)
        self.actors: list[Any] = []
        self.pending: dict[Any, tuple[int, Any]] = {}
        self.woken: deque[None] = deque()
        self.polls = False

    def start(self, makers: Sequence[Make]) -> list[int]:
        first = len(self.actors)
        for make in makers:
            self.actors.append(self.remote.options(num_cpus=0).remote(cloudpickle.dumps(make)))
        return list(range(first, len(self.actors)))

    def put(self, value: Any) -> Any:
        return RayItem(self.ray.put(value))

    def tell(self, actor: int, method: str, argument: Any) -> None:
        self.actors[actor].tell.options(num_returns=0).remote(method, argument.remote)

    def ask(self, actor: int, method: str) -> None:
        metrics, item = self.actors[actor].ask.options(num_returns=2).remote(method)
        self.pending[metrics] = actor, item

    def answers(self, block: bool) -> list[Answer]:
        waiting = list(self.pending)
        if not waiting:
            return []
        timeout = 0.0 if not block or self.woken else self.POLL if self.polls else None
        self.woken.clear()
        count = 1 if block else len(waiting)
        ready, _ = self.ray.wait(waiting, num_returns=count, timeout=timeout, fetch_local=False)
        found = []
        for metrics in ready:
            actor, item = self.pending.pop(metrics)
            found.append((actor, self.ray.get(metrics), RayItem(item)))
        return found

    def wake(self) -> None:
        self.polls = True
        self.woken.append(None)

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)
