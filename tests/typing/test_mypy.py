"""Static typing carries through a chain: what is mis-wired fails in mypy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.typing.table import ACCEPTED, REFUSED

GOOD = """
import rillflow as rf
def half(x: int) -> float: raise NotImplementedError
def shout(x: float) -> str: raise NotImplementedError
def keep(x: float) -> bool: raise NotImplementedError
halves: rf.ParallelFlow[float] = rf.from_range(4).for_each(half)
flow: rf.Flow[str] = halves.gather_async(num_async=2).filter(keep).for_each(shout)
rounds: rf.Flow[list[float]] = halves.gather_sync()
pairs: rf.Flow[list[str]] = flow.batch(2)
one, two = pairs.flatten().split()
with flow.run("sim", seed=1) as run:
    for item in run:
        item.upper()
words: list[str] = flow.take(3, engine="sim")
class Count(rf.Operator[str, int]):
    def __call__(self, item: str, ctx: rf.Context) -> int: raise NotImplementedError
numbers: rf.Flow[int] = flow.for_each(Count())
queued: rf.Flow[str] = flow.for_each(rf.Enqueue(rf.Queue(capacity=2)))
"""

BAD = {
    "a result taken for something else": "x: list[str] = rf.from_range(4).take(2)",
    "an unknown engine": "int_flow.run('lokal')",
    **{name: case.code for name, case in REFUSED.items() if case.static},
}

SETTINGS = """
[mypy]
strict = True
follow_imports = silent
[mypy-gymnasium.*,numpy.*,onnx.*,ray.*,rich.*,torch.*]
# not needed for the types of flows, and most of the work
follow_imports = skip
follow_imports_for_stubs = True
"""

HEAD = "import functools\nimport rillflow as rf\nfrom parts import *\n"
PARTS = Path(__file__).with_name("parts.py")


def test_a_well_wired_flow_passes_and_mis_wired_ones_fail(tmp_path: Path) -> None:
    """The types of a chain are inferred, and each mistake is found on its own line."""
    (tmp_path / "parts.py").write_text(PARTS.read_text())
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "accepted.py").write_text(HEAD + "\n".join(ACCEPTED.values()) + "\n")
    (tmp_path / "bad.py").write_text(HEAD + "\n".join(BAD.values()) + "\n")
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "good.py", "accepted.py", "bad.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line.split(":") for line in done.stdout.splitlines() if ": error:" in line]
    assert {file for file, *_ in errors} == {"bad.py"}, done.stdout
    found = {int(number) for _, number, *_ in errors}
    expected = {HEAD.count("\n") + 1 + i: name for i, name in enumerate(BAD)}
    missed = [name for line, name in expected.items() if line not in found]
    assert not missed, f"mypy let these through: {missed}\n{done.stdout}"
