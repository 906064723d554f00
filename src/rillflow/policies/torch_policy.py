"""Learning, and acting with networks that need torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from rillflow.errors import RunError
from rillflow.policies import distributions
from rillflow.policies.action_masks import mask_of, network_input, rule_out
from rillflow.policies.make_model import make_model
from rillflow.policies.noisy import NetworkNoise
from rillflow.policies.sampling import Array, Floats, Sampler
from rillflow.policies.shapes import as_rows, check_sequence
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_normalizer import TorchNormalizer
from rillflow.policies.weights import check_weights

Data = Tensor | Array


class TorchPolicy:
    """A network and its distribution over actions.

    What losses call (`evaluate`, `values`, `q_values`) takes observations with any leading axes,
    [N, ...] or [T, B, ...], and keeps them; gradients flow. Acting takes and gives NumPy arrays
    [B, ...], without gradients. A policy that remembers has the methods called `*_recurrent`:
    they take time-major observations [T, B, ...], the state [B, *spec.state_shape] before the
    first row and `starts` [T, B], true where an episode begins, and return the new state too.

    Args:
        spec: what to build.
        seed: of the first weights and of the actions.
        device: where the network lives, such as "cuda".
    """

    def __init__(self, spec: PolicySpec, seed: int = 0, device: str = "cpu") -> None:
        self.spec = spec
        self.device = torch.device(device)
        self.model: nn.Module = make_model(spec, seed).to(self.device)
        self.noise = NetworkNoise(self.model)
        """of noisy layers: drawn for each step of acting, and by the learner for each update"""
        self.rng = np.random.default_rng([seed, 1])
        self._sampler = Sampler(spec)
        self._instead: dict[str, Tensor] | None = None

    def parameters(self) -> Iterator[nn.Parameter]:
        """What an optimiser changes."""
        return self.model.parameters()

    def named_parameters(self) -> dict[str, Tensor]:
        """The parameters by name, or those in `using`."""
        own: dict[str, Tensor] = dict(self.model.named_parameters())
        return own if self._instead is None else dict(self._instead)

    @property
    def normalizer(self) -> TorchNormalizer | None:
        """What observations go through before the network sees them; None: nothing."""
        if not self.spec.normalize_observations:
            return None
        own: TorchNormalizer = getattr(self.model, "normalizer")  # noqa: B009 - nn.Module's own
        return own

    @property
    def log_std(self) -> Tensor | None:
        """Of the Gaussian, [width]; None for discrete actions, and where it is an output."""
        if not self.spec.has_log_std:
            return None
        own: Tensor = getattr(self.model, "log_std")  # noqa: B009 - a parameter, or a fixed buffer
        return own if self._instead is None else self._instead.get("log_std", own)

    @contextmanager
    def using(self, parameters: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside, the network runs with these tensors in place of its parameters.

        Gradients flow through them to whatever they were computed from, as a step of adaptation
        that is itself differentiated needs it (Finn et al. 2017, arXiv:1703.03400).
        """
        before, self._instead = self._instead, self.named_parameters() | dict(parameters)
        try:
            yield
        finally:
            self._instead = before

    # learning

    def outputs(self, obs: Data) -> Tensor:
        """Logits, means or q values [..., width]."""
        obs, leading = self._rows(obs)
        outputs = self._call(obs)[0]
        return outputs.reshape(*leading, *outputs.shape[1:])

    def evaluate(self, obs: Data, actions: Data) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities of the actions, entropies and values, each [...]."""
        self._require("actor_critic", "evaluate")
        obs, leading = self._rows(obs)
        outputs, values = self._call(obs)
        logp, entropy = self._evaluate(outputs, actions)
        return logp.reshape(leading), entropy.reshape(leading), values.reshape(leading)

    def values(self, obs: Data) -> Tensor:
        """Values of the observations [...]; where it can, without evaluating the actor."""
        self._require("actor_critic", "values")
        obs, leading = self._rows(obs)
        alone = getattr(self.model, "values", None)
        if alone is None or self._instead is not None or self.spec.recurrent:
            return self._call(obs)[1].reshape(leading)
        values: Tensor = alone(network_input(self.spec, obs, self.normalizer, called=False))
        return values.reshape(leading)

    def q_values(self, obs: Data) -> Tensor:
        """One value per action [..., actions]."""
        self._require("q", "q_values")
        return self.outputs(obs)

    def logits(self, obs: Data) -> Tensor:
        """Of each discrete action [..., actions]."""
        self._require("categorical", "logits")
        return self.outputs(obs)

    def q_logits(self, obs: Data) -> Tensor:
        """Logits of the distributions of returns over atoms [..., actions, atoms]."""
        if self.spec.num_atoms == 1:
            raise RunError("q_logits needs num_atoms above 1; this policy has q values alone")
        obs, leading = self._rows(obs)
        model: Any = self.model
        logits: Tensor = model.q_logits(
            network_input(self.spec, obs, self.normalizer, called=False)
        )
        return logits.reshape(*leading, *logits.shape[1:])

    def action_mask(self, obs: Data) -> Tensor | None:
        """Which choices observations [..., *shape] allow, [..., width]; None: no masks."""
        mask: Tensor | None = mask_of(self.spec, self._tensor(obs))
        return mask

    def evaluate_recurrent(
        self, obs: Data, actions: Data, state: Data, starts: Data
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Log-probabilities, entropies and values, each [T, B], and the state after them."""
        self._require("actor_critic", "evaluate_recurrent")
        outputs, values, state = self._call_recurrent(obs, state, starts)
        logp, entropy = self._evaluate(outputs.flatten(0, 1), actions)
        return logp.reshape(values.shape), entropy.reshape(values.shape), values, state

    def values_recurrent(self, obs: Data, state: Data, starts: Data) -> tuple[Tensor, Tensor]:
        """Values [T, B], and the state after them."""
        self._require("actor_critic", "values_recurrent")
        _, values, state = self._call_recurrent(obs, state, starts)
        return values, state

    def q_values_recurrent(self, obs: Data, state: Data, starts: Data) -> tuple[Tensor, Tensor]:
        """One value per action [T, B, actions], and the state after them."""
        self._require("q", "q_values_recurrent")
        q, state = self._call_recurrent(obs, state, starts)
        return q, state

    # acting

    def act(
        self, obs: Array, epsilon: float | Floats = 0.0, rng: np.random.Generator | None = None
    ) -> tuple[Array, Floats]:
        """Actions [B, *shape] sampled for observations [B, ...], and their log-probabilities [B].

        Args:
            obs: one observation per environment.
            epsilon: for q values, how often to explore: one number, or one per environment.
            rng: where the randomness comes from; the policy's own by default.
        """
        with torch.no_grad(), self._noise_of_a_step(rng):
            return self._sample(self._to_act(obs), epsilon, rng)

    def act_and_value(
        self, obs: Array, epsilon: float | Floats = 0.0
    ) -> tuple[Array, Floats, Floats]:
        """As `act`, of a network of q values; also the values of all actions [B, actions]."""
        self._require("q", "act_and_value")
        with torch.no_grad(), self._noise_of_a_step():
            values = self._to_act(obs)
            return *self._sample(values, epsilon, None), values.cpu().numpy()

    def action_values(self, obs: Array) -> Floats:
        """The q values of all actions [B, actions], without gradients."""
        self._require("q", "action_values")
        with torch.no_grad():
            values: Floats = self._to_act(obs).cpu().numpy()
        return values

    def greedy(self, obs: Array) -> Array:
        """The most likely (or highest-valued) actions for observations [B, ...]."""
        with torch.no_grad():
            return self._sampler.greedy(_columns(self._to_act(obs)))

    def act_recurrent(
        self,
        obs: Array,
        state: Array,
        starts: Array,
        epsilon: float | Floats = 0.0,
        rng: np.random.Generator | None = None,
    ) -> tuple[Array, Floats, Floats]:
        """As `act`, for one step [B, ...] of a policy that remembers; also the new state."""
        with torch.no_grad():
            outputs, after = self._to_act_recurrent(obs, state, starts)
            return *self._sample(outputs, epsilon, rng), after.cpu().numpy()

    def greedy_recurrent(self, obs: Array, state: Array, starts: Array) -> tuple[Array, Floats]:
        """As `greedy`, for one step [B, ...] of a policy that remembers; also the new state."""
        with torch.no_grad():
            outputs, after = self._to_act_recurrent(obs, state, starts)
            return self._sampler.greedy(_columns(outputs)), after.cpu().numpy()

    def outputs_recurrent(self, obs: Array, state: Array, starts: Array) -> tuple[Floats, Floats]:
        """Logits, means or q values [B, width] of one step, and the new state."""
        with torch.no_grad():
            outputs, after = self._to_act_recurrent(obs, state, starts)
            return outputs.cpu().numpy(), after.cpu().numpy()

    def initial_state(self, batch: int) -> Floats:
        """The state before the first step, [B, *spec.state_shape]."""
        if self.spec.state_shape is None:
            raise RunError(f"the network {self.spec.network} does not remember: it has no state")
        return np.zeros((batch, *self.spec.state_shape), np.float32)

    # weights and state

    def get_weights(self) -> dict[str, NDArray[Any]]:
        """A copy of all parameters and buffers, by name."""
        # C order whatever the memory format: equal weights are then equal bytes
        return {
            name: np.array(tensor.detach().cpu().numpy(), order="C")
            for name, tensor in self.model.state_dict().items()
        }

    def set_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Copy weights into the network, whose parameters stay the same objects."""
        own = self.model.state_dict()
        check_weights(weights, {name: tuple(tensor.shape) for name, tensor in own.items()})
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(torch.tensor(weights[name]))

    def get_state(self) -> dict[str, Any]:
        """Weights and random state."""
        return {"weights": self.get_weights(), "rng": self.rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `get_state` was called."""
        self.set_weights(state["weights"])
        self.rng.bit_generator.state = state["rng"]

    # inside

    def _to_act(self, obs: Array) -> Tensor:
        """Outputs [B, width] for observations that are to be acted on."""
        return self.outputs(obs)

    def _to_act_recurrent(self, obs: Array, state: Array, starts: Array) -> tuple[Tensor, Tensor]:
        """The same for one step of a policy that remembers, and the state after it."""
        outputs, *_, after = self._call_recurrent(obs[None], state, starts[None])
        return outputs[0], after

    @contextmanager
    def _noise_of_a_step(self, rng: np.random.Generator | None = None) -> Iterator[None]:
        """Inside, noisy layers have noise that is drawn for this step; afterwards none."""
        if self.noise:
            self.noise.draw(rng or self.rng)
        try:
            yield
        finally:
            self.noise.stop()

    def _call(self, obs: Tensor) -> tuple[Tensor, ...]:
        if self.spec.recurrent:
            raise RunError(
                f"the network {self.spec.network} remembers: call the method whose name ends in "
                "_recurrent, with the state and the starts of episodes"
            )
        return self._forward(obs)

    def _call_recurrent(self, obs: Data, state: Data, starts: Data) -> tuple[Tensor, ...]:
        if not self.spec.recurrent:
            raise RunError(
                f"the network {self.spec.network} does not remember: call the method whose name "
                "does not end in _recurrent"
            )
        tensors = (self._tensor(obs), self._tensor(state), self._tensor(starts).bool())
        check_sequence(self.spec, *tensors)
        return self._forward(*tensors)

    def _forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        obs, *others = tensors
        given = (network_input(self.spec, obs, self.normalizer), *others)
        if self._instead is None:
            results = self.model(*given)
        else:
            results = functional_call(self.model, self._instead, given)
        results = (results,) if isinstance(results, Tensor) else tuple(results)
        if not self.spec.masked:
            return results
        return rule_out(results[0], mask_of(self.spec, obs)), *results[1:]

    def _evaluate(self, outputs: Tensor, actions: Data) -> tuple[Tensor, Tensor]:
        taken = self._tensor(actions)
        return distributions.evaluate(self.spec.actions, outputs, self.log_std, taken)

    def _sample(
        self, outputs: Tensor, epsilon: float | Floats, rng: np.random.Generator | None
    ) -> tuple[Array, Floats]:
        return self._sampler.sample(_columns(outputs), self._stds(), rng or self.rng, epsilon)

    def _stds(self) -> Floats | None:
        """The logarithms of a Gaussian's widths, as acting needs them."""
        log_std = self.log_std
        return None if log_std is None else log_std.detach().cpu().numpy()

    def _rows(self, obs: Data) -> tuple[Tensor, torch.Size]:
        return as_rows(self.spec, self._tensor(obs))

    def _tensor(self, data: Data) -> Tensor:
        if isinstance(data, np.ndarray):
            # arrays that crossed an actor edge are read-only, which torch has no notion of
            data = torch.from_numpy(data if data.flags.writeable else data.copy())
        return data.to(self.device)

    def _require(self, head: str, method: str) -> None:
        if self.spec.head != head:
            raise RunError(f"{method} needs head={head!r}; this policy has {self.spec.head!r}")


def _columns(outputs: Tensor) -> Floats:
    """[B, width] to NumPy's [width, B], in an array of its own: sampling overwrites it."""
    return np.array(outputs.cpu().numpy().T, dtype=np.float32)
