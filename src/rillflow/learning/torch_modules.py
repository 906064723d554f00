"""The networks of an algorithm in torch; their methods are those of the modules in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rillflow.experience.batch import BOOTSTRAP, STATE
from rillflow.learning.names import Namespace, named, seed_of, seed_of_policy
from rillflow.learning.torch_critics import Critic, Number
from rillflow.learning.torch_fragments import timeline
from rillflow.learning.torch_layers import Layers, outputs_of, squashed
from rillflow.learning.torch_recording import drawn
from rillflow.policies.modules import Modules, QOfAction
from rillflow.policies.sampling import LOG_STD_HIGH, LOG_STD_LOW
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy

_LOG_2, _LOG_2_PI = float(np.log(2)), float(np.log(2 * np.pi))
_BOUNDS = (float(LOG_STD_LOW), float(LOG_STD_HIGH))


class Policy(TorchPolicy):
    """A policy that learns: what `TorchPolicy` has, and what losses need of whole fragments."""

    rng: np.random.Generator

    @property
    def network(self) -> nn.Module:
        """What holds the parameters."""
        return self.model

    def evaluate_fragments(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Log-probabilities of the actions, entropies, values, and values of the true next
        observations, each [T, B], from one pass over the network.

        Gradients flow through the first three. A policy that remembers begins with the fragments'
        `state` and forgets at their `starts`.
        """
        at, columns = timeline(batch)
        obs, actions = columns["obs"], columns["actions"]
        if self.spec.recurrent:
            results = self.evaluate_recurrent(obs, actions, batch[STATE], columns["starts"])[:3]
        else:
            results = self.evaluate(obs, actions)
        logp, entropy, values = (result.gather(0, at) for result in results)
        return logp, entropy, values, results[2].detach().gather(0, at + 1)

    def evaluate_rows(self, rows: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Log-probabilities of the actions, entropies and values of rows [N], or of whole sequences
        [T, B] of a policy that remembers."""
        if not self.spec.recurrent:
            return self.evaluate(rows["obs"], rows["actions"])
        names = ("obs", "actions", STATE, "starts")
        return self.evaluate_recurrent(*(rows[name] for name in names))[:3]

    def q_values_of_fragments(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Q values [T, B, actions] of each observation and of the true next one, for a policy that
        remembers, from one pass over the network; gradients flow through the first."""
        at, columns = timeline(batch)
        q, _ = self.q_values_recurrent(columns["obs"], batch[STATE], columns["starts"])
        row = at.unsqueeze(-1).expand(*at.shape, q.shape[-1])
        return q.gather(0, row), q.detach().gather(0, row + 1)

    @torch.no_grad()
    def values_of_fragments(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Values of each observation and of the true next one, both [T, B]."""
        if self.spec.recurrent:
            at, columns = timeline(batch)
            values, _ = self.values_recurrent(columns["obs"], batch[STATE], columns["starts"])
            return values.gather(0, at), values.gather(0, at + 1)
        # the next observation of step t is the observation of step t + 1
        whole = self.values(torch.cat([batch["obs"], batch[BOOTSTRAP][None]]))
        before, after = whole[:-1], whole[1:]
        # unless an episode was cut and the next one began within the same step
        cut = batch["truncated"] & ~batch["terminated"]
        if "next_obs" in batch and cut.any():
            after = after.clone()
            after[cut] = self.values(batch["next_obs"][cut])
        return before, after


class Actor(Policy):
    """A policy of continuous actions within their bounds."""

    def __init__(self, spec: PolicySpec, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(spec, seed, device)
        middle, half = spec.action_scale
        self._middle = torch.tensor(middle, device=self.device)
        self._half = torch.tensor(half, device=self.device)
        self.layers: Layers | None = None
        """the layers of an mlp, for passes in few operations; None: passes as torch makes them"""
        if spec.plain:
            self.layers = Layers(list(self.model.parameters()), spec.activation)

    def __call__(self, obs: Tensor) -> Tensor:
        """The actions [N, *shape] of a deterministic policy, or the middle ones of another."""
        return self._within(torch.tanh(self._outputs(obs)))

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [N, *shape] drawn from a squashed Gaussian, and their log-probabilities [N].

        The probabilities are those of what is in -1 ... 1, before it is stretched to the bounds.
        """
        if self.layers is not None and self._instead is None:
            noise = self._noise((len(obs), self.spec.actions.width)).mT
            squeezed, logp = squashed(self.layers, self._columns(obs), noise, _BOUNDS)
            return self._within(squeezed), logp
        mean, raw = self.outputs(obs).chunk(2, -1)
        log_std = raw.clamp(*_BOUNDS)
        noise = self._noise(mean.shape)
        drawn = torch.addcmul(mean, log_std.exp(), noise)
        slope = 2 * (_LOG_2 - drawn - nn.functional.softplus(-2 * drawn))
        terms = -0.5 * noise.square() - log_std - slope
        logp = terms.sum(-1) - 0.5 * _LOG_2_PI * noise.shape[-1]
        return self._within(torch.tanh(drawn)), logp

    def uniform(self, count: int) -> tuple[Tensor, Tensor]:
        """Actions [count, *shape] from anywhere within their bounds, and their log-probabilities,
        as those of `sample` are: of what is in -1 ... 1."""
        width = self.spec.actions.width
        shape, rng = (count, width), self.rng
        found = drawn(lambda out: np.copyto(out, rng.uniform(-1, 1, shape), "same_kind"), shape)
        logp = torch.full((count,), -width * _LOG_2, device=self.device)
        return self._within(found.to(self.device)), logp

    @torch.no_grad()
    def smoothed(self, obs: Tensor, scale: float, clip: float) -> Tensor:
        """Actions with clipped noise, within their bounds (Fujimoto et al. 2018, section 5.3)."""
        squeezed = torch.tanh(self._outputs(obs))
        noise = (scale * self._noise(squeezed.shape)).clamp(-clip, clip)
        return self._within((squeezed + noise).clamp(-1, 1))

    def _outputs(self, obs: Tensor) -> Tensor:
        """The first outputs [N, width], of which actions are made."""
        width = self.spec.actions.width
        if self.layers is None or self._instead is not None:
            return self.outputs(obs)[:, :width]
        return outputs_of(self.layers, self._columns(obs))[:width].mT

    def _columns(self, obs: Tensor) -> Tensor:
        """Observations [N, ...] as the columns [inputs, N] that go into the layers."""
        trunk: Any = self.model.trunk
        obs = self._rows(obs)[0]
        if self.normalizer is not None:
            seen: Tensor = self.normalizer(obs)
            return seen.flatten(1).mT
        rows = obs.flatten(1).float()
        rows = (rows - trunk.middle) * trunk.factor if trunk.scaled else rows
        return rows.mT.contiguous()  # products with few rows take a third of the time

    def _noise(self, shape: tuple[int, ...]) -> Tensor:
        """Drawn by the learner's own generator, so that both frameworks draw the same."""
        rng = self.rng
        draw: Any = partial(rng.standard_normal, None, np.float32)  # the third is `out`
        return drawn(draw, tuple(shape)).to(self.device)

    def _within(self, squeezed: Tensor) -> Tensor:
        actions = torch.addcmul(self._middle, self._half, squeezed)
        return actions.reshape(-1, *self.spec.actions.shape)


class Frozen:
    """A network whose results carry no gradient."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __call__(self, *arguments: Any) -> Any:
        """What the network gives."""
        with torch.no_grad():
            return self._module(*arguments)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found):
            return found
        call = _without_gradient(found)
        setattr(self, name, call)  # looked up once
        return call


def _without_gradient(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def quiet(*arguments: Any, **named: Any) -> Any:
        with torch.no_grad():
            return call(*arguments, **named)

    return quiet


class TorchModules:
    """Networks that are ready to learn: `m.policy`, `m.target.policy`, `m.frozen.policy`.

    A target follows its network as its algorithm says; what is frozen is the network itself, whose
    results nothing is learned through.
    """

    def __init__(self, modules: Modules, seed: int, device: str = "cpu") -> None:
        self.description = modules
        self.compares = True
        """whether networks are compared with their targets"""
        self.by_name = {name: build(modules, name, seed, device) for name in modules.networks}
        self.targets = {name: build(modules, name, seed, device) for name in modules.targets}
        self.target = Namespace({name: Frozen(module) for name, module in self.targets.items()})
        self.frozen = Namespace({name: Frozen(module) for name, module in self.by_name.items()})
        for module in self.targets.values():
            for parameter in module.network.parameters():
                parameter.requires_grad_(False)

    def __getattr__(self, name: str) -> Any:
        return named(self.__dict__.get("by_name", {}), name)

    def at_target(self, name: str) -> bool:
        """Whether a network and its target are equal, so that a pass through one is one through
        both. Nobody looks where updates are recorded, which go one way, nor on a device."""
        one, target = self.by_name[name], self.targets[name]
        if not self.compares or one.device.type != "cpu" or getattr(one, "noise", None):
            return False
        own, others = one.network.state_dict(), target.network.state_dict()
        return all(map(torch.equal, own.values(), others.values()))  # most differ in the first

    def draw_from(self, rng: np.random.Generator) -> None:
        """Networks that draw actions do it with this generator."""
        for _, module in self.all():
            module.rng = rng

    def draw_noise(self, rng: np.random.Generator) -> list[Any]:
        """Noisy layers, those of targets too, have noise of this generator from now on: this."""
        return [module.noise.draw(rng) for module in self._noisy()]

    def set_noise(self, drawn: list[Any]) -> None:
        """Noisy layers have this noise from now on, which another copy has drawn."""
        for module, noise in zip(self._noisy(), drawn, strict=True):
            module.noise.set(noise)

    def _noisy(self) -> list[Policy]:
        return [module for _, module in self.all() if isinstance(module, Policy) and module.noise]

    def others(self, names: Collection[str]) -> Iterator[Layers]:
        """The layers of the networks that are not among these."""
        for name, module in self.by_name.items():
            layers = getattr(module, "layers", None)
            if layers is not None and name not in names:
                yield layers

    def compile(self) -> None:
        """Have torch compile all networks."""
        for _, module in self.all():
            module.network.compile()
            module.layers = None

    def all(self) -> Iterator[tuple[str, Any]]:
        """Every network with its name, targets too."""
        yield from self.by_name.items()
        yield from ((f"target {name}", module) for name, module in self.targets.items())


@contextmanager
def resting(layers: Iterable[Layers]) -> Iterator[None]:
    """Inside, a gradient goes through these layers, but none is made of their parameters."""
    chosen = list(layers)
    for one in chosen:
        one.learns = False
    try:
        yield
    finally:
        for one in chosen:
            one.learns = True


def build(modules: Modules, name: str, seed: int, device: str) -> Any:
    """One network in torch."""
    description = modules.networks[name]
    if isinstance(description, PolicySpec):
        policy = Actor if description.bounded else Policy
        return policy(description, seed_of_policy(name, seed, modules.acts), device)
    kind = Critic if isinstance(description, QOfAction) else Number
    return kind(description, seed_of(name, seed), device)  # type: ignore[arg-type]
