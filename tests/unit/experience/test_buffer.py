"""Uniform replay: the account balances, every row is equally likely, and a state goes on."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillflow.errors import BuildError, RunError
from rillflow.experience import PrioritizedReplayBuffer, ReplayBuffer, SequenceReplayBuffer
from tests.unit.experience.parts import rows


@given(
    kind=st.sampled_from([ReplayBuffer, PrioritizedReplayBuffer]),
    capacity=st.integers(1, 20),
    steps=st.lists(st.tuples(st.sampled_from(["add", "sample", "reload"]), st.integers(1, 40))),
)
def test_inserted_is_resident_plus_evicted(
    kind: type[ReplayBuffer], capacity: int, steps: list[tuple[str, int]]
) -> None:
    """Whatever is done to a buffer, its account balances and it draws only what it holds."""
    buffer = kind(capacity)
    added = 0
    for step, size in steps:
        if step == "add":
            keys = buffer.add(rows(added, added + size))
            assert keys.tolist() == list(range(added, added + size))
            added += size
        elif step == "reload":
            state = buffer.get_state()
            buffer = kind(capacity, seed=99)
            buffer.set_state(state)
        elif added:
            sample = buffer.sample(size)
            assert sample.keys.dtype == np.int64
            assert sample.columns["x"].tolist() == sample.keys.tolist()
            assert sample.keys.min() >= buffer.evicted
            assert sample.keys.max() < buffer.inserted
        assert buffer.inserted == added == buffer.resident + buffer.evicted
        assert len(buffer) == buffer.resident == min(added, capacity)


def test_a_buffer_of_100_holds_100_of_200() -> None:
    buffer = ReplayBuffer(100)
    for i in range(200):
        buffer.add(rows(i, i + 1))
        assert len(buffer) == min(i + 1, 100)
    assert (buffer.inserted, buffer.resident, buffer.evicted) == (200, 100, 100)
    assert set(buffer.sample(2000).columns["x"].tolist()) == set(range(100, 200))


def test_every_row_is_equally_likely() -> None:
    buffer = ReplayBuffer(50, seed=3)
    buffer.add(rows(0, 70))
    counts = np.bincount(buffer.sample(50_000).columns["x"], minlength=70)
    assert counts[:20].sum() == 0
    # chi-square with 49 degrees of freedom: 85 is exceeded once in a thousand seeds
    assert ((counts[20:] - 1000) ** 2 / 1000).sum() < 85


def test_a_sample_may_be_larger_than_the_buffer_and_has_no_weights() -> None:
    buffer = ReplayBuffer(4)
    buffer.add(rows(0, 2))
    sample = buffer.sample(100)
    assert sample.weights is None
    assert set(sample.columns["x"].tolist()) == {0, 1}


def test_the_seed_decides_what_is_drawn() -> None:
    def draw(seed: int) -> Any:
        buffer = ReplayBuffer(100, seed=seed)
        buffer.add(rows(0, 100))
        return buffer.sample(20).keys.tolist()

    assert draw(1) == draw(1) != draw(2)


def test_an_empty_buffer_has_nothing_to_draw() -> None:
    buffer = ReplayBuffer(4)
    with pytest.raises(RunError, match="empty replay buffer"):
        buffer.sample(1)


@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_a_sample_size_that_is_none_is_refused(n: Any) -> None:
    buffer = ReplayBuffer(4)
    buffer.add(rows(0, 2))
    with pytest.raises(BuildError, match="number of rows to sample"):
        buffer.sample(n)


def through_json(rng: dict[str, Any]) -> Any:
    return json.loads(json.dumps(rng))


@pytest.mark.parametrize("before", [0, 7, 10, 25])
def test_a_restored_buffer_goes_on_exactly(before: int) -> None:
    """Empty, filling, full and wrapped: same rows, keys and draws as if nothing had happened."""
    buffer = ReplayBuffer(10, seed=5)
    if before:
        buffer.add(rows(0, before))
        buffer.sample(3)
    state = buffer.get_state()
    state["rng"] = through_json(state["rng"])
    other = ReplayBuffer(10, seed=77)
    other.add({"other": np.zeros((3, 2))})
    other.set_state(state)
    for start in (before, before + 4):
        assert buffer.add(rows(start, start + 4)).tolist() == (
            other.add(rows(start, start + 4)).tolist()
        )
        one, two = buffer.sample(30), other.sample(30)
        assert one.keys.tolist() == two.keys.tolist()
        assert one.columns["x"].tolist() == two.columns["x"].tolist()
    assert (buffer.inserted, buffer.evicted) == (other.inserted, other.evicted)


def test_a_state_is_a_snapshot() -> None:
    """What happens to the buffer later does not reach a state taken before, nor the reverse."""
    buffer = ReplayBuffer(4)
    buffer.add(rows(0, 4))
    state = buffer.get_state()
    buffer.add(rows(4, 8))
    assert state["columns"]["x"].tolist() == [0, 1, 2, 3]
    other = ReplayBuffer(4)
    other.set_state(state)
    state["columns"]["x"][:] = -1
    assert set(other.sample(50).columns["x"].tolist()) == {0, 1, 2, 3}


def test_a_state_of_another_capacity_is_refused() -> None:
    state = ReplayBuffer(4).get_state()
    with pytest.raises(RunError, match="saved with capacity=4, the buffer has capacity=5"):
        ReplayBuffer(5).set_state(state)


def test_a_state_of_another_kind_is_refused() -> None:
    state = ReplayBuffer(4).get_state()
    with pytest.raises(RunError, match="alpha=None"):
        PrioritizedReplayBuffer(4).set_state(state)
    with pytest.raises(RunError, match="length=None"):
        SequenceReplayBuffer(4, length=2).set_state(state)
