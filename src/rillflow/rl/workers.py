"""The rollout workers of a run as a handle: nothing is made before the run starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from rillflow.errors import BuildError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.graph.handles import Actors, Handle
from rillflow.learning.acting_device import resources, told
from rillflow.learning.config import AlgorithmConfig, replaced
from rillflow.learning.results import DEFAULT_POLICY
from rillflow.learning.schedules import require_goal
from rillflow.policies.make import first_weights
from rillflow.policies.spec import PolicySpec
from rillflow.seeding import derive_seed
from rillflow.types import Placement

if TYPE_CHECKING:
    from rillflow.flows.stream import Stream
    from rillflow.learning.learner_base import LearnerBase
    from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers

C = TypeVar("C", bound=AlgorithmConfig)
L = TypeVar("L", bound="LearnerBase")


class AnyWorkers(Protocol):
    """Rollout workers with one policy, or with several: what plans take."""

    actors: Actors
    concat: Callable[[list[Any]], Any]
    """how the rollouts of several of them become one"""

    def training(self, stream: Stream[Any]) -> Workers:
        """The workers as a plan on this stream sees them: with the one policy it trains."""
        ...


class Workers(Handle):
    """A group of rollout workers, the policy they act with, and its settings."""

    policy = DEFAULT_POLICY
    concat: Callable[[list[Any]], Any] = staticmethod(SampleBatch.concat)
    initial: Mapping[str, Array] | None = None
    """weights that the policy begins with; None: those that the run's seed gives"""

    def __init__(self, config: AlgorithmConfig) -> None:
        require_goal(config)
        self.config = config
        self.spec, observation = _spec(self.config)
        refuse_memory(self.spec, self.config)
        try_network(self.spec, self.config, observation)
        count = max(1, config.num_workers)
        aggregators = getattr(config, "num_aggregation_workers", 0)
        self.actors = self._aggregators(count, aggregators) if aggregators else self._group(count)
        self.uid = self.actors.uid

    def _group(self, count: int) -> Actors:
        """So many rollout workers."""
        from rillflow.rl.rollout_worker import RolloutWorker
        from rillflow.rl.source_worker import SourceWorker

        usual = RolloutWorker if self.config.source is None else SourceWorker
        return Actors.of(
            self.config.algorithm.worker or usual,
            count,
            self.config,
            self.spec,
            name="worker",
            placement=placement_of(self.config.num_workers),
            resources=resources(self.config),
        )

    def _aggregators(self, count: int, aggregators: int) -> Actors:
        """Actors that stand for the workers: each runs its share of them in a flow of its own."""
        from rillflow.rl.aggregator import Aggregator

        sizes = [len(range(i, count, aggregators)) for i in range(aggregators)]
        shares = [(Share(self.config, self.spec, self._group(size)),) for size in sizes]
        return Actors.of(Aggregator, aggregators, each=shares, name="aggregator")

    @property
    def learner_key(self) -> str:
        """Under which the operators of one run share the learner."""
        return f"learner {self.uid} {self.policy}"

    @property
    def weights_key(self) -> str:
        """Under which they share the newest weights."""
        return f"weights {self.uid} {self.policy}"

    def seed(self, run_seed: int) -> int:
        """Of this policy's first weights and its learner."""
        return run_seed

    def first_weights(self, run_seed: int) -> Mapping[str, Array]:
        """What the workers act with at first."""
        if self.initial is not None:
            return self.initial
        return first_weights(self.spec, self.seed(run_seed))

    def begun(self, learner: L) -> L:
        """A new learner of this policy, with what it is to begin with."""
        if self.initial is not None:
            learner.begin_with(self.initial)
        return learner

    def message(self, weights: Mapping[str, Array]) -> Any:
        """Weights in the form in which the workers take them."""
        return weights

    def training(self, stream: Stream[Any]) -> Workers:
        """The workers as a plan on this stream sees them: with the one policy it trains."""
        return self

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of how they act."""
        return tuple(filter(None, [told(self.spec, self.config)]))

    def local_worker(self) -> Workers:
        """The policy that is trained, in the driver: what the paper's `LearnerThread` is given."""
        return self

    def remote_workers(self) -> Actors:
        """The group of rollout workers."""
        return self.actors

    def __len__(self) -> int:
        return len(self.actors)

    def __repr__(self) -> str:
        behind = "" if self.actors.name == "worker" else f" behind {len(self.actors)} aggregators"
        count = max(1, self.config.num_workers) if behind else len(self.actors)
        return f"<{count} rollout workers on {self.config.env!r}{behind}>"


