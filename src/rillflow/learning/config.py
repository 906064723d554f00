"""Configuration shared by algorithms: one frozen dataclass per algorithm."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from rillflow.callables import label_of
from rillflow.envs.preprocessing import Preprocessing, Resize
from rillflow.errors import BuildError
from rillflow.images import Channels
from rillflow.learning import acting_device, evaluation_settings, fault_settings, schedules
from rillflow.learning.did_you_mean import instead_of
from rillflow.learning.fields import type_problems
from rillflow.learning.schedule_checks import may_be_schedule, problems_ever
from rillflow.learning.setting_checks import problems as problems_of_many
from rillflow.learning.suited_settings import current, remembers, said_above, suiting, usual_model
from rillflow.policies.explorers import Explorer
from rillflow.policies.modules import Modules
from rillflow.policies.observation_checks import BOTH_SCALED
from rillflow.policies.spec import PolicySpec

if TYPE_CHECKING:
    from rillflow.learning.algorithm import Algorithm

C = TypeVar("C", bound="AlgorithmConfig")
D = TypeVar("D")


class _Settings(type):
    """Classes of settings: what is not given is what suits the environment, or the default."""

    def __call__(cls, **values: Any) -> Any:
        values = current(values)
        fields = {field_.name: field_ for field_ in dataclasses.fields(cls)}  # type: ignore[arg-type]
        wrong = [_unknown(name, {*fields}) for name in values if name not in fields]
        for name, value in values.items():
            if name in fields and may_be_schedule(fields[name], value):
                try:
                    values[name] = schedules.parse(value)
                except BuildError as error:
                    wrong.append(f"{name}: {error}")
        if wrong:
            raise refused(cls, wrong)
        suits = suiting(cls, values)
        if isinstance(values.get("lr"), schedules.Schedule):
            suits["final_lr"] = None  # a rate falls once
        settings = super().__call__(**said_above(suits, values))
        settings.validate()
        return settings


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(metaclass=_Settings):
    """What every algorithm has: environment, workers, network, optimiser.

    Settings that are not given are those that suit the environment (see `tuned`), or else the
    class's defaults. Without an `env`, as for one policy of several, there are only the defaults.
    Every unknown name and every number that cannot work is told at once.
    """

    if TYPE_CHECKING:  # so that `typing.get_type_hints` need not know `Algorithm`, which knows us
        algorithm: ClassVar[Algorithm]
        """whose settings they are; the `Algorithm` itself says so"""

    READ_ONCE: ClassVar[tuple[str, ...]] = (
        "final_lr",
        "adam_epsilon",
        "worker_timeout",
        "env_timeout",
        "num_gpus_per_worker",
    )
    """numbers that no schedule can change, because they are read when a run begins; a class of
    settings names its own, those of its bases hold too"""

    env: Any = "CartPole-v1"
    """an id, a factory of environments, or `module:name`"""
    env_config: dict[str, Any] = field(default_factory=dict)
    """keyword arguments of the environment"""
    resize: Resize = "auto"
    """images become so many pixels a side, or (height, width) of them; auto: those above 128 are
    shrunk; None: as they are"""
    grayscale: bool = False
    """whether images of three colours become grey"""
    frame_stack: int = 1
    """how many observations, the newest and those before it, the policy sees as one"""
    action_masks: bool = True
    """whether masks of actions, in observations or infos under `action_mask`, rule actions out"""
    num_workers: int = 2
    """rollout workers; 0: one in the driver itself"""
    num_envs_per_worker: int = 32
    """environments stepped together in each worker"""
    rollout_fragment_length: int = 32
    """steps of each environment per rollout"""
    on_failure: Literal["restart", "retry", "shrink", "drop", "raise"] = "restart"
    """when a worker fails or is lost: restart it, retry (ask it again), shrink (go on without it),
    drop (go on without that item), or raise: the run ends"""
    max_restarts: int = 5
    """restarts of one worker within a minute, before the run ends; if it is lost after it has
    answered, and does not raise, they are counted from there"""
    worker_timeout: float | None = None
    """seconds that a worker, a replay actor or the learner may take to answer before it is
    replaced; 0: for ever; none: 20 times the slowest answer so far, but a minute at least"""
    env_timeout: float | None = None
    """seconds that one step or reset of a worker's environments may take before the worker is
    replaced; none or 0: only the worker's own limit holds"""
    worker_memory: int | str | None = None
    """memory at which a worker is replaced after its rollout, such as 2GiB; none: no limit"""
    eval_every: int | None = None
    """steps between two evaluations, in environments of their own; none: there are none"""
    eval_episodes: int = 20
    """whole episodes of each evaluation"""
    eval_timeout: float | None = None
    """seconds for one; 0: for ever; none: 20 times the slowest so far, ten minutes at least"""
    max_eval_failures: int = 5
    """evaluations that fail one after the other, before the run ends with an error"""
    info_metrics: tuple[str, ...] = ()
    """keys of infos, such as is_success, whose last values are figures: means of 100 episodes"""
    gamma: float = 0.99
    """discount factor"""
    lr: float = 3e-4
    """learning rate of Adam"""
    final_lr: float | None = None
    """what the learning rate falls to, in a line; None, or above `lr`: it stays as it is"""
    lr_updates: int = 10_000
    """optimiser steps over which it falls"""
    adam_epsilon: float = 1e-5
    """added to the size that Adam divides gradients by; a larger one keeps steps small that follow
    on a time of tiny gradients, as when a solved task is failed for once"""
    amsgrad: bool = False
    """whether Adam divides by the largest size that gradients have had, not by that of late (Reddi
    et al. 2018): where a solved task is failed for once, weights stay where they are, nearly"""
    grad_clip: float | None = 0.5
    """largest norm of a gradient; None: as it is"""
    grad_clip_value: float | None = None
    """largest size of each number of a gradient, before its norm is looked at; None: as it is"""
    max_nonfinite_steps: int = 10
    """training steps in a row without a loss and a gradient that are finite, before the run ends
    with an error; until then they are left out"""
    hidden: tuple[int, ...] = (64, 64)
    """sizes of the hidden layers"""
    num_learner_threads: int = 1
    """threads of torch in the learner; more help only large networks"""
    activation: str = "tanh"
    """tanh or relu"""
    scale_observations: bool = False
    """whether the network sees what the observation space bounds scaled to -1 ... 1"""
    scale_actions: bool = True
    """whether a Gaussian over actions whose bounds are far from -1 and 1 begins in their middle,
    with half the way between them as its deviation; False: with 0 and 1, whatever the bounds"""
    normalize_observations: bool | Literal["loosely"] | None = False
    """whether the network sees observations by their running mean and standard deviation, at most
    10 of these from it; loosely: only numbers whose mean or deviation is far from ordinary, and
    only as far as it takes; None: loosely, if they are vectors, the network is built in, and
    nothing else scales them"""
    scale_rewards: bool | None = False
    """whether rewards are learned from as parts of the running standard deviation of the discounted
    return, at most 10 of these; reported returns stay the environment's; None: those of rollout
    workers are"""
    model: Any = None
    """mlp, cnn or a function of the `PolicySpec` giving a module; None: cnn for images, else mlp"""
    memory: Literal["lstm", "gru"] | None = None
    """cells above the model, which remember the episode; None: each observation stands alone"""
    memory_size: int = 128
    """how many cells, if there is a memory"""
    channels: Channels = "auto"
    """where images of three axes have their channels: first or last; auto: two axes of one length
    are height and width, or else the shorter one of the outer axes has the channels"""
    num_gpus: int = 0
    """CUDA devices of the learner, which share each minibatch; 0: it learns on the processor"""
    num_learners: int = 1
    """processes that learn, each from a part of every minibatch, and on a GPU each if there are"""
    num_gpus_per_worker: float | None = None
    """the part of a CUDA device on which each worker's network acts; 0: on the processor; none:
    with num_gpus, on the learner's devices if observations are images"""
    framework: Literal["auto", "torch", "numpy"] = "auto"
    """what learns: torch; numpy, for an mlp on the processor; auto: numpy where it can"""
    source: Callable[..., Any] | None = None
    """`source(worker)` gives each worker's batches to learn from; None: rollouts in `env`"""
    compile: bool = False
    """whether torch compiles the learner's networks; it takes a minute at first"""
    learner_precision: Literal["float32", "bf16"] = "float32"
    """what the learner's convolutions compute in; everything else is in float32"""
    record_updates: bool | None = None
    """whether an update in torch is recorded once and repeated; None: one of ours that can be"""
    update: Callable[..., Any] | None = None
    """`update(m, rows, cfg)` yields steps to learn by; None: the algorithm's own"""
    prepare: Callable[..., Any] | None = None
    """`prepare(m, batch, cfg)`: a batch to rows to learn from; None: the algorithm's own"""

    @classmethod
    def make(cls: type[C], **values: Any) -> C:
        """The same as calling the class."""
        return cls(**values)

    @property
    def preprocessing(self) -> Preprocessing:
        """What is done to observations, wherever the policy plays."""
        return Preprocessing(self.resize, self.grayscale, self.frame_stack, self.channels)

    @property
    def env_settings(self) -> dict[str, Any]:
        """What environments are made with, beside their name and number."""
        given = {"env_config": self.env_config, "preprocessing": self.preprocessing}
        return {**given, "action_masks": self.action_masks}

    def learning_rate(self, updates: int) -> float:
        """For the optimiser step that follows so many others."""
        if self.final_lr is None or self.final_lr > self.lr:
            return self.lr  # an environment's settings may have a last rate for a higher first one
        return self.lr + min(1.0, updates / self.lr_updates) * (self.final_lr - self.lr)

    def policy_spec(self, observation_space: Any, action_space: Any) -> PolicySpec:
        """The policy that acts in an environment with these spaces."""
        try:
            spec = PolicySpec(
                observation_space=observation_space,
                action_space=action_space,
                hidden=tuple(self.hidden),
                activation=self.activation,  # type: ignore[arg-type]
                memory=self.memory,
                memory_size=self.memory_size,
                scale_observations=self.scale_observations,
                scale_actions=self.scale_actions,
                normalize_observations=self._normalizes(observation_space),
                channels=getattr(observation_space, "channels", self.channels),
                model=self.model or usual_model(observation_space, self.channels),
            )
            return schedules.at_first(self).modules(spec).acting
        except BuildError as error:
            name = self.env if isinstance(self.env, str) else label_of(self.env)
            raise refused(type(self), [f"environment {name!r}: {error}"]) from None

    def _normalizes(self, observation_space: Any) -> bool | Literal["loosely"]:
        if self.normalize_observations is not None:
            return self.normalize_observations
        built_in = self.model is None or isinstance(self.model, str)
        vectors = usual_model(observation_space, self.channels) == "mlp"
        return "loosely" if built_in and vectors and not self.scale_observations else False

    def modules(self, spec: PolicySpec) -> Modules:
        """The networks of the algorithm, for an environment that a policy of this spec acts in."""
        return self.algorithm.modules(spec, self)

    def explorer(self) -> Explorer:
        """How workers choose actions."""
        return self.algorithm.explorer(self)

    def steps_behind(self, rows: int) -> float:
        """Steps of the environments that stand behind so many rows trained: how far a learner
        takes the run to be, for schedules."""
        return rows

    @property
    def remembers(self) -> bool:
        """Whether the policy has a memory, of ours or in a network of the user's own."""
        return remembers(self.model, self.memory)

    @property
    def lstm_size(self) -> int:
        """The cells of the memory, as version 0.1 called them."""
        return self.memory_size

    @property
    def fragment_steps(self) -> int:
        """Steps in one rollout of one worker."""
        return self.rollout_fragment_length * self.num_envs_per_worker

    @property
    def minibatch(self) -> int | None:
        """Rows per optimiser step, of batches that hold several; None: a batch is one step."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of a run with these settings."""
        return ()

    @property
    def plays(self) -> bool:
        """Whether environments are played to learn."""
        return True

    def require_ready(self, until: Mapping[str, float]) -> None:
        """Refuse to begin a run with these limits; algorithms that need more than settings do."""

    def validate(self) -> None:
        """Refuse types and numbers that cannot work, all at once."""
        # numbers are compared only if they are numbers
        wrong = type_problems(self) or list(dict.fromkeys(problems_ever(self)))
        if wrong:
            raise refused(type(self), wrong)

    def problems(self) -> list[str]:
        """What is wrong with the numbers; classes of settings add what they know."""
        wrong = [
            f"{name} must be at least {least}, got {value!r}"
            for name, least in (
                ("num_workers", 0),
                ("num_envs_per_worker", 1),
                ("rollout_fragment_length", 1),
                ("num_learner_threads", 1),
                ("num_gpus", 0),
                ("lr_updates", 1),
                ("max_nonfinite_steps", 1),
                # of algorithms that have them
                ("train_batch_size", 1),
                ("sgd_minibatch_size", 1),
                ("num_sgd_iter", 1),
            )
            if (value := getattr(self, name, least)) is not None and value < least
        ]
        if not 0.0 <= self.gamma <= 1.0:
            wrong.append(f"gamma must be between 0 and 1, got {self.gamma!r}")
        if not self.lr > 0:  # so written, not a number is refused too
            wrong.append(f"lr must be above 0, got {self.lr!r}")
        if not self.adam_epsilon > 0:
            wrong.append(f"adam_epsilon must be above 0, got {self.adam_epsilon!r}")
        if self.final_lr is not None and not self.final_lr >= 0:
            wrong.append(f"final_lr must be 0 or above, or None, got {self.final_lr!r}")
        wrong += problems_of_many(self, wrong)
        if self.normalize_observations and self.scale_observations:
            wrong.append(BOTH_SCALED)
        wrong += [*self.preprocessing.problems(), *acting_device.problems(self)]
        return [*wrong, *fault_settings.problems(self), *evaluation_settings.problems(self)]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if name == "algorithm":
                raise BuildError(
                    f"{kind.__module__}.{kind.__qualname__} are the settings of no algorithm: make "
                    "one of them, Algorithm(name, Config, modules, update, plan)."
                )
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")


