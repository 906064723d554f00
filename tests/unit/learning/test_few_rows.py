"""Few rows are combined as NumPy does it, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rillflow.learning.few_rows import numbered, over_few


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 20])
@pytest.mark.parametrize("combine", [np.add, np.maximum])
@pytest.mark.parametrize("order", ["C", "F"])
def test_few_rows_are_combined_bit_for_bit_as_reduce_does_it(
    rows: int, combine: Any, order: Any
) -> None:
    x = np.asarray(np.random.default_rng(rows).standard_normal((rows, 33), np.float32), order=order)
    kept = x.copy()
    np.testing.assert_array_equal(over_few(combine, x), combine.reduce(x, 0))
    np.testing.assert_array_equal(x, kept)


def test_numbers_are_shared_and_nobody_can_write_to_them() -> None:
    assert numbered(3).tolist() == [0, 1, 2]
    assert numbered(3) is numbered(3)
    with pytest.raises(ValueError, match="read-only"):
        numbered(3)[0] = 1
