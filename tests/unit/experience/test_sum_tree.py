"""The trees agree with plain sums, minima and cumulative sums, after any updates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillflow.errors import BuildError
from rillflow.experience import MinTree, SumTree


def sum_tree(*values: float) -> SumTree:
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), values)
    return tree


def test_sums_over_ranges() -> None:
    tree = SumTree(4)
    tree.set([2], [1.0])
    tree.set([3], [3.0])
    assert tree.total == tree.reduce() == 4
    assert tree.reduce(0, 2) == 0
    assert tree.reduce(0, 3) == 1
    assert tree.reduce(2, 3) == 1
    assert tree.reduce(2, -1) == 1
    assert tree.reduce(2, 4) == 4
    assert tree.reduce(2) == 4
    assert tree.reduce(3, 2) == 0


def test_overwriting_forgets_the_old_number() -> None:
    tree = SumTree(4)
    tree.set([2], [1.0])
    tree.set([2], [3.0])
    assert tree.total == 3
    assert tree.reduce(2, 3) == 3
    assert tree.reduce(2, -1) == 3
    assert tree.reduce(0, 1) == 0
    tree.set([1], [2.0])
    assert (tree.reduce(0, 2), tree.reduce(1, 3), tree.total) == (2, 5, 5)


@pytest.mark.parametrize(
    ("values", "prefixes", "indices"),
    [
        ((0, 0, 1, 3), [0.0, 0.5, 0.99, 1.0, 1.01, 3.0, 4.0], [2, 2, 2, 3, 3, 3, 3]),
        ((0.5, 1, 1, 3), [0.0, 0.55, 0.99, 1.51, 3.0, 5.5], [0, 1, 1, 2, 3, 3]),
        ((1, 0, 0, 0), [0.0, 1.0, 5.0], [0, 0, 0]),
        ((0, 2, 0), [0.0, 2.0], [1, 1]),
        ((7,), [0.0, 7.0], [0, 0]),
    ],
)
def test_where_a_running_sum_is_reached(
    values: tuple[float, ...], prefixes: list[float], indices: list[int]
) -> None:
    """At every boundary, and never at a number that is zero."""
    assert sum_tree(*values).find(prefixes).tolist() == indices


def test_minima_over_ranges_and_after_updates() -> None:
    tree = MinTree(4)
    assert tree.smallest == math.inf
    tree.set([0, 2, 3], [1.0, 0.5, 3.0])
    assert tree.smallest == tree.reduce() == 0.5
    assert tree.reduce(0, 2) == 1
    assert tree.reduce(0, 3) == 0.5
    assert tree.reduce(0, -1) == 0.5
    assert tree.reduce(2, 4) == 0.5
    assert tree.reduce(3, 4) == 3
    assert tree.reduce(1, 2) == math.inf
    tree.set([2], [0.7])
    assert (tree.smallest, tree.reduce(0, 2), tree.reduce(2, 4)) == (0.7, 1, 0.7)
    tree.set([2], [4.0])
    assert (tree.smallest, tree.reduce(0, 2), tree.reduce(2, 4)) == (1, 1, 3)
    assert (tree.reduce(2, 3), tree.reduce(2, -1), tree.reduce(3, 4)) == (4, 4, 3)


def test_of_duplicates_in_one_call_the_last_wins() -> None:
    tree = SumTree(8)
    tree.set([3, 5, 3, 3], [1.0, 2.0, 9.0, 4.0])
    assert tree.get([3, 5]).tolist() == [4, 2]
    assert tree.total == 6


def test_a_batch_of_nothing_changes_nothing() -> None:
    tree = sum_tree(1, 2, 3)
    tree.set([], [])
    assert tree.total == 6


@pytest.mark.parametrize("indices", [[-1], [5], [0, 7], [1 << 40]])
def test_an_index_outside_is_refused(indices: list[int]) -> None:
    """Also one that would fall into the padding up to the next power of two."""
    tree = SumTree(5)
    with pytest.raises(IndexError, match="from 0 to 4"):
        tree.set(indices, np.ones(len(indices)))
    with pytest.raises(IndexError, match="from 0 to 4"):
        tree.get(indices)


def test_a_tree_of_nothing_is_refused() -> None:
    with pytest.raises(BuildError, match="capacity"):
        SumTree(0)


updates = st.lists(
    st.lists(st.tuples(st.integers(0, 36), st.integers(0, 1000)), max_size=50), max_size=8
)


@given(st.integers(1, 37), updates)
def test_trees_agree_with_plain_arrays(capacity: int, batches: list[list[tuple[int, int]]]) -> None:
    """Whole numbers, so sums are exact: totals, ranges, minima, and every prefix by cumsum."""
    sums, minima = SumTree(capacity), MinTree(capacity)
    plain, least = np.zeros(capacity), np.full(capacity, np.inf)
    for batch in batches:
        indices = np.array([index % capacity for index, _ in batch], np.int64)
        values = np.array([value for _, value in batch], np.float64)
        sums.set(indices, values)
        minima.set(indices, values)
        for index, value in zip(indices, values, strict=True):
            plain[index] = least[index] = value
    assert sums.get(np.arange(capacity)).tolist() == plain.tolist()
    assert sums.total == plain.sum()
    assert minima.smallest == least.min()
    low, high = capacity // 3, capacity - capacity // 4
    assert sums.reduce(low, high) == plain[low:high].sum()
    assert minima.reduce(low, high) == least[low:high].min(initial=np.inf)
    if sums.total:
        edges = np.unique(np.concatenate([[0], plain.cumsum()[:-1]]))
        prefixes = np.concatenate([edges, edges + 0.5])
        prefixes = prefixes[prefixes < sums.total]
        expected = np.searchsorted(plain.cumsum(), prefixes, side="right")
        assert sums.find(prefixes).tolist() == expected.tolist()


def test_a_large_tree_agrees_with_cumsum() -> None:
    """Far more leaves than updates, so that low levels go one by one and high ones as a whole."""
    rng = np.random.default_rng(0)
    tree, plain = SumTree(5000), np.zeros(5000)
    for size in (1, 3, 64, 700, 5000, 17):
        indices = rng.permutation(5000)[:size]
        plain[indices] = rng.integers(0, 100, size)
        tree.set(indices, plain[indices])
        prefixes = rng.integers(0, int(plain.sum()), 1000) + 0.5
        expected = np.searchsorted(plain.cumsum(), prefixes, side="right")
        assert tree.find(prefixes).tolist() == expected.tolist()
        assert tree.total == plain.sum()


def test_many_updates_do_not_drift() -> None:
    """After any history a tree equals, to the last bit, one built from its leaves at once."""
    rng = np.random.default_rng(1)
    old = SumTree(100)
    for _ in range(3000):
        old.set(rng.integers(0, 100, 8), rng.random(8) * 10.0 ** rng.integers(-9, 9, 8))
    new = sum_tree(*old.get(np.arange(100)))
    assert old.total == new.total
    old.set(np.arange(100), np.zeros(100))
    assert old.total == 0


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=40), st.floats(0, 2))
def test_a_found_number_is_never_zero(values: list[float], share: float) -> None:
    """Whatever rounding does, as long as anything is positive."""
    tree = sum_tree(*values)
    if tree.total > 0:
        found = tree.find([share * tree.total, 0.0, tree.total])
        assert (tree.get(found) > 0).all()
