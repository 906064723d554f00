"""Losses and errors of values: of states, v, and of actions, q.

Names carry the time: `q_tm1` and `v` are learned, so gradients flow through them; rewards, targets
and everything at time t are constants. Errors are target minus estimate, one per row, so that the
caller can weight them (prioritized replay) before `huber` and the mean.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from rillflow.learning.losses import value_in_numpy
from rillflow.learning.losses.framework import X, either

if TYPE_CHECKING:
    from rillflow.learning.losses.framework import Numbers


def _in_torch() -> ModuleType:
    from rillflow.learning.losses import value_in_torch

    return value_in_torch


framework = either(value_in_numpy, _in_torch)


def value_loss(v: X, target: Numbers, mask: Numbers | None = None) -> X:
    """Half the mean squared error (Mnih et al. 2016, arXiv:1602.01783).

        L = mean((v - target)^2) / 2

    Args:
        v: estimated values, any shape.
        target: what they should have been; constants, the shape of `v`.
        mask: booleans, the shape of `v`: which entries count.
    """
    return framework(v).value_loss(v, target, mask)


def clipped_value_loss(
    v: X, old_v: Numbers, target: Numbers, clip: float, mask: Numbers | None = None
) -> X:
    """The value loss of PPO's reference code (Schulman et al. 2017; see arXiv:2005.12729).

        near = old_v + clamp(v - old_v, -clip, clip)
        L = mean(max((v - target)^2, (near - target)^2)) / 2

    Args:
        v: estimated values, any shape.
        old_v: the estimates when the actions were taken; constants, the shape of `v`.
        target: what they should have been; constants, the shape of `v`.
        clip: how far a value may move towards its target before its gradient is cut.
        mask: booleans, the shape of `v`: which entries count.
    """
    return framework(v).clipped_value_loss(v, old_v, target, clip, mask)


def huber(x: X, delta: float = 1.0) -> X:
    """Huber's function of each entry (Huber 1964, doi:10.1214/aoms/1177703732).

        x^2 / 2                      where |x| <= delta
        delta * (|x| - delta / 2)    elsewhere

    With delta=1 its slope is DQN's error, clipped to [-1, 1].

    Args:
        x: errors, any shape.
        delta: where the parabola turns into a line; the largest slope.
    """
    return framework(x).huber(x, delta)


def n_step_td_target(r_tn: X, discount_tn: Numbers, v_tn: Numbers) -> X:
    """The target of one replay row that spans n steps (Hessel et al. 2017, arXiv:1710.02298).

        target = r_tn + discount_tn * v_tn

    Args:
        r_tn: the discounted sum of the row's n rewards, any shape.
        discount_tn: gamma^n, or 0 if the episode terminated within these steps.
        v_tn: value of the observation after them (of the final one, if truncated).

    Returns:
        The targets, the shape of `r_tn`; no gradient flows through them.
    """
    return framework(r_tn).n_step_td_target(r_tn, discount_tn, v_tn)


def q_learning_td_error(
    q_tm1: X, a_tm1: Numbers, r_t: Numbers, discount_t: Numbers, q_t: Numbers
) -> X:
    """The error of Q-learning (Watkins and Dayan 1992; Mnih et al. 2013, arXiv:1312.5602).

        error = r_t + discount_t * max_a q_t(a) - q_tm1(a_tm1)

    Args:
        q_tm1: q values of the observation acted upon [..., A].
        a_tm1: the actions taken, integers [...].
        r_t: rewards [...], or sums over the n steps of a replay row.
        discount_t: gamma (gamma^n), or 0 where the episode terminated [...].
        q_t: q values of the true next observation, by the target network [..., A].

    Returns:
        The errors [...].
    """
    return framework(q_tm1).q_learning_td_error(q_tm1, a_tm1, r_t, discount_t, q_t)


def double_q_td_error(
    q_tm1: X,
    a_tm1: Numbers,
    r_t: Numbers,
    discount_t: Numbers,
    q_t_target: Numbers,
    q_t_selector: Numbers,
    rescaling: float | None = None,
) -> X:
    """The error of double Q-learning (van Hasselt et al. 2015, arXiv:1509.06461).

        error = r_t + discount_t * q_t_target(argmax_a q_t_selector(a)) - q_tm1(a_tm1)

    With `rescaling` all q values are rescaled ones, and h is applied to the whole sum of the row's
    rewards and of what follows (Kapturowski et al. 2019):

        error = h(r_t + discount_t * h^-1(q_t_target(...))) - q_tm1(a_tm1)

    Args:
        q_tm1: q values of the observation acted upon [..., A].
        a_tm1: the actions taken, integers [...].
        r_t: rewards [...], or sums over the n steps of a replay row.
        discount_t: gamma (gamma^n), or 0 where the episode terminated [...].
        q_t_target: q values of the true next observation, by the target network [..., A].
        q_t_selector: the same by the network that is being learned [..., A].
        rescaling: the epsilon of `rescaled`; None: q values are on the scale of rewards.

    Returns:
        The errors [...].
    """
    return framework(q_tm1).double_q_td_error(
        q_tm1, a_tm1, r_t, discount_t, q_t_target, q_t_selector, rescaling
    )


def q_of_taken(q: X, actions: Numbers) -> X:
    """The q values of the actions that were taken.

    Args:
        q: q values [..., A].
        actions: integers [...].

    Returns:
        The values [...].
    """
    return framework(q).q_of_taken(q, actions)


def huber_loss(errors: X, weights: Numbers | None = None, mask: Numbers | None = None) -> X:
    """The loss of q learning from prioritized replay (Schaul et al. 2015, arXiv:1511.05952).

        L = mean(weights * huber(errors)),    with slopes clipped to [-1, 1]

    Args:
        errors: TD errors, any shape.
        weights: importance weights; constants, the shape of `errors`; without them all are 1.
        mask: booleans, the shape of `errors`: which entries count.
    """
    return framework(errors).huber_loss(errors, weights, mask)


def td_loss(q: X, target: Numbers, weights: Numbers | None = None) -> X:
    """The loss of one critic or of an ensemble (Fujimoto et al. 2018, arXiv:1802.09477).

        L = sum_k mean_n(weights_n * (q_kn - target_n)^2) / 2

    Args:
        q: q values of the actions taken [N], or [K, N] of the K members of an ensemble.
        target: what they should have been; constants [N].
        weights: importance weights; constants [N]; without them all are 1.
    """
    return framework(q).td_loss(q, target, weights)


def td_target(rewards: X, discount: Numbers, next_values: Numbers) -> X:
    """What q values should have been, by the reward and what follows (Sutton 1988).

        target = rewards + discount * next_values

    Args:
        rewards: any shape, or sums over the n steps of a replay row.
        discount: gamma (gamma^n), or 0 where the episode terminated; the shape of `rewards`, or
            one number.
        next_values: values of the true next observations, the shape of `rewards`.

    Returns:
        The targets, the shape of `rewards`; no gradient flows through them.
    """
    return framework(rewards).td_target(rewards, discount, next_values)


def dueling(value: X, advantages: Numbers) -> X:
    """The q values of a dueling network (Wang et al. 2015, arXiv:1511.06581, equation 9).

        q(a) = value + advantages(a) - mean_b advantages(b)

    Args:
        value: [...].
        advantages: [..., A].

    Returns:
        The q values [..., A]; gradients flow through both streams.
    """
    return framework(value).dueling(value, advantages)
