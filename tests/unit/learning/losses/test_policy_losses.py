"""Policy losses, entropies and divergences: by hand, against torch.distributions, and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from rillflow.learning.losses import (
    approximate_kl,
    clip_fraction,
    clipped_surrogate_loss,
    entropy_bonus,
    entropy_categorical,
    entropy_gaussian,
    kl_categorical,
    kl_gaussian,
    policy_gradient_loss,
    soft_value,
    uniform_entropy,
)
from tests.unit.learning.losses.parts import few, normals, same, seeds, shapes


def vector(*numbers: float, grad: bool = False) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=grad)


# --- losses --------------------------------------------------------------------------------------


def test_policy_gradient_loss_by_hand() -> None:
    # -(-1 * 2 + -3 * 4) / 2 = 7;  the gradient is -A / 2
    logp, advantages = vector(-1, -3, grad=True), vector(2, 4, grad=True)
    loss = policy_gradient_loss(logp, advantages)
    loss.backward()
    assert loss.item() == 7
    assert logp.grad is not None
    assert logp.grad.tolist() == [-1, -2]
    assert advantages.grad is None


def test_a_masked_row_does_not_count() -> None:
    # -(-1 * 2) / 1 = 2
    logp = vector(-1, -3, grad=True)
    loss = policy_gradient_loss(logp, vector(2, 4), torch.tensor([True, False]))
    loss.backward()
    assert loss.item() == 2
    assert logp.grad is not None
    assert logp.grad.tolist() == [-2, 0]


def test_clipped_surrogate_loss_by_hand() -> None:
    # clip 0.2; ratio 1.5, 1.5, 0.5, 0.5, 1.1; A = 1, -1, 1, -1, 2
    # min(1.5, 1.2) = 1.2   min(-1.5, -1.2) = -1.5   min(0.5, 0.8) = 0.5   min(-0.5, -0.8) = -0.8
    # min(2.2, 2.2) = 2.2   sum = 1.6, so L = -0.32
    # the gradient of -mean(ratio * A) is -ratio * A / 5, and 0 where the clipped term is smaller
    old_logp = vector(-1, -2, -3, -4, -5, grad=True)
    ratio, advantages = vector(1.5, 1.5, 0.5, 0.5, 1.1), vector(1, -1, 1, -1, 2, grad=True)
    logp = (old_logp.detach() + ratio.log()).requires_grad_()
    loss = clipped_surrogate_loss(logp, old_logp, advantages, 0.2)
    loss.backward()
    same(loss, torch.tensor(-0.32, dtype=torch.float64))
    assert logp.grad is not None
    same(logp.grad, vector(0, 0.3, -0.1, 0, -0.44))
    assert old_logp.grad is None
    assert advantages.grad is None


@few
@given(shapes, seeds, st.sampled_from([0.1, 0.3, 2.0]))
def test_clipped_surrogate_loss_is_its_case_distinction(
    shape: tuple[int, ...], seed: int, clip: float
) -> None:
    """A good action counts at most 1 + clip times, a bad one at least 1 - clip times."""
    logp, old_logp, advantages = normals(3, shape, seed)
    terms = []
    for new, old, a in zip(
        logp.flatten().tolist(), old_logp.flatten().tolist(), advantages.flatten().tolist(),
        strict=True,
    ):  # fmt: skip
        ratio = math.exp(new - old)
        terms.append(a * (min(ratio, 1 + clip) if a > 0 else max(ratio, 1 - clip)))
    expected = torch.tensor(-sum(terms) / len(terms), dtype=torch.float64)
    same(clipped_surrogate_loss(logp, old_logp, advantages, clip), expected)


def test_before_the_policy_moves_the_surrogate_has_the_policy_gradient() -> None:
    (logits, advantages) = normals(2, (6,), 0)
    one, two = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    clipped_surrogate_loss(one, logits, advantages, 0.2).backward()
    policy_gradient_loss(two, advantages).backward()
    assert one.grad is not None
    assert two.grad is not None
    same(one.grad, two.grad)


def test_clip_fraction_by_hand() -> None:
    # ratios 1.5, 0.5 and 1.1 with clip 0.2: two of three are outside
    logp = vector(1.5, 0.5, 1.1).log().requires_grad_()
    fraction = clip_fraction(logp, vector(0, 0, 0), 0.2)
    same(fraction, torch.tensor(2 / 3, dtype=torch.float64))
    assert not fraction.requires_grad
    assert clip_fraction(logp, vector(0, 0, 0), 0.2, torch.tensor([False, False, True])) == 0


def test_approximate_kl_by_hand() -> None:
    # ratios 2 and 1: (2 - 1 - log 2 + 0) / 2;  the gradient is (ratio - 1) / 2
    old_logp, logp = vector(-2, -1, grad=True), vector(-2 + math.log(2), -1, grad=True)
    found = approximate_kl(old_logp, logp)
    found.backward()
    same(found, torch.tensor((1 - math.log(2)) / 2, dtype=torch.float64))
    assert logp.grad is not None
    same(logp.grad, vector(0.5, 0))
    assert old_logp.grad is None


@few
@given(seeds)
def test_the_expectation_of_the_approximate_kl_is_the_kl(seed: int) -> None:
    """Summed over all actions with the old policy's probabilities, nothing is left to chance."""
    old, new = (x.log_softmax(-1) for x in normals(2, (5,), seed))
    each = torch.stack([approximate_kl(o, n) for o, n in zip(old, new, strict=True)])
    assert bool((each >= 0).all())
    same((old.exp() * each).sum(), kl_categorical(old, new))


