"""Value losses, TD errors, Huber and dueling: by hand, by loops, and gradients."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rillflow.learning.losses import (
    clipped_value_loss,
    double_q_td_error,
    dueling,
    huber,
    masked_mean,
    n_step_td_target,
    q_learning_td_error,
    q_of_taken,
    value_loss,
)
from tests.unit.learning.losses.parts import few, normals, same, seeds, shapes


def tensor(numbers: Sequence[float] | Sequence[Sequence[float]], *, grad: bool = False) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=grad)


def actions(shape: tuple[int, ...], count: int, seed: int) -> Tensor:
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(seed))


# --- losses --------------------------------------------------------------------------------------


def test_masked_mean_by_hand() -> None:
    # all: (1 + 2 + 6) / 3 = 3;  first and last: 7 / 2
    x = tensor([1, 2, 6], grad=True)
    assert masked_mean(x).item() == 3
    assert masked_mean(x, torch.tensor([True, False, True])).item() == 3.5
    assert masked_mean(x, torch.tensor([True, True, True])).item() == 3


def test_the_mean_of_nothing_is_zero_with_gradient_zero() -> None:
    x = tensor([1, float("nan")], grad=True)
    nothing = masked_mean(x, torch.tensor([False, False]))
    nothing.backward()
    assert nothing.item() == 0
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0]


def test_value_loss_by_hand() -> None:
    # ((1 - 3)^2 + (2 - 1)^2) / 2 / 2 = 1.25;  the gradient is (v - target) / 2
    v, target = tensor([1, 2], grad=True), tensor([3, 1], grad=True)
    loss = value_loss(v, target)
    loss.backward()
    assert loss.item() == 1.25
    assert v.grad is not None
    assert v.grad.tolist() == [-1, 0.5]
    assert target.grad is None
    assert value_loss(v, target, torch.tensor([False, True])).item() == 0.5


def test_clipped_value_loss_by_hand() -> None:
    # old 0, clip 1
    # v = 2 (clipped to 1), target 4:  max(4, 9) = 9    moved far towards it: no gradient
    # v = 2 (clipped to 1), target 0:  max(4, 1) = 4    moved away: gradient 2
    # v = 0.5 (not clipped), target 1: 0.25             gradient -0.5
    # (9 + 4 + 0.25) / 3 / 2 = 13.25 / 6;  gradients over 3
    v, old_v = tensor([2, 2, 0.5], grad=True), tensor([0, 0, 0], grad=True)
    target = tensor([4, 0, 1], grad=True)
    loss = clipped_value_loss(v, old_v, target, 1.0)
    loss.backward()
    assert loss.item() == pytest.approx(13.25 / 6)
    assert v.grad is not None
    assert v.grad.tolist() == pytest.approx([0, 2 / 3, -1 / 6])
    assert old_v.grad is None
    assert target.grad is None


@few
@given(shapes, seeds, st.sampled_from([0.1, 1.0, 100.0]))
def test_clipped_value_loss_is_its_loop(shape: tuple[int, ...], seed: int, clip: float) -> None:
    v, old_v, target = normals(3, shape, seed)
    total = 0.0
    for a, b, c in zip(*(x.flatten().tolist() for x in (v, old_v, target)), strict=True):
        near = min(max(a, b - clip), b + clip)
        total += max((a - c) ** 2, (near - c) ** 2) / 2
    expected = torch.tensor(total / v.numel(), dtype=torch.float64)
    found = clipped_value_loss(v, old_v, target, clip)
    same(found, expected)
    if clip == 100.0:
        same(found, value_loss(v, target))


def test_huber_by_hand() -> None:
    # delta 2: 1^2 / 2 = 0.5;  2 * (3 - 1) = 4;  slopes x, then 2
    x = tensor([0, 1, -3], grad=True)
    found = huber(x, 2.0)
    found.sum().backward()
    assert found.tolist() == [0, 0.5, 4]
    assert x.grad is not None
    assert x.grad.tolist() == [0, 1, -2]


@few
@given(shapes, seeds, st.sampled_from([0.3, 1.0, 5.0]))
def test_huber_agrees_with_torch(shape: tuple[int, ...], seed: int, delta: float) -> None:
    (x,) = normals(1, shape, seed)
    zero = torch.zeros_like(x)
    same(huber(x, delta), torch.nn.functional.huber_loss(x, zero, reduction="none", delta=delta))


# --- targets and errors --------------------------------------------------------------------------


def test_n_step_td_target_by_hand() -> None:
    # 3 steps of reward 1 with gamma 0.5: 1 + 0.5 + 0.25 = 1.75, and 0.125 of what follows
    # 1.75 + 0.125 * 8 = 2.75;  terminated: 1.75
    v_tn = tensor([8, 8], grad=True)
    found = n_step_td_target(tensor([1.75, 1.75]), tensor([0.125, 0]), v_tn)
    assert found.tolist() == [2.75, 1.75]
    assert not found.requires_grad


def test_q_learning_td_error_by_hand() -> None:
    # row 0: 1 + 0.5 * max(4, 6) - q(1) = 1 + 3 - 2 = 2;  row 1 terminated: 1 - q(0) = 1 - 3 = -2
    # the gradient of the sum is -1 at the actions taken, nowhere else
    q_tm1, q_t = tensor([[1, 2], [3, 4]], grad=True), tensor([[4, 6], [9, 9]], grad=True)
    r_t, discount_t = tensor([1, 1]), tensor([0.5, 0])
    errors = q_learning_td_error(q_tm1, torch.tensor([1, 0]), r_t, discount_t, q_t)
    errors.sum().backward()
    assert errors.tolist() == [2, -2]
    assert q_tm1.grad is not None
    assert q_tm1.grad.tolist() == [[0, -1], [-1, 0]]
    assert q_t.grad is None


def test_double_q_td_error_by_hand() -> None:
    # the selector prefers action 0, which the target network values 4 (not the maximum, 6):
    # 1 + 0.5 * 4 - q(1) = 1 + 2 - 2 = 1
    q_tm1, q_t_target = tensor([[1, 2]], grad=True), tensor([[4, 6]], grad=True)
    q_t_selector = tensor([[8, 7]], grad=True)
    errors = double_q_td_error(
        q_tm1, torch.tensor([1]), tensor([1]), tensor([0.5]), q_t_target, q_t_selector
    )
    errors.sum().backward()
    assert errors.tolist() == [1]
    assert q_tm1.grad is not None
    assert q_tm1.grad.tolist() == [[0, -1]]
    assert q_t_target.grad is None
    assert q_t_selector.grad is None


@few
@given(shapes, st.integers(1, 4), seeds)
def test_td_errors_are_their_loops(shape: tuple[int, ...], count: int, seed: int) -> None:
    q_tm1, q_t, selector = normals(3, (*shape, count), seed)
    r_t, discount_t = normals(2, shape, seed + 1)
    a_tm1 = actions(shape, count, seed)
    single, double = torch.zeros(shape).double(), torch.zeros(shape).double()
    for index in torch.cartesian_prod(*map(torch.arange, shape)).reshape(-1, len(shape)):
        i = tuple(index.tolist())
        q, target, chosen = q_tm1[i].tolist(), q_t[i].tolist(), selector[i].tolist()
        taken = q[int(a_tm1[i])]
        best = max(range(count), key=chosen.__getitem__)
        single[i] = r_t[i] + discount_t[i] * max(target) - taken
        double[i] = r_t[i] + discount_t[i] * target[best] - taken
    same(q_learning_td_error(q_tm1, a_tm1, r_t, discount_t, q_t), single)
    same(double_q_td_error(q_tm1, a_tm1, r_t, discount_t, q_t, selector), double)


@few
@given(shapes, st.integers(1, 4), seeds)
def test_double_q_with_one_network_is_q_learning(
    shape: tuple[int, ...], count: int, seed: int
) -> None:
    q_tm1, q_t = normals(2, (*shape, count), seed)
    r_t, discount_t = normals(2, shape, seed + 1)
    a_tm1 = actions(shape, count, seed)
    one = double_q_td_error(q_tm1, a_tm1, r_t, discount_t, q_t, q_t)
    same(one, q_learning_td_error(q_tm1, a_tm1, r_t, discount_t, q_t))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_actions_may_be_integers_of_any_width(dtype: torch.dtype) -> None:
    q, r = tensor([[1, 2]]), tensor([0])
    assert q_learning_td_error(q, torch.tensor([1], dtype=dtype), r, r, q).tolist() == [-2]


def test_q_of_taken_by_hand() -> None:
    q = tensor([[1, 2], [3, 4]], grad=True)
    taken = q_of_taken(q, torch.tensor([1, 0]))
    taken.sum().backward()
    assert taken.tolist() == [2, 3]
    assert q.grad is not None
    assert q.grad.tolist() == [[0, 1], [1, 0]]


# --- dueling -------------------------------------------------------------------------------------


def test_dueling_by_hand() -> None:
    # the mean advantage is 2: 10 + (1, 2, 3) - 2 = 9, 10, 11
    value, advantages = tensor([10], grad=True), tensor([[1, 2, 3]], grad=True)
    q = dueling(value, advantages)
    q[0, 0].backward()
    assert q.tolist() == [[9, 10, 11]]
    assert value.grad is not None
    assert value.grad.tolist() == [1]
    assert advantages.grad is not None
    assert advantages.grad.flatten().tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])


@few
@given(shapes, st.integers(1, 4), seeds)
def test_the_mean_of_dueling_q_values_is_the_value(
    shape: tuple[int, ...], count: int, seed: int
) -> None:
    """And adding a constant to all advantages changes nothing: the two streams are identified."""
    (value,), (advantages,) = normals(1, shape, seed), normals(1, (*shape, count), seed + 1)
    q = dueling(value, advantages)
    same(q.mean(-1), value)
    same(dueling(value, advantages + 5), q)
    assert q.shape == advantages.shape
