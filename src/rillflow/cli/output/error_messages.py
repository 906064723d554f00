"""Errors as a newcomer should see them: one line, that says what to do."""

from __future__ import annotations

from rillflow.errors import (
    BuildError,
    CheckError,
    OperatorError,
    RillflowError,
    RunError,
    user_frame,
)


class Usage(Exception):  # noqa: N818 - what it is about
    """Something about the command line itself."""


def explain_error(error: Exception) -> tuple[str, int]:
    """The text for the terminal, and the exit code.

    >>> explain_error(CheckError(["nobody reads queue 'a'", "nobody fills queue 'b'"]))
    ("this flow has 2 problems: nobody reads queue 'a'; nobody fills queue 'b'", 2)
    """
    if isinstance(error, Usage):
        return str(error), 2
    if isinstance(error, CheckError):
        head = str(error).partition(":")[0]
        return f"{head}: {'; '.join(error.problems)}", 2
    if isinstance(error, OperatorError):
        return _user_code(error), 1
    if isinstance(error, RillflowError):
        return _one_line(str(error)), 2 if isinstance(error, BuildError) else 1
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"there is no module {package!r} here: pip install it, or check its name.", 1
    if isinstance(error, OSError) and not isinstance(error, RunError):
        where = f" {error.filename!r}:" if error.filename else ""
        return f"{where} {error.strerror or error}".strip(), 1
    frame = user_frame(error).partition("\n")[0]
    at = f", at {frame}" if frame else ""
    text = _one_line(f"{type(error).__name__}: {error}")
    return f"{text}{at}; RILLFLOW_DEBUG=1 shows the traceback.", 1


def _user_code(error: OperatorError) -> str:
    """The user's own mistake keeps its lines: what, where in their code, in which operator."""
    told = str(error).partition("\n  remote traceback:")[0]
    return f"{told}\n  RILLFLOW_DEBUG=1 shows the traceback"


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines() if line.strip())
