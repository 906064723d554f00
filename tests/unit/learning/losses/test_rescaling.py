"""Rescaled values: by hand, back again, and in targets over n steps in the right order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rillflow.learning.losses import double_q_td_error, rescaled, unscaled
from tests.unit.learning.losses.parts import few


def h(x: float, epsilon: float) -> float:
    """As the paper writes it."""
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + epsilon * x


def test_rescaled_by_hand() -> None:
    # sqrt(8 + 1) - 1 = 2, and 0.5 * 8 = 4;  of -3: -(sqrt(4) - 1) - 1.5
    x = torch.tensor([8.0, -3.0, 0.0], requires_grad=True)
    found = rescaled(x, 0.5)
    found.sum().backward()
    assert found.tolist() == [6, -2.5, 0]
    assert x.grad is not None  # 1 / (2 sqrt(|x| + 1)) + epsilon
    assert x.grad.tolist() == pytest.approx([1 / 6 + 0.5, 0.25 + 0.5, 1.0])
    assert unscaled(torch.tensor([6, -2.5, 0]), 0.5).tolist() == pytest.approx([8, -3, 0])


@few
@given(st.floats(-1e5, 1e5), st.sampled_from([0.0, 1e-3, 1e-2, 1.0]))
def test_the_way_there_and_back_is_the_identity(x: float, epsilon: float) -> None:
    """In float32 too, where the paper's formula would lose half of the digits."""
    assert rescaled(np.float64([x]).astype(np.float32), epsilon)[0] == pytest.approx(
        h(float(np.float32(x)), epsilon), rel=1e-5, abs=1e-12
    )
    for array in (np.float32([x]), torch.tensor([x], dtype=torch.float32)):
        back: Any = unscaled(rescaled(array, epsilon), epsilon)
        assert float(back[0]) == pytest.approx(float(array[0]), rel=1e-5, abs=1e-30)


@pytest.mark.parametrize("array", [np.float32, lambda x: torch.tensor(x, dtype=torch.float32)])
def test_h_is_of_the_whole_sum_of_rewards_and_of_what_follows(array: Any) -> None:
    """h(r0 + g r1 + g^2 h^-1(q)); neither h(r0) + ..., nor h of each step, nor q as it is."""
    epsilon, gamma, rewards, after = 1e-3, 0.9, (3.0, 5.0), 40.0
    summed = rewards[0] + gamma * rewards[1]
    expected = h(summed + gamma**2 * after, epsilon) - 2.0
    wrong = (
        h(summed, epsilon) + gamma**2 * h(after, epsilon) - 2.0,
        h(summed + gamma**2 * h(after, epsilon), epsilon) - 2.0,
        h(rewards[0] + gamma * h(rewards[1] + gamma * after, epsilon), epsilon) - 2.0,
    )
    following = array([[h(after, epsilon), 99.0]])
    actions: Any = np.array([1]) if isinstance(following, np.ndarray) else torch.tensor([1])
    found = double_q_td_error(
        array([[7.0, 2.0]]), actions, array([summed]), array([gamma**2]), following,
        array([[1.0, 0.0]]), epsilon,
    )  # fmt: skip
    assert float(found[0]) == pytest.approx(expected, abs=1e-5)
    assert all(abs(expected - other) > 0.5 for other in wrong)


def test_an_episode_that_terminated_is_worth_its_rescaled_rewards() -> None:
    q, following = torch.zeros(1, 2), torch.full((1, 2), 50.0)
    found = double_q_td_error(
        q, torch.tensor([0]), torch.tensor([8.0]), torch.zeros(1), following, following, 0.0
    )
    assert found.tolist() == [2.0]


@pytest.mark.parametrize("function", [rescaled, unscaled])
@pytest.mark.parametrize("array", [np.float32([1]), torch.ones(1)])
def test_an_epsilon_below_zero_is_refused(function: Any, array: Any) -> None:
    with pytest.raises(ValueError, match="epsilon must be 0 or above; found -1"):
        function(array, -1)
