"""The space of observations that a policy sees otherwise than the environment shows them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, Space


class EncodedBox(Box):
    """A Box that remembers what it was made of: an index as zeros and a one, a smaller image.

    So whoever has a policy alone, from a file, can still give it what the environment shows
    (`envs/as_policy_sees.py`).

    >>> from gymnasium.spaces import Discrete
    >>> EncodedBox(0.0, 1.0, np.float32, raw=Discrete(3), shape=(3,)).raw
    Discrete(3)
    """

    def __init__(
        self,
        low: Any,
        high: Any,
        dtype: Any,
        *,
        raw: Space[Any],
        shape: tuple[int, ...] | None = None,
        channels: Literal["first", "last"] | None = None,
    ) -> None:
        super().__init__(low, high, shape, np.dtype(dtype).type)
        self.raw = raw
        """the environment's own"""
        if channels is not None:
            self.channels = channels  # whatever the shape of an image looks like
