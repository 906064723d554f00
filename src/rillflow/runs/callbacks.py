"""Functions of the user's that hear of a training run as it goes on, and may end it.

    def on_result(run, result): ...          each result of training: a row of figures
    def on_episode(run, episode): ...        each episode that ended in a worker
    def on_evaluation(run, evaluation): ...  each evaluation; see `eval_every`
    def on_checkpoint(run, path): ...        each checkpoint that was written

They are called in the driver, one after the other, between two steps of training. One that returns
"stop" ends the run, as a goal that is reached; one that raises ends it with an error.
"""

from __future__ import annotations

import difflib
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rillflow.callables import label_of
from rillflow.errors import BuildError, OperatorError, describe_exception

Callback = Callable[[Any, Any], Any]

EVENTS = {
    "on_result": "result",
    "on_episode": "episode",
    "on_evaluation": "evaluation",
    "on_checkpoint": "path",
}
"""by name: what a callback is given, after the run"""
STOP = "stop"
"""what a callback returns to end the run"""
_SLOW = 0.1
"""share of the time of a run from which its callbacks are worth a word"""


@dataclass
class _Told:
    """One callback, and what it took."""

    event: str
    function: Callback
    name: str
    calls: int = 0
    seconds: float = 0.0


class Callbacks:
    """Those of one run.

    >>> def on_result(run, result):
    ...     return "stop" if result["steps"] >= 1000 else None
    >>> callbacks = Callbacks([on_result])
    >>> callbacks.tell("on_result", None, {"steps": 500})
    >>> callbacks.tell("on_result", None, {"steps": 1500})
    'on_result said stop'

    Args:
        functions: called for the event that they are named after, or, as a pair, for another.
        by_event: functions of any name, by the event they are called for.
    """

    def __init__(
        self,
        functions: Iterable[Callback | tuple[str, Callback]] = (),
        by_event: Mapping[str, Callback | None] | None = None,
    ) -> None:
        if callable(functions) or isinstance(functions, Mapping | str):
            raise BuildError(
                f"callbacks is a list of functions, found {functions!r}: callbacks=[on_result]."
            )
        pairs = [fn if isinstance(fn, tuple) else (_event_of(fn), fn) for fn in functions]
        pairs += [(e, function) for e, function in (by_event or {}).items() if function is not None]
        self._all = [_Told(event, _fitting(event, fn), _named(event, fn)) for event, fn in pairs]
        self._wanted = {told.event for told in self._all}

    def wants(self, event: str) -> bool:
        """Whether anybody is to hear of such an event."""
        return event in self._wanted

    def tell(self, event: str, run: Any, what: Any) -> str | None:
        """Call everybody for an event; why the run is to end, if one of them says so."""
        if event not in self._wanted:
            return None
        why = None
        for told in self._all:
            if told.event == event and self._call(told, run, what):
                why = why or f"{told.name} said stop"
        return why

    def _call(self, told: _Told, run: Any, what: Any) -> bool:
        began = time.perf_counter()
        try:
            answer = told.function(run, what)
        except Exception as error:
            failure = describe_exception(error)
            raise OperatorError.build(failure, f"callback {told.name}", None, error) from error
        finally:
            told.calls += 1
            told.seconds += time.perf_counter() - began
        if isinstance(answer, bool) or (isinstance(answer, str) and answer != STOP):
            raise BuildError(
                f"callback {told.name} returned {answer!r}: a callback returns None, or {STOP!r} "
                "to end the run."
            )
        return isinstance(answer, str)

    def facts(self) -> dict[str, dict[str, float]]:
        """What each took so far, for status.json."""
        return {
            told.name: {"calls": told.calls, "seconds": round(told.seconds, 3)}
            for told in self._all
        }


def slow_ones(facts: Mapping[str, Any], seconds: float) -> list[str]:
    """Callbacks that take a good part of a run, in words.

    >>> slow_ones({"on_result": {"calls": 40, "seconds": 3.0}}, 10.0)
    ['callback on_result takes 30% of the time: 75 ms a call']
    """
    return [
        f"callback {name} takes {own['seconds'] / seconds:.0%} of the time: "
        f"{1000 * own['seconds'] / max(1, own['calls']):,.0f} ms a call"
        for name, own in facts.items()
        if seconds >= 1.0 and own["seconds"] >= _SLOW * seconds
    ]


def _event_of(function: Any) -> str:
    name = getattr(function, "__name__", "")
    if not callable(function):
        raise BuildError(f"callbacks are functions, found {function!r}.")
    if name in EVENTS:
        return str(name)
    if name == "<lambda>":
        name = None  # it has no name, and can be given one
    near = difflib.get_close_matches(name or "", EVENTS, n=1)
    hint = f"did you mean {near[0]!r}? Or g" if near else "g"
    raise BuildError(
        f"a callback is called for the event it is named after ({', '.join(EVENTS)}), and "
        f"{name or function!r} is none of them: {hint}ive it by keyword, "
        f"as {near[0] if near else 'on_result'}={name or 'my_function'}."
    )


def _fitting(event: str, function: Any) -> Callback:
    """The function, if it can be called as it will be."""
    if event not in EVENTS:
        near = difflib.get_close_matches(event, EVENTS, n=1)
        hint = f", did you mean {near[0]!r}?" if near else f"; there are {', '.join(EVENTS)}."
        raise BuildError(f"there is no event {event!r} for a callback{hint}")
    if not callable(function):
        raise BuildError(f"{event} is a function, found {function!r}.")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise BuildError(
            f"callback {label_of(function)} is called with (run, {EVENTS[event]}), and takes "
            f"{inspect.signature(function)}."
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    return function  # type: ignore[no-any-return]


def _named(event: str, function: Any) -> str:
    label = label_of(function)
    return event if label in (event, "lambda") else f"{event}={label}"
