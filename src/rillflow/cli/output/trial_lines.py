"""A search on the terminal: a line for each trial that has ended, and those that run below."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rillflow.cli.output.side_by_side_lines import EachInTable, Shown

if TYPE_CHECKING:
    from rillflow.cli.search import Search
    from rillflow.cli.side_by_side import Member


class Trials(Shown):
    """Lines alone."""

    search: Search

    def __enter__(self) -> Trials:
        self.say(self.title)
        return self

    def ended(self, member: Member, trial: Any, how: str) -> None:
        """One line for each."""
        best = self.search.best
        number = trial.number
        value = next(t.value for t in self.search.study.trials if t.number == number)
        result = f"{value:8.1f}" if how == "complete" else f"{how:>8}"
        chosen = trial.user_attrs.get("settings", {})
        settings = "  ".join(f"{name}={text.strip('()')}" for name, text in chosen.items())
        if trial.user_attrs.get("defaults"):
            settings = "the settings as they are"
        mark = "  best so far" if best is not None and best.number == number else ""
        self.say(f"{number:>4}  {result}  {member.seconds:6.1f} s  {settings}{mark}")
        if how in ("failed", "not possible"):
            self.say(f"      {member.failure}")

    def say(self, line: str) -> None:
        """One line."""
        print(line, flush=True)


class TrialsInTable(Trials, EachInTable):
    """On a terminal: those that run are below, and move."""

    def __init__(self, title: str, console: Any = None) -> None:
        EachInTable.__init__(self, title, console)
        self._heading, self.title = title, "running"

    def __enter__(self) -> TrialsInTable:
        self._live.start()
        self.say(self._heading)
        return self

    def say(self, line: str) -> None:
        """Above the table."""
        from rich.text import Text

        self._console.print(Text(line))

    def hear(self, member: Member, event: Mapping[str, Any]) -> None:
        """Those that have ended have their line."""
        if member not in self.members:
            self.members.append(member)
        if event["event"] == "ended":
            self.members.remove(member)


def trials_shown(options: Any, title: str) -> Trials:
    """What is shown of a search."""
    return Trials(title) if options.plain or not sys.stdout.isatty() else TrialsInTable(title)
