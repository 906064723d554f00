"""`rillflow explain`: an algorithm's dataflow, as text or as a picture. Nothing is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rillflow.cli.flags.parser import Parser
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.request import (
    add_policies_flag,
    add_request_flags,
    agents_for,
    parse_request,
)

FORMATS: dict[str, Callable[[Any], str]] = {
    "text": lambda flow: str(flow.explain()),
    "mermaid": lambda flow: str(flow.to_mermaid()),
    "svg": lambda flow: str(flow.to_svg()),
    "json": lambda flow: json.dumps(flow.to_json(), indent=2),
}
_ENDINGS = {".txt": "text", ".mmd": "mermaid", ".md": "mermaid", ".svg": "svg", ".json": "json"}

_OF_MODULES: dict[str, Callable[[Any], str]] = {
    "text": str,
    "mermaid": lambda overview: str(overview.to_mermaid()),
    "json": lambda overview: json.dumps(overview.to_json(), indent=2),
}

_DESCRIPTION = """\
Show the dataflow of an algorithm: which operators there are, where they run, who sends what to
whom; or with --modules its networks, how large they are, and which step trains which. Nothing is
started, so 256 workers can be looked at on a laptop."""


def main(arguments: Sequence[str]) -> int:
    """Explain."""
    parser = Parser(
        "explain", _DESCRIPTION, "ALGORITHM [ENV] [--format NAME] [-o FILE] [--FLAG VALUE ...]"
    )
    add_request_flags(parser)
    add_policies_flag(parser)
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="text, mermaid, svg or json (default: by the ending of the file, text)",
    )
    parser.add_argument(
        "--modules",
        action="store_true",
        help="the networks and who trains them, instead of the dataflow",
    )
    parser.add_argument("-o", "--out", metavar="FILE", help="write it there instead of here")
    request = parse_request(parser, arguments)
    name = request.options.format
    out = None if request.options.out is None else Path(request.options.out)
    formats = _OF_MODULES if request.options.modules else FORMATS
    if name is None:
        name = "text" if out is None else _format_of(out, formats)
    if name not in formats:
        raise Usage(f"--format is one of {', '.join(formats)}; got {name!r}")

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.learning.schedules import scheduled
    from rillflow.runs.job import Job
    from rillflow.runs.limits import DEFAULT

    with notes_as_lines():
        until = dict(DEFAULT)  # a schedule over the run is shown for the usual length
        agents = agents_for(request)
        job = Job(request.algorithm, request.module, request.config, until, agents=agents)
        workers, flow = job.build()
        text = formats[name](_modules_of(workers) if request.options.modules else flow)
        changing = scheduled(request.config)
        told = ", ".join(f"{setting} {schedule}" for setting, schedule in changing.items())
        notes = [*([f"scheduled: {told}"] if told else []), *workers.notes]
        if notes and name == "text" and not request.options.modules:
            text = "\n".join([f"{text.rstrip()}\n", *notes])
    if out is None:
        print(text.rstrip("\n"))
    else:
        out.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        print(out)
    return 0


def _format_of(out: Path, formats: Mapping[str, object]) -> str:
    """What the ending of a file says."""
    ending = out.suffix.lower()
    name = _ENDINGS.get(ending)
    if name in formats:
        return str(name)
    known = [one for one, kind in _ENDINGS.items() if kind in formats]
    way = ""
    if ending in (".png", ".jpg", ".jpeg", ".pdf", ".gif") and "svg" in formats:
        way = f": a picture is an .svg, which every browser shows; -o {out.with_suffix('.svg')}"
    raise Usage(
        f"-o {out}: explain writes {', '.join(known)}, not {ending or 'a file without an ending'}"
        f"{way or '; or say what it is by --format'}"
    )


def _modules_of(workers: Any) -> Any:
    """The networks of the algorithm; of several policies, those of the first."""
    from rillflow.learning.overview import overview

    one = next(iter(workers.policies.values())) if hasattr(workers, "policies") else workers
    return overview(one.spec, one.config)
