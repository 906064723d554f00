"""Configuration shared by algorithms: one frozen dataclass per algorithm."""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from rillflow.callables import label_of
from rillflow.errors import BuildError
from rillflow.learning.fields import type_problems
from rillflow.learning.tuned import tuned
from rillflow.policies.spec import PolicySpec

C = TypeVar("C", bound="AlgorithmConfig")
D = TypeVar("D")


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """What every algorithm has: environment, workers, network, optimiser."""

    recurrent: ClassVar[bool] = False
    """whether the algorithm can train a policy that remembers"""

    env: Any = "CartPole-v1"
    """an id, a factory of environments, or `module:name`"""
    env_config: dict[str, Any] = field(default_factory=dict)
    """keyword arguments of the environment"""
    num_workers: int = 2
    """rollout workers; 0: one in the driver itself"""
    num_envs_per_worker: int = 32
    """environments stepped together in each worker"""
    rollout_fragment_length: int = 32
    """steps of each environment per rollout"""
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
    grad_clip: float | None = 0.5
    """largest norm of a gradient; None: as it is"""
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
    model: Any = None
    """mlp, cnn, lstm, or a function of the `PolicySpec` that gives a `torch.nn.Module`; None: a cnn
    for images, an mlp for anything else"""
    lstm_size: int = 128
    """cells, if the model is an lstm"""
    num_gpus: int = 0
    """CUDA devices of the learner, which share each minibatch; 0: it learns on the processor"""
    framework: Literal["auto", "torch", "numpy"] = "auto"
    """what learns: torch; numpy, for an mlp on the processor; auto: numpy where it can"""
    loss: Callable[..., Any] | None = None
    """`loss(policy, rows, cfg)`; None: the algorithm's own"""
    postprocess: Callable[..., Any] | None = None
    """`postprocess(policy, batch, cfg)`: a batch to rows of tensors; None: the algorithm's own"""

    @classmethod
    def make(cls: type[C], **values: Any) -> C:
        """A configuration from keyword arguments; every unknown name is told at once.

        What is not given is what suits the environment (see `tuned`), or else the class's default.
        Without an `env`, as for one policy of several, there are only the defaults.
        """
        known = {field_.name for field_ in dataclasses.fields(cls)}
        wrong = [_unknown(name, known) for name in values if name not in known]
        if wrong:
            raise refused(cls, wrong)
        config = cls(**{**tuned(cls, values.get("env")), **values})
        config.validate()
        return config

    def resolved(self: C) -> C:
        """The same, with the algorithm's own `loss` and `postprocess` where none was given.

        They are the functions of these names in the module that defines the settings' class.
        Settings that were written without `make` are checked here.
        """
        self.validate()
        missing = [name for name in ("loss", "postprocess") if getattr(self, name) is None]
        own: dict[str, Any] = {name: _function_beside(type(self), name) for name in missing}
        return dataclasses.replace(self, **own) if own else self

    # what follows from the settings: values that workers and learners ask for

    def learning_rate(self, updates: int) -> float:
        """For the optimiser step that follows so many others."""
        if self.final_lr is None or self.final_lr > self.lr:
            return self.lr  # an environment's settings may have a last rate for a higher first one
        return self.lr + min(1.0, updates / self.lr_updates) * (self.final_lr - self.lr)

    def policy_spec(self, observation_space: Any, action_space: Any) -> PolicySpec:
        """The policy for an environment with these spaces."""
        options = {"model": self.model or _usual_model(observation_space), **self.policy_options}
        try:
            return PolicySpec(
                observation_space=observation_space,
                action_space=action_space,
                hidden=tuple(self.hidden),
                activation=self.activation,  # type: ignore[arg-type]
                lstm_size=self.lstm_size,
                scale_observations=self.scale_observations,
                **options,
            )
        except BuildError as error:
            name = self.env if isinstance(self.env, str) else label_of(self.env)
            raise refused(type(self), [f"environment {name!r}: {error}"]) from None

    @property
    def worker_class(self) -> Callable[..., Any] | None:
        """What samples: an actor made with `(config, spec, info)`; None: a `RolloutWorker`."""
        return None

    @property
    def fragment_steps(self) -> int:
        """Steps in one rollout of one worker."""
        return self.rollout_fragment_length * self.num_envs_per_worker

    @property
    def policy_options(self) -> dict[str, Any]:
        """Further fields of the `PolicySpec`, such as its head."""
        return {}

    @property
    def minibatch(self) -> int | None:
        """Rows per optimiser step, of batches that hold several; None: a batch is one step."""
        return None

    @property
    def target_freq(self) -> int | None:
        """Rows trained between two updates of the target network; None: there is none."""
        return None

    def exploration(self, worker: int, steps: int) -> float:
        """How often worker number `worker` acts at random after it has made `steps` steps."""
        return 0.0

    def validate(self) -> None:
        """Refuse types and numbers that cannot work, all at once."""
        wrong = type_problems(self)
        if wrong:  # numbers are compared below
            raise refused(type(self), wrong)
        wrong = [
            f"{name} must be at least {least}, got {getattr(self, name)!r}"
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
            if getattr(self, name, least) < least
        ]
        if not 0.0 <= self.gamma <= 1.0:
            wrong.append(f"gamma must be between 0 and 1, got {self.gamma!r}")
        if not self.lr > 0:  # so written, not a number is refused too
            wrong.append(f"lr must be above 0, got {self.lr!r}")
        if not self.adam_epsilon > 0:
            wrong.append(f"adam_epsilon must be above 0, got {self.adam_epsilon!r}")
        if self.final_lr is not None and not self.final_lr >= 0:
            wrong.append(f"final_lr must be 0 or above, or None, got {self.final_lr!r}")
        if self.grad_clip is not None and not self.grad_clip > 0:
            wrong.append(f"grad_clip must be above 0, or None, got {self.grad_clip!r}")
        if wrong:
            raise refused(type(self), wrong)


def replaced(config: D, values: Mapping[str, Any]) -> D:
    """The same settings but for these; every unknown name is told at once."""
    settings: Any = config
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
    return BuildError(text if text.endswith("?") else text + ".")


def _usual_model(observation_space: Any) -> str:
    return "cnn" if len(observation_space.shape) == 3 else "mlp"


def _function_beside(settings: type, name: str) -> Callable[..., Any]:
    for cls in settings.__mro__:
        found = getattr(sys.modules.get(cls.__module__), name, None)
        if callable(found):
            function: Callable[..., Any] = found
            return function
    raise BuildError(
        f"{settings.__module__} defines {settings.__name__} but no function {name!r}, and none was "
        f"given: write one beside the settings, or pass {name}=..."
    )


def _unknown(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown setting {name!r}" + (f", did you mean {near[0]!r}?" if near else "")
