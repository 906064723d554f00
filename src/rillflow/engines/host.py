"""One actor and the pipelines behind it: where user code is wrapped, once for every engine.

A host lives next to its actor: in a worker process, on a thread, in the driver, in virtual time, in
a Ray actor. `handle` takes one order (see `contract.py`), never raises, and says what to answer:

    ("done", number, header), payload     to a request or a call; a failure is part of the header
    ("told", handled, failures), None     messages that were handled and not reported yet
    ("started",), None                    after `start`; or ("lost", failure), None

Whatever `BaseException` user code raises becomes such an answer; a result that cannot be sent, too.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from rillflow.engines.contract import Order
from rillflow.engines.host_context import Accounts, HostContext
from rillflow.engines.pipeline import Failed, Pipeline
from rillflow.engines.replies import Reply
from rillflow.engines.transforms import Outs, make_transform
from rillflow.errors import EndOfStream, NotReady, UserFailure, describe_exception
from rillflow.graph.annotations import wants_context
from rillflow.types import ActorInfo, Header, Provenance, Ref

Pack = Callable[[Any], Ref]
"""turns a result into something that can leave the actor"""
MANY_BYTES = 64 << 20
"""bytes of messages under way to one actor that fill its mailbox"""


class NoSuchMethod(AttributeError):  # noqa: N818 - what it is
    """A message or a call names a method that the actor does not have: the sender's mistake."""


