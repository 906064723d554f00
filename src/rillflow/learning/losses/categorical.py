"""Losses of distributions of returns over atoms (Bellemare et al. 2017, arXiv:1707.06887).

Atoms are returns at equal distances from `v_min` to `v_max`; a network gives logits of their
chances, [N, A, atoms] for each action. As in `value`, names carry the time.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from rillflow.learning.losses import categorical_in_numpy
from rillflow.learning.losses.framework import X, either

if TYPE_CHECKING:
    from rillflow.learning.losses.framework import Numbers


def _in_torch() -> ModuleType:
    from rillflow.learning.losses import categorical_in_torch

    return categorical_in_torch


framework = either(categorical_in_numpy, _in_torch)


def expected_values(logits: X, v_min: float, v_max: float) -> X:
    """The q values of distributions: their means.

        q(a) = sum_i softmax(logits(a))_i * z_i

    Args:
        logits: [N, A, atoms].
        v_min: the least return z_0.
        v_max: the largest one.

    Returns:
        The q values [N, A].
    """
    return framework(logits).expected_values(logits, v_min, v_max)


def categorical_target(
    logits_t: X,
    q_t_selector: Numbers,
    r_t: Numbers,
    discount_t: Numbers,
    v_min: float,
    v_max: float,
) -> tuple[X, X]:
    """What distributions should have been: those of the best next action, moved and projected.

        a* = argmax_a q_t_selector(a)
        each atom z of a* moves to clip(r_t + discount_t * z, v_min, v_max),
        and its chance is shared by the two atoms next to that, by how near they are

    Args:
        logits_t: of the true next observation, by the target network [N, A, atoms].
        q_t_selector: values by which the best next action is picked [N, A].
        r_t: rewards [N], or sums over the n steps of a replay row.
        discount_t: gamma^n, or 0 where the episode terminated [N].
        v_min: the least return.
        v_max: the largest one.

    Returns:
        Chances [N, atoms] that no gradient flows through; and for each row how much of them was
        beyond the ends, by more than half the distance of two atoms [N].
    """
    return framework(logits_t).categorical_target(
        logits_t, q_t_selector, r_t, discount_t, v_min, v_max
    )


def categorical_error(logits_tm1: X, a_tm1: Numbers, target: Numbers) -> X:
    """How far distributions are from what they should have been (Kullback and Leibler 1951).

        error = sum_i target_i * (log target_i - log softmax(logits_tm1(a_tm1))_i)

    Its gradient is that of the cross entropy; unlike that, it is 0 where nothing is to be learned,
    so that it is also a priority (Hessel et al. 2017, arXiv:1710.02298).

    Args:
        logits_tm1: of the observation acted upon [N, A, atoms].
        a_tm1: the actions taken, integers [N].
        target: chances [N, atoms]; constants.

    Returns:
        The errors [N], none below 0.
    """
    return framework(logits_tm1).categorical_error(logits_tm1, a_tm1, target)
