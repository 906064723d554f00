"""How a dead worker ended, told in an event.

`local.py` notices that it is dead: its socket is closed, or the kernel says that its process has
ended; `scheduler/supervision.py` notices one that hangs.
"""

from __future__ import annotations

import signal

from rillflow.engines.contract import Lost
from rillflow.engines.local_process import Process, kill_group, wait_for

_HINTS: dict[int, str] = {
    signal.SIGALRM: ", its alarm: a step of its environments took longer than env_timeout",
    signal.SIGKILL: " (by somebody, or because the machine ran out of memory)",
}
"""what is told of a signal besides its name"""


def lost_event(process: Process) -> Lost | None:
    """The event that says how a worker ended; None: it was about to leave anyway.

    What the worker started itself is ended with it.
    """
    wait_for([process], 0.2)  # a socket may close a moment before its process ends
    code = process.process.poll()
    kill_group(process)
    code = process.process.wait() if code is None else code
    if process.leaving:
        return None
    how = (
        f"was killed by {signal.Signals(-code).name}{_HINTS.get(-code, '')}"
        if code < 0
        else f"exited with code {code}"
    )
    return Lost(process.name, process.incarnation, f"its process {how}")
