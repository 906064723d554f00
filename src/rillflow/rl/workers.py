"""The rollout workers of a run as a handle: nothing is made before the run starts."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rillflow.actors.rollout_worker import RolloutWorker
from rillflow.graph.handles import Actors, Handle
from rillflow.policies.spec import PolicySpec
from rillflow.rl.config import AlgorithmConfig


class Workers(Handle):
    """A group of rollout workers and the configuration they share."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config
        self.spec = _spec(config)
        inside = config.num_workers == 0
        self.actors = Actors.of(
            RolloutWorker,
            max(1, config.num_workers),
            config,
            self.spec,
            name="worker",
            placement="driver" if inside else "process",
        )
        self.uid = self.actors.uid

    @cached_property
    def learner_key(self) -> str:
        """Under which the operators of one run share the learner."""
        return f"learner {self.uid}"

    def remote_workers(self) -> Actors:
        """The group of rollout workers."""
        return self.actors

    def __len__(self) -> int:
        return len(self.actors)

    def __repr__(self) -> str:
        return f"<{len(self.actors)} rollout workers on {self.config.env!r}>"


def create_rollout_workers(config: AlgorithmConfig, **settings: Any) -> Workers:
    """Workers for a configuration; starts nothing."""
    import dataclasses

    return Workers(dataclasses.replace(config, **settings) if settings else config)


def _spec(config: AlgorithmConfig) -> PolicySpec:
    """The policy's shape, from the spaces of one environment that is closed at once."""
    from rillflow.envs.make import make_envs

    envs = make_envs(config.env, 1, env_config=config.env_config)
    try:
        return PolicySpec(
            observation_space=envs.observation_space,
            action_space=envs.action_space,
            hidden=tuple(config.hidden),
            activation=config.activation,  # type: ignore[arg-type]
            **config.policy_options,
        )
    finally:
        envs.close()
