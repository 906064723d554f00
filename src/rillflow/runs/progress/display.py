"""The live display of a terminal: the curve, the figures, who is busy, and what limits the run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rillflow.runs.busy import busy_line
from rillflow.runs.callbacks import slow_ones
from rillflow.runs.listeners import Listener, Row
from rillflow.runs.progress.braille_curve import MARK, bar, curve, number
from rillflow.runs.progress.operator_table import operator_table
from rillflow.runs.progress.progress_lines import of_few, time_left
from rillflow.runs.progress.time_left import Forecast, duration
from rillflow.runs.status import snapshot

if TYPE_CHECKING:
    from rillflow.flows.flow import Flow
    from rillflow.scheduler.run import Run

_POINTS = 2000
_PLOT_LINES, _OPERATORS = 9, 10
_OTHER_LINES = 15
"""of the picture, beside the plot and the operators"""
_WIDEST = 100


class Curve:
    """Points to draw: all of them at first, every second, fourth, ... of a long run."""

    def __init__(self) -> None:
        self.xs: list[float] = []
        self.ys: list[float] = []
        self._every, self._seen = 1, 0

    def add(self, x: float, y: float) -> None:
        """One point; what is not a number is left out."""
        if not math.isfinite(y):
            return
        self._seen += 1
        if self._seen % self._every == 0:
            self.xs.append(x)
            self.ys.append(y)
        if len(self.xs) > _POINTS:
            self.xs, self.ys, self._every = self.xs[::2], self.ys[::2], 2 * self._every


class Display(Listener):
    """Draws itself about four times a second while the run goes on; its last picture stays.

    Args:
        title: what is trained on what.
        until: when it ends.
        notes: lines below everything, such as where the view is.
        console: of rich; by default the terminal.
    """

    def __init__(
        self,
        title: str,
        until: Mapping[str, float],
        notes: list[str] | None = None,
        console: Console | None = None,
    ) -> None:
        self.title, self.until, self.notes = title, until, list(notes or [])
        self.console = console or Console()
        self.forecast = Forecast(until)
        self.curve, self.evaluated = Curve(), Curve()
        self.row: Row | None = None
        self.stopping = False
        """the user has asked for the end"""
        self.state = ""
        self._run: Run[Any] | None = None
        self._live: Live | None = None
        self._status: dict[str, Any] = {}
        self._looked = 0.0
        self._begin = time.monotonic()

    # -- what it hears --------------------------------------------------------------------------

    def on_start(self, run: Run[Any], flow: Flow[Any]) -> None:
        """Begin to draw."""
        self._run, self._begin = run, time.monotonic()
        self._live = Live(
            get_renderable=self.picture,
            console=self.console,
            refresh_per_second=4,
            redirect_stdout=True,
            redirect_stderr=True,
        )
        self._live.start()

    def on_row(self, row: Row) -> None:
        """Remember it; the next picture shows it."""
        self.row = row
        self.forecast.see(row)
        self.curve.add(row["steps"], row["return"])
        if "eval_return" in row:
            self.evaluated.add(row["eval_steps"], row["eval_return"])

    def on_end(self, state: str, error: BaseException | None = None) -> None:
        """The last picture stays."""
        self.state, self._looked = state, 0.0
        if self._live is not None:
            self._live.refresh()
            self._live.stop()

    # -- what it shows --------------------------------------------------------------------------

    def picture(self) -> Group:
        """Everything, top to bottom."""
        width = min(self.console.width, _WIDEST)
        parts: list[Any] = [Text(self.title, style="bold")]
        parts += self._plot(width)
        parts += self._figures(width)
        status = self._look()
        if self.row is not None and status.get("operators"):
            parts += ["", operator_table(status, width, self._most_operators())]
            if status["seconds"]:  # on `sim` work may take no time: then nothing is busy
                parts += [Text(status["verdict"], style="yellow")]
                parts += [Text(line) for line in [busy_line(status["busy"])] if line]
        parts += [Text(line, style="red") for line in _silent(status)]
        slow = slow_ones(status.get("callbacks", {}), time.monotonic() - self._begin)
        parts += [Text(line, style="red") for line in slow]
        parts += [Text(note, style="dim") for note in self._notes()]
        return Group(*parts)

    def _plot(self, width: int) -> list[Text]:
        shown = min(self._most_operators(), len(self._status.get("operators", ())))
        height = max(3, min(_PLOT_LINES, self.console.height - self._other_lines() - shown))
        if len(self.curve.xs) < 2:
            return []
        lines = curve(
            self.curve.xs,
            self.curve.ys,
            width=width,
            height=height,
            level=self.until.get("return", self.until.get("eval_return")),
            marks=list(zip(self.evaluated.xs, self.evaluated.ys, strict=True)),
        )
        last = f"{self.curve.xs[-1]:,.0f} steps"
        first = f"{self.curve.xs[0]:,.0f}"
        margin = lines[0].index("┤") + 1
        axis = " " * margin + first + last.rjust(width - margin - len(first))
        title = Text("return, mean of 100 episodes", style="dim")
        if self.evaluated.xs:
            title.append(f"   {MARK}", style="bold magenta").append(" evaluated")
        return [
            title,
            *(_painted(line, margin) for line in lines),
            Text(axis, style="dim"),
        ]

    def _most_operators(self) -> int:
        """How many operators there is room for, beside a small plot."""
        return max(2, min(_OPERATORS, self.console.height - self._other_lines() - 3))

    def _other_lines(self) -> int:
        """Of the picture, beside the plot and the operators: some take more lines than one."""
        width = max(1, self.console.width)
        told = [self.title, *self._notes(), self._status.get("verdict", "")]
        return _OTHER_LINES + sum(max(0, -(-len(line) // width) - 1) for line in told)

    def _figures(self, width: int) -> list[Any]:
        row = self.row
        if row is None:
            waited = duration(time.monotonic() - self._begin)
            return [Text(f"starting workers, waiting for the first update ({waited})")]
        known = math.isfinite(row["return"])
        got = f"return {number(round(row['return'], 1))}" if known else "return"
        few = of_few(row) if known else " after the first episode"
        parts = [
            Text(got, style="bold cyan").append(few, style="not bold cyan"),
            Text(f"{row['steps']:,.0f} steps"),
            Text(f"{self.forecast.rate:,.0f} steps/s"),
        ]
        if width > 90:
            parts.append(Text(f"{row['episodes']:,.0f} episodes"))
        parts.append(Text(duration(row["seconds"])))
        left = self.forecast.left()
        if left is not None and not self.state:
            parts.append(Text(f"about {time_left(left)}", style="green"))
        done = Text(bar(self._done(row), width), style="green" if self.state else "cyan")
        return [*packed(parts, width), *self._evaluations(width), done]

    def _evaluations(self, width: int) -> list[Text]:
        """The newest evaluation, the best so far, and the one under way."""
        about = self._status.get("evaluation")
        if not about:
            return []
        parts, last, best = list[Text](), about["last"], self._status.get("best") or {}
        if last is not None:
            text = Text(f"evaluated {number(round(last['return'], 1))}", style="bold magenta")
            parts.append(text.append(f" at {last['steps']:,.0f}", style="not bold default"))
        if best.get("by") == "evaluation" and best["steps"] != last["steps"]:
            parts.append(Text(f"best {number(round(best['score'], 1))} at {best['steps']:,.0f}"))
        if about["under_way"] is not None and not self.state:
            now = f"evaluating {about['under_way']:,.0f} for {duration(about['seconds'])}"
            parts.append(Text(now, style="dim"))
        if about["failed"]:
            parts.append(Text(f"{about['failed']:,} failed", style="red"))
        if not parts:
            parts = [Text(f"evaluated every {about['every']:,} steps", style="dim")]
        return packed(parts, width)

    def _done(self, row: Row) -> float:
        """How much of the way has been gone, by time where that can be said."""
        if self.state == "finished":
            return 1.0
        left = self.forecast.left()
        if left is None:
            return 0.0
        return row["seconds"] / max(1e-9, row["seconds"] + left[0])

    def _look(self) -> dict[str, Any]:
        """The run's own figures, asked for once a second."""
        now = time.monotonic()
        if self._run is not None and now >= self._looked + 1.0:
            self._looked = now
            try:
                self._status = snapshot(self._run)
            except RuntimeError:  # the run's own thread was quicker; the last figures stay
                return self._status
        return self._status

    def _notes(self) -> list[str]:
        if self.state:
            return []
        if self.stopping:
            return [*self.notes, "stopping after this update; Ctrl-C again stops now"]
        return [*self.notes, "Ctrl-C finishes the update, saves and stops"]


def _silent(status: Mapping[str, Any]) -> list[str]:
    """Who has not answered for long, unless the verdict says so already."""
    names = [f"{one['name']} for {one['seconds']:.0f} s" for one in status.get("waiting", ())]
    if not names or status.get("verdict", "").startswith("Waiting"):
        return []
    return [f"waiting for {', '.join(names)}; the others go on"]


def _painted(line: str, margin: int) -> Text:
    """Labels dim, the goal green, the curve in colour."""
    text = Text(line, no_wrap=True)
    text.stylize("dim", 0, margin)
    for index in range(margin, len(line)):
        style = {"┄": "green", MARK: "bold magenta"}.get(line[index], "cyan")
        text.stylize(style, index, index + 1)
    return text


def packed(parts: list[Text], width: int) -> list[Text]:
    """Parts beside each other in lines of this width; no part is torn but one that is too long."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + 3 + part.cell_len <= width:
            lines[-1].append("   ").append_text(part)
        else:
            lines.append(part)
    return lines