class Host:
    """One actor at work: the items it makes, its transforms, its messages."""

    def __init__(self, info: ActorInfo, handle: Any, mailbox: int = 64) -> None:
        self.info = info
        self.handle_ = handle
        self.actor: Any = None
        self.versions: dict[str, int] = {}
        """the newest version that the actor was told on each channel; never changed, only
        replaced"""
        self.dropped: list[tuple[int, str]] = []
        self.counters: dict[str, int] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.handled = 0
        """how many messages were handled, those included whose handler raised"""
        self.report_due = 0
        """whether somebody waits to hear of handled messages: 1, when there is nothing else to do;
        2, now"""
        self.interrupted = False
        """Ctrl-C, which is the user's, arrived in the code of an actor that lives in the driver"""
        self._reported = 0
        self._bytes = 0
        self._failures: list[UserFailure] = []
        self._often = max(1, mailbox // 4)
        self._pop_metrics: Callable[[], Any] | None = None
        self._orders: dict[str, Callable[..., Reply | None]] = {
            "request": self._request,
            "tell": self._tell,
            "call": self._call,
            "install": self._install,
        }

    # -- orders --------------------------------------------------------------------------------

    def start(self, code: bytes) -> Reply:
        """Call the actor's constructor, in the place where the actor will live."""
        try:
            factory, args, kwargs = cloudpickle.loads(code)
            position = _position_of_info(factory)
            if position is not None and position <= len(args):
                args = (*args[:position], self.info, *args[position:])
            elif position is not None:
                kwargs = {**kwargs, "info": self.info}
            self.actor = factory(*args, **kwargs)
            self._pop_metrics = getattr(self.actor, "pop_metrics", None)
        except BaseException as error:
            self._note_interrupt(error)
            return ("lost", describe_exception(error)), None
        return ("started",), None

    def handle(self, order: Order, payload: Ref | None, pack: Pack) -> Reply | None:
        """Do what an order says; returns the answer, if the order has one."""
        return self._orders[order[0]](order, payload, pack)

    def acknowledge(self) -> Reply | None:
        """The report of messages that were handled and not reported yet."""
        self.report_due = 0
        if self._reported == self.handled and not self._failures:
            return None
        failures, self._failures = tuple(self._failures), []
        self._reported, self._bytes = self.handled, 0
        return ("told", self.handled, failures), None

    def close(self) -> None:
        """Call the actor's `close`, if there is one; what `close` raises harms nobody else."""
        try:
            close = getattr(self.actor, "close", None)
            if callable(close):
                close()
        except BaseException as error:
            self._note_interrupt(error)
            text = describe_exception(error)
            print(
                f"rillflow: close() of actor {self.info.name!r} raised "
                f"{text.type_name}: {text.message}\n{text.frame}",
                file=sys.stderr,
            )

    def _install(self, order: Order, payload: Ref | None, pack: Pack) -> None:
        """Learn a pipeline, from the order or its payload; its callables are the shard's copies."""
        _, pipeline, code = order
        try:
            if code is None:
                assert payload is not None
                code = payload.get()
            method_name, nodes = cloudpickle.loads(code)
            method = getattr(self.actor, method_name)
            steps = [
                (name, make_transform(node, node["fn"], Accounts(self, name), self.info.seed))
                for name, node in nodes
            ]
            context = HostContext(self, pipeline) if wants_context(method) else None
            takes_ref = bool(getattr(method, "takes_ref", False))
            self.pipelines[pipeline] = Pipeline(method, steps, takes_ref, context)
        except BaseException as error:
            self._note(error, pipeline)

    def _tell(self, order: Order, payload: Ref, pack: Pack) -> None:
        """Handle a message."""
        _, method, spread, channel, version = order
        self.handled += 1
        try:
            target = getattr(self.actor, method, None)
            if target is None:
                raise NoSuchMethod(
                    f"{type(self.actor).__name__!r} has no method {method!r} to send a message to"
                )
            value = payload.get()
            target(*value) if spread else target(value)
            if channel is not None and version is not None:
                self.versions = {**self.versions, channel: version}
                self.report_due = self.report_due or 1
        except BaseException as error:
            self._note(error, method)
        if channel is None:  # else nobody waits for the bytes to be handled
            self._bytes += getattr(payload, "nbytes", 0)
        if self.handled - self._reported >= self._often or self._bytes >= MANY_BYTES // 4:
            self.report_due = 2

    def _call(self, order: Order, payload: Ref, pack: Pack) -> Reply:
        """Answer a question of the driver: state, or a method of the actor."""
        _, number, method = order
        try:
            argument = payload.get()
            if method == "invoke":
                name, args = argument
                result = getattr(self.actor, name)(*args)
            elif method == "get_state":
                result = self._get_state()
            elif method == "set_state":
                self._set_state(argument)
                result = None
            else:
                result = None  # `reached`: everything sent before has been handled
            header, packed = Header(handled=self.handled), pack(result)
        except BaseException as error:
            self._note_interrupt(error)
            header = Header(handled=self.handled, failure=describe_exception(error, method))
            packed = None
        return self._done(number, tuple(header), packed)

    def _request(self, order: Order, payload: Ref | None, pack: Pack) -> Reply:
        """Make the next item, or items; whatever happens, say what became of every request."""
        _, number, pipeline, seq, sources = order
        wall, cpu = time.perf_counter(), time.thread_time()
        times: list[float] = []
        line: Pipeline | None = None
        items: Outs = []
        packed: Ref | None = None
        ended = not_ready = False
        failure: UserFailure | None = None
        metrics: dict[str, Any] | None = None
        try:
            line = self.pipelines[pipeline]
            over = line.ended() if line.may_end else 0
            made = EndOfStream if over else self._source(line, payload, tuple(sources))
            if made is EndOfStream:
                ended, items = True, line.flush(over)
            elif made is NotReady:
                not_ready = True
            else:
                items = line.chain(made, seq, times, wall)
                over = line.ended() if line.may_end else 0
                if over:
                    ended, items = True, items + line.flush(over)
            if self.counters or self._pop_metrics is not None:
                metrics = self._metrics()
            if items:
                packed = pack(items[0][0] if len(items) == 1 else [item for item, _ in items])
        except Failed as failed:
            failure = self._failed(failed.error, failed.operator, failed.lost, line, seq)
            items, ended = [], False
        except BaseException as error:
            lost = [mark for _, marks in items for mark in marks]
            failure = self._failed(error, "", lost, line, seq)
            items, ended = [], False
        one = len(items) == 1
        fields = (  # as in `Header`, which takes longer to make than to send
            (items[0][1],) if one else tuple([marks for _, marks in items]),
            tuple(self.dropped),
            () if line is None else line.kept(items, self.dropped),
            ended,
            not_ready,
            self.handled,
            time.perf_counter() - wall,
            time.thread_time() - cpu,
            tuple(times),
            metrics,
            failure,
        )
        self.dropped.clear()
        return self._done(number, fields, packed if items else None)

    # -- requests ------------------------------------------------------------------------------

    def _source(self, line: Pipeline, payload: Ref | None, sources: Provenance) -> Any:
        """What the actor's method makes. Only a source may end, or be not ready: a source is asked
        for an item, other operators are given one."""
        arguments: tuple[Any, ...] = ()
        if payload is not None:
            arguments = (payload if line.takes_ref else payload.get(),)
        if line.context is not None:
            line.context.provenance = sources
            arguments = (*arguments, line.context)
        try:
            return line.method(*arguments)
        except (EndOfStream, NotReady) as signal:
            if payload is not None:
                raise RuntimeError(
                    f"{type(signal).__name__} is for the sources of a flow; an operator that is "
                    "given an item has to return one"
                ) from signal
            return type(signal)

    def _failed(
        self,
        error: BaseException,
        operator: str,
        lost: Sequence[int],
        line: Pipeline | None,
        seq: int,
    ) -> UserFailure:
        """Every item on its way through the pipeline ends with the request that failed."""
        self._note_interrupt(error)
        self.dropped.extend((mark, "") for mark in lost)
        known = {mark for mark, _ in self.dropped} | (set() if line is None else line.inside())
        if seq not in known:
            self.dropped.append((seq, ""))
        return describe_exception(error, operator)

    def _metrics(self) -> dict[str, Any] | None:
        metrics = self._pop_metrics() if self._pop_metrics is not None else None
        if self.counters:
            metrics = dict(metrics or {})
            metrics["counters"] = {**metrics.get("counters", {}), **self.counters}
            self.counters = {}
        return metrics or None

    def _done(self, number: int, fields: tuple[Any, ...], payload: Ref | None) -> Reply:
        self._reported, self._bytes = self.handled, 0
        self.report_due = 2 if self._failures else 0
        return ("done", number, fields), payload

    # -- state ---------------------------------------------------------------------------------

    def _get_state(self) -> dict[str, Any]:
        get = getattr(self.actor, "get_state", None)
        return {
            "actor": None if get is None else get(),
            "remembers": get is not None,
            "versions": dict(self.versions),
            "pipelines": {
                name: [step.get_state() for _, step in line.steps]
                for name, line in self.pipelines.items()
            },
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        if state["remembers"]:
            self.actor.set_state(state["actor"])
        self.versions = dict(state["versions"])
        for name, states in state["pipelines"].items():
            line = self.pipelines.get(name)
            if line is not None:
                for (_, step), saved in zip(line.steps, states, strict=True):
                    step.set_state(saved)

    # -- failures ------------------------------------------------------------------------------

    def _note(self, error: BaseException, operator: str) -> None:
        """A message has no answer: keep the exception of its handler for the next report."""
        self._note_interrupt(error)
        self._failures.append(describe_exception(error, operator))
        self.report_due = 2

    def _note_interrupt(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.interrupted = threading.current_thread() is threading.main_thread()


def _position_of_info(factory: Callable[..., Any]) -> int | None:
    """The position at which a factory takes an ActorInfo; None: the factory asks for none."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some built-in classes have no signature
        return None
    if "info" not in parameters:
        return None
    if parameters["info"].kind is inspect.Parameter.KEYWORD_ONLY:
        return sys.maxsize
    return list(parameters).index("info")
