"""An mlp that learns: all its weights in one vector, all their gradients in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.experience.named_vector import NamedVector, layout_of
from rillflow.learning.analytic.distributions import distribution_of
from rillflow.learning.analytic.layers import Layers, Linear
from rillflow.policies.initial import Weights
from rillflow.policies.make import first_weights
from rillflow.policies.sampling import Array, Floats
from rillflow.policies.spec import PolicySpec
from rillflow.policies.weights import check_weights


class Network:
    """The network of an mlp policy, equal to that of `TorchPolicy(spec, seed)` up to rounding.

    A loss calls `evaluate` (or `q_values`), works out how it changes with what came back, and
    hands that to `backward` (or `backward_q`), which leaves the gradient of all parameters in
    `gradient`. Each speaks of the last call of the other.
    """

    def __init__(self, spec: PolicySpec, seed: int = 0) -> None:
        self.spec = spec
        self.layout = layout_of(spec.parameter_shapes)
        self.parameters: Floats = np.empty(self.layout.size, np.float32)
        self.gradient: Floats = np.zeros(self.layout.size, np.float32)
        self.weights = self.named(self.parameters)
        self.set_weights(first_weights(spec, seed))
        gradients = self.named(self.gradient)

        def linear(name: str) -> Linear:
            return Linear(name, self.weights, gradients)

        def layers(name: str) -> Layers:
            return Layers([linear(f"{name}.{i}") for i in range(len(spec.hidden))], spec.activation)

        self._trunk = layers("trunk")
        self._critic = layers("critic") if spec.has_critic else None
        self._action_head = linear("action_head")
        self._value_head = linear("value_head") if spec.has_value else None
        log_std, d_log_std = self.weights.get("log_std"), gradients.get("log_std")
        self._distribution = distribution_of(spec.actions, log_std, d_log_std)
        self._features: list[Floats] = []

    # -- what losses call ----------------------------------------------------------------------

    def evaluate(self, obs: Array, actions: Array) -> tuple[Floats, Floats, Floats]:
        """Log-probabilities of the actions, entropies and values, each [N]."""
        outputs, values = self._forward(self._columns(obs))
        assert values is not None
        taken = actions if self.spec.actions.kind == "discrete" else actions.reshape(len(obs), -1)
        return *self._distribution.evaluate(outputs, taken), values

    def backward(self, d_logp: Floats, d_entropy: float | Floats, d_values: Floats) -> None:
        """Leave the gradient; how the loss changes with each result of `evaluate`.

        Where the entropy of every row counts the same, one number is enough.
        """
        self._backward(self._distribution.backward(d_logp, d_entropy), d_values[None])

    def values(self, obs: Array) -> Floats:
        """Values [N] alone; nothing is remembered."""
        assert self._value_head is not None
        layers = self._critic or self._trunk
        values: Floats = self._value_head.forward(layers.apply(self._columns(obs)))[0]
        return values

    def q_values(self, obs: Array, *, remember: bool = False) -> Floats:
        """Q values [actions, N], one row per action; remembered for `backward_q` if asked."""
        columns = self._columns(obs)
        if remember:
            return _dueling(*self._forward(columns))
        features = self._trunk.apply(columns)
        value = None if self._value_head is None else self._value_head.forward(features)[0]
        return _dueling(self._action_head.forward(features), value)

    def backward_q(self, d_q: Floats) -> None:
        """Leave the gradient; how the loss changes with the q values that were remembered."""
        if self._value_head is None:
            self._backward(d_q, None)
        else:
            total = np.add.reduce(d_q, 0)
            self._backward(d_q - total * np.float32(1 / len(d_q)), total[None])

    def _columns(self, obs: Array) -> Floats:
        rows = np.asarray(obs, np.float32).reshape(len(obs), self.spec.observation_size)
        scale = self.spec.observation_scale
        return (rows if scale is None else (rows - scale[0]) * scale[1]).T

    def _forward(self, x: Floats) -> tuple[Floats, Floats | None]:
        features = self._trunk.forward(x)
        critic = features if self._critic is None else self._critic.forward(x)
        self._features = [features, critic]
        values = None if self._value_head is None else self._value_head.forward(critic)[0]
        return self._action_head.forward(features), values

    def _backward(self, d_outputs: Floats, d_values: Floats | None) -> None:
        features, critic = self._features
        self._action_head.backward(features, d_outputs)
        d_features = self._action_head.d_input(d_outputs)
        if self._value_head is not None and d_values is not None:
            self._value_head.backward(critic, d_values)
            d_critic = self._value_head.d_input(d_values)
            if self._critic is None:
                d_features += d_critic
            else:
                self._critic.backward(d_critic)
        self._trunk.backward(d_features)

    # -- weights -------------------------------------------------------------------------------

    def named(self, vector: Floats) -> Weights:
        """The parts of a vector like `parameters`, as arrays over the same memory, by name."""
        return self.layout.views(vector)

    def vector(self, named: Mapping[str, NDArray[Any]], out: Floats) -> None:
        """The inverse of `named`: write arrays of these names into a vector."""
        if isinstance(named, NamedVector) and named.layout is self.layout:
            out[:] = named.vector
            return
        check_weights(named, self.spec.parameter_shapes)
        for name, own in self.named(out).items():
            own[...] = named[name]

    def get_weights(self) -> NamedVector:
        """A snapshot that later training does not change."""
        return NamedVector(self.parameters.copy(), self.layout)

    def get_gradient(self) -> NamedVector:
        """A snapshot of the gradient, by the names of the weights."""
        return NamedVector(self.gradient.copy(), self.layout)

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy weights into the network."""
        self.vector(weights, self.parameters)


def _dueling(advantages: Floats, value: Floats | None) -> Floats:
    """`losses.dueling`, of advantages [actions, N] and values [N]; without one, as they are."""
    if value is None:
        return advantages
    # `mean` would take five times as long for a few numbers
    mean: Floats = np.add.reduce(advantages, 0) * np.float32(1 / len(advantages))
    return advantages + (value - mean)
