"""The reference of the Python interface: what `rillflow` exports, with its docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import rillflow as rf
from docs.generate.algorithms import field_documents

GROUPS: dict[str, tuple[str, list[str]]] = {
    "Training": (
        "A trained agent, and what one does with it.",
        ["train", "resume", "load", "run", "TrainingRun"],
    ),
    "Schedules": ("Settings that follow the run.", ["Linear", "Piecewise"]),
    "Algorithms of your own": (
        "What an algorithm file is made of; see [Your own algorithm](own-algorithm.md).",
        ["Algorithm", "Modules", "Step", "Rows"],
    ),
    "Flows": (
        "Streams, and what they are made of. Their operators are on [a page of their own]"
        "(operators.md).",
        [
            *("Flow", "ParallelFlow", "from_actors", "from_items", "from_range", "from_iterators"),
            *("Union", "Concurrently", "Enqueue", "Dequeue", "Actors", "ActorHandle", "Background"),
            *("Queue", "Operator", "Context", "ActorInfo", "Ref", "EndOfStream", "NotReady"),
        ],
    ),
    "Running": (
        "Engines, and a flow at work.",
        ["Run", "Engine", "Sim", "Local", "RayEngine", "simulate"],
    ),
    "Faults": (
        "What happens when something fails; see [Faults](faults.md).",
        ["FailurePolicy", "Adaptive", "Recycle"],
    ),
    "Errors": (
        "All of them are a `RillflowError`, named by their phase.",
        [
            *("RillflowError", "BuildError", "CheckError", "TypeMismatch", "RunError"),
            *("OperatorError", "WorkerLost", "DeviceLost"),
            *("ActorStartError", "EngineError", "DeadlockError"),
        ],
    ),
}
"""every public name, in the order of the page"""


def reference() -> str:
    """All of it."""
    pieces = []
    for title, (about, names) in GROUPS.items():
        pieces += [f"## {title}", about, *(entry(name) for name in names)]
    return "\n\n".join(pieces)


def entry(name: str) -> str:
    """One name: how it is called, what it does, and what it has."""
    thing = getattr(rf, name)
    pieces = [f"### {name} {{ #{name.lower()} }}"]
    if not (inspect.isclass(thing) and issubclass(thing, BaseException)):
        pieces.append(f"```python\n{_call(name, thing)}\n```")
    pieces.append(_document(thing))
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        members = [*_fields(thing), *(_member(thing, name) for name in _public(thing))]
        if members:
            pieces.append("\n".join(["| | |", "|---|---|", *members]))
    return "\n\n".join(piece for piece in pieces if piece)


def _call(name: str, thing: Any) -> str:
    """The signature, a parameter a line where it is long."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"rf.{name}"
    return _FUNCTION.sub(r"\1", _QUOTED.sub(r"\1\2\3", _laid_out(name, signature)))


def _laid_out(name: str, signature: inspect.Signature) -> str:
    short = f"rf.{name}{signature.replace(return_annotation=inspect.Signature.empty)}"
    if len(short) <= 88:
        return short
    parameters: list[str] = []
    star = False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not star:
            parameters.append("    *,")
        star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        parameters.append(f"    {one},")
    return "\n".join([f"rf.{name}(", *parameters, ")"])


_QUOTED = re.compile(r"(: |-> )(?:'([^']*)'|\"([^\"]*)\")")
"""annotations are texts, and shown without quotes"""
_FUNCTION = re.compile(r"<function (\S+) at \w+>")


def _public(thing: type) -> list[str]:
    """Methods, properties and fields of its own that have something to say."""
    hidden = INTERNAL.get(thing.__name__, set())
    if hidden is None:
        return []
    own = {name for base in thing.__mro__[:-1] if _ours(base) for name in vars(base)} - hidden
    return sorted(
        name
        for name in own
        if not name.startswith("_")
        and isinstance(inspect.getattr_static(thing, name), _METHODS)
        and (inspect.getdoc(getattr(thing, name)) or "Refused").partition(":")[0] != "Refused"
    )


INTERNAL = {
    "Engine": None,  # to write one of your own, see its module
    "Local": None,
    "RayEngine": None,
    "Sim": None,
    "Algorithm": None,  # its fields are in the signature
    "TrainingRun": {"begins", "ends", "fails", "in_thread", "told"},
}
"""members that other parts of rillflow call, and users do not; None: all"""

_METHODS = (type(lambda: 0), property, classmethod, staticmethod)


def _ours(base: type) -> bool:
    return base.__module__.startswith("rillflow")


def _fields(thing: type) -> list[str]:
    """Those of a dataclass that have something to say."""
    if not dataclasses.is_dataclass(thing):
        return []
    documents = field_documents(thing)
    return [_row(field.name, documents.get(field.name)) for field in dataclasses.fields(thing)]


def _row(name: str, about: str | None) -> str:
    text = " ".join((about or "").split())
    return f"| `{name}` | {text.replace('|', chr(92) + '|')} |"


def _member(thing: type, name: str) -> str:
    found = inspect.getattr_static(thing, name)
    sentence = (inspect.getdoc(getattr(thing, name)) or "").split("\n\n")[0]
    return _row(name if isinstance(found, property) else f"{name}()", sentence)


def _document(thing: Any) -> str:
    """The docstring as Markdown: examples become listings, arguments a table."""
    text, _, arguments = (inspect.getdoc(thing) or "").partition("\nArgs:\n")
    out: list[str] = []
    listing = False
    for line in text.splitlines():
        inside = line.startswith(("    ", ">>>", "... ")) or (listing and line.strip() != "")
        if inside and not listing:
            out += ["", "```pycon" if line.strip().startswith(">>>") else "```text"]
        elif listing and not inside:
            out.append("```")
        listing = inside
        out.append(line[4:] if inside and line.startswith("    ") else line)
    if listing:
        out.append("```")
    return "\n".join([*out, *_arguments(arguments)])


def _arguments(text: str) -> list[str]:
    """What each argument is, a row each; a line that is indented further goes on with the one
    before."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("        ") and rows:
            rows[-1][1] += f" {line.strip()}"
        elif line.startswith("    "):
            name, _, about = line.strip().partition(": ")
            rows.append([name, about])
    table = [_row(name, about) for name, about in rows]
    return ["", "| argument | |", "|---|---|", *table] if table else []