class Share(Workers):
    """The workers that one aggregator looks after."""

    def __init__(self, config: AlgorithmConfig, spec: PolicySpec, actors: Actors) -> None:
        self.config = config
        self.spec = spec
        self.actors = actors
        self.uid = actors.uid


class PolicyWorkers(Share):
    """Workers that act with several policies, as the learner of one of them sees them."""

    def __init__(
        self, policy: str, config: AlgorithmConfig, spec: PolicySpec, actors: Actors
    ) -> None:
        refuse_memory(spec, config)
        super().__init__(config, spec, actors)
        self.policy = policy

    def seed(self, run_seed: int) -> int:
        """Another one for each policy."""
        return derive_seed(run_seed, self.policy)

    def message(self, weights: Mapping[str, Array]) -> Any:
        """Weights with the name of their policy."""
        return {self.policy: weights}


@overload
def create_rollout_workers(config: AlgorithmConfig, **settings: Any) -> Workers: ...
@overload
def create_rollout_workers(config: MultiAgentConfig, **settings: Any) -> MultiAgentWorkers: ...
def create_rollout_workers(
    config: AlgorithmConfig | MultiAgentConfig, **settings: Any
) -> Workers | MultiAgentWorkers:
    """Workers for a configuration; starts nothing.

    >>> from rillflow.algorithms import ppo
    >>> create_rollout_workers(ppo.Config(), num_workers=4)
    <4 rollout workers on 'CartPole-v1'>
    """
    config = replaced(config, settings)
    if isinstance(config, AlgorithmConfig):
        return Workers(config)
    from rillflow.rl.multi_agent import MultiAgentWorkers

    return MultiAgentWorkers(config)


def bind(
    kind: type[C], stream: Stream[Any], workers: AnyWorkers, cfg: C | None
) -> tuple[Workers, C]:
    """What a plan begins with: the workers of the stream's policy, and its settings."""
    found = workers.training(stream)
    cfg_found = found.config if cfg is None else cfg
    if not isinstance(cfg_found, kind):
        raise BuildError(
            f"this plan needs the settings of {kind.__module__}, but policy {found.policy!r} of "
            f"these workers has those of {type(cfg_found).__module__}. Make the workers with "
            f"{kind.__module__}.{kind.__name__}(...), or pass cfg=..."
        )
    return found, cfg_found


def placement_of(num_workers: int) -> Placement:
    """Without workers of their own, environments are stepped in the driver."""
    return "process" if num_workers else "driver"


REMEMBERING = (
    *("ppo", "a2c", "a3c", "pg", "impala", "appo"),
    *("dqn", "simple_q", "apex", "r2d2", "async_dqn"),
)
"""the algorithms that train policies with a memory"""


def refuse_memory(spec: PolicySpec, config: AlgorithmConfig) -> None:
    """Refuse a policy that remembers where its algorithm learns from steps out of their order."""
    if not spec.recurrent or config.algorithm.recurrent:
        return
    own = getattr(spec.model, "__name__", "a network of your own")
    what = f"model={own}" if spec.memory is None else f"memory={spec.memory!r}"
    raise BuildError(
        f"{what} remembers, and {config.algorithm.name} learns from single steps, out of their "
        f"order. Use an algorithm that takes whole sequences ({', '.join(REMEMBERING)}), or a "
        "policy without memory."
    )


def try_network(spec: PolicySpec, config: AlgorithmConfig, observation: Any = None) -> None:
    """Refuse a network of the user's own that is not what its algorithm needs."""
    if isinstance(spec.model, str):
        return
    from rillflow.policies.try_network import probe  # torch comes with it

    probe(spec, observation, envs=config.num_envs_per_worker)


def _spec(config: AlgorithmConfig) -> tuple[PolicySpec, Any]:
    """The policy's shape, from the spaces of one environment that is closed at once.

    For a network of the user's own there is an observation too, to try it with: what an environment
    really gives may be less than what its space allows.
    """
    from rillflow.envs.make import make_envs

    envs = make_envs(config.env, 1, **config.env_settings)
    try:
        if envs.shrunk:
            warnings.warn(f"environment {envs.name!r}: {envs.shrunk}", stacklevel=4)
        spec = config.policy_spec(envs.observation_space, envs.action_space)
        if getattr(config, "data", None) is not None:
            from rillflow.rl.dataset_source import check_data  # who plays need not load it

            check_data(config, spec, envs)
        return spec, None if isinstance(spec.model, str) else envs.reset()[0]
    finally:
        envs.close()
