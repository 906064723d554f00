"""What a policy is made from: two spaces and a few choices. A value, free of torch.

A worker and a learner that hold equal specs hold networks whose weights have the same names and
shapes; that is all the two need to agree upon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from rillflow.envs.layout import Layout, layout_of
from rillflow.errors import BuildError
from rillflow.images import Channels, Image, as_image, image_in
from rillflow.policies.actions import Actions, actions_of
from rillflow.policies.atoms import atoms_of
from rillflow.policies.convolution_plan import ConvolutionPlan, plan_for
from rillflow.policies.head_checks import check_head
from rillflow.policies.image_scale import FAR
from rillflow.policies.memory_choice import state_of
from rillflow.policies.noise import sigma_shapes
from rillflow.policies.normalizer import buffer_shapes
from rillflow.policies.observation_checks import check_observations
from rillflow.policies.spec_checks import below_memory, check_choices, check_sizes

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """A policy, described.

    `model` may be your own: a function (or a class) that takes this spec and returns a
    `torch.nn.Module`. Called with observations [N, ...] the module returns, for the head

    - `"actor_critic"`: `(outputs, values)`, [N, actions.width] and [N]: logits, or the means of
      a Gaussian (a parameter `log_std` is added if the module has none); of mixed actions the
      logits of all choices, then the means;
    - `"categorical"`: the logits [N, actions.width];
    - `"q"`: the q values [N, actions.width];
    - `"squashed_gaussian"`: [N, 2 * actions.width], means and logarithms of standard deviations,
      before they are squeezed into the bounds of the actions;
    - `"deterministic"`: [N, actions.width], one action each, before it is.

    Observations of several parts come in the environment's own structure: dicts or tuples of
    tensors [N, ...], as `spec.observations` says; a mask of actions is not among them.

    It is tried before any worker starts (`policies/try_network.py`).

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
    """the network; "lstm" is the older way to ask for `memory="lstm"` above an mlp or a cnn"""
    memory: Literal["lstm", "gru"] | None = None
    """cells above the network's layers, which remember the episode; None: it has none"""
    head: Literal["actor_critic", "categorical", "q", "squashed_gaussian", "deterministic"] = (
        "actor_critic"
    )
    """a distribution over actions and a value; one over discrete actions alone; one value per
    action; or continuous actions within their bounds, drawn or not, without a value"""
    dueling: bool = False
    """q values as a value plus advantages (Wang et al. 2015, arXiv:1511.06581)"""
    num_atoms: int = 1
    """of q values: how many returns, from `v_min` to `v_max`, have a chance each, whose mean is the
    q value (Bellemare et al. 2017, arXiv:1707.06887); 1: a q value is one output"""
    v_min: float | None = None
    """the least of these returns"""
    v_max: float | None = None
    """the largest of them"""
    noisy: float = 0.0
    """how noisy fully connected layers of q values are at first, by the root of their inputs
    (Fortunato et al. 2017, arXiv:1706.10295); 0: they have no noise"""
    shared: bool = False
    """one trunk for the actor and the critic of an mlp; a cnn and what remembers always have one"""
    image_features: int | None = None
    """width of the layer behind the convolutions; None: 512 behind those of large images, 128
    behind those of small ones"""
    channels: Channels = "auto"
    """where images of three axes have their channels: first or last; auto: told by the shape (see
    `rillflow.images.as_image`)"""
    memory_size: int = 128
    """cells of the memory"""
    scale_observations: bool = False
    """whether the network sees vectors scaled: what their space bounds from -1 to 1"""
    normalize_observations: bool | Literal["loosely"] = False
    """whether it sees observations by their running mean and standard deviation, which are buffers
    of the network; with a model of your own, that is what the module is called with; loosely:
    only numbers that are far from ordinary (`policies.normalizer.seen_by`)"""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.model == "lstm":  # from here on a network and its memory are two choices
            object.__setattr__(self, "model", below_memory(self))
            object.__setattr__(self, "memory", "lstm")
        check_sizes(self)
        check_head(self)
        check_observations(self)

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
        So do all where a normaliser measures them.
        """
        if self.normalize_observations:
            return None
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
        if self.memory is not None:
            return state_of(self.memory, self.memory_size)
        shape = None if isinstance(self.model, str) else getattr(self.model, "state_shape", None)
        return None if shape is None else tuple(shape)

    @property
    def recurrent(self) -> bool:
        """Whether the policy remembers."""
        return self.state_shape is not None

    @property
    def lstm_size(self) -> int:
        """The cells of the memory, as version 0.1 called them."""
        return self.memory_size

    @property
    def plain(self) -> bool:
        """Whether the network is layers alone: what NumPy computes, and acts with."""
        return self.model == "mlp" and self.memory is None

    @property
    def network(self) -> str:
        """The network in a word, for messages: 'mlp', or lstm on 'cnn'."""
        return repr(self.model) if self.memory is None else f"{self.memory} on {self.model!r}"

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
    def head_width(self) -> int:
        """How many numbers the layer for actions gives: those of a distribution for each output."""
        return self.width * self.num_atoms

    @property
    def support(self) -> tuple[float, float]:
        """The least and the largest return that has a chance."""
        assert self.v_min is not None, "it has no distributions"
        assert self.v_max is not None, "it has no distributions"
        return self.v_min, self.v_max

    @cached_property
    def atoms(self) -> NDArray[np.float32]:
        """The returns that have a chance each."""
        return atoms_of(*self.support, self.num_atoms)

    @property
    def has_log_std(self) -> bool:
        """Whether the width of a Gaussian is a weight, the same for every observation."""
        return self.actions.numbers > 0 and self.head == "actor_critic"

    @cached_property
    def action_scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The middle of the bounds of each part of an action, and half the way between them."""
        space: Any = self.action_space
        low, high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
        return ((low + high) / 2).astype(np.float32), ((high - low) / 2).astype(np.float32)

    @property
    def has_critic(self) -> bool:
        """Whether the value has a trunk of its own."""
        return self.plain and self.head == "actor_critic" and not self.shared

    @cached_property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the weights of an mlp."""
        if not self.plain:
            raise BuildError(
                "only the weights of model='mlp' without memory follow from the spec; "
                "for any other network build it: TorchPolicy(spec).get_weights()"
            )
        shapes = self._layers("trunk")
        if self.has_critic:
            shapes |= self._layers("critic")
        last = self.hidden[-1] if self.hidden else self.observation_size
        shapes |= self._linear("action_head", last, self.head_width)
        if self.has_value:
            shapes |= self._linear("value_head", last, self.num_atoms)
        if self.has_log_std:
            shapes["log_std"] = (self.actions.numbers,)
        return shapes

    @property
    def loosely(self) -> bool:
        """Whether ordinary numbers of observations that are normalised stay as they are."""
        return self.normalize_observations == "loosely"

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
            shapes |= self._linear(f"{name}.{index}", fan_in, width)
            fan_in = width
        return shapes

    def _linear(self, name: str, fan_in: int, fan_out: int) -> dict[str, Shape]:
        shapes = linear_shapes(name, fan_in, fan_out)
        return sigma_shapes(shapes) if self.noisy else shapes


def linear_shapes(name: str, fan_in: int, fan_out: int) -> dict[str, Shape]:
    """Names and shapes of the weights of one linear layer."""
    return {f"{name}.weight": (fan_out, fan_in), f"{name}.bias": (fan_out,)}
