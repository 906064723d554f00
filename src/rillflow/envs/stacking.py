"""What is known of stacked observations: how many frames each is made of, the oldest first.

Only those count whose frames lie one behind the other, as in ALE's own stacks and in images whose
channels come first. Frames that are woven into each other, channel by channel of each pixel, would
cost a processor more to take apart and to put together than they save.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rillflow.envs.vector import Envs

WORTH = 512
"""bytes of a frame below which to know where its stack begins would cost as much as it saves"""


def stacked_in(envs: Envs) -> int:
    """How many frames each observation is stacked of; 1: it is not, or they are too small."""
    space = envs.observation_space
    shape, size = space.shape, np.dtype(space.dtype).itemsize
    if envs.frames < 2 or len(shape) < 2 or shape[0] % envs.frames:
        return 1
    return envs.frames if prod(shape) * size // envs.frames >= WORTH else 1
