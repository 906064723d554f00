"""Which command is meant, and what `rillflow --help` shows."""

from __future__ import annotations

import difflib
from importlib import import_module

from rillflow.cli.commands import COMMANDS, GROUPS
from rillflow.cli.output.error_messages import Usage

_EXAMPLES = """\
examples
  rillflow train ppo CartPole-v1                    a trained agent in seconds
  rillflow train ppo CartPole-v1 --until return=475 --num-workers 4 --view
  rillflow train ppo --help                         every setting of PPO
  rillflow explain apex                             what Ape-X does, as a graph
  rillflow simulate ppo CartPole-v1 --workers 1,2,4,...,256
"""


_ELSEWHERE = {
    "test": "evaluate", "eval": "evaluate", "play": "record", "enjoy": "record", "film": "record",
    "video": "record", "watch": "view", "dashboard": "view", "show": "explain", "graph": "explain",
    "run": "train", "learn": "train", "fit": "train", "continue": "resume", "ls": "list",
    "runs": "list", "curve": "plot", "sweep": "tune", "hpo": "tune", "benchmark": "bench",
}  # fmt: skip
"""what commands are called elsewhere"""


def run(given: list[str]) -> int:
    """Run the command that these words begin with; the exit code."""
    if not given or given[0] in ("-h", "--help", "help"):
        if len(given) > 1 and given[1] in COMMANDS:
            return run([given[1], "--help"])
        print(usage())
        return 0
    if given[0] in ("-V", "--version", "version"):
        from rillflow import __version__

        print(f"rillflow {__version__}")
        return 0
    command = given[0]
    if command not in COMMANDS:
        near = difflib.get_close_matches(command.lower(), COMMANDS, n=1)
        near = [_ELSEWHERE[command.lower()]] if command.lower() in _ELSEWHERE else near
        hint = f"did you mean `rillflow {near[0]}`?" if near else "`rillflow --help` lists them."
        what = "flag" if command.startswith("-") else "command"
        raise Usage(f"there is no {what} {command!r}; {hint}")
    module = command.replace("-", "_")
    code: int = import_module(f"rillflow.cli.commands.{module}").main(given[1:])
    return code


def usage() -> str:
    """What `rillflow --help` shows."""
    lines = [
        "usage: rillflow COMMAND [ARGUMENTS]",
        "",
        "Distributed reinforcement learning as short, typed dataflows over actors.",
    ]
    for title, commands in GROUPS.items():
        lines += ["", title, *(f"  {name:<12}{text}" for name, text in commands.items())]
    lines += ["", _EXAMPLES]
    lines.append(
        "`rillflow COMMAND --help` says more about each. RILLFLOW_DEBUG=1 shows tracebacks."
    )
    return "\n".join(lines)
