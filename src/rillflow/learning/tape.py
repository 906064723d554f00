"""Gradients in NumPy: a tape remembers what was computed, and goes back over it.

A `Var` is an array that a loss may be differentiated by. Few and large operations are meant to be
on a tape: a pass through a network is one, and so is PPO's clipped surrogate (see `losses`). The
arithmetic between them is here, under the names that it has on torch's tensors: a loss that keeps
to it is written once, for both.

>>> tape = Tape()
>>> x = tape.var(np.array([1.0, 2.0, 3.0]))
>>> loss = (2 * x - 1).square().mean()
>>> tape.backward(loss)
>>> x.grad
array([1.33333333, 4.        , 6.66666667])

A gradient may be one number for all entries of its array: sums and means send such ones back, and
nobody fills an array with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rillflow.learning.broadcasting import Array as Array
from rillflow.learning.broadcasting import along, spread, summed_to
from rillflow.learning.broadcasting import shape_of as shape_of

Number = float | np.floating[Any]
Back = Callable[[], None]

# bools times a Python float are float64
HALF, ONE = np.float32(0.5), np.float32(1)


class Tape:
    """What was computed, in order: how to go back over each piece of it."""

    __slots__ = ("backs",)

    def __init__(self) -> None:
        self.backs: list[Back] = []

    def var(self, value: Any) -> Var:
        """An array that can be differentiated by; its gradient is left in its `grad`."""
        return Var(value, self)

    def backward(self, loss: Any) -> None:
        """Leave the gradient of a loss, one number, in everything that it was computed from.

        The tape can be gone over again, by another loss that begins on it.
        """
        if not isinstance(loss, Var) or loss.tape is not self:
            raise TypeError(
                f"a loss is computed from what the modules give, found {type(loss).__name__}, "
                "which does not depend on them: there is nothing to learn from it"
            )
        if shape_of(loss.value):
            raise TypeError(
                f"a loss is one number, found an array {list(loss.value.shape)}: take its mean()"
            )
        loss.take(1.0)
        for back in reversed(self.backs):
            back()

    def clear(self) -> None:
        """Forget all of it."""
        self.backs.clear()


class Var:
    """An array, or one number, on a tape."""

    __slots__ = ("grad", "tape", "value")
    __array_ufunc__ = None  # `array - var` asks the var, not NumPy

    def __init__(self, value: Any, tape: Tape) -> None:
        self.value = value
        self.tape = tape
        self.grad: Any = None

    def take(self, gradient: Any) -> None:
        """Add to the gradient; what came in by broadcasting goes out by a sum."""
        if type(gradient) is np.ndarray:
            value = self.value
            shape = value.shape if type(value) is np.ndarray else shape_of(value)
            if gradient.shape != shape:
                gradient = summed_to(gradient, shape)
        self.grad = gradient if self.grad is None else self.grad + gradient

    def pop(self) -> Any:
        """The gradient, which is taken away: the next loss begins with none."""
        gradient, self.grad = self.grad, None
        return gradient

    # -- arithmetic ----------------------------------------------------------------------------

    def __add__(self, other: Any) -> Var:
        out = Var(self.value + value_of(other), self.tape)
        if type(out.value) is not np.ndarray:
            return _of_numbers(out, (self, 1.0), (other, 1.0))

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                self.take(spread(gradient, out.value, self.value))
                if isinstance(other, Var):
                    other.take(spread(gradient, out.value, other.value))

        self.tape.backs.append(back)
        return out

    __radd__ = __add__

    def __neg__(self) -> Var:
        return self * -1.0

    def __sub__(self, other: Any) -> Var:
        out = Var(self.value - value_of(other), self.tape)
        if type(out.value) is not np.ndarray:
            return _of_numbers(out, (self, 1.0), (other, -1.0))

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                self.take(spread(gradient, out.value, self.value))
                if isinstance(other, Var):
                    other.take(-spread(gradient, out.value, other.value))

        self.tape.backs.append(back)
        return out

    def __rsub__(self, other: Any) -> Var:
        return (self * -1.0).__add__(other)

    def __mul__(self, other: Any) -> Var:
        value, factor = self.value, value_of(other)
        out = Var(value * factor, self.tape)
        if type(out.value) is not np.ndarray:
            return _of_numbers(out, (self, factor), (other, value))

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                self.take(spread(gradient * factor, out.value, value))
                if isinstance(other, Var):
                    other.take(spread(gradient * value, out.value, factor))

        self.tape.backs.append(back)
        return out

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Var:
        return self.__mul__(other.reciprocal() if isinstance(other, Var) else 1.0 / other)

    def __rtruediv__(self, other: Any) -> Var:
        return self.reciprocal().__mul__(other)

    def __pow__(self, exponent: float) -> Var:
        if isinstance(exponent, Var):
            return NotImplemented
        value = self.value
        return self._entrywise(value**exponent, lambda: exponent * value ** (exponent - 1))

    # -- functions of each entry ---------------------------------------------------------------

    def exp(self) -> Var:
        """The exponential."""
        out = np.exp(self.value)
        return self._entrywise(out, lambda: out)

    def log(self) -> Var:
        """The natural logarithm."""
        return self._entrywise(np.log(self.value), lambda: 1 / self.value)

    def square(self) -> Var:
        """Times itself."""
        return self._entrywise(self.value * self.value, lambda: 2 * self.value)

    def sqrt(self) -> Var:
        """The square root."""
        out = np.sqrt(self.value)
        return self._entrywise(out, lambda: 0.5 / out)

    def abs(self) -> Var:
        """The size."""
        return self._entrywise(np.abs(self.value), lambda: np.sign(self.value))

    def tanh(self) -> Var:
        """The hyperbolic tangent."""
        out = np.tanh(self.value)
        return self._entrywise(out, lambda: 1 - out * out)

    def sigmoid(self) -> Var:
        """1 / (1 + exp(-x))."""
        out = 0.5 * (np.tanh(0.5 * self.value) + 1)
        return self._entrywise(out, lambda: out * (1 - out))

    def relu(self) -> Var:
        """The positive part."""
        return self._entrywise(np.maximum(self.value, 0), lambda: (self.value > 0) * ONE)

    def reciprocal(self) -> Var:
        """One over it."""
        out = 1.0 / self.value
        return self._entrywise(out, lambda: -out * out)

    def clamp(self, min: float | None = None, max: float | None = None) -> Var:
        """Within bounds; beyond them nothing is learned."""
        low = -math.inf if min is None else min
        high = math.inf if max is None else max
        value = self.value
        return self._entrywise(
            np.clip(value, low, high).astype(value.dtype, copy=False),
            lambda: ((value >= low) & (value <= high)) * ONE,
        )

    def _entrywise(self, value: Any, slope: Callable[[], Any]) -> Var:
        out = Var(value, self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                self.take(gradient * slope())

        self.tape.backs.append(back)
        return out

    # -- from many to few ----------------------------------------------------------------------

    def sum(self, dim: int | None = None) -> Var:
        """Over all entries, or along one axis."""
        out = Var(np.add.reduce(self.value, dim), self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                self.take(along(gradient, dim, self.value))

        self.tape.backs.append(back)
        return out

    def mean(self, dim: int | None = None) -> Var:
        """Over all entries, or along one axis."""
        count = np.size(self.value) if dim is None else self.value.shape[dim]
        return self.sum(dim) * float(1 / max(1, count))

    def amin(self, dim: int = 0) -> Var:
        """The least along an axis; where several are, they share what is learned from it."""
        return self._extreme(np.minimum.reduce(self.value, dim), dim)

    def amax(self, dim: int = 0) -> Var:
        """The largest along an axis; where several are, they share what is learned from it."""
        return self._extreme(np.maximum.reduce(self.value, dim), dim)

    def _extreme(self, value: Any, dim: int) -> Var:
        out = Var(value, self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                found = (self.value == np.expand_dims(value, dim)).astype(self.value.dtype)
                found /= np.add.reduce(found, dim, keepdims=True)
                self.take(along(gradient, dim, self.value) * found)

        self.tape.backs.append(back)
        return out

    # -- shapes --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Var:
        out = Var(self.value[key], self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                whole = np.zeros_like(self.value)
                if isinstance(key, int | slice):  # which takes each entry once
                    whole[key] = gradient
                else:
                    np.add.at(whole, key, gradient)
                self.take(whole)

        self.tape.backs.append(back)
        return out

    def reshape(self, *shape: int) -> Var:
        """The same entries in another shape."""
        out = Var(self.value.reshape(*shape), self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is not None:
                each = isinstance(gradient, np.ndarray)
                self.take(gradient.reshape(self.value.shape) if each else gradient)

        self.tape.backs.append(back)
        return out

    def detach(self) -> Array:
        """The array alone: nothing is learned through it."""
        value: Array = self.value
        return value

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return shape_of(self.value)

    @property
    def ndim(self) -> int:
        """Axes of the array."""
        return len(shape_of(self.value))

    def __len__(self) -> int:
        return len(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return f"Var({self.value!r})"


def _of_numbers(out: Var, *parts: tuple[Any, Any]) -> Var:
    """One number made of others, each with its slope: without questions about shapes."""

    def back() -> None:
        gradient, out.grad = out.grad, None
        if gradient is not None:
            for part, slope in parts:
                if type(part) is Var:
                    own = gradient * slope
                    part.grad = own if part.grad is None else part.grad + own

    out.tape.backs.append(back)
    return out


def value_of(x: Any) -> Any:
    """The array of a var; anything else as it is, but a float64 as a number without a dtype.

    A constant such as `np.interp(...)` would make float64 arrays of all that it is multiplied by.
    """
    if isinstance(x, Var):
        return x.value
    return float(x) if type(x) is np.float64 else x


def minimum(one: Any, other: Any) -> Any:
    """The lesser of each pair of entries; where both are the same, they share the gradient."""
    a, b = value_of(one), value_of(other)
    if not isinstance(one, Var) and not isinstance(other, Var):
        return np.minimum(a, b)
    return custom(
        np.minimum(a, b),
        (one, lambda g: g * ((a < b) * ONE + HALF * (a == b))),
        (other, lambda g: g * ((b < a) * ONE + HALF * (a == b))),
    )


def custom(value: Any, *parents: tuple[Any, Callable[[Any], Any]]) -> Var:
    """A result with a gradient of its own making: for each argument, how one of it follows.

    Arguments that are no `Var` are passed over.

    >>> tape = Tape()
    >>> x = tape.var(np.array([3.0, 4.0]))
    >>> tape.backward(custom(float(x.value @ x.value), (x, lambda g: g * 2 * x.value)))
    >>> x.grad.tolist()
    [6.0, 8.0]
    """
    learned = [(var, pull) for var, pull in parents if isinstance(var, Var)]
    out = Var(value, learned[0][0].tape)

    def back() -> None:
        gradient = out.pop()
        if gradient is not None:
            for var, pull in learned:
                var.take(pull(gradient))

    out.tape.backs.append(back)
    return out
