"""Transitions over n steps, computed by hand and by a second, plain implementation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillflow.errors import BuildError, RunError
from rillflow.experience import n_step_transitions
from rillflow.experience.n_step import n_step_windows


def fragment(rewards: Any, terminated: Any = (), truncated: Any = ()) -> dict[str, Any]:
    """One environment; observation t is t, the one behind it is t + 1, also at an end."""
    r = np.array(rewards, np.float32)[:, None]
    time = np.arange(len(r))[:, None]
    return {
        "obs": time,
        "actions": 10 * time,
        "rewards": r,
        "terminated": np.isin(time, terminated),
        "truncated": np.isin(time, truncated),
        "next_obs": time + 1,
    }


def test_one_step_is_the_step_itself() -> None:
    rows = n_step_transitions(fragment([1, 2, 3], terminated=[1], truncated=[2]), 1, 0.9)
    assert list(rows) == ["obs", "actions", "next_obs", "rewards", "discount"]
    assert rows["obs"].tolist() == [0, 1, 2]
    assert rows["actions"].tolist() == [0, 10, 20]
    assert rows["rewards"].tolist() == [1, 2, 3]
    assert rows["next_obs"].tolist() == [1, 2, 3]
    assert rows["discount"] == pytest.approx([0.9, 0, 0.9])
    assert rows["rewards"].dtype == rows["discount"].dtype == np.float32


def test_three_steps_and_the_end_of_the_fragment() -> None:
    """Rewards 1, 2, 4, 8 at gamma 1/2: windows of 3, 3, 2 and 1 steps."""
    rows = n_step_transitions(fragment([1, 2, 4, 8]), 3, 0.5)
    assert rows["rewards"].tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4, 8]
    assert rows["discount"].tolist() == [1 / 8, 1 / 8, 1 / 4, 1 / 2]
    assert rows["next_obs"].tolist() == [3, 4, 4, 4]
    assert rows["obs"].tolist() == [0, 1, 2, 3]


def test_termination_cuts_the_window_and_the_bootstrap() -> None:
    rows = n_step_transitions(fragment([1, 2, 4, 8], terminated=[1]), 3, 0.5)
    assert rows["rewards"].tolist() == [1 + 1, 2, 4 + 4, 8]
    assert rows["discount"].tolist() == [0, 0, 1 / 4, 1 / 2]
    assert rows["next_obs"].tolist() == [2, 2, 4, 4]


def test_truncation_cuts_the_window_and_keeps_the_bootstrap() -> None:
    rows = n_step_transitions(fragment([1, 2, 4, 8], truncated=[1]), 3, 0.5)
    assert rows["rewards"].tolist() == [1 + 1, 2, 4 + 4, 8]
    assert rows["discount"].tolist() == [1 / 4, 1 / 2, 1 / 4, 1 / 2]
    assert rows["next_obs"].tolist() == [2, 2, 4, 4]


def test_both_at_once_is_a_termination() -> None:
    rows = n_step_transitions(fragment([1, 2], terminated=[0], truncated=[0]), 2, 0.5)
    assert rows["discount"].tolist() == [0, 1 / 2]


def test_environments_do_not_mix_and_rows_are_time_major() -> None:
    one, two = fragment([1, 2, 4], terminated=[0]), fragment([10, 20, 40], truncated=[1])
    both = {name: np.concatenate([one[name], two[name]], axis=1) for name in one}
    rows = n_step_transitions(both, 2, 0.5)
    assert rows["obs"].tolist() == [0, 0, 1, 1, 2, 2]
    assert rows["rewards"].tolist() == [1, 20, 4, 20, 4, 40]
    assert rows["discount"].tolist() == [0, 1 / 4, 1 / 4, 1 / 2, 1 / 2, 1 / 2]
    assert rows["next_obs"].tolist() == [1, 2, 3, 2, 3, 3]


def test_every_column_that_begins_with_next_comes_from_the_last_step() -> None:
    """Observations of several parts, and columns of any name and shape, go along."""
    time = np.arange(3)[:, None]
    columns = fragment([0, 0, 0]) | {
        "logits": np.stack([time, -time], axis=-1),
        "next_obs.camera": np.stack([time, time + 100], axis=-1),
    }
    rows = n_step_transitions(columns, 2, 1.0)
    assert rows["logits"].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert rows["next_obs.camera"].tolist() == [[1, 101], [2, 102], [2, 102]]


def test_a_window_longer_than_the_fragment_and_gamma_at_its_limits() -> None:
    columns = fragment([1, 2, 4])
    assert n_step_transitions(columns, 50, 1.0)["rewards"].tolist() == [7, 6, 4]
    assert n_step_transitions(columns, 50, 1.0)["discount"].tolist() == [1, 1, 1]
    assert n_step_transitions(columns, 50, 0.0)["rewards"].tolist() == [1, 2, 4]
    assert n_step_transitions(columns, 50, 0.0)["discount"].tolist() == [0, 0, 0]


def test_rewards_keep_their_precision_and_whole_numbers_become_float32() -> None:
    columns = fragment([1, 2])
    for given_type, result in ((np.float64, np.float64), (np.int64, np.float32)):
        columns["rewards"] = columns["rewards"].astype(given_type)
        assert n_step_transitions(columns, 2, 0.5)["rewards"].dtype == result


def test_a_nan_stays_in_its_own_episode() -> None:
    rows = n_step_transitions(fragment([1, math.nan, 4], truncated=[0, 1]), 3, 0.5)
    assert rows["rewards"][[0, 2]].tolist() == [1, 4]


def test_read_only_fragments_are_fine() -> None:
    columns = fragment([1, 2, 4], terminated=[1])
    for array in columns.values():
        array.flags.writeable = False
    assert n_step_transitions(columns, 2, 0.5)["discount"].tolist() == [0, 0, 1 / 2]


def oracle(columns: dict[str, Any], n: int, gamma: float) -> list[tuple[float, float, int]]:
    """As one would write it down, step by step."""
    steps, lanes = columns["rewards"].shape
    rows = []
    for t in range(steps):
        for b in range(lanes):
            total, discount, k = 0.0, 1.0, t
            while True:
                total += discount * columns["rewards"][k, b]
                discount *= gamma
                if columns["terminated"][k, b]:
                    discount = 0.0
                    break
                if columns["truncated"][k, b] or k - t + 1 == n or k == steps - 1:
                    break
                k += 1
            rows.append((total, discount, int(columns["next_obs"][k, b])))
    return rows


@given(
    steps=st.integers(1, 12),
    lanes=st.integers(1, 4),
    n=st.integers(1, 6),
    gamma=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
def test_agrees_with_a_plain_loop(steps: int, lanes: int, n: int, gamma: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = {
        "rewards": rng.normal(size=(steps, lanes)),
        "terminated": rng.random((steps, lanes)) < 0.2,
        "truncated": rng.random((steps, lanes)) < 0.2,
        "next_obs": np.arange(steps * lanes).reshape(steps, lanes),
    }
    rows = n_step_transitions(columns, n, gamma)
    found = zip(rows["rewards"], rows["discount"], rows["next_obs"], strict=True)
    for one, two in zip(found, oracle(columns, n, gamma), strict=True):
        assert one == pytest.approx(two, rel=1e-6, abs=1e-12)


@given(n=st.integers(1, 6), seed=st.integers(0, 1000))
def test_windows_in_place_agree_with_the_loop(n: int, seed: int) -> None:
    """Those of sequences: a cut episode goes on in a value, an ended one does not."""
    rng = np.random.default_rng(seed)
    columns = {
        "rewards": rng.normal(size=(9, 3)),
        "terminated": rng.random((9, 3)) < 0.2,
        "truncated": rng.random((9, 3)) < 0.2,
        "next_obs": np.arange(27).reshape(9, 3),
    }
    found = n_step_windows({k: c for k, c in columns.items() if k != "next_obs"}, n, 0.9)
    after = columns["next_obs"][found["last"], np.arange(3)]
    rows = zip(found["rewards"].flat, found["discount"].flat, after.flat, strict=True)
    for one, two in zip(rows, oracle(columns, n, 0.9), strict=True):
        assert one == pytest.approx(two, rel=1e-6, abs=1e-12)


def test_a_row_that_is_no_step_ends_a_window() -> None:
    columns = fragment([1, 2, 4, 8]) | {"valid": np.array([[True], [False], [True], [True]])}
    found = n_step_windows(columns, 3, 0.5)
    assert found["last"].ravel().tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize(("n", "gamma"), [(0, 0.9), (-1, 0.9), (1.5, 0.9), (1, 1.1), (1, math.nan)])
def test_arguments_that_cannot_be_are_refused(n: Any, gamma: float) -> None:
    with pytest.raises(BuildError, match=r"n must be|gamma must be"):
        n_step_transitions(fragment([1]), n, gamma)


def test_a_fragment_that_does_not_fit_is_refused() -> None:
    columns = fragment([1, 2])
    with pytest.raises(RunError, match=r"missing truncated, found actions, next_obs"):
        n_step_transitions({k: v for k, v in columns.items() if k != "truncated"}, 1, 0.9)
    with pytest.raises(RunError, match=r"actions \(2,\)"):
        n_step_transitions({**columns, "actions": np.zeros(2)}, 1, 0.9)
    with pytest.raises(RunError, match=r"rewards \(2, 1, 1\)"):
        n_step_transitions({**columns, "rewards": np.zeros((2, 1, 1))}, 1, 0.9)
