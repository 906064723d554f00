"""What is known of stacked observations: how many frames each is made of, the oldest first.

Only those count whose frames lie one behind the other, as in ALE's own stacks and in images whose
channels come first. Frames that are woven into each other, channel by channel of each pixel, would
cost a processor more to take apart and to put together than they save.
"""

from __future__ import annotations

from math import prod

WORTH = 512
"""bytes of a frame below which to know where its stack begins would cost as much as it saves"""


def stacked_in(shape: tuple[int, ...], itemsize: int, count: int) -> int:
    """How many frames observations of this shape are stacked of; 1: they are not, or too small.

    >>> stacked_in((4, 84, 84), 1, 4), stacked_in((4, 10, 10), 1, 4)
    (4, 1)
    """
    if count < 2 or len(shape) < 2 or shape[0] % count:
        return 1
    return count if prod(shape) * itemsize // count >= WORTH else 1
