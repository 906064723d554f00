"""A network in NumPy: its weights in one vector, their gradients in another."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rillflow.experience.named_vector import NamedVector, layout_of
from rillflow.learning.numpy_layers import Layers, Linear
from rillflow.learning.tape import Tape
from rillflow.policies.normalizer import BUFFERS, Normalizer, moments_in
from rillflow.policies.sampling import Floats
from rillflow.policies.spec import PolicySpec
from rillflow.policies.weights import check_weights

Shapes = Mapping[str, tuple[int, ...]]


class NumpyModule:
    """What the networks that learn in NumPy share.

    While it has a `tape` its results are on it, and going back over the tape leaves the gradient of
    its parameters in `gradient`, if it `learns`. Without one, results are plain arrays.
    """

    spec: PolicySpec
    """of the observations, if the network has any"""

    def __init__(self, shapes: Shapes, first: Mapping[str, NDArray[Any]]) -> None:
        self.shapes = dict(shapes)
        self.layout = layout_of(self.shapes)
        self.parameters: Floats = np.empty(self.layout.size, np.float32)
        self.gradient: Floats = np.zeros(self.layout.size, np.float32)
        self.weights = self.named(self.parameters)
        self.gradients = self.named(self.gradient)
        self.normalizer: Normalizer | None = None
        """what observations go through before the network sees them; None: nothing"""
        if BUFFERS[0] in first:
            self.normalizer = Normalizer(moments_in(first), self.spec.loosely)
        self.set_weights(first)
        self.tape: Tape | None = None
        self.learns = True
        """whether the loss at hand trains it"""
        self.untouched = True
        """whether `gradient` is still that of an earlier loss"""
        self.rng = np.random.default_rng(0)
        """where a network that draws actions takes its noise from; the learner gives its own"""
        self.parts: list[Layers] = []

    def frozen(self) -> Self:
        """The same network, whose results nothing is learned through."""
        view = copy.copy(self)
        view.tape = None
        return view

    def equals(self, other: NumpyModule) -> bool:
        """Whether another network of the same kind gives the same, number for number."""
        if not np.array_equal(self.parameters, other.parameters):
            return False
        if self.normalizer is None or other.normalizer is None:
            return True
        own, others = self.normalizer.buffers(), other.normalizer.buffers()
        return all(np.array_equal(own[name], others[name]) for name in BUFFERS)

    def begin(self, learns: bool) -> None:
        """A loss is about to be gone back over."""
        self.learns, self.untouched = learns, True

    def end(self) -> None:
        """It was; what no gradient has reached has none."""
        if self.learns and self.untouched:
            self.gradient[:] = 0

    def forget(self) -> None:
        """Nothing on the tape is gone back over any more."""
        for part in self.parts:
            part.forget()

    def _adds(self, whole: bool) -> bool:
        """Whether a gradient is added to what is there; unless `whole`, the rest of it is 0."""
        add = not self.untouched
        if self.untouched and not whole:
            self.gradient[:] = 0
            add = True
        self.untouched = False
        return add

    def _seen(self, rows: Floats) -> Floats:
        """Flat observations [N, size], and a mask behind them, as the layers take them."""
        if rows.shape[1] > self.spec.observation_size:
            rows = rows[:, : self.spec.observation_size]
        if self.normalizer is not None:
            return self.normalizer(rows)
        scale = self.spec.observation_scale
        return rows if scale is None else (rows - scale[0]) * scale[1]

    def _linear(self, name: str) -> Linear:
        return Linear(name, self.weights, self.gradients)

    def _layers(self, name: str, count: int, activation: str) -> Layers:
        layers = Layers([self._linear(f"{name}.{i}") for i in range(count)], activation)
        self.parts.append(layers)
        return layers

    # -- weights -------------------------------------------------------------------------------

    def named(self, vector: Floats) -> dict[str, Floats]:
        """The parts of a vector like `parameters`, as arrays over the same memory, by name."""
        return self.layout.views(vector)

    def vector(self, named: Mapping[str, NDArray[Any]], out: Floats) -> None:
        """The inverse of `named`: write arrays of these names into a vector."""
        if isinstance(named, NamedVector) and named.layout is self.layout:
            out[:] = named.vector
            return
        check_weights(named, self.shapes)
        for name, own in self.named(out).items():
            own[...] = named[name]

    def get_weights(self) -> Mapping[str, NDArray[Any]]:
        """A snapshot that later training does not change."""
        weights = NamedVector(self.parameters.copy(), self.layout)
        return weights if self.normalizer is None else {**weights, **self.normalizer.buffers()}

    def get_gradient(self) -> NamedVector:
        """A snapshot of the gradient, by the names of the weights."""
        return NamedVector(self.gradient.copy(), self.layout)

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy weights into the network."""
        if self.normalizer is not None:
            check_weights(weights, self.shapes | self.normalizer.shapes)
            self.normalizer.set(moments_in(weights))
            weights = {name: weights[name] for name in self.shapes}
        self.vector(weights, self.parameters)


def filled(gradient: Any, shape: tuple[int, ...]) -> Floats:
    """A gradient as an array, although it may be one number for all entries."""
    if isinstance(gradient, np.ndarray):
        return gradient
    return np.full(shape, gradient, np.float32)
