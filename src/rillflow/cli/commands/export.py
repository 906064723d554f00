"""`rillflow export`: a trained policy as ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from rillflow.cli.flags.parser import Parser
from rillflow.cli.flags.policy_to_load import Asked, add_policy_flags, beside

_DESCRIPTION = """\
Write the acting network of a trained policy as ONNX, so that a program without torch can run it.
The file is run before it is given its name: if it does not act as the policy does, nothing is
written."""


def main(arguments: Sequence[str]) -> int:
    """Export."""
    parser = Parser("export", _DESCRIPTION)
    add_policy_flags(parser)
    parser.add_argument("-o", "--out", metavar="FILE", help="(default RUN/policy.onnx)")
    asked = Asked(parser, arguments, plays=False)
    path = asked.options.out or beside(asked.options.run, "policy.onnx")

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.results import export_onnx

    with notes_as_lines():
        trained = asked.one("export them one by one, such as `rillflow export {first}`")
        print(export_onnx(trained, path))
    return 0
