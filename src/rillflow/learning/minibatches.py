"""Which examples are in each minibatch of one pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rillflow.experience.batch import Array


def minibatches(number: int, size: int | None, rng: np.random.Generator) -> Iterator[Array | None]:
    """Shuffled numbers of so many examples, `size` at a time; None: all of them, as they are.

    What is left over after the last whole minibatch is not learned from in this pass: a step from a
    few rows would be as long as one from all, and less sure. Each pass has an order of its own, so
    each row is left over as rarely as any other.

    >>> [len(chosen) for chosen in minibatches(10, 4, np.random.default_rng(0))]
    [4, 4]
    """
    if size is None or size >= number:
        yield None
        return
    order = rng.permutation(number)
    for start in range(0, number - number % size, size):
        yield order[start : start + size]
