"""Which policy acts for which agent, and any description of a multi-agent environment."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from typing import Any

from rillflow.arguments import check_count
from rillflow.envs.checks import found, raised
from rillflow.envs.make import attribute, made, name_of, takes_num_envs
from rillflow.envs.multiagent import MultiAgentEnvs, MultiAgentVector, PolicyGroup
from rillflow.envs.multiagent_preprocessing import PreprocessedAgents
from rillflow.envs.preprocessing import Preprocessing
from rillflow.envs.registry import BUILT_IN, unknown
from rillflow.errors import BuildError

PolicyMapping = Mapping[str, str] | Callable[[str], str]
_NEEDED = ("num_envs", "agents", "observation_space", "action_space", "reset", "step")


def make_multi_agent_envs(
    env: str | Callable[..., Any] | MultiAgentVector,
    num_envs: int,
    policy_mapping: PolicyMapping,
    *,
    policies: Collection[str] | None = None,
    seed: int = 0,
    env_config: Mapping[str, Any] | None = None,
    preprocessing: Preprocessing | None = None,
    action_masks: bool = True,
) -> MultiAgentEnvs:
    """`num_envs` copies of a multi-agent environment, as one batch per policy.

    `env` is a name ("MultiAgentCartPole", "module:name", or a module of PettingZoo's), a factory of
    a PettingZoo parallel environment, a factory with a `num_envs` parameter of a
    `MultiAgentVector`, or such a vector.
    `policy_mapping` says for each agent which policy acts for it; `policies`, if given, are those
    that exist. `preprocessing` is what is done to the observations of all agents.
    `action_masks` says whether masks of actions are looked for, in observations and infos.
    """
    config, name = dict(env_config or {}), env if isinstance(env, str) else name_of(env)
    check_count("num_envs", num_envs)
    made_already = not isinstance(env, str | type) and all(hasattr(env, n) for n in _NEEDED)

    def again() -> Any:
        how = {"seed": seed & 0x3FFFFFFF, "action_masks": action_masks}
        return preprocessed(_vector(env, name, num_envs, config, how))

    def preprocessed(vector: Any) -> Any:
        seen = PreprocessedAgents(vector, preprocessing or Preprocessing(), name)
        return seen if seen.changes else vector

    vector: Any = preprocessed(env) if made_already else again()
    if vector.num_envs != num_envs:
        raise BuildError(
            f"environment {name!r}: it was made with {vector.num_envs} copies, but "
            f"num_envs={num_envs}"
        )
    groups = group_agents(vector, policy_mapping, policies, name)
    return MultiAgentEnvs(
        vector, groups, name=name, seed=seed, again=None if made_already else again
    )


def agents_of(env: Any, env_config: Mapping[str, Any] | None = None) -> tuple[str, ...] | None:
    """The agents of an environment that has several; None if it has one, or is unknown.

    Unless its name or class says it, an environment is made to be asked.
    """
    import gymnasium

    factory = _factory(env) if isinstance(env, str) else env
    single = gymnasium.Env, gymnasium.vector.VectorEnv
    if isinstance(factory, type) and issubclass(factory, single):
        return None
    if not callable(factory):
        return tuple(env.agents) if all(hasattr(env, name) for name in _NEEDED) else None
    name = env if isinstance(env, str) else name_of(env)
    one = {"num_envs": 1} if takes_num_envs(factory) else {}
    asked = made(factory, name, {**(env_config or {}), **one})
    if isinstance(asked, single):
        agents = None
    else:
        agents = getattr(asked, "possible_agents", None) or getattr(asked, "agents", None)
    if hasattr(asked, "close"):
        asked.close()
    return None if agents is None else tuple(agents)


def _factory(env: str) -> Any:
    """What makes the environment of this name; None if that is Gymnasium, or nobody.

    A module of PettingZoo's kind, such as `pettingzoo.classic.rps_v2`, has a `parallel_env`, or an
    `env` in which agents take turns.
    """
    path = BUILT_IN.get(env, env)
    if ":" not in path and "." in path and find_spec(path.partition(".")[0]) is not None:
        return attribute(f"{path}:parallel_env") or attribute(f"{path}:env")
    return attribute(path) if ":" in path else None


def _vector(env: Any, name: str, num_envs: int, config: dict[str, Any], how: dict[str, Any]) -> Any:
    factory = _factory(env) if isinstance(env, str) else env
    if factory is None:
        raise unknown(env)
    if not callable(factory):
        raise BuildError(
            "a multi-agent environment is a name, a factory or a MultiAgentVector; found "
            f"{found(env)}. For one environment object, pass a function that makes it"
        )
    if takes_num_envs(factory):
        vector = made(factory, name, {**config, "num_envs": num_envs})
        missing = [n for n in _NEEDED if not hasattr(vector, n)]
        if missing:
            raise BuildError(
                f"environment {name!r}: expected a rillflow.envs.MultiAgentVector, found "
                f"{found(vector)} without {', '.join(missing)}"
            )
        return vector
    from rillflow.envs.multiagent_pettingzoo import ParallelEnvs
    from rillflow.envs.multiagent_turns import in_parallel

    def copy() -> Any:
        return in_parallel(made(factory, name, config))

    return ParallelEnvs([copy() for _ in range(num_envs)], name, copy, **how)


def group_agents(
    vector: MultiAgentVector,
    mapping: PolicyMapping,
    policies: Collection[str] | None,
    name: str,
) -> dict[str, PolicyGroup]:
    """For each policy its agents, which must agree on their spaces."""
    groups: dict[str, PolicyGroup] = {}
    for agent in vector.agents:
        policy = _policy_of(agent, mapping, policies, name)
        spaces = vector.observation_space(agent), vector.action_space(agent)
        group = groups.get(policy)
        if group is None:
            groups[policy] = PolicyGroup((agent,), *spaces)
            continue
        if (group.observation_space, group.action_space) != spaces:
            raise BuildError(
                f"environment {name!r}: policy {policy!r} acts for {group.agents[0]!r} and "
                f"{agent!r}, whose spaces differ: {group.observation_space}, {group.action_space} "
                f"and {spaces[0]}, {spaces[1]}; map them to two policies, or each agent to its own"
            )
        groups[policy] = PolicyGroup((*group.agents, agent), *spaces)
    return groups


def _policy_of(
    agent: str, mapping: PolicyMapping, policies: Collection[str] | None, name: str
) -> str:
    try:
        policy = mapping.get(agent) if isinstance(mapping, Mapping) else mapping(agent)
    except Exception as error:
        raise raised(error, f"the policy mapping for {agent!r}", name) from error
    if not isinstance(policy, str):
        raise BuildError(
            f"environment {name!r}: the policy mapping must give a policy's name for each agent; "
            f"for {agent!r} it gave {found(policy)}"
        )
    if policies is not None and policy not in policies:
        near = difflib.get_close_matches(policy, policies, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise BuildError(
            f"environment {name!r}: agent {agent!r} is mapped to the unknown policy {policy!r}; "
            f"there are {sorted(policies)}{hint}"
        )
    return policy
