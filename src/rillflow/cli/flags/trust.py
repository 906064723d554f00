"""`--trust`: what the user allows to be imported although only a file names it."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rillflow.cli.flags.current_directory import look_here
from rillflow.cli.output.error_messages import Usage


def add_trust_flag(parser: Any) -> None:
    """The flag, which may be repeated."""
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="module:name",
        help="code that a file names and that may be imported; what is not named here, or by "
        "another flag, is not (may be repeated)",
    )


def take_named(names: Iterable[str | None]) -> None:
    """Let code that the user has named on the command line be found in the current directory."""
    for name in names:
        if name is not None:
            look_here(name)


def require_trust(
    file: object,
    named: Mapping[str, str],
    trust: Sequence[str | None],
    command: str,
    given: Sequence[str],
) -> None:
    """Refuse code that a file names, unless the user has named it too.

    Args:
        file: the one that names it.
        named: the names, as `consent.named_code` finds them.
        trust: what the user has named.
        command: such as "evaluate".
        given: the arguments of the command, to show it again with what is missing.
    """
    from rillflow.safety.consent import refusal, untrusted

    missing = untrusted(named, trust)
    if missing:
        words = [program(), *command.split(), *given, *flags(missing)]
        way = f"allow it with `{shlex.join(words)}`"
        raise Usage(refusal(file, missing, way))


def flags(names: Iterable[str]) -> list[str]:
    """Names of code as flags that allow them.

    >>> flags(["my_envs:Maze"])
    ['--trust', 'my_envs:Maze']
    """
    return [word for name in names for word in ("--trust", name)]


def program() -> str:
    """The command as it can be called here: by its path where its name does not find it."""
    called = sys.argv[0]
    if Path(called).name != "rillflow" or shutil.which("rillflow") == called:
        return "rillflow"
    return called
