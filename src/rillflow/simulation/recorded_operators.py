"""Stand-ins for costly operators of the driver: they do again what the real ones were seen to do.

What an operator does is what it returns and what it asks of its context: messages, marks, counters.
Such calls are recorded with the real operator, and replayed without it.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rillflow.graph.captured_actors import captured_groups
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.graph.program import Program

_KEPT = 8
"""calls of an operator: its results may be large"""
Whom = tuple[str, int] | str | None
"""one actor of a group by its number, a whole group by its name; None: the sources of the item"""


class Sent(NamedTuple):
    """A message, to whoever has that place in another run of the plan."""

    to: tuple[Whom, ...]
    method: str
    args: tuple[Any, ...]
    key: str | None
    newer: int | None
    """versions since the last message of its kind; None: it has no version"""


class RecordedCall(NamedTuple):
    """What one call did."""

    sent: tuple[Sent, ...]
    told: tuple[tuple[str, tuple[Any, ...]], ...]
    """marks and counters"""
    result: Any


@dataclass
class Recording:
    """What is known of one operator of the driver."""

    calls: list[RecordedCall] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)
    """keys of what it shares with others in a run"""


class GroupNames:
    """The groups of actors of a program by their names, which are the same in another run."""

    __slots__ = ("groups", "names")  # nobody who looks for an operator's own groups finds these

    def __init__(self, program: Program) -> None:
        self.names = program.group_names
        self.groups = {self.names[group.uid]: group for group in program.groups}


class _RecordingContext:
    """A context that notes what is asked of it."""

    def __init__(
        self, ctx: Any, recording: Recording, group_names: GroupNames, versions: dict[str, int]
    ) -> None:
        self._ctx = ctx
        self._recording = recording
        self._group_names = group_names
        self._versions = versions
        self.sent: list[Sent] = []
        self.told: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def send(
        self, to: Any, method: str, *args: Any, version: int | None = None, key: str | None = None
    ) -> None:
        newer = None
        if version is not None:
            channel = key or method
            newer = version - self._versions.get(channel, 0)
            self._versions[channel] = version
        to = to if isinstance(to, Actors | ActorHandle) else tuple(to)
        self.sent.append(Sent(self._whom(to), method, args, key, newer))
        self._ctx.send(to, method, *args, version=version, key=key)

    def _whom(self, to: Any) -> tuple[Whom, ...]:
        if isinstance(to, Actors):
            return (self._group_names.names[to.uid],)
        handles: tuple[ActorHandle, ...] = (to,) if isinstance(to, ActorHandle) else to
        if set(handles) == set(self._ctx.sources):
            return (None,)
        return tuple((self._group_names.names[one.group.uid], one.index) for one in handles)

    def mark(self, *what: Any) -> None:
        self.told.append(("mark", what))
        self._ctx.mark(*what)

    def count(self, *what: Any) -> None:
        self.told.append(("count", what))
        self._ctx.count(*what)

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        self._recording.shared.add(key)
        return self._ctx.shared(key, make)


class RecordingOperator:
    """An operator that really works, and what it does is recorded."""

    def __init__(
        self, fn: Any, with_context: bool, recording: Recording, group_names: GroupNames
    ) -> None:
        self.fn = fn
        self.with_context = with_context
        self.recording = recording
        self.group_names = group_names
        self.groups = tuple(captured_groups(fn))  # found here as they are in the operator itself
        self.takes_ref = bool(getattr(fn, "takes_ref", False))
        self.versions: dict[str, int] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        fn = copy.deepcopy(
            self.fn, memo
        )  # each run has its own operators; the recording is for all
        return type(self)(fn, self.with_context, self.recording, self.group_names)

    def __getattr__(self, name: str) -> Any:
        if name == "fn":  # before there is one
            raise AttributeError(name)
        return getattr(self.fn, name)

    def on_start(self, ctx: Any) -> Any:
        """As the operator itself, if it does anything then."""
        hook = getattr(self.fn, "on_start", None)
        return None if hook is None else hook(self._noting(ctx))

    def __call__(self, item: Any, ctx: Any) -> Any:
        """Really do it."""
        if not self.with_context:
            result, noted = self.fn(item), None
        else:
            noted = self._noting(ctx)
            result = self.fn(item, noted)
        if len(self.recording.calls) < _KEPT:
            sent = () if noted is None else tuple(noted.sent)
            told = () if noted is None else tuple(noted.told)
            self.recording.calls.append(RecordedCall(sent, told, result))
        return result

    def _noting(self, ctx: Any) -> _RecordingContext:
        return _RecordingContext(ctx, self.recording, self.group_names, self.versions)


class ReplayedOperator(RecordingOperator):
    """Repeats recorded calls, one after the other, over and over; the item stays unread.

    Only what it does before the first item is really done.
    """

    def __init__(
        self, fn: Any, with_context: bool, recording: Recording, group_names: GroupNames
    ) -> None:
        super().__init__(fn, with_context, recording, group_names)
        self.takes_ref = True
        self.turns = itertools.cycle(recording.calls)

    def __call__(self, item: Any, ctx: Any) -> Any:
        """What the operator did once."""
        call = next(self.turns)
        for sent in call.sent:
            version = None
            if sent.newer is not None:
                channel = sent.key or sent.method
                version = self.versions[channel] = self.versions.get(channel, 0) + sent.newer
            for to in self._targets(sent.to, ctx):
                ctx.send(to, sent.method, *sent.args, version=version, key=sent.key)
        for method, arguments in call.told:
            getattr(ctx, method)(*arguments)
        return call.result

    def _targets(self, whom: Iterable[Whom], ctx: Any) -> Iterable[Any]:
        for one in whom:
            if one is None:
                yield ctx.sources
            elif isinstance(one, str):
                yield self.group_names.groups[one]
            else:
                group = self.group_names.groups[one[0]]
                yield group[one[1] % len(group)]