# --- entropy -------------------------------------------------------------------------------------


def test_entropy_bonus_by_hand() -> None:
    # (1 + 3) / 2 = 2, and a bonus is positive: raising an entropy raises it
    entropy = vector(1, 3, grad=True)
    bonus = entropy_bonus(entropy)
    bonus.backward()
    assert bonus.item() == 2
    assert entropy.grad is not None
    assert entropy.grad.tolist() == [0.5, 0.5]
    assert entropy_bonus(entropy, torch.tensor([True, False])).item() == 1


def test_entropy_categorical_by_hand() -> None:
    # p = 1/2, 1/4, 1/4: (1/2) log 2 + 2 * (1/4) log 4 = 1.5 log 2
    found = entropy_categorical(vector(2, 1, 1).log() + 7)
    same(found, torch.tensor(1.5 * math.log(2), dtype=torch.float64))


def test_uniform_entropy_by_hand() -> None:
    # of three the logarithm; where nothing is allowed there is no choice
    mask = torch.tensor([[True, True, True], [False, True, False], [False, False, False]])
    assert uniform_entropy(mask).tolist() == pytest.approx([math.log(3), 0, 0])


def test_soft_value_by_hand() -> None:
    # p = 1/4, 3/4: (8 + 3 * 4) / 4 + 2 * (log(4) / 4 + 3/4 log(4/3)); a constant logit is nothing
    logits, q = (vector(1, 3).log() + 5).requires_grad_(), vector(8, 4, grad=True)
    value = soft_value(logits, q, 2.0)
    value.backward()
    same(value, torch.tensor(5 + 0.5 * math.log(4) + 1.5 * math.log(4 / 3), dtype=torch.float64))
    assert q.grad is None
    assert logits.grad is not None
    # p (q - 2 log p - value), which adds up to nothing
    slope = 0.25 * (8 + 2 * math.log(4) - value.item())
    same(logits.grad, vector(slope, -slope))


def test_entropy_gaussian_by_hand() -> None:
    # std 1 and e: 2 * (1 + log(2 pi)) / 2 + 0 + 1
    found = entropy_gaussian(vector(0, 1))
    same(found, torch.tensor(2 + math.log(2 * math.pi), dtype=torch.float64))


@few
@given(shapes, seeds)
def test_entropies_agree_with_torch_distributions(shape: tuple[int, ...], seed: int) -> None:
    logits, log_std = normals(2, shape, seed)
    same(entropy_categorical(logits), Categorical(logits=logits).entropy())
    normal = Independent(Normal(torch.zeros_like(log_std), log_std.exp()), 1)
    same(entropy_gaussian(log_std), normal.entropy())


def test_an_impossible_action_has_neither_entropy_nor_gradient() -> None:
    """A logit of -inf masks an action: the others are as if it did not exist."""
    masked, plain = vector(1, 2, -math.inf, grad=True), vector(1, 2, grad=True)
    one, two = entropy_categorical(masked), entropy_categorical(plain)
    one.backward()
    two.backward()
    same(one, two)
    assert masked.grad is not None
    assert plain.grad is not None
    same(masked.grad, torch.cat([plain.grad, vector(0)]))


# --- divergence ----------------------------------------------------------------------------------


def test_kl_categorical_by_hand() -> None:
    # p = 1/2, 1/2 and q = 1/4, 3/4: (1/2) log 2 + (1/2) log(2/3) = (1/2) log(4/3)
    found = kl_categorical(vector(1, 1).log(), vector(1, 3).log())
    same(found, torch.tensor(0.5 * math.log(4 / 3), dtype=torch.float64))


def test_kl_gaussian_by_hand() -> None:
    # p = N(0, 1), q = N(1, 2^2): log 2 + (1 + 1) / 8 - 1/2 = log 2 - 1/4
    found = kl_gaussian(vector(0), vector(0), vector(1), vector(math.log(2)))
    same(found, torch.tensor(math.log(2) - 0.25, dtype=torch.float64))


@few
@given(shapes, seeds)
def test_divergences_agree_with_torch_distributions(shape: tuple[int, ...], seed: int) -> None:
    a, b, c, d = normals(4, shape, seed)
    expected = kl_divergence(Categorical(logits=a), Categorical(logits=b))
    same(kl_categorical(a, b), expected)
    p, q = Independent(Normal(a, b.exp()), 1), Independent(Normal(c, d.exp()), 1)
    same(kl_gaussian(a, b, c, d), kl_divergence(p, q))


@few
@given(shapes, seeds)
def test_a_distribution_does_not_diverge_from_itself(shape: tuple[int, ...], seed: int) -> None:
    mean, log_std = normals(2, shape, seed)
    zero = torch.zeros(shape[:-1], dtype=torch.float64)
    same(kl_categorical(mean, mean + 3), zero)
    same(kl_gaussian(mean, log_std, mean, log_std), zero)


def test_an_action_impossible_for_both_adds_nothing_to_the_divergence() -> None:
    p, q = vector(1, 2, -math.inf, grad=True), vector(2, 1, -math.inf, grad=True)
    found = kl_categorical(p, q)
    found.backward()
    same(found, kl_categorical(vector(1, 2), vector(2, 1)))
    for logits in (p, q):
        assert logits.grad is not None
        assert bool(logits.grad.isfinite().all())


def test_an_action_impossible_only_for_the_second_makes_it_infinite() -> None:
    assert kl_categorical(vector(1, 1), vector(1, -math.inf)).item() == math.inf
    assert kl_categorical(vector(1, -math.inf), vector(1, 1)).item() == pytest.approx(math.log(2))
