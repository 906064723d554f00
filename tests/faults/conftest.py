"""Faults from the command line: the scenarios are those of `benchmarks/faults.py`."""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))  # they are scripts: they find each other by their folder
