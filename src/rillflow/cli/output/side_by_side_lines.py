"""Several runs on one terminal: a table that is drawn again, or lines; or JSON for machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rillflow.files import to_json
from rillflow.runs.progress.progress_lines import of_few
from rillflow.runs.progress.time_left import duration

if TYPE_CHECKING:
    from rillflow.cli.side_by_side import Member

_MOST_ROWS = 24
_EVERY = 5.0
"""seconds between two lines of a run at first"""


class Shown:
    """Hears of each run and shows nothing; what shows something is made from it."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.notes: list[str] = []
        self.members: list[Member] = []

    def begin(self, members: Sequence[Member]) -> None:
        """Those that are to run, as far as they are known."""
        self.members = list(members)

    def note(self, line: str) -> None:
        """Something to know beside the runs."""
        self.notes.append(line)

    def hear(self, member: Member, event: Mapping[str, Any]) -> None:
        """What a run says."""

    def tick(self) -> None:
        """A few times a second."""

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        """The last picture stays."""


class EachAsJson(Shown):
    """Each line as the run prints it, with the name of the run."""

    def hear(self, member: Member, event: Mapping[str, Any]) -> None:
        """One line."""
        if event["event"] == "ended":
            event = {"event": "ended", "state": member.state, "exit_code": member.code}
        told = {"event": event["event"], "of": member.name, **event}
        print(to_json(told), flush=True)


class EachInLines(Shown):
    """A line for each run every few seconds, fewer as it gets older."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._next: dict[str, float] = {}

    def __enter__(self) -> Shown:
        print(self.title, flush=True)
        return self

    def note(self, line: str) -> None:
        """At once."""
        print(line, flush=True)

    def hear(self, member: Member, event: Mapping[str, Any]) -> None:
        """A line, if the last is old enough."""
        age = time.monotonic() - member.began
        if event["event"] == "start":
            self._say(member, f"into {member.run}")
            self._next[member.name] = age + _EVERY
        elif event["event"] == "row" and age >= self._next.get(member.name, _EVERY):
            self._next[member.name] = age + max(_EVERY, age / 10)
            self._say(member, progress(member))
        elif event["event"] == "said":
            self._say(member, event["line"])
        elif event["event"] == "ended":
            why = f", {member.why}" if member.why else ""
            if member.state == "failed":
                why = f": {member.failure}"
            self._say(member, f"{progress(member)}   {member.state}{why}")

    def _say(self, member: Member, text: str) -> None:
        print(f"{member.name:>9}  {text}", flush=True)


class EachInTable(Shown):
    """A table with a row for each run."""

    def __init__(self, title: str, console: Any = None) -> None:
        super().__init__(title)
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console()
        self._live = Live(get_renderable=self.picture, console=self._console, refresh_per_second=4)

    def __enter__(self) -> Shown:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.refresh()
        self._live.stop()

    def hear(self, member: Member, event: Mapping[str, Any]) -> None:
        """The next picture has it; what a run says itself stands above the table."""
        if member not in self.members:
            self.members.append(member)
        if event["event"] == "said":
            from rich.text import Text

            self._console.print(Text(f"{member.name}: {event['line']}", style="dim"))

    def picture(self) -> Any:
        """The title, the runs, and what there is to know."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        wide = self._console.width >= 60
        for name in ("run", "", "steps", "return", *(("steps/s", "time") if wide else ())):
            side: Any = "left" if name in ("run", "") else "right"
            table.add_column(name, justify=side, no_wrap=True)
        began = [member for member in self.members if member.state != "waiting"]
        most = max(3, min(_MOST_ROWS, self._console.height - 6))
        waiting = len(self.members) - len(began)
        for member in began[-most:]:
            table.add_row(*_cells(member)[: 6 if wide else 4])
        more = [f"{len(began) - most} above, not shown"] if len(began) > most else []
        more += [f"{waiting} waiting"] if waiting else []
        dim = [Text(line, style="dim", no_wrap=True) for line in more]
        dim += [Text(line, style="dim", overflow="fold") for line in self.notes]  # addresses
        return Group(Text(self.title, style="bold"), table, *dim)


_STYLES = {"running": "green", "finished": "blue", "failed": "red", "stopped": "yellow"}


def _cells(member: Member) -> list[Any]:
    from rich.text import Text

    row, seconds = member.row, member.seconds or time.monotonic() - member.began
    return [
        member.name,
        Text(member.state, style=_STYLES.get(member.state, "")),
        f"{row['steps']:,.0f}" if row else "",
        _return(row),
        f"{_rate(row):,.0f}" if row else "",
        duration(seconds),
    ]


def progress(member: Member) -> str:
    """Where a run is, in a line."""
    row = member.row
    if not row:
        return "nothing yet"
    return (
        f"{duration(row['seconds']):>9} {row['steps']:>11,.0f} steps {_rate(row):>8,.0f} steps/s"
        f"   return {_return(row)}"
    )


def _rate(row: Mapping[str, Any]) -> float:
    return float(row["steps"] / max(row["seconds"] or 0.0, 1e-9))


def _return(row: Mapping[str, Any]) -> str:
    value = row.get("return")
    return f"{value:.1f}{of_few(row)}" if isinstance(value, int | float) else "-"


def display_of(options: Any, title: str) -> Shown:
    """What the user wants to see of several runs."""
    if options.json:
        return EachAsJson(title)
    if options.quiet:
        return Shown(title)
    if not options.plain and sys.stdout.isatty():
        return EachInTable(title)
    return EachInLines(title)
