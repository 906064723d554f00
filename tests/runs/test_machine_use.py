"""machine.jsonl: what a run takes of its machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.runs.machine_use import Gpu, MachineUse

PATIENCE = 60.0


@pytest.mark.proc
def test_processes_that_were_started_are_counted(tmp_path: Path) -> None:
    use = MachineUse(tmp_path / "machine.jsonl")
    begin = time.process_time()
    alone = use.sample()["memory"]
    code = "x = bytearray(80_000_000); print(1, flush=True)\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.read(1)
        use.sample()
        end, told = time.monotonic() + PATIENCE, use.sample()
        while told["cpu"] == 0 and time.monotonic() < end:
            time.sleep(0.05)
            told = use.sample()
    finally:
        child.kill()
        child.communicate()
    assert told["cpu"] > 0
    assert told["memory"] > alone + 70_000_000
    assert told["machine_memory"] < told["memory_total"]
    assert use.sample()["memory"] < alone + 40_000_000, "and no more when they are gone"
    assert time.process_time() - begin < PATIENCE


def test_a_sample_takes_little(tmp_path: Path) -> None:
    use = MachineUse(tmp_path / "machine.jsonl")

    def seconds() -> float:
        begin = time.process_time()
        for _ in range(5):
            use.sample()
        return (time.process_time() - begin) / 5

    assert min(seconds() for _ in range(6)) < 0.02


def test_samples_become_rarer_so_that_the_file_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("rillflow.runs.machine_use.time.monotonic", lambda: now)
    use = MachineUse(tmp_path / "machine.jsonl")
    count = 0
    while now < 30 * 86400:  # a month
        now += max(1.0, now / 5000)
        if use.due():
            use._last = now
            count += 1
    assert 1500 < count < 5000


def test_a_run_writes_what_it_takes_from_python_and_a_full_disk_costs_nothing(
    tmp_path: Path,
) -> None:
    how: dict[str, Any] = {"until": 2000, "engine": "sim", "num_workers": 1}
    rf.train("ppo", "CartPole-v1", run_dir=tmp_path / "run", **how)
    text = (tmp_path / "run" / "machine.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert rows
    assert {"time", "cpu", "memory", "machine_cpu", "cores"} <= rows[0].keys()
    MachineUse(tmp_path / "nowhere" / "machine.jsonl").write()


def test_gpus_are_asked_for_no_more_once_that_failed(tmp_path: Path) -> None:
    gpu = Gpu()
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '50, 1024, 2048'\n")
    program.chmod(0o755)
    gpu._program = str(program)
    assert gpu.sample() == {"gpu": 50.0, "gpu_memory": 2**30, "gpu_memory_total": 2**31}
    program.write_text("#!/bin/sh\necho '[N/A], 1, 2'\n")
    assert gpu.sample() == {}
    assert gpu._program is None
    assert gpu.sample() == {}
