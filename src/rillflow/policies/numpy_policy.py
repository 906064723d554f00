"""Acting with a small MLP in NumPy: no torch to import in a worker, and microseconds per step.

Activations are kept [features, B]: weights multiply from the left as they are stored, and the
outputs come out the way `Sampler` wants them. All large arrays are allocated once per batch size.
Values are not computed: the learner does it, for a whole batch in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import BuildError, RunError
from rillflow.models.initial import Weights, initial_weights
from rillflow.policies.sampling import Array, Floats, Sampler
from rillflow.policies.spec import PolicySpec
from rillflow.policies.weights import check_weights


class NumpyPolicy:
    """The acting half of an mlp policy; equal to `TorchPolicy` up to rounding.

    Args:
        spec: what to build; `spec.model` must be "mlp".
        seed: of the first weights (those of `TorchPolicy(spec, seed)`) and of the actions.
    """

    def __init__(self, spec: PolicySpec, seed: int = 0) -> None:
        if spec.model != "mlp":
            raise BuildError(
                f"NumpyPolicy acts for model='mlp' only, found {spec.model!r}; "
                "make_actor(spec) picks the policy that fits"
            )
        self.spec = spec
        self.rng = np.random.default_rng([seed, 1])
        self._sampler = Sampler(spec.actions, spec.head == "q")
        self._activation = np.tanh if spec.activation == "tanh" else _relu
        shapes = {name: spec.parameter_shapes[name] for name in spec.acting_names}
        self._weights = initial_weights(shapes, seed, small_action_head=spec.head != "q")
        self._layers = self._pairs([f"trunk.{i}" for i in range(len(spec.hidden))])
        ((self._head, self._head_bias),) = self._pairs(["action_head"])
        self._buffers = self._allocate(0)

    # acting

    def act(self, obs: Array, epsilon: float | Floats = 0.0) -> tuple[Array, Floats]:
        """Actions [B, *shape] sampled for observations [B, ...], and their log-probabilities [B].

        The arrays returned are new ones.

        Args:
            obs: one observation per environment.
            epsilon: for q values, how often to explore: one number, or one per environment.
        """
        outputs = self._forward(obs)
        return self._sampler.sample(outputs, self._weights.get("log_std"), self.rng, epsilon)

    def greedy(self, obs: Array) -> Array:
        """The most likely (or highest-valued) actions for observations [B, ...]."""
        return self._sampler.greedy(self._forward(obs))

    def outputs(self, obs: Array) -> Floats:
        """Logits, means or q values, [B, width]; a new array."""
        outputs = self._forward(obs)
        if self.spec.dueling:
            features = self._buffers[-2] if self._layers else self._columns(obs)
            value = self._weights["value_head.weight"] @ features
            value += self._weights["value_head.bias"][:, None]
            outputs += value - outputs.mean(0)
        return outputs.T.copy()

    def _columns(self, obs: Array) -> Floats:
        """The observations as columns, [size, B]."""
        obs = np.asarray(obs, np.float32)
        if obs.shape[1:] != self.spec.observation_shape or obs.ndim == 0:
            raise RunError(
                f"observations must be [B, {', '.join(map(str, self.spec.observation_shape))}], "
                f"one per environment; found {list(obs.shape)}"
            )
        return obs.reshape(len(obs), self.spec.observation_size).T

    def _forward(self, obs: Array) -> Floats:
        x = self._columns(obs)
        if self._buffers[-1].shape[1] != x.shape[1]:
            self._buffers = self._allocate(x.shape[1])
        *hidden, outputs = self._buffers
        for (weight, bias), out in zip(self._layers, hidden, strict=True):
            np.matmul(weight, x, out=out)
            out += bias
            self._activation(out, out=out)
            x = out
        np.matmul(self._head, x, out=outputs)
        outputs += self._head_bias
        return outputs

    def _allocate(self, batch: int) -> list[Floats]:
        widths = (*self.spec.hidden, self.spec.actions.width)
        return [np.empty((width, batch), np.float32) for width in widths]

    def _pairs(self, names: list[str]) -> list[tuple[Floats, Floats]]:
        """Weights and biases of some layers: views, so that they follow `set_weights`."""
        weights = self._weights
        return [(weights[f"{name}.weight"], weights[f"{name}.bias"][:, None]) for name in names]

    # weights and state

    def get_weights(self) -> Weights:
        """A copy of the weights that decide what the policy does."""
        return {name: array.copy() for name, array in self._weights.items()}

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy the learner's weights; those of the critic may be left out."""
        check_weights(weights, self.spec.parameter_shapes, self.spec.acting_names)
        for name, own in self._weights.items():
            own[...] = weights[name]

    def get_state(self) -> dict[str, Any]:
        """Weights and random state: what makes the next actions the same."""
        return {"weights": self.get_weights(), "rng": self.rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `get_state` was called."""
        self.set_weights(state["weights"])
        self.rng.bit_generator.state = state["rng"]


def _relu(x: Floats, out: Floats) -> Floats:
    return np.maximum(x, np.float32(0), out=out)
