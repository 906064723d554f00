"""Acting with a small MLP in NumPy: no torch to import in a worker, and microseconds per step.

Activations are kept [features, B]: weights multiply from the left as they are stored, and the
outputs come out the way `Sampler` wants them. Below each layer's inputs is a row of ones, which
the bias multiplies: a pass over the activations for it would cost as much as the products of a
small network. All large arrays are allocated once per batch size.
Values are not computed: the learner does it, for a whole batch in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import BuildError, RunError
from rillflow.experience.named_vector import Layout, NamedVector
from rillflow.policies.action_masks import RULED_OUT, mask_of
from rillflow.policies.initial import Weights, weights_at_first
from rillflow.policies.normalizer import CLIP, Moments, Normalizer, moments_in
from rillflow.policies.sampling import Array, Floats, Sampler
from rillflow.policies.spec import PolicySpec
from rillflow.policies.weights import check_weights


class NumpyPolicy:
    """The acting half of an mlp policy; equal to `TorchPolicy` up to rounding.

    Args:
        spec: what to build; `spec.model` must be "mlp", without memory.
        seed: of the first weights (those of `TorchPolicy(spec, seed)`) and of the actions.
    """

    def __init__(self, spec: PolicySpec, seed: int = 0) -> None:
        if not spec.plain:
            raise BuildError(
                f"NumpyPolicy acts for model='mlp' only, found {spec.network}; "
                "make_actor(spec) picks the policy that fits"
            )
        self.spec = spec
        self.rng = np.random.default_rng([seed, 1])
        self._sampler = Sampler(spec)
        self._activation = np.tanh if spec.activation == "tanh" else _relu
        scale = spec.observation_scale
        self._scale = None if scale is None else (scale[0][:, None], scale[1][:, None])
        self._normalizer = None
        if spec.normalize_observations:
            self._normalizer = Normalizer(Moments.none(spec.observation_shape))
        acting = spec.parameter_shapes.keys() & spec.acting_names
        shapes = {name: shape for name, shape in spec.parameter_shapes.items() if name in acting}
        self._weights = weights_at_first(spec, shapes, seed)
        self._layout: Layout | None = None
        """of the weights that were last found to fit"""
        self._layers = [*(f"trunk.{i}" for i in range(len(spec.hidden))), "action_head"]
        # weights and bias of each layer as one matrix
        self._matrices: list[Floats] = [
            np.column_stack((self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]))
            for name in self._layers
        ]
        self._allocate(0)

    # acting

    def act(self, obs: Array, epsilon: float | Floats = 0.0) -> tuple[Array, Floats]:
        """Actions [B, *shape] sampled for observations [B, ...], and their log-probabilities [B].

        The arrays returned are new ones.

        Args:
            obs: one observation per environment.
            epsilon: for q values, how often to explore: one number, or one per environment.
        """
        outputs = self._ruled(obs, self._forward(obs))
        return self._sampler.sample(outputs, self._weights.get("log_std"), self.rng, epsilon)

    def act_and_value(
        self, obs: Array, epsilon: float | Floats = 0.0
    ) -> tuple[Array, Floats, Floats]:
        """As `act`, of a network of q values; also the values of all actions [B, actions]."""
        values = self.action_values(obs)
        columns = values.T.copy()  # sampling overwrites them
        return *self._sampler.sample(columns, None, self.rng, epsilon), values

    def action_values(self, obs: Array) -> Floats:
        """The q values of all actions [B, actions]; a new array."""
        return self.outputs(obs)

    def greedy(self, obs: Array) -> Array:
        """The most likely (or highest-valued) actions for observations [B, ...]."""
        return self._sampler.greedy(self._ruled(obs, self._forward(obs)))

    def outputs(self, obs: Array) -> Floats:
        """Logits, means or q values, [B, width]; a new array."""
        outputs = self._forward(obs)
        if self.spec.dueling:
            value = self._weights["value_head.weight"] @ self._inputs[-1][:-1]
            value += self._weights["value_head.bias"][:, None]
            outputs += value - outputs.mean(0)
        return self._ruled(obs, outputs).T.copy()

    def action_mask(self, obs: Array) -> Array | None:
        """Which choices observations [..., *shape] allow, [..., width]; None: no masks."""
        mask: Array | None = mask_of(self.spec, obs)
        return mask

    def _ruled(self, obs: Array, outputs: Floats) -> Floats:
        """Outputs [width, B], in which what is forbidden has no chance from now on."""
        mask = mask_of(self.spec, np.asarray(obs))
        if mask is not None:
            np.copyto(outputs, RULED_OUT, where=~mask.T)
        return outputs

    def _forward(self, obs: Array) -> Floats:
        obs = np.asarray(obs)
        if obs.shape[1:] != self.spec.observation_shape or obs.ndim == 0:
            raise RunError(
                f"observations must be [B, {', '.join(map(str, self.spec.observation_shape))}], "
                f"one per environment; found {list(obs.shape)}"
            )
        if len(obs) != self._batch:
            self._allocate(len(obs))
        # copied: whatever order the environment has them in, the products are the same to the bit
        columns = self._inputs[0][:-1]
        rows = obs.reshape(len(obs), -1) if len(obs) else obs.reshape(0, len(columns))
        columns[:] = rows[:, : len(columns)].T  # behind the numbers there may be a mask
        if self._scale is not None:
            columns -= self._scale[0]
            columns *= self._scale[1]
        elif self._normalizer is not None:
            columns -= self._normalizer.middle[: len(columns), None]
            columns *= self._normalizer.factor[: len(columns), None]
            np.clip(columns, np.float32(-CLIP), np.float32(CLIP), out=columns)
        last = len(self._matrices) - 1
        for index, (matrix, x, out) in enumerate(
            zip(self._matrices, self._inputs, self._results, strict=True)
        ):
            np.dot(matrix, x, out)  # for small matrices twice as fast as matmul
            if index < last:
                self._activation(out, out)
        return self._results[-1]

    def _allocate(self, batch: int) -> None:
        widths = (self.spec.observation_size, *self.spec.hidden)
        self._batch = batch
        self._inputs = [np.ones((width + 1, batch), np.float32) for width in widths]
        """of each layer, above a row of ones"""
        outputs = np.empty((self.spec.width, batch), np.float32)
        self._results = [*(x[:-1] for x in self._inputs[1:]), outputs]
        """of each layer: the inputs of the next one, or the outputs"""

    # weights and state

    def get_weights(self) -> Weights:
        """A copy of the weights that decide what the policy does."""
        weights = {name: array.copy() for name, array in self._weights.items()}
        return weights if self._normalizer is None else weights | self._normalizer.buffers()

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy the learner's weights; those of the critic may be left out."""
        if not (isinstance(weights, NamedVector) and weights.layout is self._layout):
            check_weights(weights, self.spec.weight_shapes, self.spec.acting_names)
            self._layout = weights.layout if isinstance(weights, NamedVector) else None
        for name, own in self._weights.items():
            own[...] = weights[name]
        if self._normalizer is not None:
            self._normalizer.set(moments_in(weights))
        for name, matrix in zip(self._layers, self._matrices, strict=True):
            matrix[:, :-1] = self._weights[f"{name}.weight"]
            matrix[:, -1] = self._weights[f"{name}.bias"]

    def get_state(self) -> dict[str, Any]:
        """Weights and random state: what makes the next actions the same."""
        return {"weights": self.get_weights(), "rng": self.rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `get_state` was called."""
        self.set_weights(state["weights"])
        self.rng.bit_generator.state = state["rng"]


def _relu(x: Floats, out: Floats) -> Floats:
    return np.maximum(x, np.float32(0), out=out)
