"""Each row of the fault matrix, from the command line on `local`, with few repetitions.

`benchmarks/faults.py` measures the same rows in full, and writes `docs/faults.md`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faults import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


@pytest.mark.proc
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", sorted(ROWS))
def test_a_fault_costs_what_it_touched(number: int) -> None:
    row = ROWS[number]
    row.figures.clear()
    row.ok = True
    row.run(quick=True)
    assert row.ok, row.figures


def test_every_row_of_the_page_is_measured_and_holds() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| F\d+ ", line)]
    numbers = [int(re.findall(r"\d+", line)[0]) for line in lines]
    assert numbers == sorted(ROWS)
    assert not [line for line in lines if "**missed:**" in line]
