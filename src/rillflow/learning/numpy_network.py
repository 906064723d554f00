"""The network of an mlp policy in NumPy: an actor and a critic, or q values."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from rillflow.experience.batch import BOOTSTRAP
from rillflow.learning.numpy_distributions import new_distribution
from rillflow.learning.numpy_layers import Linear, Pass
from rillflow.learning.numpy_module import NumpyModule, filled
from rillflow.learning.numpy_noisy import NoisyLinear
from rillflow.learning.tape import Var
from rillflow.policies.action_masks import RULED_OUT, mask_of
from rillflow.policies.make import first_weights
from rillflow.policies.noise import Noise, sizes_in
from rillflow.policies.sampling import Array, Floats
from rillflow.policies.spec import PolicySpec

Passes = tuple[Pass, Pass]
"""through the trunk and through the critic's, which may be the same"""


class Network(NumpyModule):
    """The network of an mlp policy, equal to that of `TorchPolicy(spec, seed)` up to rounding.

    Its methods are those of `TorchPolicy` that losses call.
    """

    def __init__(self, spec: PolicySpec, seed: int = 0) -> None:
        self.noisy: list[NoisyLinear] = []
        """the layers that have noise, in the order in which it is drawn"""
        self.spec = spec
        super().__init__(spec.parameter_shapes, first_weights(spec, seed))
        self._noise = Noise(sizes_in(spec.parameter_shapes))
        depth = len(spec.hidden)
        self._trunk = self._layers("trunk", depth, spec.activation)
        self._critic = self._layers("critic", depth, spec.activation) if spec.has_critic else None
        self._action_head = self._linear("action_head")
        self._value_head = self._linear("value_head") if spec.has_value else None

    # -- what losses call ----------------------------------------------------------------------

    def evaluate_rows(self, rows: Mapping[str, Array]) -> tuple[Any, Any, Any]:
        """Log-probabilities of the actions, entropies and values of rows."""
        return self.evaluate(rows["obs"], rows["actions"])

    def evaluate(self, obs: Array, actions: Array) -> tuple[Any, Any, Any]:
        """Log-probabilities of the actions, entropies and values, each [...]."""
        lead = obs.shape[: obs.ndim - len(self.spec.observation_shape)]
        rows = obs.reshape(-1, prod(self.spec.observation_shape))
        discrete = self.spec.actions.kind == "discrete"
        taken = actions.reshape(-1) if discrete else actions.reshape(len(rows), -1)
        log_std, d_log_std = self.weights.get("log_std"), self.gradients.get("log_std")
        distribution = new_distribution(self.spec.actions, log_std, d_log_std)
        columns, forbidden = self._columns(rows), self._forbidden(rows)
        if self.tape is None:
            outputs, values = self._apply(columns)
            assert values is not None
            _rule_out(outputs, forbidden)
            plain = (*distribution.evaluate(outputs, taken), values)
            return plain[0].reshape(lead), plain[1].reshape(lead), plain[2].reshape(lead)
        outputs, values, passes = self._forward(columns)
        assert values is not None
        _rule_out(outputs, forbidden)
        results = (*distribution.evaluate(outputs, taken), values)
        logp, entropy, value = [Var(result.reshape(lead), self.tape) for result in results]

        def back() -> None:
            d_logp, d_entropy, d_values = logp.pop(), entropy.pop(), value.pop()
            if not self.learns or (d_logp is None and d_entropy is None and d_values is None):
                return
            count = len(rows)
            acted = d_logp is not None or d_entropy is not None
            add = self._adds(whole=acted and d_values is not None)
            d_outputs = None
            if acted:
                slope = _each(d_logp, count) if d_logp is not None else np.zeros(count, np.float32)
                d_outputs = distribution.backward(slope, _flat(d_entropy), add=add)
                if forbidden is not None:
                    d_outputs[forbidden] = 0
            self._backward(
                passes, d_outputs, None if d_values is None else _each(d_values, count), add
            )

        self.tape.backs.append(back)
        return logp, entropy, value

    def values(self, obs: Array) -> Any:
        """Values [...] of observations."""
        assert self._value_head is not None
        lead = obs.shape[: obs.ndim - len(self.spec.observation_shape)]
        if self.tape is None:
            return self._plain_values(obs)
        columns = self._columns(obs.reshape(-1, prod(self.spec.observation_shape)))
        _, values, passes = self._forward(columns)
        assert values is not None
        out = Var(values.reshape(lead), self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is not None and self.learns:
                add = self._adds(whole=False)
                self._backward(passes, None, _each(gradient, columns.shape[1]), add)

        self.tape.backs.append(back)
        return out

    def _plain_values(self, obs: Array) -> Floats:
        """Values [...] of observations, which nothing is learned through."""
        assert self._value_head is not None
        lead = obs.shape[: obs.ndim - len(self.spec.observation_shape)]
        layers = self._critic or self._trunk
        columns = self._columns(obs.reshape(-1, prod(self.spec.observation_shape)))
        values: Floats = self._value_head.forward(layers.apply(columns))[0]
        return values.reshape(lead)

    def q_values(self, obs: Array) -> Any:
        """One value per action [N, actions]; in memory, those of an action are side by side."""
        rows = self._flat(obs)
        columns, forbidden = self._columns(rows), self._forbidden(rows)
        if self.tape is None:
            return _rule_out(_dueling(*self._apply(columns)), forbidden).T
        outputs, value, passes = self._forward(columns)
        out = Var(_rule_out(_dueling(outputs, value), forbidden).T, self.tape)

        def back() -> None:
            gradient = out.pop()
            if gradient is None or not self.learns:
                return
            d_q = filled(gradient, out.value.shape).T
            if forbidden is not None:
                d_q = np.where(forbidden, np.float32(0), d_q)
            add = self._adds(whole=True)
            if self._value_head is None:
                self._backward(passes, d_q, None, add)
            else:
                total = np.add.reduce(d_q, 0)
                self._backward(passes, d_q - total * np.float32(1 / len(d_q)), total, add)

        self.tape.backs.append(back)
        return out

    def logits(self, obs: Array) -> Any:
        """Of each discrete action [N, actions], as `q_values` gives values."""
        return self.q_values(obs)

    def evaluate_fragments(self, batch: Mapping[str, Array]) -> tuple[Any, Any, Any, Floats]:
        """Log-probabilities of the actions, entropies, values, and values of the true next
        observations, each [T, B]; nothing is learned through the last.
        """
        logp, entropy, values = self.evaluate(batch["obs"], batch["actions"])
        known = values.value if isinstance(values, Var) else values
        after = np.concatenate([known[1:], self._plain_values(batch[BOOTSTRAP])[None]])
        return logp, entropy, values, self.across_cuts(batch, after)

    def values_of_fragments(self, batch: Mapping[str, Array]) -> tuple[Floats, Floats]:
        """Values of each observation and of the true next one, both [T, B], from one pass."""
        # the next observation of step t is the observation of step t + 1
        values = self._plain_values(np.concatenate([batch["obs"], batch[BOOTSTRAP][None]]))
        return values[:-1], self.across_cuts(batch, values[1:])

    def across_cuts(self, batch: Mapping[str, Array], after: Floats) -> Floats:
        """Values of the next rows, but where an episode was cut and the next one began at once."""
        if "next_obs" not in batch:
            return after
        cut = batch["truncated"] & ~batch["terminated"]
        if cut.any():
            after = after.copy()
            after[cut] = self._plain_values(batch["next_obs"][cut])
        return after

    # -- noise ---------------------------------------------------------------------------------

    def draw_noise(self, rng: np.random.Generator) -> None:
        """Noisy layers have noise of this generator from now on."""
        if self.noisy:
            for layer, pair in zip(self.noisy, self._noise.draw(rng), strict=True):
                layer.set_noise(pair)

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Copy weights into the network; noisy layers then have no noise until some is drawn."""
        super().set_weights(weights)
        for layer in self.noisy:
            layer.set_noise(None)

    def _linear(self, name: str) -> Linear:
        if not self.spec.noisy:
            return super()._linear(name)
        layer = NoisyLinear(name, self.weights, self.gradients)
        self.noisy.append(layer)
        return layer

    # -- forwards and backwards ----------------------------------------------------------------

    def action_mask(self, obs: Array) -> Array | None:
        """Which choices observations [..., *shape] allow, [..., width]; None: no masks."""
        mask: Array | None = mask_of(self.spec, obs)
        return mask

    def _forbidden(self, rows: Array) -> Array | None:
        """The choices that are ruled out, [width, N]."""
        mask = mask_of(self.spec, rows)
        return None if mask is None else ~mask.T

    def _flat(self, obs: Array) -> Array:
        """Observations as rows [N, size]."""
        return obs.reshape(-1, prod(self.spec.observation_shape))

    def _columns(self, rows: Array) -> Floats:
        return self._seen(np.asarray(rows, np.float32)).T

    def _apply(self, x: Floats) -> tuple[Floats, Floats | None]:
        features = self._trunk.apply(x)
        outputs = self._action_head.forward(features)
        if self._value_head is None:
            return outputs, None
        critic = features if self._critic is None else self._critic.apply(x)
        return outputs, _values(self._value_head.forward(critic))

    def _forward(self, x: Floats) -> tuple[Floats, Floats | None, Passes]:
        actor = self._trunk.forward(x)
        critic = actor if self._critic is None else self._critic.forward(x)
        values = None
        if self._value_head is not None:
            values = _values(self._value_head.forward(critic.features))
        return self._action_head.forward(actor.features), values, (actor, critic)

    def _backward(
        self, passes: Passes, d_outputs: Floats | None, d_values: Floats | None, add: bool
    ) -> None:
        actor, critic = passes
        d_features = None
        if d_outputs is not None:
            self._action_head.backward(actor.features, d_outputs, add)
            d_features = self._trunk.d_features(self._action_head, d_outputs)
        if self._value_head is not None and d_values is not None:
            d_values = d_values.reshape(-1, d_values.shape[-1])
            self._value_head.backward(critic.features, d_values, add)
            if self._critic is not None:
                d_critic = self._critic.d_features(self._value_head, d_values)
                self._critic.backward(critic, d_critic, add=add)
            else:
                d_critic = self._value_head.d_input(d_values)
                d_features = d_critic if d_features is None else np.add(d_features, d_critic)
        if d_features is not None:
            self._trunk.backward(actor, d_features, add=add)


def _values(outputs: Floats) -> Floats:
    """Values [N], or by atoms [atoms, N]."""
    return outputs[0] if len(outputs) == 1 else outputs


def _rule_out(outputs: Floats, forbidden: Array | None) -> Floats:
    """Outputs [width, N], in which what is forbidden has no chance from now on."""
    if forbidden is not None:
        np.copyto(outputs, RULED_OUT, where=forbidden)
    return outputs


def _each(gradient: Any, count: int) -> Floats:
    """A gradient of every row [N], although it may be one number for all of them."""
    if isinstance(gradient, np.ndarray):
        return gradient.reshape(-1)
    return np.full(count, gradient, np.float32)


def _flat(gradient: Any) -> Any:
    """One number for all rows, or one for each [N]."""
    if gradient is None:
        return 0.0
    return gradient.reshape(-1) if isinstance(gradient, np.ndarray) else gradient


def _dueling(advantages: Floats, value: Floats | None) -> Floats:
    """`losses.dueling`, of advantages [actions, N] and values [N]; without one, as they are."""
    if value is None:
        return advantages
    # `mean` would take five times as long for a few numbers
    mean: Floats = np.add.reduce(advantages, 0) * np.float32(1 / len(advantages))
    return advantages + (value - mean)
