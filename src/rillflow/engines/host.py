"""One actor and the pipelines behind it: the same code wherever the actor lives."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle

from rillflow.engines.transforms import (
    Batch,
    Combine,
    Marks,
    Shuffle,
    Transform,
    make_transform,
)
from rillflow.errors import BuildError, EndOfStream, NotReady
from rillflow.graph.annotations import wants_context
from rillflow.types import ActorInfo, Header, Provenance, Ref, Source


class OperatorFailed(Exception):  # noqa: N818 - carries another exception to the edge of the host
    """User code raised in a transform; `operator` says which."""

    def __init__(self, operator: str, error: Exception) -> None:
        super().__init__(operator)
        self.operator = operator
        self.error = error


class HostContext:
    """The context of an operator inside an actor."""

    def __init__(self, host: ActorHost, operator: str) -> None:
        self.operator = operator
        self.seed = host.info.seed
        self.actor = host.actor
        self.info = host.info
        self.provenance: Provenance = ()
        self._host = host

    @property
    def sources(self) -> tuple[Any, ...]:
        """The actor itself."""
        return (self._host.handle,)

    def send(self, *_: Any, **__: Any) -> None:
        """Refused: messages go through the driver, which keeps their order."""
        raise BuildError(
            f"operator {self.operator!r} runs inside an actor and cannot send messages from there. "
            "Return what is needed and send it from an operator after the gather."
        )

    put = send
    defer = send
    mark = send
    shared = send
    on_metrics = send

    def count(self, counter: str, n: int = 1) -> None:
        """Add to a counter that travels with the next answer."""
        self._host.counters[counter] = self._host.counters.get(counter, 0) + n


class _Accounts:
    """Marks inside an actor are sequence numbers; what is dropped travels with the answer."""

    def __init__(self, host: ActorHost, operator: str) -> None:
        self.host = host
        self.operator = operator
        self.ctx = HostContext(host, operator)

    def drop(self, marks: Marks, reason: str) -> None:
        self.host.dropped.extend((seq, self.operator) for seq in marks)

    def share(self, marks: Marks, extra: int) -> None:
        pass  # the driver counts how often each number comes back

    def context(self, marks: Marks) -> HostContext:
        info, version = self.host.info, self.host.version
        self.ctx.provenance = tuple(Source(info.name, info.incarnation, s, version) for s in marks)
        return self.ctx

    def handle(self, marks: Marks) -> Any:
        return self.host.handle


@dataclass
class _Pipeline:
    """A source method and the transforms behind it, for one shard."""

    method: Callable[..., Any]
    steps: list[tuple[str, Transform]]
    takes_ref: bool
    context: HostContext | None
    holds: bool
    """whether a transform may keep items for later"""


class ActorHost:
    """Owns one actor: makes its items, runs its transforms, handles its messages."""

    def __init__(self, info: ActorInfo, code: bytes, handle: Any) -> None:
        self.info = info
        self.handle = handle
        self.version = 0
        self.dropped: list[tuple[int, str]] = []
        self.counters: dict[str, int] = {}
        self.pipelines: dict[str, _Pipeline] = {}
        factory, args, kwargs = cloudpickle.loads(code)
        position = _position_of_info(factory)
        if position is not None and position <= len(args):
            args = (*args[:position], self.info, *args[position:])
        elif position is not None:
            kwargs = {**kwargs, "info": self.info}
        self.actor = factory(*args, **kwargs)
        self._pop_metrics = getattr(self.actor, "pop_metrics", None)

    def install(self, pipeline: str, code: bytes) -> None:
        """Learn a pipeline; its callables are this shard's own copies."""
        method_name, nodes = cloudpickle.loads(code)
        method = getattr(self.actor, method_name)
        steps = [
            (name, make_transform(node, node["fn"], _Accounts(self, name), self.info.seed))
            for name, node in nodes
        ]
        context = HostContext(self, pipeline) if wants_context(method) else None
        takes_ref = bool(getattr(method, "takes_ref", False))
        holds = any(isinstance(step, Batch | Combine | Shuffle) for _, step in steps)
        self.pipelines[pipeline] = _Pipeline(method, steps, takes_ref, context, holds)

    def request(
        self, pipeline: str, seq: int, payload: Ref | None, provenance: Provenance
    ) -> tuple[Header, Any]:
        """Make the next item: the header, and the item itself (a list, if there are several)."""
        line = self.pipelines[pipeline]
        wall, cpu = time.perf_counter(), time.thread_time()
        times: list[float] = []
        ended = not_ready = False
        try:
            items = self._run(line, seq, payload, provenance, times)
        except EndOfStream:
            ended = True
            items = self._flush(line)
        except NotReady:
            not_ready = True
            items = []
        if not ended and any(step.ended for _, step in line.steps):
            ended = True
        header = Header(
            items=tuple(marks for _, marks in items),
            dropped=tuple(self.dropped),
            kept=_kept(line, items, self.dropped) if line.holds else (),
            ended=ended,
            not_ready=not_ready,
            version=self.version,
            wall=time.perf_counter() - wall,
            cpu=time.thread_time() - cpu,
            op_times=tuple(times),
            metrics=self._metrics(),
        )
        self.dropped.clear()
        return header, items[0][0] if len(items) == 1 else [item for item, _ in items]

    def _run(
        self,
        line: _Pipeline,
        seq: int,
        payload: Ref | None,
        provenance: Provenance,
        times: list[float],
    ) -> list[tuple[Any, Marks]]:
        before = time.perf_counter()
        arguments: tuple[Any, ...] = ()
        if payload is not None:
            arguments = (payload if line.takes_ref else payload.get(),)
        if line.context is not None:
            line.context.provenance = provenance
            arguments = (*arguments, line.context)
        items: list[tuple[Any, Marks]] = [(line.method(*arguments), (seq,))]
        for operator, step in line.steps:
            now = time.perf_counter()
            times.append(now - before)
            before = now
            items = _through(operator, step, items)
        times.append(time.perf_counter() - before)
        return items

    def _flush(self, line: _Pipeline) -> list[tuple[Any, Marks]]:
        """The source has ended: what is left in each transform goes through those behind it."""
        items: list[tuple[Any, Marks]] = []
        for operator, step in line.steps:
            items = _through(operator, step, items)
            items += _guarded(operator, step.flush)
        return items

    def _metrics(self) -> dict[str, Any] | None:
        metrics = self._pop_metrics() if self._pop_metrics is not None else None
        if self.counters:
            metrics = {**(metrics or {}), "counters": self.counters}
            self.counters = {}
        return metrics or None

    def tell(self, method: str, payload: Ref, spread: bool, version: int | None) -> None:
        """Handle a message."""
        value = payload.get()
        target = getattr(self.actor, method)
        target(*value) if spread else target(value)
        if version is not None:
            self.version = version

    def call(self, method: str, payload: Ref) -> Any:
        """Answer a question of the driver: state, or a method of the actor."""
        if method == "invoke":
            name, args = payload.get()
            return getattr(self.actor, name)(*args)
        if method == "get_state":
            return self._get_state()
        if method == "reached":
            return None  # everything sent before the question has been handled
        self._set_state(payload.get())
        return None

    def _get_state(self) -> dict[str, Any]:
        get = getattr(self.actor, "get_state", None)
        return {
            "actor": None if get is None else get(),
            "version": self.version,
            "pipelines": {
                name: [step.get_state() for _, step in line.steps]
                for name, line in self.pipelines.items()
            },
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        if state["actor"] is not None:
            self.actor.set_state(state["actor"])
        self.version = state["version"]
        for name, states in state["pipelines"].items():
            for (_, step), saved in zip(self.pipelines[name].steps, states, strict=True):
                step.set_state(saved)

    def close(self) -> None:
        """Let the actor release what it holds, if it wants to."""
        close = getattr(self.actor, "close", None)
        if callable(close):
            close()


def _kept(
    line: _Pipeline, items: list[tuple[Any, Marks]], dropped: list[tuple[int, str]]
) -> tuple[int, ...]:
    """Requests that were divided: one part has left the actor, another is still inside."""
    left = {seq for _, marks in items for seq in marks} | {seq for seq, _ in dropped}
    inside = {seq for _, step in line.steps for marks in step.held() for seq in marks}
    return tuple(sorted(left & inside))


def _through(
    operator: str, step: Transform, items: list[tuple[Any, Marks]]
) -> list[tuple[Any, Marks]]:
    if len(items) == 1:
        value, marks = items[0]
        return _guarded(operator, lambda: step.feed(value, marks))
    outs: list[tuple[Any, Marks]] = []
    for value, marks in items:
        outs += _guarded(operator, lambda v=value, m=marks: step.feed(v, m))  # type: ignore[misc]
    return outs


def _guarded(operator: str, work: Callable[[], list[tuple[Any, Marks]]]) -> list[tuple[Any, Marks]]:
    try:
        return work()
    except Exception as error:
        raise OperatorFailed(operator, error) from error


def _position_of_info(factory: Callable[..., Any]) -> int | None:
    """Where a factory takes its ActorInfo; None: it does not ask for it."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some built-in classes have no signature
        return None
    if "info" not in parameters:
        return None
    if parameters["info"].kind is inspect.Parameter.KEYWORD_ONLY:
        return sys.maxsize
    return list(parameters).index("info")