def replaced(config: D, values: Mapping[str, Any]) -> D:
    """The same settings but for these; every unknown name is told at once."""
    settings: Any = config
    values = current(values)
    known = {field_.name for field_ in dataclasses.fields(settings)}
    wrong = [_unknown(name, known) for name in values if name not in known]
    if wrong:
        raise refused(type(config), wrong)
    changed: D = dataclasses.replace(settings, **values)
    return changed


def refused(kind: type, problems: list[str]) -> BuildError:
    """The error that tells everything that is wrong with some settings.

    >>> from rillflow.algorithms import ppo
    >>> print(refused(ppo.Config, ["lr must be above 0, got 0"]))
    ppo.Config: lr must be above 0, got 0.
    """
    text = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}: " + "; ".join(problems)
    return BuildError(text if text.endswith(("?", ".")) else text + ".")


def below_one(settings: Any, *names: str) -> list[str]:
    """What is wrong with settings that must be 1 or more."""
    return [
        f"{name} must be at least 1, got {getattr(settings, name)!r}"
        for name in names
        if getattr(settings, name) < 1
    ]


def above_zero(settings: Any, *names: str) -> list[str]:
    """What is wrong with settings that must be above 0, or None."""
    return [
        f"{name} must be above 0, got {value!r}"
        for name in names
        if (value := getattr(settings, name)) is not None and not 0 < value < math.inf
    ]


RENAMED = {"loss": "update", "postprocess": "prepare"}
"""settings of version 0.1 that say something else now"""


def _unknown(name: str, known: set[str]) -> str:
    if name in RENAMED:
        return (
            f"unknown setting {name!r}: it is {RENAMED[name]!r} now, a function of the networks, "
            "the rows and the settings (docs/own-algorithm.md shows one)"
        )
    return f"unknown setting {name!r}{instead_of(name, known)}"
