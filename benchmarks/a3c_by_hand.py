"""The same loop written by hand: on multiprocessing pipes, on sockets, and on our own engine."""

from __future__ import annotations

import multiprocessing
import pickle
import select
import socket
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

import cloudpickle
from a3c_work import Worker, gradient

from rillflow.engines.contract import ActorSpec, Completed, Port
from rillflow.engines.local import Local
from rillflow.graph.handles import Actors
from rillflow.types import ActorInfo

_SPAWN = multiprocessing.get_context("spawn")


class ByHand:
    """A loop by hand: `step` takes one item in and answers it."""

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *_: type[BaseException] | TracebackType | BaseException | None) -> None:
        self.close()


def serve_pipe(pipe: Connection, work: float) -> None:
    """The worker process of `Pipes`: a method by name, answered or not."""
    worker = Worker(work)
    while (message := pipe.recv()) is not None:
        method, *arguments = message
        if method == "sample_and_grad":
            pipe.send(gradient(worker.sample()))
        else:
            getattr(worker, method)(*arguments)


class Pipes(ByHand):
    """`multiprocessing.Pipe` and `connection.wait`, in the shape of listing A2 of the appendix.

    As there, each item is answered with two calls: `set_weights`, then `sample_and_grad`.
    """

    serve = staticmethod(serve_pipe)
    first: Any = ("sample_and_grad",)

    def __init__(self, work: float, workers: int = 2) -> None:
        self.pipes: list[Connection] = []
        self.processes = []
        self.version = 0
        self.ready: list[Any] = []
        for _ in range(workers):
            ours, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=self.serve, args=(theirs, work), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
            ours.send(self.first)

    def step(self) -> None:
        if not self.ready:
            self.ready = wait(self.pipes)
        pipe = self.ready.pop()
        pipe.recv()
        self.version += 1
        pipe.send(("set_weights", self.version))
        pipe.send(("sample_and_grad",))

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()


def serve_one_message(pipe: Connection, work: float) -> None:
    """The worker process of `OneMessage`: whoever asks for an item sends the weights along."""
    worker = Worker(work)
    while (weights := pipe.recv()) is not None:
        worker.set_weights(weights)
        pipe.send(gradient(worker.sample()))


class OneMessage(Pipes):
    """The same pipes, with weights and request melted into one message: less general, quicker."""

    serve = staticmethod(serve_one_message)
    first: Any = 0

    def step(self) -> None:
        if not self.ready:
            self.ready = wait(self.pipes)
        pipe = self.ready.pop()
        pipe.recv()
        self.version += 1
        pipe.send(self.version)


def serve_socket(sock: socket.socket, work: float) -> None:
    """The worker process of `Sockets`."""
    worker = Worker(work)
    with suppress(ConnectionError):  # the driver closes its end when it has enough
        while data := sock.recv(65536):
            worker.set_weights(pickle.loads(data))
            sock.send(pickle.dumps(gradient(worker.sample()), 5))


class Sockets(ByHand):
    """The least there can be in Python: packets on Unix sockets, and one epoll."""

    serve = staticmethod(serve_socket)
    first: Any = 0

    def __init__(self, work: float, workers: int = 2) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self.processes = []
        self.epoll = select.epoll()
        self.version = 0
        self.ready: list[tuple[int, int]] = []
        for _ in range(workers):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            process = _SPAWN.Process(target=self.serve, args=(theirs, work), daemon=True)
            process.start()
            theirs.close()
            self.sockets[ours.fileno()] = ours
            self.epoll.register(ours.fileno(), select.EPOLLIN)
            self.processes.append(process)
            ours.send(pickle.dumps(self.first, 5))

    def step(self) -> None:
        if not self.ready:
            self.ready = self.epoll.poll()
        sock = self.sockets[self.ready.pop()[0]]
        pickle.loads(sock.recv(65536))
        self.version += 1
        sock.send(pickle.dumps(self.version, 5))

    def close(self) -> None:
        for sock in self.sockets.values():
            sock.close()
        for process in self.processes:
            process.join()
        self.epoll.close()


class OnOurEngine(ByHand):
    """Requests and messages on `rillflow.engines.Local` itself: a flow without its scheduler."""

    def __init__(self, work: float, workers: int = 2) -> None:
        self.engine = Local()
        self.engine.open(0)
        self.version = self.number = 0
        self.ready: list[Any] = []
        self.ports: dict[str, Port] = {}
        group = Actors.of(Worker, workers, work)
        code = cloudpickle.dumps((Worker, (work,), {}))
        for handle in group:
            name = f"worker-{handle.index}"
            info = ActorInfo(name, handle.index, incarnation=0, seed=0)
            port = self.ports[name] = self.engine.start(ActorSpec(info, "process", code, handle))
            port.send(("install", "a3c", cloudpickle.dumps(("sample", []))))
            self._ask(port)

    def _ask(self, port: Port) -> None:
        self.number += 1
        port.send(("request", self.number, "a3c", self.number, ()))

    def step(self) -> None:
        while not self.ready:
            self.ready = [e for e in self.engine.wait(None) if isinstance(e, Completed)]
        event = self.ready.pop()
        assert event.payload is not None
        event.payload.get()
        self.version += 1
        port = self.ports[event.actor]
        order = ("tell", "set_weights", False, "set_weights", self.version)
        port.send(order, port.pack(self.version))
        self._ask(port)
        self.engine.flush()

    def close(self) -> None:
        self.engine.close()
