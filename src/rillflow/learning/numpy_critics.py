"""Values of continuous actions, and single numbers, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.learning.numpy_module import NumpyModule, filled
from rillflow.learning.tape import Var, value_of
from rillflow.policies.modules import QOfAction, Scalar
from rillflow.policies.sampling import Array, Floats


class Critic(NumpyModule):
    """Values of observations and actions: [N], or [copies, N] of several networks."""

    def __init__(self, description: QOfAction, seed: int | list[int] = 0) -> None:
        self.description, self.spec = description, description.spec
        super().__init__(description.parameter_shapes, description.first_weights(seed))
        self._trunk = self._layers("trunk", len(self.spec.hidden), self.spec.activation)
        self._head = self._linear("value_head")
        self._middle, half = self.spec.action_scale
        self._inverse = np.float32(1) / half
        self._inputs, self._size = description.inputs, self.spec.observation_size
        self._taken = slice(self._size, None)

    def __call__(self, obs: Array, actions: Any) -> Any:
        """How good actions [N, *shape] are on observations [N, ...]."""
        columns = self._columns(obs, value_of(actions))
        if self.tape is None:
            values: Floats = self._head.forward(self._trunk.apply(columns))[..., 0, :]
            return values
        one = self._trunk.forward(columns)
        out = Var(self._head.forward(one.features)[..., 0, :], self.tape)
        inputs = isinstance(actions, Var)

        def back() -> None:
            gradient = out.pop()
            if gradient is None or not (self.learns or inputs):
                return
            d_out = filled(gradient, out.value.shape)[..., None, :]
            add = False
            if self.learns:
                add = self._adds(whole=True)
                self._head.backward(one.features, d_out, add)
            d_columns = self._trunk.backward(
                one,
                self._trunk.d_features(self._head, d_out),
                learns=self.learns,
                add=add,
                inputs=self._taken if inputs else None,
            )
            if inputs:
                assert d_columns is not None
                d_actions = (d_columns * self._inverse[:, None]).T
                actions.take(d_actions.reshape(actions.value.shape))

        self.tape.backs.append(back)
        return out

    def _columns(self, obs: Array, actions: Array) -> Floats:
        """Observations above actions, these scaled to -1 ... 1: [inputs, N]."""
        size = self._size
        columns = np.empty((self._inputs, len(obs)), np.float32)
        rows = obs.reshape(len(obs), size)
        columns[:size] = self._seen(rows).T
        taken = actions.reshape(len(obs), -1)
        np.subtract(taken.T, self._middle[:, None], out=columns[size:])
        columns[size:] *= self._inverse[:, None]
        return columns


class Number(NumpyModule):
    """One number that is learned."""

    def __init__(self, description: Scalar, seed: int | list[int] = 0) -> None:
        super().__init__(description.parameter_shapes, description.first_weights(seed))

    def __call__(self) -> Any:
        """The number."""
        value = self.parameters[0]
        if self.tape is None:
            return value
        out = Var(value, self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is not None and self.learns:
                if self._adds(whole=True):
                    self.gradient[0] += gradient
                else:
                    self.gradient[0] = gradient

        self.tape.backs.append(back)
        return out

    def follow(self, value: Any, part: float) -> np.float32:
        """Go a part of the way to a value, the first time all of it; where it is then, a constant.

        What is not finite is not followed.
        """
        own, to = self.parameters[0], np.float32(value_of(value))
        towards = to if own == 0 else own + np.float32(part) * (to - own)
        if np.isfinite(towards):
            self.parameters[0] = towards
        return np.float32(self.parameters[0])
