"""The command `rillflow`: finds the command that was meant, and turns errors into one line.

Exit codes: 0 all went well; 1 something happened while running; 2 a wrong command, flag or setting;
130 stopped by Ctrl-C, 143 by SIGTERM, also when what there was has been saved: a script that goes
on only after success should not go on after half a training.
"""

from __future__ import annotations

import difflib
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from rillflow.cli.commands import COMMANDS, GROUPS
from rillflow.cli.output.error_messages import Usage, explain_error
from rillflow.runs.progress.plain_terminal import never_fail

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    never_fail()
    try:
        return _run(given)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # whoever read our output has gone: `rillflow explain ppo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("RILLFLOW_DEBUG"):
            raise
        name = f" {given[0]}" if given and given[0] in COMMANDS else ""
        text, code = explain_error(error)
        text = text.removeprefix(f"{given[0]}: ")
        print(f"rillflow{name}: {text}", file=sys.stderr)
        return code


def program() -> int:
    """The program: `main`, and deaf to Ctrl-C when all is done and only the exit is left."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _run(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help", "help"):
        if len(given) > 1 and given[1] in COMMANDS:
            return _run([given[1], "--help"])
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


if __name__ == "__main__":
    sys.exit(program())
