"""The networks of an algorithm, described: their names, who acts, who has a target. Free of torch.

    Modules(
        actor=squashed_gaussian(spec),
        q=q_of_action(spec, copies=2),
        log_alpha=scalar(0.0),
        acts="actor",
        targets={"q": Polyak(0.005)},
    )

A learner builds them in its framework; workers build the one that acts, and receive its weights and
no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np

from rillflow.errors import BuildError
from rillflow.policies.initial import Weights, uniform_weights
from rillflow.policies.normalizer import Moments, as_buffers
from rillflow.policies.spec import PolicySpec, Shape, linear_shapes
from rillflow.policies.target_networks import Target


@dataclass(frozen=True)
class Optimiser:
    """Adam, for one network; None: as the algorithm's settings say."""

    lr: float | None = None
    clip: float | None = None
    """largest norm of a gradient; `math.inf`: as it is"""


@dataclass(frozen=True)
class QOfAction:
    """Values of an observation and a continuous action; of several copies, one for each."""

    spec: PolicySpec
    copies: int = 1

    @property
    def inputs(self) -> int:
        """Numbers that the network sees: the observation's, then the action's."""
        return self.spec.observation_size + self.spec.actions.width

    @cached_property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the weights; copies are stacked."""
        shapes: dict[str, Shape] = {}
        widths = (self.inputs, *self.spec.hidden, 1)
        for index, (fan_in, fan_out) in enumerate(pairwise(widths)):
            last = index == len(self.spec.hidden)
            shapes |= linear_shapes("value_head" if last else f"trunk.{index}", fan_in, fan_out)
        if self.copies == 1:
            return shapes
        return {name: (self.copies, *shape) for name, shape in shapes.items()}

    def first_weights(self, seed: int | list[int]) -> Weights:
        """What a learner starts from."""
        weights = uniform_weights(self.parameter_shapes, seed)
        if self.spec.normalize_observations:
            weights |= as_buffers(Moments.none(self.spec.observation_shape))
        return weights

    def __str__(self) -> str:
        layers = " x ".join(map(str, (self.inputs, *self.spec.hidden, 1)))
        return f"q(observation, action), {layers}" + (f", {self.copies} copies" * (self.copies > 1))


@dataclass(frozen=True)
class Scalar:
    """One number that is learned."""

    first: float
    follows: bool = False
    """whether nothing learns it: an update tells it what to follow"""

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """One number."""
        return {"value": ()}

    def first_weights(self, seed: int | list[int]) -> Weights:
        """What a learner starts from."""
        return {"value": np.array(self.first, np.float32)}

    def __str__(self) -> str:
        return "a moving average" if self.follows else f"one number, {self.first:g} at first"


Description: TypeAlias = PolicySpec | QOfAction | Scalar


class Modules:
    """Named networks with roles.

    Args:
        acts: which one acts; a policy.
        targets: which have a copy that follows them, and how.
        optimisers: those that learn otherwise than the settings say.
        networks: each by its name.
    """

    def __init__(
        self,
        *,
        acts: str,
        targets: Mapping[str, Target] | None = None,
        optimisers: Mapping[str, Optimiser] | None = None,
        **networks: Description,
    ) -> None:
        self.networks = networks
        self.acts = acts
        self.targets = dict(targets or {})
        self.optimisers = dict(optimisers or {})
        for role, names in (
            ("acts", (acts,)),
            ("targets", self.targets),
            ("optimisers", self.optimisers),
        ):
            for name in names:
                if name not in networks:
                    raise BuildError(
                        f"Modules: {role} names {name!r}, but the networks are "
                        f"{', '.join(networks) or 'none'}."
                    )
        if not isinstance(networks[acts], PolicySpec):
            raise BuildError(
                f"Modules: acts={acts!r} must be a policy, such as actor_critic(spec), found "
                f"{networks[acts]}."
            )

    @property
    def acting(self) -> PolicySpec:
        """The policy that workers act with."""
        found = self.networks[self.acts]
        assert isinstance(found, PolicySpec)
        return found

    @property
    def alone(self) -> bool:
        """Whether the network that acts is the only one."""
        return len(self.networks) == 1

    def __repr__(self) -> str:
        return f"Modules({', '.join(self.networks)}, acts={self.acts!r})"


def actor_critic(spec: PolicySpec) -> PolicySpec:
    """A distribution over actions, and the value of the observation."""
    return replace(spec, head="actor_critic")


def q_values(
    spec: PolicySpec,
    dueling: bool = False,
    *,
    num_atoms: int = 1,
    v_min: float | None = None,
    v_max: float | None = None,
    noisy: float = 0.0,
) -> PolicySpec:
    """One value per discrete action, or a distribution of returns over atoms for each; with layers
    that are `noisy` at first, or have no noise."""
    return replace(
        spec,
        head="q",
        dueling=dueling,
        num_atoms=num_atoms,
        v_min=v_min,
        v_max=v_max,
        noisy=noisy,
    )


def categorical(spec: PolicySpec) -> PolicySpec:
    """A distribution over discrete actions, without a value."""
    return replace(spec, head="categorical")


def squashed_gaussian(spec: PolicySpec) -> PolicySpec:
    """A Gaussian squeezed into the bounds of the actions (Haarnoja et al. 2018)."""
    return replace(spec, head="squashed_gaussian")


def deterministic(spec: PolicySpec) -> PolicySpec:
    """One action within its bounds (Silver et al. 2014)."""
    return replace(spec, head="deterministic")


def q_of_action(spec: PolicySpec, copies: int = 1) -> QOfAction:
    """Values of observations and continuous actions, by one network or by several."""
    if spec.actions.kind != "continuous":
        raise BuildError(
            f"q_of_action values continuous actions, found {spec.action_space}: use q_values"
        )
    if spec.image or spec.packed:
        raise BuildError(
            f"q_of_action takes observations that are vectors, found {spec.observation_space}: use "
            "model='mlp', which sees images flat, or an algorithm for images (PPO, IMPALA, DQN)"
        )
    return QOfAction(spec, copies)


def scalar(first: float) -> Scalar:
    """One number that is learned, such as a temperature."""
    return Scalar(first)


def moving_average() -> Scalar:
    """One number that follows what an update tells it: `m.size.follow(value, part)`."""
    return Scalar(0.0, follows=True)


def parameters_of(description: Description) -> int | None:
    """How many numbers a network learns; None: it has to be built to know."""
    if isinstance(description, PolicySpec) and not description.plain:
        return None
    if isinstance(description, Scalar) and description.follows:
        return 0
    return sum(prod(shape) for shape in description.parameter_shapes.values())
