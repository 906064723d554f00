"""Distributions of returns: targets and errors, reckoned by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rillflow.learning import losses
from rillflow.learning.tape import Tape
from tests.unit.learning.losses.parts import few, seeds

both = pytest.mark.parametrize("kind", [np.array, torch.tensor])
FIRST = [[1.0, 0.0]]
"""values by which the first of two actions is the best"""


def target_of(
    kind: Any, chances: list[float], r: float, d: float, best: Any = FIRST, ends: Any = (0.0, 2.0)
) -> tuple[list[float], float]:
    """The target of one row whose best next action has these chances, and what was clipped."""
    other = [0.0] * len(chances)
    order = [chances, other] if best[0][0] > best[0][1] else [other, chances]
    logits = np.log(np.array([order], np.float32) + 1e-30).astype(np.float32)
    given = (logits, best, [r], [d])
    arrays = (kind(np.asarray(one, np.float32)) for one in given)
    target, clipped = losses.categorical_target(*arrays, *ends)
    return np.asarray(target)[0].tolist(), float(clipped[0])


@both
def test_chances_are_shared_by_neighbours(kind: Any) -> None:
    """Returns 0, 1, 2 become 0.5, 1 and 1.5: two of them fall half way between atoms."""
    target, clipped = target_of(kind, [0.2, 0.5, 0.3], r=0.5, d=0.5)
    assert target == pytest.approx([0.1, 0.1 + 0.5 + 0.15, 0.15], abs=1e-6)
    assert clipped == 0


@both
def test_where_an_episode_ends_there_is_the_reward_alone(kind: Any) -> None:
    target, _ = target_of(kind, [0.2, 0.5, 0.3], r=1.25, d=0.0)
    assert target == pytest.approx([0.0, 0.75, 0.25], abs=1e-6)


@both
def test_the_action_is_picked_by_the_selector_and_valued_by_the_target(kind: Any) -> None:
    """Double Q-learning: the first action is the better one by the target network alone."""
    target, _ = target_of(kind, [0.0, 1.0, 0.0], r=0.0, d=1.0, best=[[0.0, 1.0]])
    assert target == pytest.approx([0, 1, 0], abs=1e-6)


@both
@pytest.mark.parametrize(("r", "end"), [(9.0, 2), (-9.0, 0)])
def test_what_lies_beyond_the_ends_is_told(kind: Any, r: float, end: int) -> None:
    target, clipped = target_of(kind, [0.2, 0.5, 0.3], r=r, d=1.0)
    assert target[end] == pytest.approx(1)
    assert clipped == pytest.approx(1)


@both
def test_the_end_itself_is_not_beyond_it(kind: Any) -> None:
    """1 + 0.99 * 100 is 100, whatever rounding makes of it."""
    for count in (2, 51, 101):
        last = [0.0] * (count - 1) + [1.0]
        target, clipped = target_of(kind, last, r=1.0, d=0.99, ends=(0.0, 100.0))
        assert target == pytest.approx(last, abs=1e-4)
        assert clipped == 0


@both
def test_an_error_is_the_distance_of_two_distributions(kind: Any) -> None:
    """Of (1/2, 1/2) from (1, 0): log 2; from itself: 0."""
    logits = kind(np.zeros((2, 3, 2), np.float32))
    wanted = kind(np.array([[1, 0], [0.5, 0.5]], np.float32))
    errors = losses.categorical_error(logits, kind(np.array([1, 2])), wanted)
    assert np.asarray(errors) == pytest.approx([np.log(2), 0], abs=1e-6)


def test_its_gradient_is_what_is_expected_less_what_is_wanted() -> None:
    """Of the action that was taken; the others learn nothing."""
    tape = Tape()
    logits = tape.var(np.zeros((1, 2, 2), np.float32))
    wanted = np.array([[1, 0]], np.float32)
    tape.backward(losses.categorical_error(logits, np.array([1]), wanted).sum())
    assert logits.grad.tolist() == [[[0, 0], [-0.5, 0.5]]]


@few
@given(
    seed=seeds,
    count=st.integers(2, 60),
    ends=st.tuples(st.floats(-50, 50), st.floats(0.1, 100)),
)
def test_nothing_is_lost_and_inside_the_mean_is_kept(
    seed: int, count: int, ends: tuple[float, float]
) -> None:
    """Chances add up to 1; where no return is beyond the ends the mean moves as the returns do."""
    low, high = ends[0], ends[0] + ends[1]
    random = np.random.default_rng(seed)
    logits = random.standard_normal((7, 3, count)).astype(np.float32)
    selector = random.standard_normal((7, 3)).astype(np.float32)
    d = random.random(7).astype(np.float32)
    part = random.random(7).astype(np.float32)
    r = ((low + part * (high - low)) * (1 - d)).astype(np.float32)  # the atoms stay inside
    target, clipped = losses.categorical_target(logits, selector, r, d, low, high)
    assert np.allclose(target.sum(1), 1, atol=1e-5)
    assert not clipped.any()
    atoms = np.linspace(low, high, count)
    best = selector.argmax(1)
    before = losses.expected_values(logits, low, high)[np.arange(7), best]
    assert np.allclose(target @ atoms, r + d * before, atol=1e-4 * (1 + abs(low) + abs(high)))
