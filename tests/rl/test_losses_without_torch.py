"""Losses in NumPy need no torch: a worker or learner that uses them starts in less time."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.proc
def test_who_learns_in_numpy_never_loads_torch() -> None:
    program = """
import sys
import numpy as np
from rillflow.learning import losses
from rillflow.learning.tape import Tape

tape = Tape()
x, y = tape.var(np.ones(3, np.float32)), np.zeros(3, np.float32)
loss = losses.clipped_surrogate_loss(x, y, y, 0.2) + losses.value_loss(x, y)
tape.backward(loss - losses.entropy_bonus(x) + losses.lowest(losses.minimum(x, y)[None]).mean())
flags = np.zeros((3, 1), bool)
losses.gae(y[:, None], y[:, None], y[:, None], flags, flags, 0.9, 0.9)
assert "torch" not in sys.modules, "loaded"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
