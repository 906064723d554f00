"""The ring of columns: what goes in comes out, under a key that is never used twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillflow.errors import BuildError, RunError
from rillflow.experience import Columns


def rows(start: int, stop: int) -> dict[str, Any]:
    """Rows that carry their own key, in two columns of different shape."""
    numbers = np.arange(start, stop)
    return {"x": numbers, "obs": np.repeat(numbers[:, None], 3, axis=1).astype(np.float32)}


def test_nothing_is_allocated_before_the_first_batch_tells_what_a_row_is() -> None:
    ring = Columns(10**15)
    assert ring.names == ()
    assert (ring.inserted, ring.resident, ring.evicted) == (0, 0, 0)


def test_keys_count_insertions() -> None:
    ring = Columns(4)
    assert ring.add(rows(0, 3)).tolist() == [0, 1, 2]
    keys = ring.add(rows(3, 6))
    assert keys.tolist() == [3, 4, 5]
    assert keys.dtype == np.int64


def test_rows_keep_dtype_and_shape() -> None:
    ring = Columns(4)
    ring.add({"a": np.zeros((2, 3, 5), np.uint8), "b": np.ones(2, bool)})
    taken = ring.take(np.array([1, 0, 1]))
    assert {name: array.shape for name, array in taken.items()} == {"a": (3, 3, 5), "b": (3,)}
    assert [taken["a"].dtype, taken["b"].dtype] == [np.uint8, np.bool_]


def test_keys_of_two_axes_give_rows_with_two_axes() -> None:
    ring = Columns(4)
    ring.add(rows(0, 4))
    taken = ring.take(np.array([[0, 1, 2], [1, 2, 3]]), ("obs",))
    assert list(taken) == ["obs"]
    assert taken["obs"].shape == (2, 3, 3)
    assert taken["obs"][..., 0].tolist() == [[0, 1, 2], [1, 2, 3]]


@given(st.integers(1, 12), st.lists(st.integers(0, 30), max_size=12))
def test_the_ring_is_the_tail_of_everything_added(capacity: int, sizes: list[int]) -> None:
    """For any batches: the last `capacity` rows are there, each under its own key."""
    ring = Columns(capacity)
    total = 0
    for size in sizes:
        assert ring.add(rows(total, total + size)).tolist() == list(range(total, total + size))
        total += size
        assert ring.inserted == total == ring.resident + ring.evicted
        assert ring.resident == min(total, capacity)
        keys = np.arange(ring.oldest, total)
        assert len(keys) == ring.resident
        taken = ring.take(keys)
        assert taken["x"].tolist() == keys.tolist()
        assert taken["obs"].tolist() == [[key] * 3 for key in keys]
        candidates = np.arange(-2, total + 2)
        assert candidates[ring.holds(candidates)].tolist() == keys.tolist()


def test_read_only_sources_are_copied() -> None:
    """Arrays that came through shared memory are read-only and may change or vanish later."""
    source = np.arange(6.0)
    view = source[::2]
    view.flags.writeable = False
    ring = Columns(4)
    ring.add({"x": view})
    ring.add({"x": view})
    source[:] = -1
    assert ring.take(np.arange(2, 6))["x"].tolist() == [4, 0, 2, 4]


def test_rows_taken_are_copies() -> None:
    ring = Columns(4)
    ring.add({"x": np.zeros(4)})
    ring.take(np.array([0]))["x"][:] = 7
    assert ring.take(np.array([0]))["x"].tolist() == [0]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"x": np.zeros(2)}, "expected obs, x; found x"),
        ({"x": np.zeros(2), "obs": np.zeros((2, 3)), "z": np.zeros(2)}, "found obs, x, z"),
        (
            {"x": np.zeros(2), "obs": np.zeros((2, 4))},
            r"expected 'obs' with rows of float64 \(3,\); found float64 \(4,\)",
        ),
        (
            {"x": np.zeros(2), "obs": np.zeros((2, 3), np.float32)},
            r"rows of float64 \(3,\); found float32 \(3,\)",
        ),
        ({"x": np.zeros(2), "obs": np.zeros((1, 3))}, "same number of rows; found obs 1, x 2"),
        ({"x": np.float64(0), "obs": np.zeros((1, 3))}, "'x' is a single value"),
        ({"x": np.array([None]), "obs": np.zeros((1, 3))}, "'x' holds Python objects"),
        ({}, "at least one column"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_by_name(batch: dict[str, Any], message: str) -> None:
    """The error says what was expected and what was found, and nothing has changed."""
    ring = Columns(4)
    ring.add({"x": np.arange(3.0), "obs": np.zeros((3, 3))})
    with pytest.raises(RunError, match=message):
        ring.add(batch)
    assert ring.inserted == 3
    assert ring.take(np.arange(3))["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "ten", None])
def test_a_capacity_that_is_none_is_refused(capacity: Any) -> None:
    with pytest.raises(BuildError, match="capacity must be"):
        Columns(capacity)
