"""Actors of continuous actions in NumPy: squashed Gaussians, and deterministic ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.learning.numpy_layers import Pass
from rillflow.learning.numpy_module import NumpyModule, filled
from rillflow.learning.tape import Var
from rillflow.policies.make import first_weights
from rillflow.policies.sampling import (
    LOG_STD_HIGH,
    LOG_STD_LOW,
    Array,
    Floats,
    squashed_logp,
)
from rillflow.policies.spec import PolicySpec


class Actor(NumpyModule):
    """A trunk and a head that gives actions within their bounds.

    Its methods are those of `learning.torch_modules.Actor`.
    """

    def __init__(self, spec: PolicySpec, seed: int = 0) -> None:
        self.spec = spec
        super().__init__(spec.parameter_shapes, first_weights(spec, seed))
        self._trunk = self._layers("trunk", len(spec.hidden), spec.activation)
        self._head = self._linear("action_head")
        self._middle, self._half = spec.action_scale

    def __call__(self, obs: Array) -> Any:
        """The actions [N, *shape] of a deterministic policy, or the middle ones of another."""
        outputs, one = self._outputs(obs)
        squeezed = np.tanh(outputs[: self.spec.actions.width])
        actions = self._within(squeezed)
        if self.tape is None:
            return actions
        assert one is not None
        out = Var(actions, self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is None or not self.learns:
                return
            d_outputs = np.zeros_like(outputs)
            d_squeezed = self._columns_of(gradient, squeezed)
            d_outputs[: len(squeezed)] = d_squeezed * (1 - squeezed * squeezed)
            self._backward(one, d_outputs)

        self.tape.backs.append(back)
        return out

    def sample(self, obs: Array) -> tuple[Any, Any]:
        """Actions [N, *shape] drawn from a squashed Gaussian, and their log-probabilities [N].

        The probabilities are those of what is in -1 ... 1, before it is stretched to the bounds.
        """
        outputs, one = self._outputs(obs)
        width = self.spec.actions.width
        raw = outputs[width:]
        log_std = _clipped(raw, LOG_STD_LOW, LOG_STD_HIGH)
        noise = self.rng.standard_normal((len(obs), width), dtype=np.float32).T
        spread = np.exp(log_std) * noise
        drawn = outputs[:width] + spread
        squeezed = np.tanh(drawn)
        actions, logp = self._within(squeezed), squashed_logp(drawn, log_std, noise)
        if self.tape is None:
            return actions, logp
        assert one is not None
        out, chance = Var(actions, self.tape), Var(logp, self.tape)

        def back() -> None:
            d_actions, d_logp = out.pop(), chance.pop()
            if not self.learns or (d_actions is None and d_logp is None):
                return
            d_drawn = np.zeros_like(squeezed)
            if d_actions is not None:
                d_drawn += self._columns_of(d_actions, squeezed) * (1 - squeezed * squeezed)
            if d_logp is not None:
                d_drawn += np.float32(2) * squeezed * np.float32(d_logp)
            d_log_std = d_drawn * spread
            if d_logp is not None:
                d_log_std -= np.float32(d_logp)
            d_log_std *= (raw >= LOG_STD_LOW) & (raw <= LOG_STD_HIGH)
            self._backward(one, np.concatenate([d_drawn, d_log_std]))

        self.tape.backs.append(back)
        return out, chance

    def uniform(self, count: int) -> tuple[Floats, Floats]:
        """Actions [count, *shape] from anywhere within their bounds, and their log-probabilities,
        as those of `sample` are: of what is in -1 ... 1."""
        width = self.spec.actions.width
        squeezed = self.rng.uniform(-1, 1, (count, width)).astype(np.float32).T
        return self._within(squeezed), np.full(count, -width * np.log(2), np.float32)

    def smoothed(self, obs: Array, scale: float, clip: float) -> Floats:
        """Actions with clipped noise, within their bounds (Fujimoto et al. 2018, section 5.3)."""
        squeezed = np.tanh(self._outputs(obs)[0][: self.spec.actions.width])
        drawn = self.rng.standard_normal((len(obs), len(squeezed)), dtype=np.float32).T
        noise = _clipped(np.float32(scale) * drawn, np.float32(-clip), np.float32(clip))
        return self._within(_clipped(squeezed + noise, np.float32(-1), np.float32(1)))

    def _outputs(self, obs: Array) -> tuple[Floats, Pass | None]:
        columns = self._seen(np.asarray(obs.reshape(len(obs), -1), np.float32)).T
        if self.tape is None:
            return self._head.forward(self._trunk.apply(columns)), None
        one = self._trunk.forward(columns)
        return self._head.forward(one.features), one

    def _backward(self, one: Pass, d_outputs: Floats) -> None:
        add = self._adds(whole=True)
        self._head.backward(one.features, d_outputs, add)
        self._trunk.backward(one, self._trunk.d_features(self._head, d_outputs), add=add)

    def _within(self, squeezed: Floats) -> Floats:
        actions: Floats = squeezed.T * self._half + self._middle
        return actions.reshape(-1, *self.spec.actions.shape)

    def _columns_of(self, d_actions: Any, like: Floats) -> Floats:
        """The gradient of what is in -1 ... 1, [width, N], of that of the actions."""
        rows = filled(d_actions, (like.shape[1], *self.spec.actions.shape))
        columns: Floats = (rows.reshape(like.shape[1], -1) * self._half).T
        return columns


def _clipped(x: Floats, low: np.float32, high: np.float32) -> Floats:
    """As `np.clip`, in a third of the time for a few numbers."""
    clipped: Floats = np.minimum(np.maximum(x, low), high)
    return clipped
