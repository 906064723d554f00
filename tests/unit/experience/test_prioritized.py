"""Prioritized replay: rows are drawn in proportion to their priorities, and weighted for it."""

from __future__ import annotations

import numpy as np
import pytest

from rillflow.experience import PrioritizedReplayBuffer
from tests.unit.experience.parts import Passed, filled, rows, weights


def test_a_buffer_of_100_holds_100_of_200(passed: Passed) -> None:
    buffer = PrioritizedReplayBuffer(100)
    for i in range(200):
        assert buffer.add(rows(i, i + 1)).tolist() == [i]
        assert len(buffer) == min(i + 1, 100)
    buffer = passed(buffer)
    assert (buffer.inserted, buffer.resident, buffer.evicted) == (200, 100, 100)
    assert sorted(buffer.sample(100).keys.tolist()) == list(range(100, 200))


def test_equal_priorities_have_weights_of_one(passed: Passed) -> None:
    sample = passed(filled(5)).sample(3)
    assert weights(sample).tolist() == [1, 1, 1]
    assert weights(sample).dtype == np.float32


def test_a_row_whose_peers_lost_their_priority_is_drawn_97_of_100_times(passed: Passed) -> None:
    buffer = filled(5)
    buffer.update_priorities([0, 2, 3, 4], [0.01] * 4)
    buffer = passed(buffer)
    for _ in range(10):
        keys = buffer.sample(1000).keys
        assert (keys == 1).mean() == pytest.approx(1 / 1.04, abs=0.005)
        assert 970 < keys.sum() < 1100


@pytest.mark.parametrize(
    ("ratio", "low", "high"), [(1, 400, 800), (2, 600, 850), (4, 750, 950), (9, 850, 1100)]
)
def test_the_ratio_of_two_priorities_is_the_ratio_of_draws(
    passed: Passed, ratio: int, low: int, high: int
) -> None:
    """With rows 2 to 4 hardly there, the sum of 1000 keys counts the draws of row 1."""
    buffer = filled(5, seed=ratio)
    buffer.update_priorities(np.arange(5), [0.5] * 2 + [0.01] * 3)
    rng = np.random.default_rng(ratio)
    for _ in range(10):
        value = rng.random() + 0.2
        buffer.update_priorities([0, 1], [value, ratio * value])
        buffer = passed(buffer)
        keys = buffer.sample(1000).keys
        assert low < keys.sum() < high
        counts = np.bincount(keys, minlength=5)
        assert counts[1] / counts[0] == pytest.approx(ratio, rel=0.05)


PRIORITIES = [0.001, 0.1, 2.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]


def test_the_larger_the_priority_the_more_draws(passed: Passed) -> None:
    buffer = filled(5)
    buffer.add(rows(5, 10))
    buffer.update_priorities(np.arange(10), PRIORITIES)
    buffer = passed(buffer)
    rng = np.random.default_rng(0)
    counts = np.zeros(10, int)
    for _ in range(20):
        counts += np.bincount(buffer.sample(int(rng.integers(100, 600))).keys, minlength=10)
    assert (np.diff(counts) >= 0).all()
    shares = np.array(PRIORITIES) / sum(PRIORITIES)
    assert counts / counts.sum() == pytest.approx(shares, abs=0.01)


def test_a_small_alpha_is_nearly_uniform(passed: Passed) -> None:
    buffer = filled(10, alpha=0.01)
    buffer.update_priorities(np.arange(10), np.random.default_rng(0).random(10))
    counts = np.bincount(passed(buffer).sample(10_000).keys, minlength=10)
    assert counts == pytest.approx(np.full(10, 1000), rel=0.06)


def test_an_alpha_of_zero_is_uniform() -> None:
    buffer = filled(10, alpha=0.0)
    buffer.update_priorities(np.arange(10), PRIORITIES)
    assert np.bincount(buffer.sample(1000).keys).tolist() == [100] * 10


