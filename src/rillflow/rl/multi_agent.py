"""Several policies in one environment, each trained by a plan of its own.

r1, r2 = ParallelRollouts(workers).split()
ppo_op = ppo.plan(Select(r1, policy="PPO"), workers)
dqn_op = dqn.plan(Select(r2, policy="DQN"), workers)
train_op = Union(ppo_op, dqn_op)
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from rillflow.actors.multi_agent_worker import MultiAgentWorker
from rillflow.batch import MultiAgentBatch, SampleBatch
from rillflow.errors import BuildError
from rillflow.graph.flow import Flow
from rillflow.graph.handles import Actors, Handle
from rillflow.graph.node import Node
from rillflow.graph.parallel import ParallelFlow
from rillflow.graph.stream import Stream
from rillflow.ops.context import Operator
from rillflow.rl.config import AlgorithmConfig
from rillflow.rl.workers import PolicyWorkers, placement_of


@dataclass(frozen=True, kw_only=True)
class MultiAgentConfig:
    """An environment with several agents, the policies that act in it, and who acts with which."""

    env: Any = "MultiAgentCartPole"
    """a name, or a factory of a PettingZoo parallel environment or of a `MultiAgentVector`"""
    env_config: dict[str, Any] = field(default_factory=dict)
    """keyword arguments of the environment"""
    policies: Mapping[str, AlgorithmConfig]
    """for each policy the settings of the algorithm that trains it"""
    policy_mapping: Mapping[str, str] | Callable[[str], str]
    """for each agent the name of its policy"""
    num_workers: int = 2
    """rollout workers; 0: one in the driver itself"""
    num_envs_per_worker: int = 16
    """copies of the environment in each worker"""
    rollout_fragment_length: int = 32
    """steps of each environment per rollout"""


class MultiAgentWorkers(Handle):
    """Rollout workers that act with several policies."""

    concat = staticmethod(MultiAgentBatch.concat)

    def __init__(self, config: MultiAgentConfig) -> None:
        from rillflow.envs.groups import make_multi_agent_envs

        self.config = config
        envs = make_multi_agent_envs(
            config.env,
            1,
            config.policy_mapping,
            policies=config.policies,
            env_config=config.env_config,
        )
        envs.close()
        idle = sorted(set(config.policies) - set(envs.groups))
        if idle:
            raise BuildError(
                f"environment {envs.name!r}: no agent is mapped to the policies {idle}; the "
                f"mapping uses {sorted(envs.groups)}. Map an agent to each, or leave them out."
            )
        settings = {
            name: _settings_in(config, cfg, len(envs.groups[name].agents))
            for name, cfg in config.policies.items()
        }
        specs = {
            name: settings[name].policy_spec(group.observation_space, group.action_space)
            for name, group in envs.groups.items()
        }
        self.actors = Actors.of(
            MultiAgentWorker,
            max(1, config.num_workers),
            config,
            settings,
            specs,
            name="worker",
            placement=placement_of(config.num_workers),
        )
        self.uid = self.actors.uid
        self.policies = {
            name: PolicyWorkers(name, settings[name], specs[name], self.actors) for name in settings
        }

    def training(self, stream: Stream[Any]) -> PolicyWorkers:
        """The workers as a plan on this stream sees them: with the one policy it selects."""
        policy = selected_policy(stream.node)
        if policy is None:
            raise BuildError(
                f"these workers act with {', '.join(self.policies)}; say which of them a plan "
                "trains: plan(Select(stream, policy=...), workers)."
            )
        if policy not in self.policies:
            near = difflib.get_close_matches(policy, self.policies, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise BuildError(
                f"there is no policy {policy!r}; there are {', '.join(self.policies)}.{hint}"
            )
        return self.policies[policy]

    def __len__(self) -> int:
        return len(self.actors)

    def __repr__(self) -> str:
        names = ", ".join(self.policies)
        return f"<{len(self.actors)} rollout workers on {self.config.env!r} with {names}>"


class SelectExperiences(Operator[MultiAgentBatch, SampleBatch]):
    """The experience of one policy, from that of all.

    >>> import numpy as np
    >>> both = {name: SampleBatch({"rewards": np.ones((3, n))}) for name, n in (("a", 1), ("b", 2))}
    >>> SelectExperiences("b")(MultiAgentBatch(both)).shape
    (3, 2)
    """

    def __init__(self, policy: str) -> None:
        self.policy = policy

    def __call__(self, batch: MultiAgentBatch) -> SampleBatch:
        """The batch of that policy."""
        return batch[self.policy]


@overload
def Select(stream: ParallelFlow[Any], policy: str) -> ParallelFlow[SampleBatch]: ...
@overload
def Select(stream: Flow[Any], policy: str) -> Flow[SampleBatch]: ...
def Select(stream: Any, policy: str) -> Any:  # noqa: N802 - an operator, under the paper's name
    """The experience of one policy; a plan on it trains that policy."""
    return stream.for_each(SelectExperiences(policy))


def selected_policy(node: Node) -> str | None:
    """The policy whose experience a node gives; None if none was selected."""
    while True:
        fn = node.options.get("fn")
        if isinstance(fn, SelectExperiences):
            return fn.policy
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0]


def _settings_in(config: MultiAgentConfig, cfg: AlgorithmConfig, agents: int) -> AlgorithmConfig:
    """A policy's settings with what the environment decides: how much experience it gets."""
    return dataclasses.replace(
        cfg.resolved(),
        env=config.env,
        env_config=config.env_config,
        num_workers=config.num_workers,
        num_envs_per_worker=config.num_envs_per_worker * agents,
        rollout_fragment_length=config.rollout_fragment_length,
    )
