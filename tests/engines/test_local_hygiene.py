"""Runs on the local engine start anywhere, rest quietly, and leave nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import rillflow as rf
from tests.engines.actors import Counter, Talker
from tests.engines.processes import (
    alive,
    children,
    cpu_seconds,
    gone,
    no_more_shared_memory,
    shared_memory,
)

pytestmark = pytest.mark.proc

SCRIPT = """
import rillflow as rf

class Worker:
    def __init__(self, info):
        self.index = info.index
    def next(self):
        return self.index

def double(x):
    return x * 2

flow = rf.from_actors(rf.Actors.of(Worker, 2)).for_each(double).gather_sync()
print(flow.take(2))
"""


def python(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plain_script_needs_no_main_guard(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    assert python("script.py", cwd=tmp_path) == "[[0, 2], [0, 2]]\n"


def test_a_flow_runs_from_the_command_line_option_c(tmp_path: Path) -> None:
    assert python("-c", SCRIPT, cwd=tmp_path) == "[[0, 2], [0, 2]]\n"


def test_a_flow_runs_in_a_notebook_cell(tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    output: list[str] = []
    try:
        reply = client.execute_interactive(
            SCRIPT,
            timeout=60,
            output_hook=lambda message: output.append(message["content"].get("text", "")),
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply["content"]
    assert "[[0, 2], [0, 2]]\n" in output


def test_modules_beside_a_script_are_found_by_its_workers(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def triple(x):\n    return 3 * x\n")
    script = (
        "import rillflow as rf, helpers\nprint(rf.from_range(4).for_each(helpers.triple).take(4))"
    )
    (tmp_path / "script.py").write_text(script)
    assert python("script.py", cwd=tmp_path) == "[0, 6, 3, 9]\n"


def test_an_idle_flow_uses_under_one_percent_of_a_core() -> None:
    workers = rf.Actors.of(Counter, 2, name="worker", pause=1.5)
    with rf.from_actors(workers).gather_async().run("local") as run:
        up: set[str] = set()
        while len(up) < 2:  # until both processes have done with their imports
            up.add(next(run)["actor"])
        pids = [os.getpid(), *(worker["pid"] for worker in run.workers().values())]
        gc.collect()  # what other tests left is not the flow's
        before, started = cpu_seconds(pids), time.monotonic()
        for _ in range(3):
            next(run)
        used, waited = cpu_seconds(pids) - before, time.monotonic() - started
    assert waited >= 1.5, "of three answers two are of the same worker"
    assert used / waited < 0.01


def test_prints_of_a_worker_carry_its_name(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import rillflow as rf
        from tests.engines.actors import Talker
        rf.from_actors(rf.Actors.of(Talker, 1, name="talker")).take(1)
    """)
    root = Path(__file__).parents[2]
    assert python("-c", script, cwd=root).splitlines()[0] == "(talker-0) hello from inside"
    assert Talker().next() == 1


def test_workers_end_with_a_killed_driver() -> None:
    root = Path(__file__).parents[2]
    script = textwrap.dedent("""
        import rillflow as rf
        from tests.engines.actors import Counter, Sleeper
        slow = rf.from_actors(rf.Actors.of(Sleeper, 1, name="sleeper")).gather_async()
        fast = rf.from_actors(rf.Actors.of(Counter, 2, pause=0.001)).gather_async()
        with rf.Union(slow, fast).run("local") as run:
            next(run)
            child = [w["pid"] for w in run.workers().values()]
            print(*child, flush=True)
            for _ in run: pass
    """)
    driver = subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 3
    assert all(alive(pid) for pid in pids)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert gone(pids), "one of them was asleep in a request, two were busy"


def hear_ctrl_c() -> None:
    """In a child: a suite in the background of a shell ignores Ctrl-C, and its children would."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_leaves_no_process_and_no_traceback_of_ours(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    script = textwrap.dedent("""
        import rillflow as rf
        from tests.engines.actors import Counter
        flow = rf.from_actors(rf.Actors.of(Counter, 2, pause=0.001)).gather_async()
        try:
            with flow.run("local") as run:
                next(run)
                print(*[w["pid"] for w in run.workers().values()], flush=True)
                for _ in run: pass
        except KeyboardInterrupt:
            print("stopped", flush=True)
    """)
    driver = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    driver.send_signal(signal.SIGINT)
    assert driver.stdout.read() == "stopped\n"
    driver.stdout.close()
    assert driver.wait() == 0
    assert gone(pids)


def test_a_run_that_is_simply_dropped_is_cleaned_up() -> None:
    before = children()
    for item in rf.from_actors(rf.Actors.of(Counter, 2)).gather_async():
        assert item["n"] >= 1
        break
    assert gone(list(children() - before))


@pytest.mark.alone
def test_large_arrays_leave_no_shared_memory() -> None:
    before = shared_memory()
    flow = rf.from_range(8).for_each(_big).gather_async(num_async=2)
    total = sum(float(array.sum()) for array in flow.take(8))
    assert total == sum(range(8)) * 300_000
    assert no_more_shared_memory(than=before)


def _big(x: int):  # type: ignore[no-untyped-def]
    import numpy

    return numpy.full(300_000, float(x))


def test_many_kept_arrays_need_no_descriptor_each() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with rf.from_range(200, repeat=True).for_each(_big).gather_async().run("local") as run:
        kept = [next(run) for _ in range(200)]
        assert len(os.listdir("/proc/self/fd")) < before + 50
    assert len(kept) == 200


def test_a_woken_worker_does_not_take_the_drivers_place() -> None:
    before = os.sched_getscheduler(0)
    flow = rf.from_actors(rf.Actors.of(Counter, 1)).gather_async()
    with flow.run("local") as run:
        assert os.sched_getscheduler(next(run)["pid"]) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before
