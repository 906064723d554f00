"""Generalized advantage estimation: by hand, by its definition, and at its limits."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from torch import Tensor

from rillflow.learning.losses import discounted_returns, gae, lambda_returns
from tests.unit.learning.losses.parts import GAMMA, Steps, column, few, flags, lambdas, same, steps


def estimate(s: Steps, lam: float) -> tuple[Tensor, Tensor]:
    return gae(s.r_t, s.v_tm1, s.v_t, s.terminated_t, s.ended_t, GAMMA, lam)


def literal(s: Steps, lam: float) -> Tensor:
    """A_t = sum over l of (gamma * lam)^l * delta_{t+l}, up to the end of the episode."""
    r, v, next_v = s.r_t.tolist(), s.v_tm1.tolist(), s.v_t.tolist()
    time, batch = s.r_t.shape
    found = [[0.0] * batch for _ in range(time)]
    for t in range(time):
        for b in range(batch):
            for k in range(t, time):
                bootstrap = 0.0 if s.terminated_t[k, b] else GAMMA * next_v[k][b]
                found[t][b] += (GAMMA * lam) ** (k - t) * (r[k][b] + bootstrap - v[k][b])
                if s.ended_t[k, b]:
                    break
    return torch.tensor(found, dtype=torch.float64)


def test_gae_by_hand() -> None:
    # gamma 0.5, lam 0.5, so a quarter is carried over; truncated at row 1, terminated at row 3
    # delta_3 = 8 - 1            = 7                 A_3 = 7
    # delta_2 = 4 + 0.5 * 1 - 2  = 2.5               A_2 = 2.5 + 0.25 * 7 = 4.25
    # delta_1 = 2 + 0.5 * 6 - 3  = 2                 A_1 = 2    (row 2 is another episode)
    # delta_0 = 1 + 0.5 * 3 - 4  = -1.5              A_0 = -1.5 + 0.25 * 2 = -1
    advantages, targets = gae(
        r_t=column(1, 2, 4, 8),
        v_tm1=column(4, 3, 2, 1),
        v_t=column(3, 6, 1, 100),
        terminated_t=flags(0, 0, 0, 1),
        ended_t=flags(0, 1, 0, 1),
        gamma=0.5,
        lam=0.5,
    )
    same(advantages, column(-1, 2, 4.25, 7))
    same(targets, column(3, 5, 6.25, 8))


@few
@given(steps, lambdas)
def test_gae_is_its_definition(s: Steps, lam: float) -> None:
    advantages, targets = estimate(s, lam)
    same(advantages, literal(s, lam))
    same(targets, literal(s, lam) + s.v_tm1)


@few
@given(steps, lambdas)
def test_the_value_targets_are_lambda_returns(s: Steps, lam: float) -> None:
    _, targets = estimate(s, lam)
    same(targets, lambda_returns(s.r_t, s.discount_t, s.v_t, s.ended_t, lam))


@few
@given(steps)
def test_with_lambda_one_it_is_the_discounted_return_minus_the_value(s: Steps) -> None:
    """Truncation apart: there the return goes on with the final value instead."""
    r_t = s.r_t + GAMMA * s.v_t * (s.ended_t & ~s.terminated_t)  # the final value, as a reward
    discount_t = GAMMA * (~s.ended_t).double()
    advantages, _ = estimate(s, 1.0)
    same(advantages, discounted_returns(r_t, discount_t, s.v_t[-1]) - s.v_tm1)


@few
@given(steps)
def test_with_lambda_zero_it_is_the_one_step_error(s: Steps) -> None:
    advantages, _ = estimate(s, 0.0)
    same(advantages, s.r_t + s.discount_t * s.v_t - s.v_tm1)


def test_truncation_bootstraps_and_termination_does_not() -> None:
    r_t, v_tm1, v_t, ended_t = column(1), column(0), column(10), flags(1)
    truncated, _ = gae(r_t, v_tm1, v_t, flags(0), ended_t, 0.5, 1.0)
    terminated, _ = gae(r_t, v_tm1, v_t, flags(1), ended_t, 0.5, 1.0)
    assert truncated.item() == 1 + 0.5 * 10
    assert terminated.item() == 1


def test_the_value_of_a_terminal_observation_is_never_looked_at() -> None:
    advantages, targets = gae(
        column(1, 1), column(0, 0), column(math.nan, 0), flags(1, 0), flags(1, 0), 0.5, 1.0
    )
    same(advantages, column(1, 1))
    same(targets, column(1, 1))


@few
@given(steps, lambdas)
def test_nothing_leaks_across_the_end_of_an_episode(s: Steps, lam: float) -> None:
    """Changing every row behind an end, whatever its reason, changes nothing before it."""
    cut = len(s.r_t) // 2
    s.ended_t[cut] = True
    expected, _ = estimate(s, lam)
    s.r_t[cut + 1 :] += 100
    s.v_tm1[cut + 1 :] -= 100
    after, _ = estimate(s, lam)
    same(after[: cut + 1], expected[: cut + 1])


def test_a_termination_is_an_end_even_if_the_caller_forgot_to_say_so() -> None:
    rows = (column(1, 5), column(0, 0), column(0, 0), flags(1, 0))
    forgotten, _ = gae(*rows, flags(0, 0), 0.5, 1.0)
    told, _ = gae(*rows, flags(1, 0), 0.5, 1.0)
    same(forgotten, told)


def test_advantages_and_targets_carry_no_gradient() -> None:
    v = torch.ones(4, 2, requires_grad=True)
    never = torch.zeros(3, 2, dtype=torch.bool)
    advantages, targets = gae(torch.ones(3, 2), v[:-1], v[1:], never, never, 0.9, 0.9)
    assert not advantages.requires_grad
    assert not targets.requires_grad
    assert advantages.dtype == torch.float32
