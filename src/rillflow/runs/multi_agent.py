"""Which policy acts for which agent of an environment, and the program that trains them all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from rillflow.envs.make import name_of
from rillflow.envs.multiagent_mapping import agents_of
from rillflow.errors import BuildError
from rillflow.flows.merge import Union
from rillflow.graph.program import Program
from rillflow.learning.config import AlgorithmConfig, replaced
from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers, Select
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.train import ComputeGradients

C = TypeVar("C", bound=AlgorithmConfig)

WAYS = 'policies is "shared", "each" or a dict with the name of each agent\'s policy'


def assigned(
    config: AlgorithmConfig,
    policies: str | Mapping[str, str] | None,
) -> dict[str, str] | None:
    """For each agent the name of its policy; None if the environment has one agent.

    Args:
        config: with the environment.
        policies: "shared", as it is if nobody says, "each", or the assignment itself.
    """
    env = config.env if isinstance(config.env, str) else name_of(config.env)
    agents = agents_of(config.env, config.env_config)
    if agents is None:
        if policies is None:
            return None
        raise BuildError(f"policies are for several agents, and environment {env!r} has one.")
    how = "shared" if policies is None else policies
    if how == "shared":
        return dict.fromkeys(agents, "shared")
    if how == "each":
        return _checked({agent: agent for agent in agents}, env)
    if not isinstance(how, Mapping):
        raise BuildError(f"{WAYS}; got {how!r}.")
    wrong = sorted({*how} ^ {*agents})
    if wrong:
        raise BuildError(
            f"policies must name each agent of {env!r} once: {', '.join(agents)}; missing or "
            f"unknown: {', '.join(wrong)}."
        )
    return _checked(dict(how), env)


def with_copies(config: C, agents: Mapping[str, str] | None, given: Collection[str]) -> C:
    """Settings with one copy of an environment in a worker, where a policy acts for more agents
    than there would be copies: each agent is a row already. What somebody said stays.

    Args:
        config: with as many copies as one agent is best given.
        agents: for each agent the name of its policy; None: there is one agent.
        given: the settings that somebody has named.
    """
    if agents is None or "num_envs_per_worker" in given:
        return config
    most = max(Counter(agents.values()).values())
    return (
        replaced(config, {"num_envs_per_worker": 1})
        if most > config.num_envs_per_worker
        else config
    )


def _checked(agents: dict[str, str], env: str) -> dict[str, str]:
    for policy in agents.values():
        if not isinstance(policy, str) or not re.fullmatch(r"\w[\w.-]*", policy):
            raise BuildError(
                f"environment {env!r}: a policy is called by letters, digits, '_', '-' and '.', "
                f"as its file is; got {policy!r}."
            )
    return agents


def build_agents(
    module: Any, config: AlgorithmConfig, agents: Mapping[str, str]
) -> tuple[MultiAgentWorkers, Any]:
    """The workers, and the plan of the algorithm on the experience of each policy."""
    if config.algorithm.worker not in (None, RolloutWorker):
        raise _for_one_agent("has workers of its own kind")
    if getattr(config, "num_aggregation_workers", 0):
        raise BuildError(
            "aggregation workers are for one agent: leave num_aggregation_workers at 0."
        )
    names = list(dict.fromkeys(agents.values()))
    workers = MultiAgentWorkers(
        MultiAgentConfig(
            env=config.env,
            action_masks=config.action_masks,
            env_config=config.env_config,
            resize=config.resize,
            grayscale=config.grayscale,
            frame_stack=config.frame_stack,
            channels=config.channels,
            policies=dict.fromkeys(names, config),
            policy_mapping=dict(agents),
            num_workers=config.num_workers,
            num_envs_per_worker=config.num_envs_per_worker,
            rollout_fragment_length=config.rollout_fragment_length,
        )
    )
    flow = module.plan(Select(ParallelRollouts(workers), policy=names[0]), workers)
    if _computes_gradients_in_workers(flow):
        raise _for_one_agent("computes gradients in its workers")
    if len(names) == 1:
        return workers, flow
    streams = ParallelRollouts(workers).split(len(names))
    plans = [
        module.plan(Select(stream, policy=name), workers)
        for stream, name in zip(streams, names, strict=True)
    ]
    return workers, Union(*plans)


def _computes_gradients_in_workers(flow: Any) -> bool:
    nodes = Program(flow.node).nodes if hasattr(flow, "node") else ()
    return any(n.parallel and isinstance(n.options.get("fn"), ComputeGradients) for n in nodes)


def _for_one_agent(why: str) -> BuildError:
    return BuildError(
        f"this algorithm {why}, which know one policy: train several agents with another, such as "
        "ppo, impala or dqn."
    )
