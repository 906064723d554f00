"""One name for both frameworks: the arguments decide."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rillflow.learning import losses
from rillflow.learning.tape import Tape, Var


def test_a_tensor_leads_to_a_tensor() -> None:
    assert isinstance(losses.mean(torch.ones(3)), torch.Tensor)
    assert isinstance(losses.mean(torch.nn.Parameter(torch.ones(3))), torch.Tensor)
    assert isinstance(losses.minimum(0.5, torch.ones(3)), torch.Tensor)


def test_a_var_leads_to_a_var_and_an_array_to_an_array() -> None:
    x = np.ones((2, 3), np.float32)
    assert isinstance(losses.lowest(Tape().var(x)), Var)
    assert isinstance(losses.lowest(x), np.ndarray)
    assert isinstance(losses.minimum(0.5, Tape().var(x)), Var)
    assert isinstance(losses.minimum(0.5, x), np.ndarray)


def test_a_mean_over_an_array_is_a_number() -> None:
    assert isinstance(losses.value_loss(np.ones(3, np.float32), np.ones(3, np.float32)), np.float32)


@pytest.mark.parametrize("number", [2.0, np.float32(2), np.float64(2)])
def test_the_mean_of_one_number_is_that_number(number: float) -> None:
    assert losses.mean(number) == 2
    assert float(losses.mean(Tape().var(number))) == 2


def test_an_array_of_another_class_is_an_array() -> None:
    """Such as one that is mapped to a file."""
    mapped = np.ones(3, np.float32).view(np.memmap)
    assert losses.mean(mapped) == 1


def test_one_text_is_a_loss_in_both() -> None:
    """Values and gradients of an actor and critic, whose loss is written once."""

    def loss(logp, entropy, values, rows):  # type: ignore[no-untyped-def]
        surrogate = losses.clipped_surrogate_loss(logp, rows["logp"], rows["advantages"], 0.2)
        value = losses.value_loss(values, rows["targets"])
        return surrogate + 0.5 * value - 0.01 * losses.entropy_bonus(entropy)

    random = np.random.default_rng(0)
    given = [random.standard_normal(20).astype(np.float32) for _ in range(6)]
    names = ("logp", "advantages", "targets")
    tape = Tape()
    ours = [tape.var(x) for x in given[:3]]
    found = loss(*ours, dict(zip(names, given[3:], strict=True)))
    tape.backward(found)
    theirs = [torch.tensor(x, requires_grad=True) for x in given[:3]]
    expected = loss(*theirs, dict(zip(names, map(torch.tensor, given[3:]), strict=True)))
    expected.backward()
    assert float(found) == pytest.approx(expected.item(), rel=1e-5)
    for our, their in zip(ours, theirs, strict=True):
        assert their.grad is not None
        assert np.allclose(our.grad, their.grad.numpy(), atol=1e-6)
