"""`rillflow bench`: run the benchmarks of the source tree, or profile an algorithm."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rillflow.cli.flags.parser import Parser
from rillflow.cli.output.error_messages import Usage

_DESCRIPTION = """\
Run a benchmark; without a name, list those that there are. They come with the source tree, not with
the installed package. What follows the name goes to the benchmark. With --profile, which is always
there, say where the time of an algorithm goes: rillflow bench --profile ppo CartPole-v1."""


def main(arguments: Sequence[str]) -> int:
    """List, or run one."""
    if "--profile" in arguments[:1]:
        from rillflow.cli.output import profile

        return profile.main(arguments[1:])
    parser = Parser("bench", _DESCRIPTION)
    parser.add_argument("name", nargs="?", metavar="NAME", help="such as core")
    parser.add_argument(
        "--profile",
        action="store_true",
        help="an algorithm, operator by operator (see `rillflow bench --profile --help`)",
    )
    parser.add_argument("rest", nargs="*", metavar="ARGUMENT", help="for the benchmark itself")
    first = list(arguments[:1])
    options = parser.parse(first)
    found = benchmarks()
    if options.name is None:
        print("\n".join(_listed(found)))
        return 0
    if options.name not in found:
        if not found:
            raise Usage(
                "the benchmarks come with the source tree, and this is an installed package"
            )
        import difflib

        near = difflib.get_close_matches(options.name, found, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(found)}"
        raise Usage(f"there is no benchmark {options.name!r}; {hint}")
    path = found[options.name]
    return subprocess.run([sys.executable, path, *arguments[1:]], check=False).returncode


def benchmarks() -> dict[str, Path]:
    """Programs in the source tree's folder, by name."""
    folder = Path(__file__).parents[4] / "benchmarks"
    programs = sorted(folder.glob("[a-z]*.py"))
    return {path.stem: path for path in programs if "__main__" in path.read_text(encoding="utf-8")}


def _listed(found: dict[str, Path]) -> list[str]:
    if not found:
        return ["no benchmarks here: they come with the source tree, in benchmarks/"]
    lines = []
    for name, path in found.items():
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        lines.append(f"  {name:<14}{doc.partition(chr(10))[0]}")
    return [
        "benchmarks",
        *lines,
        "",
        "rillflow bench NAME runs one; rillflow bench --profile ALGORITHM ENV profiles training",
    ]
