"""Discounted, lambda and n-step returns: by hand, by brute force, and against each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rillflow.learning.losses import discounted_returns, lambda_returns, n_step_returns
from tests.unit.learning.losses.parts import GAMMA, Steps, column, few, flags, lambdas, same, steps


def brute_n_step(s: Steps, t: int, b: int, n: int) -> float:
    """Walk at most n steps, stop at the end of the episode or of the rows, then bootstrap."""
    total, weight = 0.0, 1.0
    for k in range(t, min(t + n, len(s.r_t))):
        total += weight * s.r_t[k, b].item()
        if s.terminated_t[k, b]:
            return total
        weight *= GAMMA
        if s.ended_t[k, b] or k == min(t + n, len(s.r_t)) - 1:
            return total + weight * s.v_t[k, b].item()
    raise AssertionError("n is at least 1")


def table(s: Steps, entry: Callable[[int, int], float]) -> Tensor:
    """[T, B] filled by a function of t and b."""
    time, batch = s.r_t.shape
    rows = [[entry(t, b) for b in range(batch)] for t in range(time)]
    return torch.tensor(rows, dtype=torch.float64)


def test_discounted_returns_by_hand() -> None:
    # G_2 = 4 + 0.5 * 10 = 9;  G_1 = 2 + 0 * 9 = 2 (terminated);  G_0 = 1 + 0.5 * 2 = 2
    found = discounted_returns(column(1, 2, 4), column(0.5, 0, 0.5), torch.tensor([10.0]))
    same(found, column(2, 2, 9))


@few
@given(steps)
def test_discounted_returns_are_the_double_sum(s: Steps) -> None:
    """G_t = sum over k of (product of the discounts between) * r_k, and the bootstrap value."""
    discount_t, bootstrap = s.discount_t, s.v_t[-1]

    def entry(t: int, b: int) -> float:
        column_, total = discount_t[:, b], 0.0
        for k in range(t, len(s.r_t)):
            total += column_[t:k].prod().item() * s.r_t[k, b].item()
        return total + column_[t:].prod().item() * bootstrap[b].item()

    same(discounted_returns(s.r_t, discount_t, bootstrap), table(s, entry))


def test_lambda_returns_by_hand() -> None:
    # discount 0.5, lam 0.5, the episode is truncated at row 1
    # G_2 = 4 + 0.5 * v = 4 + 0.5 * 6                  = 7
    # G_1 = 2 + 0.5 * v = 2 + 0.5 * 8                  = 6     (row 2 is another episode)
    # G_0 = 1 + 0.5 * (0.5 * 4 + 0.5 * 6)              = 3.5
    half = column(0.5, 0.5, 0.5)
    found = lambda_returns(column(1, 2, 4), half, column(4, 8, 6), flags(0, 1, 0), 0.5)
    same(found, column(3.5, 6, 7))


@few
@given(steps, lambdas)
def test_lambda_returns_are_the_mixture_of_all_n_step_returns(s: Steps, lam: float) -> None:
    """(1 - lam) * sum of lam^(n-1) * G^(n) for n < N, and lam^(N-1) * G^(N) for the longest."""

    def entry(t: int, b: int) -> float:
        ends = [k for k in range(t, len(s.r_t)) if s.ended_t[k, b]] + [len(s.r_t) - 1]
        longest = ends[0] - t + 1
        mixed = sum(lam ** (n - 1) * brute_n_step(s, t, b, n) for n in range(1, longest))
        return (1 - lam) * mixed + lam ** (longest - 1) * brute_n_step(s, t, b, longest)

    same(lambda_returns(s.r_t, s.discount_t, s.v_t, s.ended_t, lam), table(s, entry))


def test_n_step_returns_by_hand() -> None:
    # discount 0.5, n = 2, terminated at row 1
    # G_3 = 8 + 0.5 * v_3       = 8 + 0.5 * 2           = 9     (the rows end after one step)
    # G_2 = 4 + 0.5 * 8 + 0.25 * v_3 = 4 + 4 + 0.5      = 8.5
    # G_1 = 2                                           = 2     (terminated)
    # G_0 = 1 + 0.5 * 2                                 = 2     (terminated after two)
    discount_t, v_t = column(0.5, 0, 0.5, 0.5), column(100, 100, 100, 2)
    found = n_step_returns(column(1, 2, 4, 8), discount_t, v_t, flags(0, 1, 0, 0), 2)
    same(found, column(2, 2, 8.5, 9))


@few
@given(steps, st.integers(1, 9))
def test_n_step_returns_are_what_walking_n_steps_collects(s: Steps, n: int) -> None:
    expected = table(s, lambda t, b: brute_n_step(s, t, b, n))
    same(n_step_returns(s.r_t, s.discount_t, s.v_t, s.ended_t, n), expected)


@few
@given(steps)
def test_the_ends_of_the_family_agree(s: Steps) -> None:
    """lam=0 is n=1; lam=1 is the largest n; without truncation that is the discounted return."""
    rows = (s.r_t, s.discount_t, s.v_t, s.ended_t)
    same(lambda_returns(*rows, 0.0), n_step_returns(*rows, 1))
    same(lambda_returns(*rows, 1.0), n_step_returns(*rows, len(s.r_t)))
    if bool((s.ended_t == s.terminated_t).all()):
        whole = discounted_returns(s.r_t, s.discount_t, s.v_t[-1])
        same(lambda_returns(*rows, 1.0), whole)


def test_truncation_bootstraps_and_termination_does_not() -> None:
    """Only the discount differs, and only the truncated episode is worth its final value."""
    r_t, v_t, ended_t = column(1, 1), column(0, 10), flags(0, 1)
    truncated = lambda_returns(r_t, column(0.5, 0.5), v_t, ended_t, 1.0)
    terminated = lambda_returns(r_t, column(0.5, 0), v_t, ended_t, 1.0)
    same(truncated, column(1 + 0.5 * 6, 1 + 0.5 * 10))
    same(terminated, column(1 + 0.5 * 1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_returns_keep_the_dtype_and_carry_no_gradient(dtype: torch.dtype) -> None:
    r_t, v_t = torch.ones(3, 2, dtype=dtype), torch.ones(3, 2, dtype=dtype, requires_grad=True)
    ended_t = torch.zeros(3, 2, dtype=torch.bool)
    for found in (
        discounted_returns(r_t, r_t, v_t[-1]),
        lambda_returns(r_t, r_t, v_t, ended_t, 0.9),
        n_step_returns(r_t, r_t, v_t, ended_t, 2),
    ):
        assert found.dtype == dtype
        assert not found.requires_grad
