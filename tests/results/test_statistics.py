from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillflow.results.statistics import interval, iqm, mean


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([7], 7),
        ([1, 3], 2),
        ([1, 2, 9], 4),  # a quarter of three is none
        ([-1000, 2, 4, 5000], 3),
        ([5, 1, 2, 100, 3], 10 / 3),
        ([8, 7, 6, 5, 4, 3, 2, 1], 4.5),
    ],
)
def test_the_interquartile_mean_by_hand(samples: list[float], expected: float) -> None:
    assert iqm(np.array(samples, float)) == pytest.approx(expected)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end(samples: list[float]) -> None:
    left = sorted(samples)
    for _ in range(len(samples) // 4):
        left = left[1:-1]
    assert iqm(np.array(samples)) == pytest.approx(sum(left) / len(left), abs=1e-6)


def test_of_two_samples_the_interval_reaches_from_one_to_the_other() -> None:
    """Both draws are the lower one in a quarter of all resamples: far more than 2.5%."""
    assert interval(np.array([1.0, 5.0])) == (1.0, 5.0)
    assert interval(np.array([3.0])) == (3.0, 3.0)


@pytest.mark.parametrize("statistic", [mean, iqm])
def test_the_interval_is_that_of_all_resamples_there_are(statistic: object) -> None:
    samples = np.array([0.0, 1.0, 3.0, 7.0, 20.0])
    every = np.array(list(itertools.product(samples, repeat=5)))
    assert callable(statistic)
    low, high = interval(samples, statistic, resamples=40_000)
    found = statistic(every)
    # a drawn quantile lies between exact ones a little to either side
    for end, level in ((low, 0.025), (high, 0.975)):
        near = np.quantile(found, (level - 0.004, level + 0.004))
        assert near[0] <= end <= near[1]


def test_for_many_samples_it_is_the_interval_of_the_normal_distribution() -> None:
    samples = np.random.default_rng(0).exponential(size=2000)
    low, high = interval(samples)
    error = 1.96 * samples.std(ddof=1) / np.sqrt(2000)
    assert low == pytest.approx(samples.mean() - error, abs=0.15 * error)
    assert high == pytest.approx(samples.mean() + error, abs=0.15 * error)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    samples = np.random.default_rng(1).normal(3.0, 2.0, (400, 40))
    low, high = interval(samples, resamples=1000)
    assert 0.90 <= np.mean((low <= 3.0) & (high >= 3.0)) <= 0.98


def test_the_same_samples_give_the_same_interval_and_rows_are_independent() -> None:
    samples = np.random.default_rng(2).normal(size=(3, 11))
    low, high = interval(samples)
    again = [interval(row) for row in samples]
    assert [(a, b) for a, b in zip(low, high, strict=True)] == again
    assert interval(samples[0], seed=1) != again[0]
