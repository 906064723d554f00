"""The tape: every operation gives torch's values and gradients, broadcast or not."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rillflow.learning.tape import Tape, Var, custom, minimum, value_of

Arrays = list[np.ndarray]
SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 3), (1, 3)),
    ((1, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (3,)),
    ((2, 3), ()),
    ((), ()),
]
"""of two arguments; () is one number"""


def floats(*shape: int, seed: int = 0) -> Any:
    """Normal numbers, away from 0: some functions have a corner there."""
    x = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(x + np.where(x > 0, 0.1, -0.1), np.float32)[()]


def agree(f: Callable[..., Any], *arguments: Any, learned: Any = None) -> None:
    """Values and gradients of a function are the same on a tape and in torch, and float32.

    A gradient comes to the function as an array, and as one number for all entries.
    """
    chosen = range(len(arguments)) if learned is None else learned
    for weigh in (lambda x: floats(*x.shape, seed=7), lambda x: np.float32(0.5)):
        tape = Tape()
        ours = [tape.var(x) if i in chosen else x for i, x in enumerate(arguments)]
        theirs = [torch.tensor(x, requires_grad=i in chosen) for i, x in enumerate(arguments)]
        found, expected = f(*ours), f(*theirs)
        close(found.value, expected)
        weights = weigh(found)
        tape.backward((found * weights).sum())
        (expected * torch.tensor(weights)).sum().backward()
        for our, their in zip(ours, theirs, strict=True):
            if isinstance(our, Var):
                each = isinstance(our.grad, np.ndarray)
                close(our.grad if each else np.full(our.shape, our.grad, "f"), their.grad)


def close(found: Any, expected: Any) -> None:
    assert np.asarray(found).dtype == np.float32
    expected = expected.detach().numpy()
    assert np.shape(found) == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# --- one operation -------------------------------------------------------------------------------


@pytest.mark.parametrize("learned", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_arithmetic_broadcasts(name: str, shapes: Any, learned: tuple[int, ...]) -> None:
    one, other = shapes
    agree(getattr(operator, name), floats(*one), floats(*other, seed=1), learned=learned)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 2 + x,
        lambda x: 2 - x,
        lambda x: x - 2,
        lambda x: 2 * x,
        lambda x: 2 / x,
        lambda x: x / 2,
        lambda x: -x,
        lambda x: x**2,
        lambda x: x**3,
    ],
)
@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_plain_numbers_are_constants(f: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    agree(f, floats(*shape))


@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
@pytest.mark.parametrize(
    "name", ["exp", "square", "abs", "tanh", "sigmoid", "relu", "reciprocal", "detach"]
)
def test_functions_of_each_entry(name: str, shape: tuple[int, ...]) -> None:
    agree(lambda x: x * 1 + getattr(x, name)(), floats(*shape))


@pytest.mark.parametrize("name", ["log", "sqrt"])
def test_functions_of_positive_entries(name: str) -> None:
    agree(lambda x: getattr(x, name)(), np.abs(floats(4)))


@pytest.mark.parametrize(
    "bounds", [{"min": -0.5}, {"max": 0.5}, {"min": -0.5, "max": 0.5}, {"min": -9.0, "max": 9.0}]
)
@pytest.mark.parametrize("shape", [(6,), ()])
def test_beyond_its_bounds_a_clamp_learns_nothing(
    bounds: dict[str, float], shape: tuple[int, ...]
) -> None:
    agree(lambda x: x.clamp(**bounds), floats(*shape))


@pytest.mark.parametrize("shapes", SHAPES)
def test_the_minimum_of_two(shapes: Any) -> None:
    one, other = floats(*shapes[0]), floats(*shapes[1], seed=1)

    def least(a: Any, b: Any) -> Any:
        return torch.minimum(a, b) if isinstance(a, torch.Tensor) else minimum(a, b)

    agree(least, one, other)
    agree(least, one, one)  # the same: they share the gradient


def test_the_minimum_of_constants_is_a_constant() -> None:
    assert minimum(np.array([1.0, 4.0]), np.array([2.0, 3.0])).tolist() == [1, 3]


# --- from many to few, and shapes ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_sums_and_means(name: str, dim: int | None) -> None:
    def f(x: Any) -> Any:
        return getattr(x, name)() if dim is None else getattr(x, name)(dim)

    agree(f, floats(2, 3))
    agree(lambda x: f(x).sum(), floats(2, 3))
    agree(lambda x: f(x * x).square().mean(), floats(2, 3))


@pytest.mark.parametrize("name", ["amin", "amax"])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_least_and_the_largest(name: str, dim: int) -> None:
    agree(lambda x: getattr(x, name)(dim), floats(3, 4))
    agree(lambda x: getattr(x, name)(dim).sum(), np.ones((2, 3), np.float32))  # all the same


@pytest.mark.parametrize(
    "key",
    [0, -1, slice(1, 3), (0, 1), (slice(None), 1), [2, 0], ([0, 1, 1], [1, 0, 0]), [1, 1, 1]],
)
def test_an_entry_that_is_taken_twice_learns_twice(key: Any) -> None:
    agree(lambda x: x[key], floats(3, 4))
    agree(lambda x: x[key].mean(), floats(3, 4))


def test_other_shapes() -> None:
    agree(lambda x: x.reshape(3, 2), floats(2, 3))
    agree(lambda x: x.reshape(-1), floats(2, 3))
    agree(lambda x: x.reshape(-1).mean(), floats(2, 3))


def test_a_var_tells_its_shape_its_length_and_its_number() -> None:
    x = Tape().var(floats(2, 3))
    assert (x.shape, x.ndim, len(x)) == ((2, 3), 2, 2)
    assert float(x.sum()) == pytest.approx(float(x.value.sum()))
    assert repr(Tape().var(2.0)) == "Var(2.0)"


# --- several operations --------------------------------------------------------------------------


def test_a_loss_like_that_of_soft_actor_critic() -> None:
    def loss(log_alpha: Any, logp: Any, q: Any) -> Any:
        return (log_alpha.exp() * logp - q.amin(0)).mean()

    agree(loss, floats(), floats(5), floats(2, 5))


def test_what_is_used_twice_learns_from_both() -> None:
    agree(lambda x, w: ((x * w).tanh() * x + x.sum() - w).square().mean(), floats(2, 3), floats(3))


def test_two_losses_on_one_tape() -> None:
    """Each loss goes back over the tape; gradients of the first do not leak into the second."""
    tape = Tape()
    x, y = tape.var(floats(3)), tape.var(floats(3, seed=1))
    hidden = x * y
    first, second = hidden.sum(), (hidden * x).mean()
    tape.backward(first)
    assert np.allclose(x.pop(), y.value)
    assert np.allclose(y.pop(), x.value)
    tape.backward(second)
    assert np.allclose(x.pop(), 2 * x.value * y.value / 3)
    assert np.allclose(y.pop(), x.value * x.value / 3)


def test_what_a_loss_does_not_use_learns_nothing_from_it() -> None:
    tape = Tape()
    x, other = tape.var(floats(3)), tape.var(floats(3, seed=1))
    loss = (2 * x).mean()
    _ = other + 1, other - 1, other * 2, other.exp(), other.sum(), other.amin(0), other[1]
    _ = other.reshape(1, 3), minimum(other, 1.0)
    tape.backward(loss)
    assert x.grad is not None
    assert other.grad is None


def test_gradients_add_up_until_they_are_taken_away() -> None:
    tape = Tape()
    x = tape.var(floats(3))
    loss = (2 * x).sum()
    tape.backward(loss)
    tape.backward(loss)
    assert np.allclose(np.broadcast_to(x.pop(), 3), 4)
    assert x.grad is None


def test_a_tape_can_be_cleared() -> None:
    tape = Tape()
    x = tape.var(floats(3))
    loss = x.sum()
    tape.clear()
    tape.backward(loss)
    assert x.grad is None


def test_a_float64_constant_does_not_widen_what_it_is_multiplied_by() -> None:
    tape = Tape()
    x = tape.var(floats(3))
    loss = ((x * np.float64(2) + np.float64(1)) / np.float64(3) - np.float64(1)).relu().sum()
    tape.backward(loss)
    assert loss.value.dtype == x.grad.dtype == np.float32


# --- gradients of one's own ----------------------------------------------------------------------


def test_a_custom_gradient_is_sent_to_each_var_alone() -> None:
    tape = Tape()
    x, constant = tape.var(floats(3)), floats(3, seed=1)
    dot = custom(x.value @ constant, (x, lambda g: g * constant), (constant, lambda g: 1 / 0))
    tape.backward(3 * dot)
    assert np.allclose(x.grad, 3 * constant)


def test_the_value_of_a_constant_is_itself() -> None:
    x = floats(3)
    assert value_of(x) is x
    assert value_of(Tape().var(x)) is x


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [1.0, np.float32(1), Tape().var(1.0), None])
def test_a_loss_that_depends_on_nothing_of_the_tape_is_refused(loss: Any) -> None:
    with pytest.raises(TypeError, match="there is nothing to learn from it"):
        Tape().backward(loss)


def test_a_loss_of_many_numbers_is_refused() -> None:
    tape = Tape()
    with pytest.raises(TypeError, match=r"a loss is one number, found an array \[3\]: take its"):
        tape.backward(tape.var(floats(3)) * 2)


def test_an_exponent_is_a_number() -> None:
    tape = Tape()
    with pytest.raises(TypeError, match="unsupported operand"):
        tape.var(floats(3)) ** tape.var(floats(3))
