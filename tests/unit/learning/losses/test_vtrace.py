"""V-trace: by hand, by the paper's sum, and where it must agree with the on-policy estimates."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rillflow.learning.losses import gae, lambda_returns, n_step_returns, vtrace
from tests.unit.learning.losses.parts import GAMMA, Steps, column, few, flags, lambdas, same, steps

clips = st.sampled_from([0.5, 1.0, 2.0, math.inf])


def literal(s: Steps, clip_rho: float, clip_pg_rho: float, lam: float) -> tuple[Tensor, Tensor]:
    """Equation 1 and section 4.2 of the paper, in NumPy.

    v_s = V(x_s) + sum over t of gamma^(t-s) * (product of c_i, s <= i < t) * delta_t
    """
    rho = np.exp(s.log_rhos.numpy())
    c, capped, pg = (
        lam * np.minimum(1, rho),
        np.minimum(clip_rho, rho),
        np.minimum(clip_pg_rho, rho),
    )
    r, v, next_v = s.r_t.numpy(), s.v_tm1.numpy(), s.v_t.numpy()
    gammas = np.where(s.terminated_t.numpy(), 0.0, GAMMA)
    ended = s.ended_t.numpy()
    vs, advantages = v.copy(), np.zeros_like(v)
    time, batch = v.shape
    for b in range(batch):
        for start in range(time):
            ends = np.flatnonzero(ended[start:, b])
            last = start + ends[0] if len(ends) else time - 1
            for t in range(start, last + 1):
                delta = capped[t, b] * (r[t, b] + gammas[t, b] * next_v[t, b] - v[t, b])
                vs[start, b] += GAMMA ** (t - start) * np.prod(c[start:t, b]) * delta
        for t in range(time):
            follows = t + 1 < time and not ended[t, b]
            next_vs = vs[t + 1, b] if follows else next_v[t, b]
            q = r[t, b] + gammas[t, b] * ((1 - lam) * next_v[t, b] + lam * next_vs)
            advantages[t, b] = pg[t, b] * (q - v[t, b])
    return torch.from_numpy(vs), torch.from_numpy(advantages)


def on_policy(s: Steps, lam: float) -> tuple[Tensor, Tensor]:
    zeros = torch.zeros_like(s.log_rhos)
    return vtrace(zeros, s.r_t, s.discount_t, s.v_tm1, s.v_t, s.ended_t, lam=lam)


def test_vtrace_by_hand() -> None:
    # discount 0.5; rho = 2, 0.5, 1; clip_rho 1, clip_pg_rho 1.5, so
    # min(1, rho) = 1, 0.5, 1 and min(1.5, rho) = 1.5, 0.5, 1
    # delta_2 = 1.0 * (4 + 0.5 * 6 - 2) = 5       vs_2 = 2 + 5                    = 7
    # delta_1 = 0.5 * (2 + 0.5 * 2 - 4) = -0.5    vs_1 = 4 - 0.5 + 0.5 * 0.5 * 5  = 4.75
    # delta_0 = 1.0 * (1 + 0.5 * 4 - 1) = 2       vs_0 = 1 + 2 + 0.5 * 1 * 0.75   = 3.375
    # A_2 = 1.0 * (4 + 0.5 * 6 - 2)     = 5
    # A_1 = 0.5 * (2 + 0.5 * 7 - 4)     = 0.75
    # A_0 = 1.5 * (1 + 0.5 * 4.75 - 1)  = 3.5625
    vs, advantages = vtrace(
        log_rhos=column(2, 0.5, 1).log(),
        r_t=column(1, 2, 4),
        discount_t=column(0.5, 0.5, 0.5),
        v_tm1=column(1, 4, 2),
        v_t=column(4, 2, 6),
        ended_t=flags(0, 0, 0),
        clip_pg_rho=1.5,
    )
    same(vs, column(3.375, 4.75, 7))
    same(advantages, column(3.5625, 0.75, 5))


def test_vtrace_by_hand_with_a_truncation_and_a_termination() -> None:
    # discount 0.5, rho = 1, truncated at row 0 with final value 8, terminated at row 1
    # vs_2 = 4 + 0.5 * 6 = 7;  vs_1 = 2;  vs_0 = 1 + 0.5 * 8 = 5;  A = vs - v
    vs, advantages = vtrace(
        log_rhos=column(0, 0, 0),
        r_t=column(1, 2, 4),
        discount_t=column(0.5, 0, 0.5),
        v_tm1=column(1, 1, 1),
        v_t=column(8, 100, 6),
        ended_t=flags(1, 1, 0),
    )
    same(vs, column(5, 2, 7))
    same(advantages, column(4, 1, 6))


@few
@given(steps, clips, clips, lambdas)
def test_vtrace_is_the_sum_in_the_paper(s: Steps, rho: float, pg: float, lam: float) -> None:
    found = vtrace(
        s.log_rhos, s.r_t, s.discount_t, s.v_tm1, s.v_t, s.ended_t,
        clip_rho=rho, clip_pg_rho=pg, lam=lam,
    )  # fmt: skip
    for one, other in zip(found, literal(s, rho, pg, lam), strict=True):
        same(one, other)


@few
@given(steps)
def test_on_policy_it_is_the_longest_n_step_return(s: Steps) -> None:
    vs, advantages = on_policy(s, 1.0)
    longest = n_step_returns(s.r_t, s.discount_t, s.v_t, s.ended_t, len(s.r_t))
    same(vs, longest)
    same(advantages, longest - s.v_tm1)


@few
@given(steps, lambdas)
def test_on_policy_it_is_the_lambda_return_and_gae(s: Steps, lam: float) -> None:
    vs, advantages = on_policy(s, lam)
    same(vs, lambda_returns(s.r_t, s.discount_t, s.v_t, s.ended_t, lam))
    expected, _ = gae(s.r_t, s.v_tm1, s.v_t, s.terminated_t, s.ended_t, GAMMA, lam)
    same(advantages, expected)


def test_an_action_the_policy_would_never_take_leaves_the_value_alone() -> None:
    """rho = 0: no step is taken towards what was observed."""
    never = column(-math.inf)
    vs, advantages = vtrace(never, column(5), column(0.5), column(3), column(9), flags(0))
    same(vs, column(3))
    same(advantages, column(0))


def test_truncation_bootstraps_and_termination_does_not() -> None:
    rows = (column(1), column(0), column(10), flags(1))
    truncated, _ = vtrace(column(0), rows[0], column(0.5), *rows[1:])
    terminated, _ = vtrace(column(0), rows[0], column(0), *rows[1:])
    assert truncated.item() == 1 + 0.5 * 10
    assert terminated.item() == 1


def test_targets_and_advantages_carry_no_gradient() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    for found in vtrace(x, x, x, x, x, torch.zeros(3, 2, dtype=torch.bool)):
        assert not found.requires_grad
        assert found.dtype == torch.float32
