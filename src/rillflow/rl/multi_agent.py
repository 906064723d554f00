"""Several policies in one environment, each trained by a plan of its own.

r1, r2 = ParallelRollouts(workers).split()
ppo_op = ppo.plan(Select(r1, policy="PPO"), workers)
dqn_op = dqn.plan(Select(r2, policy="DQN"), workers)
train_op = Union(ppo_op, dqn_op)
"""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from rillflow.envs.preprocessing import Preprocessing, Resize
from rillflow.errors import BuildError, RunError, dual_error
from rillflow.experience.batch import MultiAgentBatch, SampleBatch
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.flows.stream import Stream
from rillflow.graph.context import Operator
from rillflow.graph.handles import Actors, Handle
from rillflow.graph.node import Node
from rillflow.images import Channels
from rillflow.learning.acting_device import resources
from rillflow.learning.config import AlgorithmConfig, refused
from rillflow.learning.fields import type_problems
from rillflow.learning.schedules import require_goal, scheduled, with_values
from rillflow.rl.actor_item_pairs import Paired, unpaired
from rillflow.rl.multi_agent_worker import MultiAgentWorker
from rillflow.rl.workers import PolicyWorkers, placement_of, try_network


@dataclass(frozen=True, kw_only=True)
class MultiAgentConfig:
    """An environment with several agents, the policies that act in it, and who acts with which."""

    env: Any = "MultiAgentCartPole"
    """a name, or a factory of a PettingZoo parallel environment or of a `MultiAgentVector`"""
    env_config: dict[str, Any] = field(default_factory=dict)
    """keyword arguments of the environment"""
    resize: Resize = "auto"
    """what becomes of images, as in the settings of an algorithm"""
    grayscale: bool = False
    """whether images of three colours become grey"""
    frame_stack: int = 1
    """how many observations a policy sees as one"""
    channels: Channels = "auto"
    """where images of three axes have their channels"""
    policies: Mapping[str, AlgorithmConfig]
    """for each policy the settings of the algorithm that trains it"""
    policy_mapping: Mapping[str, str] | Callable[[str], str]
    """for each agent the name of its policy"""
    action_masks: bool = True
    """whether masks of actions, in observations or infos under `action_mask`, rule actions out"""
    num_workers: int = 2
    """rollout workers; 0: one in the driver itself"""
    num_envs_per_worker: int = 16
    """copies of the environment in each worker"""
    rollout_fragment_length: int = 32
    """steps of each environment per rollout"""

    @property
    def preprocessing(self) -> Preprocessing:
        """What is done to observations, for all policies alike."""
        return Preprocessing(self.resize, self.grayscale, self.frame_stack, self.channels)

    @property
    def env_settings(self) -> dict[str, Any]:
        """What environments are made with, beside their name and number."""
        return {
            "env_config": self.env_config,
            "preprocessing": self.preprocessing,
            "action_masks": self.action_masks,
        }

    def validate(self) -> None:
        """Refuse types and numbers that cannot work, all at once."""
        wrong = type_problems(self) or self.preprocessing.problems()
        if not isinstance(self.policies, Mapping) or not self.policies:
            wrong.append(f"policies must be a dict of settings by name, got {self.policies!r}")
        else:
            wrong += [
                f"policies[{name!r}] must be the Config of an algorithm, got {cfg!r}"
                for name, cfg in self.policies.items()
                if not isinstance(cfg, AlgorithmConfig)
            ]
        if not callable(self.policy_mapping) and not isinstance(self.policy_mapping, Mapping):
            wrong.append(
                "policy_mapping must be a dict or a function from an agent's name to a policy's, "
                f"got {self.policy_mapping!r}"
            )
        least = {"num_workers": 0, "num_envs_per_worker": 1, "rollout_fragment_length": 1}
        wrong += [
            f"{name} must be at least {number}, got {found!r}"
            for name, number in least.items()
            if isinstance(found := getattr(self, name), int) and found < number
        ]
        if wrong:
            raise refused(type(self), wrong)