def test_probabilities_and_weights_follow_the_paper() -> None:
    """P(i) = p_i^alpha / sum, w_i = (N P(i))^-beta over the largest, computed independently."""
    buffer = PrioritizedReplayBuffer(64, alpha=0.7, beta=0.5, epsilon=0.1, seed=2)
    priorities = np.random.default_rng(3).random(40) * 5
    buffer.add(rows(0, 40), priorities=priorities)
    mass = (priorities + 0.1) ** 0.7
    probabilities = mass / mass.sum()
    expected = (40 * probabilities) ** -0.5
    expected /= expected.max()
    sample = buffer.sample(40_000)
    assert weights(sample) == pytest.approx(expected[sample.keys], rel=1e-6)
    counts = np.bincount(sample.keys, minlength=40)
    assert counts == pytest.approx(40_000 * probabilities, abs=2)  # stratified: no luck involved


def test_beta_can_be_given_for_one_sample() -> None:
    buffer = PrioritizedReplayBuffer(4, alpha=1.0, beta=1.0, epsilon=0.0)
    buffer.add(rows(0, 2), priorities=[1.0, 4.0])
    for beta, expected in ((None, 0.25), (0.5, 0.5), (0.0, 1.0)):
        sample = buffer.sample(5, beta=beta)
        assert weights(sample).tolist() == [1] + [expected] * 4


def test_the_rarest_row_counts_for_weights_while_it_is_here() -> None:
    """Once it is replaced, the next rarest has weight 1."""
    buffer = PrioritizedReplayBuffer(3, alpha=1.0, beta=1.0, epsilon=0.0)
    buffer.add(rows(0, 3), priorities=[0.5, 1.0, 2.0])
    assert set(weights(buffer.sample(70)).tolist()) == {1.0, 0.5, 0.25}
    buffer.add(rows(3, 4), priorities=[4.0])
    assert set(weights(buffer.sample(70)).tolist()) == {1.0, 0.5, 0.25}
    assert set(buffer.sample(70).keys.tolist()) == {1, 2, 3}


def test_new_rows_get_the_largest_priority_seen() -> None:
    buffer = filled(1)
    assert buffer.max_priority == 1
    buffer.update_priorities([0], [3.0])
    buffer.add(rows(1, 2))
    buffer.update_priorities([0], [1.0])
    buffer.add(rows(2, 3))
    assert np.bincount(buffer.sample(700).keys) == pytest.approx([100, 300, 300], abs=1)
    buffer.add(rows(3, 4), priorities=[7.0])
    buffer.add(rows(4, 5))
    assert buffer.max_priority == 7
    expected = [100, 300, 300, 700, 700]
    assert np.bincount(buffer.sample(2100).keys) == pytest.approx(expected, abs=1)


def test_keys_go_on_when_the_ring_wraps(passed: Passed) -> None:
    """A slot is used again, a key never: drawn rows have the keys that `add` gave them."""
    buffer = PrioritizedReplayBuffer(10)
    for start in range(0, 35, 7):
        assert buffer.add(rows(start, start + 7)).tolist() == list(range(start, start + 7))
        buffer = passed(buffer)
        sample = buffer.sample(50)
        assert sample.columns["x"].tolist() == sample.keys.tolist()
        assert set(sample.keys.tolist()) == set(range(max(0, start - 3), start + 7))


def test_a_batch_larger_than_the_ring_leaves_its_last_rows() -> None:
    buffer = PrioritizedReplayBuffer(4, alpha=1.0, epsilon=0.0)
    buffer.add(rows(0, 2))
    keys = buffer.add(rows(2, 13), priorities=np.arange(2, 13))
    assert keys.tolist() == list(range(2, 13))
    assert (buffer.inserted, buffer.resident, buffer.evicted) == (13, 4, 9)
    counts = np.bincount(buffer.sample(420).keys, minlength=13)
    assert counts[9:] == pytest.approx([90, 100, 110, 120], abs=1)
    assert buffer.max_priority == 12
