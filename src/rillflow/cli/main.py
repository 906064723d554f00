"""The command `rillflow`: runs what was asked for, and turns errors into one line.

Exit codes: 0 all went well; 1 something happened while running; 2 a wrong command, flag or setting;
130 stopped by Ctrl-C, 143 by SIGTERM, also when what there was has been saved: a script that goes
on only after success should not go on after half a training.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. All else is imported in here, where Ctrl-C is heard."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from rillflow.cli.find_command import run
        from rillflow.runs.progress.plain_terminal import never_fail

        never_fail()
        return run(given)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # whoever read our output has gone: `rillflow explain ppo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("RILLFLOW_DEBUG"):
            raise
        return _tell(given, error)


def _tell(given: Sequence[str], error: Exception) -> int:
    """Print an error as one line; the exit code."""
    from rillflow.cli.commands import COMMANDS
    from rillflow.cli.output.error_messages import explain_error

    name = f" {given[0]}" if given and given[0] in COMMANDS else ""
    text, code = explain_error(error)
    text = text.removeprefix(f"{given[0]}: ").removeprefix("plot: ") if given else text
    notes = [f"  {note}" for note in getattr(error, "__notes__", ())]
    print("\n".join([f"rillflow{name}: {text}", *notes]), file=sys.stderr)
    return code


def program() -> int:
    """The program: `main`, and deaf to Ctrl-C when all is done and only the exit is left."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(program())
