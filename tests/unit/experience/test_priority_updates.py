"""Priorities follow the row they were computed for, and a wrong one changes nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rillflow.errors import BuildError, RunError
from rillflow.experience import PrioritizedReplayBuffer
from tests.unit.experience.parts import Passed, filled, restored, rows, weights


def test_a_replaced_row_is_never_updated_in_the_place_of_its_successor(passed: Passed) -> None:
    """The priority of a row that is gone is ignored and counted; of one that is here, kept."""
    buffer = PrioritizedReplayBuffer(4, alpha=1.0, epsilon=0.0)
    buffer.add(rows(0, 4))
    drawn = buffer.sample(4).keys
    buffer.add(rows(4, 6))
    buffer.update_priorities(drawn, [100.0, 100.0, 3.0, 1.0])
    buffer = passed(buffer)
    assert buffer.stale_updates == 2
    assert buffer.max_priority == 3
    counts = np.bincount(buffer.sample(600).keys, minlength=6)
    assert counts == pytest.approx([0, 0, 300, 100, 100, 100], abs=1)


def test_keys_that_were_never_given_out_are_stale() -> None:
    """As after a restart of the replay actor: nothing is harmed, and it is counted."""
    buffer = PrioritizedReplayBuffer(4)
    buffer.update_priorities([0, 5], [1.0, 9.0])
    buffer.add(rows(0, 2))
    buffer.update_priorities([2, -1, 1], [9.0, 9.0, 0.5])
    assert buffer.stale_updates == 4
    assert buffer.max_priority == 1


def test_an_update_of_nothing_changes_nothing() -> None:
    buffer = filled(2)
    buffer.update_priorities([], [])
    assert (buffer.stale_updates, buffer.max_priority) == (0, 1)


def test_of_two_priorities_for_one_key_the_last_stays() -> None:
    buffer = filled(2)
    buffer.update_priorities([0, 1, 0], [9.0, 1.0, 3.0])
    assert np.bincount(buffer.sample(400).keys) == pytest.approx([300, 100], abs=1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-9])
def test_a_priority_that_is_no_priority_is_refused(bad: float) -> None:
    """The error says where and what, and neither rows nor priorities have changed."""
    buffer = filled(3)
    before = buffer.get_state()
    with pytest.raises(
        RunError, match=rf"finite and not negative.*found {bad} at position 1, 1 of 3"
    ):
        buffer.update_priorities([0, 1, 2], [1.0, bad, 1.0])
    with pytest.raises(RunError, match="finite and not negative"):
        buffer.add(rows(3, 5), priorities=[bad, 1.0])
    after = buffer.get_state()
    assert after["inserted"] == before["inserted"]
    assert after["masses"].tolist() == before["masses"].tolist()


def test_a_priority_too_large_to_be_summed_is_refused() -> None:
    with pytest.raises(RunError, match="too large"):
        filled(3).update_priorities([0], [1e307])
    with pytest.raises(RunError, match="too large"):
        filled(3, alpha=2.0).update_priorities([0], [1e200])


def test_priorities_and_rows_must_be_as_many() -> None:
    buffer = filled(3)
    with pytest.raises(RunError, match=r"expected 2 priorities, .* of the keys; .*\(3,\)"):
        buffer.update_priorities([0, 1], [1.0, 2.0, 3.0])
    with pytest.raises(RunError, match=r"expected 2 priorities, .* of the rows; .*\(\)"):
        buffer.add(rows(3, 5), priorities=1.0)


@pytest.mark.parametrize("keys", [[0.5], [[0]], 0, ["a"]])
def test_keys_must_be_keys(keys: Any) -> None:
    with pytest.raises(RunError, match="keys must be a list of whole numbers"):
        filled(3).update_priorities(keys, [1.0])


@pytest.mark.parametrize("name", ["alpha", "beta", "epsilon"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_settings_must_be_finite_and_not_negative(name: str, value: float) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(BuildError, match=f"{name} must be a finite number of at least 0"):
        PrioritizedReplayBuffer(4, **settings)
    with pytest.raises(BuildError, match="beta"):
        filled(3).sample(1, beta=value)


def test_a_zero_priority_is_drawn_only_thanks_to_epsilon() -> None:
    buffer = filled(3)
    buffer.update_priorities([0], [0.0])
    sample = buffer.sample(100)
    assert set(sample.keys.tolist()) == {1, 2}
    assert set(weights(sample).tolist()) == {1.0}
    buffer.update_priorities([1, 2], [0.0, 0.0])
    with pytest.raises(RunError, match="priority of every row is zero"):
        buffer.sample(1)
    buffer = filled(3, epsilon=1e-6)
    buffer.update_priorities([0, 1, 2], [0.0, 0.0, 0.0])
    assert set(buffer.sample(100).keys.tolist()) == {0, 1, 2}


def test_an_empty_buffer_has_nothing_to_draw() -> None:
    with pytest.raises(RunError, match="empty replay buffer"):
        PrioritizedReplayBuffer(4).sample(1)


def test_read_only_inputs_are_fine() -> None:
    arrays = {"x": np.arange(4), "p": np.arange(4.0), "k": np.arange(4)}
    for array in arrays.values():
        array.flags.writeable = False
    buffer = filled(0)
    buffer.add({"x": arrays["x"]}, priorities=arrays["p"])
    buffer.update_priorities(arrays["k"], arrays["p"])
    sample = buffer.sample(10)
    assert all(a.flags.writeable for a in (sample.columns["x"], sample.keys, weights(sample)))


def test_unsigned_and_short_keys_are_keys() -> None:
    buffer = filled(3)
    buffer.update_priorities(np.array([0, 1], np.uint32), np.array([0, 0], np.float16))
    assert set(buffer.sample(9).keys.tolist()) == {2}


@pytest.mark.parametrize("before", [0, 7, 23])
def test_a_restored_buffer_goes_on_exactly(before: int) -> None:
    """Bit for bit: keys, rows and weights, through adds, updates and draws."""
    rng = np.random.default_rng(0)
    one = PrioritizedReplayBuffer(10, seed=8)
    if before:
        one.add(rows(0, before), priorities=rng.random(before) * 3)
        one.update_priorities(one.sample(5).keys, rng.random(5))
    two = restored(one)
    for start in range(before, before + 30, 6):
        for buffer in (one, two):
            buffer.add(rows(start, start + 6))
        first, second = one.sample(8), two.sample(8)
        assert first.keys.tolist() == second.keys.tolist()
        assert first.columns["x"].tolist() == second.columns["x"].tolist()
        assert weights(first).tolist() == weights(second).tolist()
        errors = rng.random(8)
        for buffer in (one, two):
            buffer.update_priorities(first.keys, errors)
    assert one.stale_updates == two.stale_updates
    assert one.max_priority == two.max_priority


def test_a_state_with_other_exponents_is_refused() -> None:
    state = PrioritizedReplayBuffer(4, alpha=0.6).get_state()
    with pytest.raises(RunError, match=r"saved with alpha=0.6, the buffer has alpha=0.5"):
        PrioritizedReplayBuffer(4, alpha=0.5).set_state(state)
