"""With `-n 2` every test runs once, a file in one process, and some when all others are done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = (ROOT / "tests" / "conftest.py").read_text()
FILE = """
import json, os, time
import pytest

@pytest.mark.parametrize("number", range({count}))
@pytest.mark.{marker}
def test_it(number):
    began = time.monotonic()
    if number == {count} - 1:
        time.sleep(0.3)
    with open({log!r}, "a") as file:
        file.write(json.dumps([{name!r}, number, os.getpid(), began, time.monotonic()]) + "\\n")
"""


def run(folder: Path, files: dict[str, tuple[str, int]], *words: str) -> list[list[float]]:
    """Run such files: for each its marker, and how many tests it has; what they wrote."""
    log = folder / "log"
    log.touch()
    (folder / "conftest.py").write_text(CONFTEST)
    for name, (marker, count) in files.items():
        text = FILE.format(marker=marker, count=count, log=str(log), name=name)
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", f"--rootdir={folder}", *words, str(folder)]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


ALL = {"a": ("proc", 3), "lonely": ("alone", 3), "b": ("proc", 1), "with_ray": ("ray", 2)}


@pytest.mark.parametrize(
    "files", [ALL, {"a": ("proc", 1), "lonely": ("alone", 1)}], ids=["several", "one-each"]
)
def test_each_test_runs_once_and_some_alone(
    tmp_path: Path, files: dict[str, tuple[str, int]]
) -> None:
    told = run(tmp_path, files, "-n2")
    expected = [(name, i) for name, (_, count) in files.items() for i in range(count)]
    assert sorted((name, number) for name, number, *_ in told) == sorted(expected)
    lonely = [line for line in told if files[str(line[0])][0] in ("alone", "ray")]
    others = [line for line in told if line not in lonely]
    assert len({pid for _, _, pid, _, _ in lonely}) == 1
    last = max((ended for *_, ended in others), default=0.0)
    assert all(began >= last for *_, began, _ in lonely)
    for name in files:
        assert len({pid for one, _, pid, *_ in told if one == name}) == 1
