"""Acting with a small MLP in NumPy: no torch to import in a worker, and microseconds per step.

Activations are kept [features, B]: weights multiply from the left as they are stored, and the
outputs come out the way `Sampler` wants them. Below each layer's inputs is a row of ones, which
the bias multiplies: a pass over the activations for it would cost as much as the products of a
small network. All large arrays are allocated once per batch size.
Values are not computed: the learner does it, for a whole batch in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import BuildError, RunError
from rillflow.experience.named_vector import Layout, NamedVector
from rillflow.policies.action_masks import RULED_OUT, mask_of
from rillflow.policies.atoms import dueling, expected
from rillflow.policies.initial import Weights, weights_at_first
from rillflow.policies.noise import SIGMA, Noise
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
            self._normalizer = Normalizer(Moments.none(spec.observation_shape), spec.loosely)
        acting = spec.parameter_shapes.keys() & spec.acting_names
        shapes = {name: shape for name, shape in spec.parameter_shapes.items() if name in acting}
        self._weights = weights_at_first(spec, shapes, seed)
        self._layout: Layout | None = None
        """of the weights that were last found to fit"""
        self._layers = [*(f"trunk.{i}" for i in range(len(spec.hidden))), "action_head"]
        if spec.dueling:
            self._layers.append("value_head")
        # weights and bias of each layer as one matrix
        self._matrices = self._joined("")
        self._noisy = NoisyMatrices(self._joined(SIGMA)) if spec.noisy else None
        self._allocate(0)

    # acting

    def act(self, obs: Array, epsilon: float | Floats = 0.0) -> tuple[Array, Floats]:
        """Actions [B, *shape] sampled for observations [B, ...], and their log-probabilities [B].

        The arrays returned are new ones.

        Args:
            obs: one observation per environment.
            epsilon: for q values, how often to explore: one number, or one per environment.
        """
        outputs = self._ruled(obs, self._outputs(obs, self._drawn()))
        return self._sampler.sample(outputs, self._weights.get("log_std"), self.rng, epsilon)

    def act_and_value(
        self, obs: Array, epsilon: float | Floats = 0.0
    ) -> tuple[Array, Floats, Floats]:
        """As `act`, of a network of q values; also the values of all actions [B, actions]."""
        values = self._all_outputs(obs, self._drawn())
        columns = values.T.copy()  # sampling overwrites them
        return *self._sampler.sample(columns, None, self.rng, epsilon), values

    def action_values(self, obs: Array) -> Floats:
        """The q values of all actions [B, actions]; a new array."""
        return self.outputs(obs)

    def greedy(self, obs: Array) -> Array:
        """The most likely (or highest-valued) actions for observations [B, ...]."""
        return self._sampler.greedy(self._ruled(obs, self._outputs(obs, self._matrices)))

    def outputs(self, obs: Array) -> Floats:
        """Logits, means or q values, [B, width]; a new array."""
        return self._all_outputs(obs, self._matrices)

    def _all_outputs(self, obs: Array, matrices: Sequence[Floats]) -> Floats:
        outputs = self._outputs(obs, matrices)
        if self.spec.dueling and self.spec.num_atoms == 1:
            outputs += np.dot(matrices[-1], self._inputs[-1]) - outputs.mean(0)
        return self._ruled(obs, outputs).T.copy()

    def _drawn(self) -> Sequence[Floats]:
        """The matrices of one step: with noise of its own, if the layers are noisy."""
        return (
            self._matrices if self._noisy is None else self._noisy.drawn(self._matrices, self.rng)
        )

    def _outputs(self, obs: Array, matrices: Sequence[Floats]) -> Floats:
        """Logits, means or q values [width, B]; of a dueling network that has no atoms up to a
        number for each column, the same for all actions."""
        outputs = self._forward(obs, matrices)
        if self.spec.num_atoms == 1:
            return outputs
        logits = outputs.reshape(self.spec.width, self.spec.num_atoms, -1)
        if self.spec.dueling:
            logits = dueling(logits, np.dot(matrices[-1], self._inputs[-1]))
        return expected(logits, self.spec.atoms)

    def action_mask(self, obs: Array) -> Array | None:
        """Which choices observations [..., *shape] allow, [..., width]; None: no masks."""
        mask: Array | None = mask_of(self.spec, obs)
        return mask

    def _ruled(self, obs: Array, outputs: Floats) -> Floats:
        """Outputs [width, B], in which what is forbidden has no chance from now on."""
        if not self.spec.masked:
            return outputs
        mask = mask_of(self.spec, np.asarray(obs))
        if mask is not None:
            np.copyto(outputs, RULED_OUT, where=~mask.T)
        return outputs

    def _forward(self, obs: Array, matrices: Sequence[Floats]) -> Floats:
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
        last = len(self._inputs) - 1
        for index, (matrix, x, out) in enumerate(zip(matrices, self._inputs, self._results)):  # noqa: B905 - behind these there may be a layer for the value
            np.dot(matrix, x, out)  # for small matrices twice as fast as matmul
            if index < last:
                self._activation(out, out)
        return self._results[-1]

    def _allocate(self, batch: int) -> None:
        widths = (self.spec.observation_size, *self.spec.hidden)
        self._batch = batch
        self._inputs = [np.ones((width + 1, batch), np.float32) for width in widths]
        """of each layer, above a row of ones"""
        outputs = np.empty((self.spec.head_width, batch), np.float32)
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
        for layer, matrix in zip(self._layers, self._matrices, strict=True):
            matrix[:, :-1] = self._weights[f"{layer}.weight"]
            matrix[:, -1] = self._weights[f"{layer}.bias"]
        if self._noisy is not None:
            self._noisy = NoisyMatrices(self._joined(SIGMA))

    def _joined(self, kind: str) -> list[Floats]:
        """Of each layer weights and bias, or how noisy they are, as one matrix."""
        pairs = [(f"{name}.weight{kind}", f"{name}.bias{kind}") for name in self._layers]
        return [
            np.column_stack((self._weights[weight], self._weights[bias])) for weight, bias in pairs
        ]

    def get_state(self) -> dict[str, Any]:
        """Weights and random state: what makes the next actions the same."""
        return {"weights": self.get_weights(), "rng": self.rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `get_state` was called."""
        self.set_weights(state["weights"])
        self.rng.bit_generator.state = state["rng"]


class NoisyMatrices:
    """Draws matrices of weights and bias with noise, one set for each step.

    Args:
        sigmas: how noisy each matrix is.
    """

    def __init__(self, sigmas: Sequence[Floats]) -> None:
        self._sigmas = sigmas
        self._noise = Noise([(len(sigma), sigma.shape[1] - 1) for sigma in sigmas])
        self._room = [np.empty_like(sigma) for sigma in sigmas]
        self._inputs = [np.ones(sigma.shape[1], np.float32) for sigma in sigmas]
        """of each layer the noise of the inputs, and that of the bias's, which is 1"""

    def drawn(self, means: Sequence[Floats], rng: np.random.Generator) -> Sequence[Floats]:
        """The means with noise; overwritten by the next that are drawn."""
        drawn = self._noise.draw(rng)
        for mean, sigma, room, inputs, pair in zip(
            means, self._sigmas, self._room, self._inputs, drawn, strict=True
        ):
            inputs[:-1] = pair[1]
            np.multiply(sigma, inputs, out=room)
            room *= pair[0][:, None]
            room += mean
        return self._room


def _relu(x: Floats, out: Floats) -> Floats:
    return np.maximum(x, np.float32(0), out=out)
