"""Descriptors run out loudly, and Ctrl-C is never lost: in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.proc, pytest.mark.timeout(60)]

ROOT = Path(__file__).parents[2]

LIMIT = r"(?i)RLIMIT_NOFILE|ulimit -n|descriptors"
"""how an error may call the limit of open descriptors"""


def script(text: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        script(text), cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=50
    )


# -- descriptors -----------------------------------------------------------------------------------

TOO_MANY_ACTORS = f"""
    import os, re, resource
    import rillflow as rf
    from rillflow.testing.actors import Worker
    from tests.engines.processes import children, gone

    flow = rf.from_actors(rf.Actors.of(Worker, 30, name="worker")).gather_async()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 20, hard))
    run = flow.run("local")
    try:
        next(run)
    except rf.RunError as error:
        assert re.search({LIMIT!r}, str(error)), error
        print("raised", run.state)
    except BaseException as error:
        print("instead:", repr(error))
    run.stop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 1000, hard))
    assert gone(list(children())), "processes are left"
    print("left", len(os.listdir("/proc/self/fd")) <= before)
"""


def test_too_many_actors_for_the_limit_of_descriptors_are_one_clear_error():
    """The error names the limit; those that were started are given back."""
    done = run(TOO_MANY_ACTORS)
    assert done.stdout.splitlines() == ["raised failed", "left True"], done.stderr
    assert done.returncode == 0


RUNNING_OUT = f"""
    import os, re, resource
    import numpy as np
    import rillflow as rf

    class Large:
        def next(self):
            return np.ones(2**17)

        def add(self, array):
            pass

    class Send(rf.Operator):
        def __init__(self, sinks):
            self.sinks = sinks

        def __call__(self, item, ctx):
            ctx.send(self.sinks, "add", np.ones(2**17))
            return float(item[0])

    sinks = rf.Actors.of(Large, 1, name="sink")
    large = rf.from_actors(rf.Actors.of(Large, 2, name="large")).gather_async(num_async=8)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with large.for_each(Send(sinks)).run("local") as run:
        next(run)
        open_now = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, ({{limit}}, hard))
        items = [1.0]
        try:
            while len(items) < 300:
                items.append(next(run))
        except rf.RunError as error:
            assert re.search({LIMIT!r}, str(error)), error
        except StopIteration:
            print("the loop just ended after", len(items))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 1000, hard))
    print("done")
"""


@pytest.mark.parametrize("limit", ["3", "open_now", "open_now + 4"])
def test_running_out_of_descriptors_never_ends_the_loop(limit):
    """Items go on coming, or an error names the limit; StopIteration means the end and no more."""
    done = run(RUNNING_OUT.replace("{limit}", limit))
    assert done.stdout == "done\n", done.stdout + done.stderr
    assert done.returncode == 0


# -- Ctrl-C ----------------------------------------------------------------------------------------

TIMES = 14

INTERRUPTED = f"""
    import os, signal, threading, time
    import numpy as np
    import rillflow as rf

    class Large:
        def next(self):
            return [np.ones(20_000) for _ in range(4)]

    def press():
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    large = rf.Actors.of(Large, 1, name="large")
    for number in range({TIMES}):
        with rf.from_actors(large).gather_async(num_async=8).run("local") as run:
            try:
                next(run)
                timer = threading.Timer(0.02 + 0.003 * number, press)
                timer.start()
                deadline = time.monotonic() + 3.0
                for item in run:
                    if time.monotonic() > deadline:
                        print("swallowed")
                        break
            except KeyboardInterrupt:
                print("caught")
            timer.join()
"""


def test_every_interrupt_reaches_the_user_while_arrays_arrive():
    """None is swallowed where arrays are given back; each is caught by the user's own code."""
    done = run(INTERRUPTED)
    assert done.stdout.split() == ["caught"] * TIMES, done.stderr
    assert done.stderr == ""
    assert done.returncode == 0
