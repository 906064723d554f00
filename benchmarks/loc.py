"""How long is a distributed algorithm? Ours beside the table of RLlib Flow (NeurIPS 2021).

Lines are counted without blank lines, comments and docstrings, as the formatter lays them out.

- `plan`: the function `plan` of the algorithm's file, signature and all, and what else of that
  file it names.
- `+ shared`: also every shared operator (class or function of `rillflow.rl`) that the plan names.
- `+ helpers`: also everything that these operators name in `rillflow.rl`, and so on to the end. The
  paper has no such column.

Not counted, as in the paper: losses and settings, policies, environments, the actors themselves
(rollout workers, replay), the learner, and the library of parallel flows below the operators (here
that includes `Union`, `Concurrently` and queues, which are kinds of node in the graph).

    python benchmarks/loc.py            the table
    python benchmarks/loc.py --names    what was counted for each algorithm
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import io
import itertools
import math
import sys
import textwrap
import tokenize
from typing import Any

from rillflow.algorithms import NAMES, get_algorithm

PAPER = {
    "a3c": (11, 52),
    "a2c": (25, 50),
    "dqn": (87, 139),
    "ppo": (79, 225),
    "apex": (126, 216),
    "impala": (89, 362),
    "maml": (136, 136),
}
"""lines of the paper's own implementation: the algorithm, and with shared operators"""
AT_MOST_HALF = ("dqn", "ppo", "apex", "impala", "maml")

COUNTED = ("rillflow.rl.", "rillflow.algorithms.")
NOT_COUNTED = (
    "rillflow.rl.workers",  # the handle of the actors, and the typed look-up of settings
    "rillflow.rl.multi_agent",
    "rillflow.rl.rollout_worker",  # the actors themselves
    "rillflow.rl.replay_actor",
    "rillflow.rl.meta_worker",
    "rillflow.rl.multi_agent_worker",
    "rillflow.rl.aggregator",
)


def lines(thing: Any) -> int:
    """Lines of code of a function or class."""
    source = textwrap.dedent(inspect.getsource(thing))
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            used.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            used -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(used)


def named(thing: Any) -> dict[str, Any]:
    """Functions and classes of ours that the code of `thing` names."""
    module = sys.modules[thing.__module__]
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found = {name: getattr(module, name) for name in sorted(names) if hasattr(module, name)}
    return {name: value for name, value in found.items() if _counts(value)}


def _counts(value: Any) -> bool:
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    where = value.__module__
    settings = dataclasses.is_dataclass(value)
    return where.startswith(COUNTED) and where not in NOT_COUNTED and not settings


def own_and_shared(plan: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What a plan names of its own file, of the shared operators, and what those need in turn."""
    here = {"plan": plan}
    waiting, used = [plan], {plan}
    shared: dict[str, Any] = {}
    while waiting:
        for name, thing in named(waiting.pop()).items():
            if thing in used:
                continue
            used.add(thing)
            if thing.__module__ == plan.__module__:
                here[name] = thing
                waiting.append(thing)
            else:
                shared[name] = thing
    helpers: dict[str, Any] = {}
    waiting = list(shared.values())
    while waiting:
        for name, thing in named(waiting.pop()).items():
            if thing not in used:
                used.add(thing)
                helpers[name] = thing
                waiting.append(thing)
    return here, shared, helpers


def table(names: bool) -> list[str]:
    """The table, a line per algorithm."""
    rows = [f"{'':8}{'plan':>6}{'paper':>7}{'+ shared':>12}{'paper':>7}{'+ helpers':>13}"]
    for algorithm in (*PAPER, *(name for name in NAMES if name not in PAPER)):
        paper, paper_shared = PAPER.get(algorithm, (math.inf, math.inf))
        groups = own_and_shared(get_algorithm(algorithm).plan)
        own, with_shared, with_helpers = itertools.accumulate(
            sum(lines(thing) for thing in group.values()) for group in groups
        )
        limit = 0.5 if algorithm in AT_MOST_HALF else 1.0
        fine = own <= limit * paper and with_shared <= limit * paper_shared
        verdict = "" if fine else f"  above {'half of ' if limit < 1 else ''}the paper's"
        theirs = [f"{'-' if number == math.inf else number:>7}" for number in (paper, paper_shared)]
        rows.append(
            f"{algorithm:9}{own:5}{theirs[0]}{with_shared:12}{theirs[1]}{with_helpers:13}{verdict}"
        )
        if names:
            for group in groups:
                counted = (f"{name} {lines(thing)}" for name, thing in sorted(group.items()))
                rows.append(f"{'':8}{', '.join(counted)}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", action="store_true", help="say what was counted")
    print("\n".join(table(parser.parse_args().names)))
    print("\nlines of code without blank lines, comments and docstrings; see benchmarks/loc.py")


if __name__ == "__main__":
    main()
