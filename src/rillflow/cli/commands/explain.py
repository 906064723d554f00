"""`rillflow explain`: an algorithm's dataflow, as text or as a picture. Nothing is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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

_DESCRIPTION = """\
Show the dataflow of an algorithm: which operators there are, where they run, who sends what to
whom. Nothing is started, so 256 workers can be looked at on a laptop."""


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
    parser.add_argument("-o", "--out", metavar="FILE", help="write it there instead of here")
    request = parse_request(parser, arguments)
    name = request.options.format
    out = None if request.options.out is None else Path(request.options.out)
    if name is None:
        name = "text" if out is None else _ENDINGS.get(out.suffix.lower(), "text")
    if name not in FORMATS:
        raise Usage(f"--format is one of {', '.join(FORMATS)}; got {name!r}")

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.runs.job import Job

    with notes_as_lines():
        job = Job(request.algorithm, request.module, request.config, {}, agents=agents_for(request))
        text = FORMATS[name](job.build()[1])
    if out is None:
        print(text.rstrip("\n"))
    else:
        out.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        print(out)
    return 0
