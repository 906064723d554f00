"""`rillflow list`: what there is. It imports nothing heavy, unless all environments are wanted."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rillflow.cli.flags.parser import Parser
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.output.fitted_lines import fitted

WHAT = ("algorithms", "environments", "engines", "runs")
_DESCRIPTION = "List algorithms, environments, engines and runs; or one of these."


def main(arguments: Sequence[str]) -> int:
    """List."""
    parser = Parser("list", _DESCRIPTION)
    parser.add_argument("what", nargs="?", metavar="WHAT", help=f"one of {', '.join(WHAT)}")
    parser.add_argument(
        "--run-dir", default="runs", metavar="DIR", help="where the runs are (default runs)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    options = parser.parse(arguments)
    what = _meant(options.what)
    found: dict[str, Any] = {}
    for name in [what] if what else WHAT:
        if name == "environments":
            found[name] = environments(everything=what is not None)
        elif name == "runs":
            found[name] = runs(options.run_dir)
        else:
            found[name] = algorithms() if name == "algorithms" else engines()
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        text = "\n\n".join(_shown(name, rows, options.run_dir) for name, rows in found.items())
        print("\n".join(fitted(text.splitlines())))
    return 0


def _meant(what: str | None) -> str | None:
    if what is None or what in WHAT:
        return what
    import difflib

    near = difflib.get_close_matches(what, [*WHAT, "envs"], n=1)
    if near:
        meant = "environments" if near[0] == "envs" else near[0]
        if what in ("envs", *(name.rstrip("s") for name in WHAT)):
            return meant
        raise Usage(f"there is no {what!r} to list; did you mean {meant!r}?")
    raise Usage(f"there is no {what!r} to list; there are {', '.join(WHAT)}")


def algorithms() -> dict[str, str]:
    """Each with the first line of its file, which is read and not run."""
    folder = Path(__file__).parents[2] / "algorithms"
    names = _constant(folder / "__init__.py", "ALGORITHMS")
    return {name: _first_line(folder / f"{name}.py") for name in names}


def _constant(path: Path, name: str) -> Any:
    """What a module says a name is, without running it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path.name} has no {name}")


def _first_line(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0].rstrip(".")


def environments(*, everything: bool) -> dict[str, str]:
    """Our own; with `everything`, those that Gymnasium knows here too."""
    built_in = _constant(Path(__file__).parents[2] / "envs" / "registry.py", "BUILT_IN")
    found = {name: path.partition(":")[0] for name, path in built_in.items()}
    if everything:
        import gymnasium

        found |= dict.fromkeys(sorted(gymnasium.registry), "gymnasium")
    return found


def engines() -> dict[str, str]:
    """What runs a flow, and whether it can here."""
    ray = "any Ray cluster" if find_spec("ray") else "any Ray cluster; pip install 'rillflow[ray]'"
    return {
        "sim": "one thread, seeded, virtual time: the debugger, and the same run twice",
        "local": "processes and shared memory of this machine: the default",
        "ray": ray,
    }


def runs(root: str) -> list[dict[str, Any]]:
    """Each run with its state and its last row."""
    from rillflow.cli.output.run_summaries import summaries

    return summaries(root)


def _shown(name: str, rows: Any, root: str) -> str:
    lines = [name]
    if name == "runs":
        lines += _runs_shown(rows, root)
        return "\n".join(lines)
    if name == "environments":
        groups: dict[str, list[str]] = {}
        for env, source in rows.items():
            groups.setdefault("gymnasium" if source == "gymnasium" else "ours", []).append(env)
        lines += [f"  {env}" for env in groups["ours"]]
        lines += [f"  {env}" for env in groups.get("gymnasium", [])]
        if "gymnasium" not in groups:
            lines.append(
                "  and any Gymnasium id, such as CartPole-v1 (`rillflow list environments`)"
            )
        return "\n".join(lines)
    width = max(map(len, rows)) + 2
    return "\n".join([*lines, *(f"  {key:<{width}}{text}" for key, text in rows.items())])


def _runs_shown(rows: list[dict[str, Any]], root: str) -> list[str]:
    if not rows:
        return [f"  none in {root}/ yet: rillflow train ppo CartPole-v1"]
    width = max(len(row["run"]) for row in rows) + 2
    shown = []
    for row in rows:
        result = "" if row["return"] is None else f"return {row['return']:.1f}"
        steps = "" if row["steps"] is None else f"{row['steps']:,.0f} steps"
        shown.append(f"  {row['run']:<{width}}{row['state']:<10}{steps:>18}  {result}".rstrip())
    return shown
