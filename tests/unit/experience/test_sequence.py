"""Sequence replay: consecutive steps of one environment, inside an episode or marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillflow.errors import BuildError, RunError
from rillflow.experience import SequenceReplayBuffer


def fragment(
    steps: int,
    lanes: int = 1,
    *,
    first: int = 0,
    ends: Sequence[tuple[int, int]] = (),
    marked: bool = False,
) -> dict[str, Any]:
    """Steps that say where they come from: x is the time, env the environment."""
    terminated = np.zeros((steps, lanes), bool)
    for t, b in ends:
        terminated[t, b] = True
    columns: dict[str, Any] = {
        "x": np.repeat(np.arange(first, first + steps)[:, None], lanes, axis=1),
        "env": np.repeat(np.arange(lanes)[None], steps, axis=0),
        "obs": np.zeros((steps, lanes, 4), np.float32),
        "terminated": terminated,
        "truncated": np.zeros((steps, lanes), bool),
    }
    if marked:
        columns["starts"] = np.concatenate([np.ones((1, lanes), bool), terminated[:-1]])
    return columns


def beginnings(buffer: SequenceReplayBuffer, n: int = 2000) -> set[tuple[int, int]]:
    columns = buffer.sample(n).columns
    return set(zip(columns["x"][0].tolist(), columns["env"][0].tolist(), strict=True))


def test_sequences_are_time_major_and_consecutive() -> None:
    buffer = SequenceReplayBuffer(100, length=4)
    keys = buffer.add(fragment(6, 3))
    assert keys.shape == (6, 3)
    assert keys.T.ravel().tolist() == list(range(18))
    sample = buffer.sample(50)
    assert sample.columns["obs"].shape == (4, 50, 4)
    assert (np.diff(sample.columns["x"], axis=0) == 1).all()
    assert (np.diff(sample.columns["env"], axis=0) == 0).all()
    first = keys[sample.columns["x"][0], sample.columns["env"][0]]
    assert sample.keys.tolist() == first.tolist()
    assert beginnings(buffer) == {(t, b) for t in range(3) for b in range(3)}
    assert buffer.sequences == 9


def test_capacity_100_holds_20_sequences_of_5() -> None:
    """With a stride of its length each step is in one sequence."""
    buffer = SequenceReplayBuffer(100, length=5, stride=5)
    for i in range(40):
        buffer.add(fragment(5, first=5 * i))
    assert (buffer.inserted, buffer.resident, buffer.evicted) == (200, 100, 100)
    assert buffer.sequences == 20
    assert beginnings(buffer) == {(5 * i, 0) for i in range(20, 40)}


def test_burn_in_comes_in_front() -> None:
    buffer = SequenceReplayBuffer(100, length=3, burn_in=2)
    buffer.add(fragment(6))
    assert buffer.sample(7).columns["x"].shape == (5, 7)
    assert beginnings(buffer) == {(0, 0), (1, 0)}


def test_no_sequence_crosses_the_end_of_an_episode() -> None:
    """An end is the last step of a sequence or outside of it, in each environment for itself."""
    buffer = SequenceReplayBuffer(100, length=3)
    buffer.add(fragment(8, 2, ends=[(3, 0), (0, 1), (7, 1)]))
    in_first = {(0, 0), (1, 0), (4, 0), (5, 0)}
    in_second = {(t, 1) for t in range(1, 6)}
    assert beginnings(buffer) == in_first | in_second
    assert buffer.sequences == 9


def test_truncation_is_an_end_too() -> None:
    columns = fragment(6)
    columns["truncated"][2] = True
    buffer = SequenceReplayBuffer(100, length=3)
    buffer.add(columns)
    assert beginnings(buffer) == {(0, 0), (3, 0)}


def test_a_marked_boundary_is_crossed() -> None:
    buffer = SequenceReplayBuffer(100, length=3)
    buffer.add(fragment(6, ends=[(2, 0)], marked=True))
    assert beginnings(buffer) == {(t, 0) for t in range(4)}
    columns = buffer.sample(100).columns
    assert (columns["starts"] == np.isin(columns["x"], [0, 3])).all()


def test_a_boundary_that_is_not_marked_is_not_crossed() -> None:
    columns = fragment(8, ends=[(2, 0), (5, 0)], marked=True)
    columns["starts"][6] = False
    buffer = SequenceReplayBuffer(100, length=2)
    buffer.add(columns)
    assert beginnings(buffer) == {(t, 0) for t in (0, 1, 2, 3, 4, 6)}


def test_starts_alone_are_enough() -> None:
    columns = fragment(6, ends=[(2, 0)], marked=True)
    del columns["terminated"], columns["truncated"]
    buffer = SequenceReplayBuffer(100, length=3)
    buffer.add(columns)
    assert buffer.sequences == 4


def test_of_a_recurrent_state_only_the_first_comes() -> None:
    columns = fragment(6, 2)
    columns["h"] = columns["x"][..., None] * 10.0 + np.zeros(3)
    buffer = SequenceReplayBuffer(100, length=4, state_columns=["h"])
    buffer.add(columns)
    sample = buffer.sample(20)
    assert sample.columns["h"].shape == (20, 3)
    assert (sample.columns["h"][:, 0] == 10 * sample.columns["x"][0]).all()


def test_all_sequences_are_equally_likely() -> None:
    """Those of a fragment with few of them are not drawn more often."""
    buffer = SequenceReplayBuffer(100, length=4, seed=1)
    buffer.add(fragment(8, ends=[(3, 0)]))
    buffer.add(fragment(11, first=100))
    counts = np.bincount(buffer.sample(20_000).columns["x"][0])
    counts = counts[counts > 0]
    assert len(counts) == 10
    assert counts == pytest.approx(np.full(10, 2000), rel=0.1)


@given(
    capacity=st.integers(4, 40),
    stride=st.integers(1, 3),
    adds=st.lists(
        st.tuples(st.integers(4, 12), st.integers(1, 3), st.sets(st.integers(0, 11))), max_size=8
    ),
)
def test_whatever_is_evicted_sequences_stay_whole(
    capacity: int, stride: int, adds: list[tuple[int, int, set[int]]]
) -> None:
    """Exactly the sequences whose steps are all resident can be drawn, by an oracle in Python."""
    buffer = SequenceReplayBuffer(capacity, length=4, stride=stride)
    possible: dict[int, list[int]] = {}
    for steps, lanes, ends in adds:
        columns = fragment(steps, lanes, ends=[(t, 0) for t in ends if t < steps])
        columns["id"] = buffer.inserted + np.arange(steps * lanes).reshape(lanes, steps).T
        keys = buffer.add(columns)
        assert keys.tolist() == columns["id"].tolist()
        for b in range(lanes):
            for t in range(0, steps - 3, stride):
                if b > 0 or not any(t + i in ends for i in range(3)):
                    possible[int(keys[t, b])] = keys[t : t + 4, b].tolist()
        possible = {key: ids for key, ids in possible.items() if key >= buffer.evicted}
        assert buffer.inserted == buffer.resident + buffer.evicted
        assert buffer.sequences == len(possible)
        if possible:
            sample = buffer.sample(20)
            for key, ids in zip(sample.keys.tolist(), sample.columns["id"].T.tolist(), strict=True):
                assert possible[key] == ids
    if possible:
        assert set(buffer.sample(200 * len(possible)).keys.tolist()) == set(possible)


def test_a_restored_buffer_goes_on_exactly() -> None:
    one = SequenceReplayBuffer(30, length=3, burn_in=1, seed=4)
    for i in range(4):
        one.add(fragment(9, first=9 * i, ends=[(i, 0)]))
        one.sample(3)
    state = one.get_state()
    state["rng"] = json.loads(json.dumps(state["rng"]))
    two = SequenceReplayBuffer(30, length=3, burn_in=1)
    two.set_state(state)
    for i in range(4, 9):
        first, second = one.sample(10), two.sample(10)
        assert first.keys.tolist() == second.keys.tolist()
        assert first.columns["x"].tolist() == second.columns["x"].tolist()
        for buffer in (one, two):
            buffer.add(fragment(9, first=9 * i))
        assert one.sequences == two.sequences


def test_a_state_of_other_sequences_is_refused() -> None:
    state = SequenceReplayBuffer(30, length=3).get_state()
    with pytest.raises(RunError, match="saved with length=3, the buffer has length=4"):
        SequenceReplayBuffer(30, length=4).set_state(state)


def test_read_only_fragments_are_copied() -> None:
    columns = fragment(5, 2)
    for array in columns.values():
        array.flags.writeable = False
    buffer = SequenceReplayBuffer(30, length=3)
    buffer.add(columns)
    assert all(array.flags.writeable for array in buffer.sample(3).columns.values())


def test_when_no_sequence_fits_an_episode_the_error_says_so() -> None:
    buffer = SequenceReplayBuffer(30, length=3)
    with pytest.raises(RunError, match="empty replay buffer"):
        buffer.sample(1)
    buffer.add(fragment(4, ends=[(1, 0), (3, 0)]))
    with pytest.raises(RunError, match="no episode in the buffer has 3 steps"):
        buffer.sample(1)


def without(*names: str) -> dict[str, Any]:
    return {name: column for name, column in fragment(5).items() if name not in names}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (fragment(2), r"at least as long as a sequence \(3 steps\).*found 2"),
        (without("truncated"), "where episodes end.*found env, h, obs, terminated, x"),
        (fragment(5) | {"x": np.zeros(5)}, r"shape \[T, B, ...\].*x \(5,\)"),
        (fragment(5) | {"x": np.zeros((5, 2))}, r"x \(5, 2\)"),
        (fragment(5) | {"terminated": np.zeros((5, 1, 1))}, r"terminated \(5, 1, 1\)"),
    ],
)
def test_a_fragment_that_does_not_fit_is_refused(columns: dict[str, Any], message: str) -> None:
    buffer = SequenceReplayBuffer(30, length=3, state_columns=["h"])
    with pytest.raises(RunError, match=message):
        buffer.add({**columns, "h": np.zeros((len(columns["x"]), 1, 2))})
    assert buffer.inserted == 0


def test_a_missing_state_column_is_named() -> None:
    buffer = SequenceReplayBuffer(30, length=3, state_columns=["h", "c"])
    with pytest.raises(RunError, match="columns h, c; missing c, found env, h"):
        buffer.add({**fragment(5), "h": np.zeros((5, 1, 2))})
    with pytest.raises(RunError, match="found no columns"):
        SequenceReplayBuffer(30, length=3).add({})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 0}, "length must be at least 1"),
        ({"length": 3, "burn_in": -1}, "burn_in must be at least 0"),
        ({"length": 3, "stride": 0}, "stride must be at least 1"),
        ({"length": 8, "burn_in": 3}, "a sequence of 11 steps .* capacity 10"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        SequenceReplayBuffer(10, **settings)
