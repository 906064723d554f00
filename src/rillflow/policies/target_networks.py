"""How a target network follows its network: as a whole now and then, or a little (Polyak).

The rules as values. A learner counts rows and updates by them (`learning/learner_base.py`), and
averages the weights in its own framework: `copy_to_target` of `learning/torch_learner.py` and of
`learning/numpy_learner.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Hard:
    """A target that is made equal to its network now and then."""

    every: int
    """rows trained between two times"""


@dataclass(frozen=True)
class Polyak:
    """A target that follows its network by a part of the way (Lillicrap et al. 2015)."""

    tau: float
    """the part of the way per update, from 0 to 1"""
    every: int = 1
    """updates between two times"""


Target: TypeAlias = Hard | Polyak
