"""What a policy is made from: two spaces and a few choices. A value, free of torch.

A worker and a learner that hold equal specs hold networks whose weights have the same names and
shapes; that is all the two need to agree upon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from rillflow.envs.layout import Layout, layout_of
from rillflow.errors import BuildError
from rillflow.images import CHANNELS, Channels, Image, as_image, image_in
from rillflow.policies.actions import Actions, actions_of
from rillflow.policies.convolution_plan import ConvolutionPlan, plan_for
from rillflow.policies.image_scale import FAR
from rillflow.policies.normalizer import buffer_shapes

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """A policy, described.

    `model` may be your own: a function (or a class) that takes this spec and returns a
    `torch.nn.Module`. Called with observations [N, ...] the module returns, for the head

    - `"actor_critic"`: `(outputs, values)`, [N, actions.width] and [N]: logits, or the means of
      a Gaussian (a parameter `log_std` is added if the module has none);
    - `"q"`: the q values [N, actions.width];
    - `"squashed_gaussian"`: [N, 2 * actions.width], means and logarithms of standard deviations,
      before they are squeezed into the bounds of the actions;
    - `"deterministic"`: [N, actions.width], one action each, before it is.

    Observations of several parts come in the environment's own structure: dicts or tuples of
    tensors [N, ...], as `spec.observations` says; a mask of actions is not among them.

    It is tried before any worker starts (`policies/probe.py`).

    If the function has an attribute `state_shape` the module is recurrent: it is called with
    observations [T, B, ...], the state [B, *state_shape] before the first row and `starts` [T, B],
    true where an episode begins, and returns the state after the last row as well.
    """

    observation_space: Space[Any]
    """of one environment, preprocessed: floating-point numbers, an image or table of uint8, or an
    array of several parts (`layout`)"""
    action_space: Space[Any]
    """of one environment"""
    hidden: Shape = (64, 64)
    """widths of the layers behind a vector"""
    activation: Literal["tanh", "relu"] = "tanh"
    """of the layers behind a vector; those behind an image use relu"""
    model: Literal["mlp", "cnn", "lstm"] | Callable[[PolicySpec], Any] = "mlp"
    """the network; an lstm has convolutions below it if observations are images"""
    head: Literal["actor_critic", "q", "squashed_gaussian", "deterministic"] = "actor_critic"
    """a distribution over actions and a value; one value per action; or continuous actions within
    their bounds, drawn or not, without a value"""
    dueling: bool = False
    """q values as a value plus advantages (Wang et al. 2015, arXiv:1511.06581)"""
    shared: bool = False
    """one trunk for the actor and the critic of an mlp; a cnn or an lstm always has one"""
    image_features: int | None = None
    """width of the layer behind the convolutions; None: 512 behind those of large images, 128
    behind those of small ones"""
    channels: Channels = "auto"
    """where images of three axes have their channels: first or last; auto: told by the shape (see
    `rillflow.images.as_image`)"""
    lstm_size: int = 128
    """cells of the lstm"""
    scale_observations: bool = False
    """whether the network sees vectors scaled: what their space bounds from -1 to 1"""
    normalize_observations: bool = False
    """whether it sees observations by their running mean and standard deviation, which are buffers
    of the network; with a model of your own, that is what the module is called with"""

    def __post_init__(self) -> None:
        _check_choices(self)
        _check_sizes(self)
        _check_head(self)
        _check_observations(self)

    # what follows from the spaces

    @cached_property
    def actions(self) -> Actions:
        """The kind and the sizes of an action."""
        return actions_of(self.action_space)

    @cached_property
    def layout(self) -> Layout | None:
        """The parts of an observation and its mask of actions; None: it is one array, no more."""
        return layout_of(self.observation_space)

    @cached_property
    def observations(self) -> Space[Any]:
        """Of what a network of your own is given: a Box, or a Dict or Tuple of them."""
        return self.observation_space if self.layout is None else self.layout.seen

    @cached_property
    def measured(self) -> NDArray[np.bool_] | None:
        """Which numbers of an observation are measured, not indices or a mask; None: all are."""
        if self.layout is None or self.packed:
            return None
        return np.append(self.layout.plain, np.zeros(self.layout.mask_size, bool))

    @property
    def masked(self) -> bool:
        """Whether observations say which actions are allowed."""
        return self.layout is not None and self.layout.mask_size > 0

    @cached_property
    def observation_shape(self) -> Shape:
        """Of one observation, as it travels."""
        return tuple(self.observation_space.shape or ())

    @cached_property
    def observation_size(self) -> int:
        """How many numbers of one observation a network sees."""
        if self.layout is None:
            return prod(self.observation_shape)
        return sum(part.size for part in self.layout.parts.values())

    @cached_property
    def observation_scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """What is subtracted from flat observations, and what they are multiplied by then.

        Numbers that have no bounds, or such that no observation comes near them, stay as they are.
        """
        if not self.scale_observations:
            return self._whole_pixels()
        space: Any = self.observation_space
        bounds = (space.low, space.high) if self.layout is None else self.layout.bounds
        low, high = (np.ravel(bound).astype(np.float64) for bound in bounds)
        bounded = (np.abs(low) < FAR) & (np.abs(high) < FAR) & (low < high)
        half = np.where(bounded, (high - low) / 2, 1.0)
        middle = np.where(bounded, low + half, 0.0)
        return middle.astype(np.float32), (1 / half).astype(np.float32)

    def _whole_pixels(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """The scale of images that are seen flat: bytes become numbers from 0 to 1."""
        space: Any = self.observation_space
        otherwise = self.image is not None or self.layout is not None or self.normalize_observations
        if space.dtype != np.uint8 or otherwise:
            return None
        size, white = self.observation_size, max(1.0, float(space.high.max()))
        return np.zeros(size, np.float32), np.full(size, 1 / white, np.float32)

    @property
    def packed(self) -> bool:
        """Whether observations are bytes that hold images among their parts."""
        return self.layout is not None and self.layout.packed

    @cached_property
    def image(self) -> Image | None:
        """How the network sees observations as images; None: it sees numbers in a row."""
        if self.model == "mlp":
            return None
        if self.model == "cnn":
            return as_image(self.observation_shape, self.channels)
        return image_in(self.observation_space, self.channels)

    @property
    def channels_first(self) -> bool:
        """Whether observations are images [C, H, W]."""
        return self.image is not None and self.image.order == "first"

    @cached_property
    def convolutions(self) -> ConvolutionPlan:
        """The layers that look at images."""
        assert self.image is not None, "observations are no images"
        return plan_for(self.image, self.image_features)

    # what follows from the choices

    @property
    def state_shape(self) -> Shape | None:
        """Of the recurrent state of one environment; None if there is none."""
        if self.model == "lstm":
            return (2, self.lstm_size)
        shape = None if isinstance(self.model, str) else getattr(self.model, "state_shape", None)
        return None if shape is None else tuple(shape)

    @property
    def recurrent(self) -> bool:
        """Whether the policy remembers."""
        return self.state_shape is not None

    @property
    def has_value(self) -> bool:
        """Whether a built-in network has an output for the value of a state."""
        return self.head == "actor_critic" or self.dueling

    @property
    def bounded(self) -> bool:
        """Whether actions are squeezed into their bounds."""
        return self.head in ("squashed_gaussian", "deterministic")

    @property
    def width(self) -> int:
        """How many outputs of the network describe an action."""
        return self.actions.width * (2 if self.head == "squashed_gaussian" else 1)

    @property
    def has_log_std(self) -> bool:
        """Whether the width of a Gaussian is a weight, the same for every observation."""
        return self.actions.kind == "continuous" and self.head == "actor_critic"

    @cached_property
    def action_scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The middle of the bounds of each part of an action, and half the way between them."""
        space: Any = self.action_space
        low, high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
        return ((low + high) / 2).astype(np.float32), ((high - low) / 2).astype(np.float32)

    @property
    def has_critic(self) -> bool:
        """Whether the value has a trunk of its own."""
        return self.model == "mlp" and self.head == "actor_critic" and not self.shared

    @cached_property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the weights of an mlp."""
        if self.model != "mlp":
            raise BuildError(
                "only the weights of model='mlp' follow from the spec; "
                "for any other network build it: TorchPolicy(spec).get_weights()"
            )
        shapes = self._layers("trunk")
        if self.has_critic:
            shapes |= self._layers("critic")
        last = self.hidden[-1] if self.hidden else self.observation_size
        shapes |= linear_shapes("action_head", last, self.width)
        if self.has_value:
            shapes |= linear_shapes("value_head", last, 1)
        if self.has_log_std:
            shapes["log_std"] = (self.actions.width,)
        return shapes

    @cached_property
    def buffer_shapes(self) -> dict[str, Shape]:
        """Names and shapes of what is no parameter, and travels with the weights all the same."""
        return buffer_shapes(self.observation_shape) if self.normalize_observations else {}

    @cached_property
    def weight_shapes(self) -> dict[str, Shape]:
        """Names and shapes of all that travels of an mlp: parameters and buffers."""
        return self.parameter_shapes | self.buffer_shapes

    @cached_property
    def acting_names(self) -> tuple[str, ...]:
        """The weights of an mlp that decide what it does; an actor needs no others."""
        critic = () if self.dueling else ("value_head.",)
        return tuple(n for n in self.weight_shapes if not n.startswith(("critic.", *critic)))

    def _layers(self, name: str) -> dict[str, Shape]:
        shapes: dict[str, Shape] = {}
        fan_in = self.observation_size
        for index, width in enumerate(self.hidden):
            shapes |= linear_shapes(f"{name}.{index}", fan_in, width)
            fan_in = width
        return shapes


def linear_shapes(name: str, fan_in: int, fan_out: int) -> dict[str, Shape]:
    """Names and shapes of the weights of one linear layer."""
    return {f"{name}.weight": (fan_out, fan_in), f"{name}.bias": (fan_out,)}


def _check_choices(spec: PolicySpec) -> None:
    choices = {
        "activation": ("tanh", "relu"),
        "model": ("mlp", "cnn", "lstm"),
        "head": ("actor_critic", "q", "squashed_gaussian", "deterministic"),
        "channels": CHANNELS,
    }
    for name, valid in choices.items():
        found = getattr(spec, name)
        if found in valid or (name == "model" and callable(found)):
            continue
        near = get_close_matches(str(found), valid, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if name == "model" and not isinstance(found, str):
            hint = ", or a function that takes the spec and returns a torch.nn.Module"
        raise BuildError(f"{name} must be one of {', '.join(valid)}, got {found!r}{hint}")


def _check_sizes(spec: PolicySpec) -> None:
    if not isinstance(spec.hidden, tuple) or not all(_positive(width) for width in spec.hidden):
        raise BuildError(
            f"hidden must be a tuple of positive whole numbers, such as (64, 64); "
            f"got {spec.hidden!r}"
        )
    for name in ("image_features", "lstm_size"):
        found = getattr(spec, name)
        if not _positive(found) and not (name == "image_features" and found is None):
            raise BuildError(f"{name} must be a positive number, got {found!r}")


def _positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def _check_head(spec: PolicySpec) -> None:
    kind = spec.actions.kind
    if spec.head == "q" and kind == "continuous":
        raise BuildError(
            "head='q' has one output per action and cannot enumerate the continuous actions of "
            f"{spec.action_space}; use an actor-critic method (PPO, A2C, A3C, IMPALA), "
            "head='actor_critic', or make the actions discrete"
        )
    if spec.head == "q" and kind == "multidiscrete":
        raise BuildError(
            f"head='q' needs a Discrete action space, found {spec.action_space}; use an "
            "actor-critic method (PPO, A2C, A3C, IMPALA), head='actor_critic', or number all "
            f"combinations: Discrete({prod(spec.actions.sizes)})"
        )
    if spec.bounded:
        _check_bounds(spec)
    if spec.dueling and spec.head != "q":
        raise BuildError(f"dueling=True splits q values and needs head='q', found {spec.head!r}")


def _check_bounds(spec: PolicySpec) -> None:
    space: Any = spec.action_space
    if spec.actions.kind != "continuous":
        raise BuildError(
            f"head={spec.head!r} gives continuous actions, found {space}: use an algorithm for "
            "discrete actions (DQN, PPO, ...)"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise BuildError(
            f"head={spec.head!r} squeezes actions into their bounds, and {space} has none on some "
            "side: give it bounds (gymnasium.wrappers.RescaleAction), or use PPO"
        )
    if not (space.low < space.high).all():
        raise BuildError(
            f"head={spec.head!r} stretches actions between their bounds, and in {space} some are "
            "the same below and above: leave those parts of an action out, or use PPO"
        )


def _check_observations(spec: PolicySpec) -> None:
    space = spec.observation_space
    if not isinstance(space, spaces.Box):
        raise BuildError(
            f"a policy takes observations of a Box, found {space}: encode them as one vector first"
        )
    if spec.scale_observations:
        _check_scale(spec)
    if spec.normalize_observations:
        _check_normalize(spec)
    if not isinstance(spec.model, str):
        return  # your own network may take any array
    if spec.layout is not None:
        _check_parts(spec)
        return
    if space.dtype != np.uint8 and not np.issubdtype(space.dtype, np.floating):
        raise BuildError(
            f"observations must be floating-point numbers or images of uint8, found {space}: "
            "convert them to float32, or images to uint8, first"
        )
    if spec.model == "cnn" and spec.image is None:
        raise BuildError(
            "model='cnn' takes images, which have two or three axes (pixels are scaled inside), "
            f"found {space}: use model='mlp'"
        )


def _check_parts(spec: PolicySpec) -> None:
    if spec.model == "mlp" and spec.packed:
        raise BuildError(
            f"model='mlp' takes vectors, and there are images in {spec.layout}: use model='cnn'"
        )
    if spec.model == "cnn" and not spec.packed:
        raise BuildError(
            f"model='cnn' takes images, and there are none in {spec.layout}: use model='mlp'"
        )


def _check_scale(spec: PolicySpec) -> None:
    if not isinstance(spec.model, str) or spec.image:
        who = "images, whose pixels are always scaled" if spec.image else "a network of your own"
        raise BuildError(f"scale_observations=True is for vectors, not for {who}: leave it out")
    scale = spec.observation_scale
    if scale is not None and not scale[0].any() and (scale[1] == 1).all():
        raise BuildError(
            f"scale_observations=True scales what has bounds, and {spec.observation_space} has none"
            " beside -1 and 1: leave it out, or wrap the environment in one that scales"
        )


def _check_normalize(spec: PolicySpec) -> None:
    if spec.scale_observations:
        raise BuildError(BOTH_SCALED)
    if spec.image or spec.packed:
        raise BuildError(
            "normalize_observations=True is for vectors, not for images, whose pixels are always "
            f"scaled, found {spec.observation_space}: leave it out"
        )


BOTH_SCALED = (
    "normalize_observations=True measures what scale_observations=True takes from the bounds of "
    "the space: set one of the two to False (an environment's own settings may have the second)"
)