class MultiAgentWorkers(Handle):
    """Rollout workers that act with several policies."""

    concat: Callable[[list[Any]], Any] = staticmethod(MultiAgentBatch.concat)

    def __init__(self, config: MultiAgentConfig) -> None:
        from rillflow.envs.multiagent_mapping import make_multi_agent_envs

        config.validate()
        self.config = config
        envs = make_multi_agent_envs(
            config.env,
            1,
            config.policy_mapping,
            policies=config.policies,
            **config.env_settings,
        )
        envs.close()
        if envs.shrunk:
            warnings.warn(f"environment {envs.name!r}: {envs.shrunk}", stacklevel=3)
        idle = sorted(set(config.policies) - set(envs.groups))
        if idle:
            raise BuildError(
                f"environment {envs.name!r}: no agent is mapped to the policies {idle}; the "
                f"mapping uses {sorted(envs.groups)}. Map an agent to each, or leave them out."
            )
        settings = {
            name: _settings_in(config, name, len(envs.groups[name].agents))
            for name in config.policies
        }
        specs = {
            name: settings[name].policy_spec(group.observation_space, group.action_space)
            for name, group in envs.groups.items()
        }
        for name, spec in specs.items():
            try_network(spec, settings[name])
        self.actors = Actors.of(
            MultiAgentWorker,
            max(1, config.num_workers),
            config,
            settings,
            specs,
            name="worker",
            placement=placement_of(config.num_workers),
            resources=resources(*settings.values()),
        )
        self.uid = self.actors.uid
        self.policies = {
            name: PolicyWorkers(name, settings[name], specs[name], self.actors) for name in settings
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of how they act."""
        found = [(name, note) for name, one in self.policies.items() for note in one.notes]
        return tuple(f"policy {name!r}: {note}" for name, note in found)

    def training(self, stream: Stream[Any]) -> PolicyWorkers:
        """The workers as a plan on this stream sees them: with the one policy it selects."""
        policy = selected_policy(stream.node)
        if policy is None:
            raise BuildError(
                f"these workers act with {', '.join(self.policies)}; say which of them a plan "
                "trains: plan(Select(stream, policy=...), workers)."
            )
        if policy not in self.policies:
            raise BuildError(_no_policy(policy, self.policies))
        return self.policies[policy]

    def __len__(self) -> int:
        return len(self.actors)

    def __repr__(self) -> str:
        names = ", ".join(self.policies)
        return f"<{len(self.actors)} rollout workers on {self.config.env!r} with {names}>"


class SelectExperiences(Operator[Paired[MultiAgentBatch], SampleBatch]):
    """The experience of one policy, from that of all.

    >>> import numpy as np
    >>> both = {name: SampleBatch({"rewards": np.ones((3, n))}) for name, n in (("a", 1), ("b", 2))}
    >>> SelectExperiences("b")(MultiAgentBatch(both)).shape
    (3, 2)
    """

    def __init__(self, policy: str) -> None:
        self.policy = policy

    way_in = (
        "Workers that act with several policies, those of a MultiAgentConfig, give MultiAgentBatch."
    )

    def __call__(self, item: Paired[MultiAgentBatch]) -> SampleBatch:
        """The batch of that policy."""
        batch = unpaired(item)
        if self.policy not in batch:
            raise dual_error(RunError, _no_policy(self.policy, batch), KeyError(self.policy))
        return batch[self.policy]


@overload
def Select(stream: ParallelFlow[MultiAgentBatch], policy: str) -> ParallelFlow[SampleBatch]: ...
@overload
def Select(stream: Flow[Paired[MultiAgentBatch]], policy: str) -> Flow[SampleBatch]: ...
def Select(stream: Any, policy: str) -> Any:  # noqa: N802 - an operator, under the paper's name
    """The experience of one policy; a plan on it trains that policy.

    >>> from rillflow.algorithms import ppo
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> both = MultiAgentConfig(
    ...     policies={"left": ppo.Config(), "right": ppo.Config()},
    ...     policy_mapping={"agent_0": "left", "agent_1": "right"},
    ...     num_envs_per_worker=4,
    ... )
    >>> workers = MultiAgentWorkers(both)
    >>> r1, r2 = ParallelRollouts(workers).split()
    >>> plans = [
    ...     ppo.plan(Select(stream, policy=name), workers)
    ...     for stream, name in ((r1, "left"), (r2, "right"))
    ... ]
    """
    if not isinstance(policy, str):
        raise BuildError(f"Select takes the name of a policy, got {policy!r}.")
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


def _no_policy(policy: str, policies: Collection[str]) -> str:
    near = difflib.get_close_matches(policy, policies, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no policy {policy!r}; there are {', '.join(policies)}.{hint}"


def _settings_in(config: MultiAgentConfig, policy: str, agents: int) -> AlgorithmConfig:
    """A policy's settings with what the environment decides: how much experience it gets."""
    own = config.policies[policy]
    require_goal(own)
    # the steps of a run are those of the environment, and each is one of every agent
    counted = {name: one.times(agents) for name, one in scheduled(own).items()}
    return dataclasses.replace(
        with_values(own, counted),
        env=config.env,
        env_config=config.env_config,
        resize=config.resize,
        grayscale=config.grayscale,
        frame_stack=config.frame_stack,
        channels=config.channels,
        num_workers=config.num_workers,
        num_envs_per_worker=config.num_envs_per_worker * agents,
        rollout_fragment_length=config.rollout_fragment_length,
    )
