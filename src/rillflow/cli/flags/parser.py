"""argparse, with one-line errors, the nearest flag for a misspelt one, and help that fits."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rillflow.cli.output.error_messages import Usage


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are exceptions; `_` and `-` in flags make no difference."""

    def __init__(self, command: str, description: str, usage: str = "") -> None:
        super().__init__(
            prog=f"rillflow {command}",
            usage=f"rillflow {command} {usage}" if usage else None,
            description=description,
            formatter_class=_Help,
            allow_abbrev=False,
            add_help=False,
        )
        self.command = command
        """as in `rillflow train`"""
        self._positionals.title = "arguments"
        self._optionals.title = "options"
        self.add_argument("-h", "--help", action="help", help="show this and end")

    def error(self, message: str) -> NoReturn:
        """As an exception, for `main` to print."""
        raise Usage(f"{_plainer(message)} (see `{self.prog} --help`)")

    def parse(self, arguments: Sequence[str]) -> Any:
        """The options; everything unknown is told at once, with what was meant."""
        options, rest = self.parse_known_args([_hyphens(token) for token in arguments])
        if rest:
            from rillflow.learning.did_you_mean import nearest_flag

            flags = [token for token in rest if token.startswith("-")]
            known = [flag for flag in self._option_string_actions if flag.startswith("--")]
            wrong = [nearest_flag(flag, known) for flag in flags]
            extra = [token for token in rest if not token.startswith("-")]
            if not flags:
                wrong = [f"unexpected {' '.join(map(repr, extra))}"]
            raise Usage(f"{'; '.join(wrong)} (see `{self.prog} --help`)")
        return options


def _hyphens(token: str) -> str:
    """`--num_workers=4` as `--num-workers=4`; values stay as they are."""
    if not token.startswith("--"):
        return token
    name, equals, value = token.partition("=")
    return name.replace("_", "-") + equals + value


def _plainer(message: str) -> str:
    """argparse's words, less its jargon."""
    message = message.replace("the following arguments are required: ", "missing: ")
    return message.removeprefix("argument ")


class _Help(argparse.HelpFormatter):
    """Aligned, as wide as the terminal up to 100 columns, without repeating the metavar."""

    def __init__(self, prog: str) -> None:
        width = min(100, shutil.get_terminal_size((100, 24)).columns)
        super().__init__(prog, max_help_position=min(34, width // 2 - 4), width=width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(action.option_strings)} {value}"


_SUFFIXES = {"k": 1000, "m": 1_000_000}


def whole(least: int) -> Callable[[str], int]:
    """A type of argparse: a whole number from `least` on.

    >>> whole(1)("20k"), whole(0)("1_000"), whole(1)("1.5m")
    (20000, 1000, 1500000)
    """

    def parse(text: str) -> int:
        try:
            plain = text.replace("_", "").lower()
            by = _SUFFIXES.get(plain[-1:], 1)
            value = int(plain) if by == 1 else round(float(plain[:-1]) * by)
        except (ValueError, OverflowError):
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number of at least {least}, got {text!r}"
            )
        return value

    return parse


def positive(text: str) -> float:
    """A type of argparse: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def part(text: str) -> float:
    """A type of argparse: a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}")
    return value
