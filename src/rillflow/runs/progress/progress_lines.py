"""Progress as lines: for people whose output is a file, and for machines."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from rillflow.files import to_json
from rillflow.runs.listeners import Listener, Row
from rillflow.runs.progress.time_left import Forecast, duration

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.scheduler.run import Run


EPISODES = 100
"""whose mean a return is, if there are so many"""


class Lines(Listener):
    """A line a second at first, fewer as the run gets older, and always the last row."""

    def __init__(self, title: str, until: Mapping[str, float], out: TextIO | None = None) -> None:
        self.title = title
        self.out = out or sys.stdout
        self.forecast = Forecast(until)
        self._next = 0.0
        self._kept: Row | None = None

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Say what is being done."""
        print(self.title, file=self.out, flush=True)

    def on_row(self, row: Row) -> None:
        """A line, if the last is old enough."""
        self.forecast.see(row)
        self._kept = row
        if row["seconds"] >= self._next or "eval_return" in row:
            self._next = row["seconds"] + max(1.0, row["seconds"] / 20)
            self._print(row)

    def _print(self, row: Row) -> None:
        self._kept = None
        print(line(row, self.forecast), file=self.out, flush=True)

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """The last row."""
        if self._kept is not None:
            self._print(self._kept)


def line(row: Row, forecast: Forecast) -> str:
    """One row as text."""
    text = (
        f"{duration(row['seconds']):>11} {row['steps']:>10,.0f} steps "
        f"{forecast.rate:>8,.0f} steps/s"
    )
    if math.isfinite(row["return"]) or "eval_return" not in row:  # who learns from data plays none
        text += f"   return {shown_return(row)}"
    if "eval_return" in row:
        text += f"   {shown_evaluation(row)}"
    left = forecast.left()
    return text + (f"   {time_left(left)}" if left is not None else "")


def shown_return(row: Row) -> str:
    """The mean return so far, and of how many episodes until there are a hundred."""
    if not math.isfinite(row["return"]):
        return "after the first episode"
    return f"{row['return']:6.1f}{of_few(row)}"


def of_few(row: Row) -> str:
    """Of how many episodes a return is the mean, if they are fewer than it should be.

    >>> of_few({"episodes": 7}), of_few({"episodes": 1}), of_few({"episodes": 240})
    (' (7 episodes)', ' (1 episode)', '')
    """
    count = int(row["episodes"])
    return "" if count >= EPISODES else f" ({count} episode{'s' if count != 1 else ''})"


def shown_evaluation(row: Row) -> str:
    """An evaluation, and of which moment it is.

    >>> shown_evaluation({"eval_return": 487.5, "eval_steps": 60_000.0})
    'evaluated 487.5 at 60,000'
    """
    return f"evaluated {row['eval_return']:.1f} at {row['eval_steps']:,.0f}"


def got_so_far(row: Row) -> str:
    """How good a run has become, in a few words."""
    if not math.isfinite(row["return"]):  # nobody has played, or not to an end
        return shown_evaluation(row) if "eval_return" in row else "no episode has ended"
    evaluated = f", {shown_evaluation(row)}" if "eval_return" in row else ""
    return f"return {row['return']:.1f}{of_few(row)}{evaluated}"


def time_left(left: tuple[float, str]) -> str:
    """In words; a guess from the trend says that it is one."""
    seconds, limit = left
    by = ", by the trend" if limit == "return" else ""
    return f"{duration(seconds)} left{by}"


class JsonLines(Listener):
    """Everything as JSON, a line each: `start`, `row`, `end`."""

    def __init__(self, facts: Mapping[str, Any], out: TextIO | None = None) -> None:
        self.facts = facts
        self.out = out or sys.stdout

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Which run it is."""
        self.say("start", **self.facts)

    def on_row(self, row: Row) -> None:
        """Each row as it is."""
        self.say("row", **row)

    def say(self, event: str, **facts: Any) -> None:
        """One line."""
        print(to_json({"event": event, **facts}), file=self.out, flush=True)
