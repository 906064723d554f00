"""Several agents: the built-in protocol, PettingZoo's parallel API, and who acts for whom."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rillflow.envs import EnvError, MultiAgentEnvs, Step, make_envs, make_multi_agent_envs
from rillflow.envs.multiagent import join_steps
from rillflow.errors import BuildError

ParallelEnv: Any = pytest.importorskip("pettingzoo", reason="needs pettingzoo").ParallelEnv


def by_parity(agent: str) -> str:
    return "even" if int(agent[-1]) % 2 == 0 else "odd"


def one(agent: str) -> str:
    return "all"


def poles(num_envs: int = 3, agents: int = 4, seed: int = 1) -> MultiAgentEnvs:
    config = {"agents": agents, "max_episode_steps": 30}
    return make_multi_agent_envs(
        "MultiAgentCartPole", num_envs, by_parity, seed=seed, env_config=config
    )


def random_steps(envs: MultiAgentEnvs, steps: int, seed: int = 0) -> list[Any]:
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        result = envs.step({p: rng.integers(0, 2, envs.rows(p)) for p in envs.groups})
        seen += [x for step in result.values() for x in step if x is not None]
    return seen


def test_agents_of_a_policy_are_one_batch() -> None:
    envs = poles()
    obs = envs.reset()
    assert {policy: o.shape for policy, o in obs.items()} == {"even": (6, 4), "odd": (6, 4)}
    assert envs.groups["odd"].agents == ("agent_1", "agent_3")
    step = envs.step({"even": np.zeros(6, np.int64), "odd": np.ones(6, np.int64)})
    # pushed left and right: the first velocity tells who was pushed how
    assert (step["even"].obs[:, 1] < obs["even"][:, 1]).all()
    assert (step["odd"].obs[:, 1] > obs["odd"][:, 1]).all()


def test_poles_of_many_agents_are_poles_of_one() -> None:
    """The same poles as a single-agent vector with as many copies."""
    many = make_multi_agent_envs("MultiAgentCartPole", 2, one, seed=5, env_config={"agents": 3})
    single = make_envs("CartPole-v1", 6, seed=5)
    assert np.array_equal(many.reset()["all"], single.reset())
    rng = np.random.default_rng(0)
    for _ in range(100):
        actions = rng.integers(0, 2, 6)
        left, right = many.step({"all": actions})["all"], single.step(actions)
        assert all(a is b is None or np.array_equal(a, b) for a, b in zip(left, right, strict=True))
    assert many.pop_episodes() == {"all": single.pop_episodes()}


def test_poles_continue_exactly_from_their_state() -> None:
    envs, resumed = poles(seed=1), poles(seed=2)
    assert envs.exact
    envs.reset()
    random_steps(envs, 40)
    resumed.set_state(envs.get_state())
    left, right = random_steps(envs, 50, seed=3), random_steps(resumed, 50, seed=3)
    assert all(map(np.array_equal, left, right))
    assert envs.pop_episodes() == resumed.pop_episodes()


class Leaving(ParallelEnv):  # type: ignore[misc]
    """Agent `a` ends after 2 steps, `b` is cut after 3, `c` joins at step 1 and ends at 3."""

    metadata: dict[str, Any] = {"name": "leaving"}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents = ["a", "b", "c"]
        self.agents: list[str] = []
        self.episode, self.time = -1, 0

    def observation_space(self, agent: str) -> Any:
        return Box(-9, 99, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(4, start=1)

    def _obs(self, agents: Any) -> Any:
        number = "abc".index
        return {x: np.array([self.episode, 10 * number(x) + self.time], np.float32) for x in agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.time, self.agents = self.episode + 1, 0, ["a", "b"]
        return self._obs(self.agents), {}

    def step(self, actions: Any) -> Any:
        assert set(actions) == set(self.agents)
        assert all(1 <= action <= 4 for action in actions.values())
        self.time += 1
        terminated = {x: (x, self.time) in (("a", 2), ("c", 3)) for x in self.agents}
        truncated = {x: (x, self.time) == ("b", 3) for x in self.agents}
        rewards = {x: float(actions[x]) for x in self.agents}
        acted = list(self.agents)
        self.agents = [x for x in self.agents if not (terminated[x] or truncated[x])]
        if self.time == 1:
            self.agents.append("c")
            acted.append("c")
        return self._obs(acted), rewards, terminated, truncated, {x: {} for x in acted}


def test_agents_that_leave_and_join_give_exactly_their_true_transitions() -> None:
    envs = make_multi_agent_envs(Leaving, 2, one)
    obs = envs.reset()["all"]
    seen: Counter[Any] = Counter()
    for _ in range(6):  # two episodes of three steps
        step = envs.step({"all": np.array([0, 0, 1, 1, 2, 2])})["all"]
        assert step.valid is not None
        assert step.next_obs is not None
        for i in np.flatnonzero(step.valid):
            seen[
                (*obs[i].tolist(), float(step.rewards[i]), *step.next_obs[i].tolist(),
                 bool(step.terminated[i]), bool(step.truncated[i]))
            ] += 1  # fmt: skip
        obs = step.obs
    true = [
        (e, start + t, reward, e, start + t + 1, (agent, t) in (("a", 1), ("c", 2)),
         (agent, t) == ("b", 2))
        for e in (0, 1)
        for agent, start, reward, times in (
            ("a", 0, 1.0, (0, 1)), ("b", 10, 2.0, (0, 1, 2)), ("c", 20, 3.0, (1, 2)))
        for t in times
    ]  # fmt: skip
    assert seen == Counter(dict.fromkeys(true, 2))
    episodes = Counter(envs.pop_episodes()["all"])
    assert episodes == {(2.0, 2): 4, (6.0, 3): 4, (6.0, 2): 4}


def test_an_inexact_multi_agent_state_goes_on_with_new_episodes() -> None:
    envs = make_multi_agent_envs(Leaving, 2, one)
    envs.reset()
    assert not envs.exact
    state = envs.get_state()
    envs.set_state(state)
    assert envs.obs is not None
    assert envs.obs["all"][0].tolist() == [1.0, 0.0]


class Wrong(Leaving):
    """Breaks one promise, by name."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed, options)
        if self.how == "reset":
            return obs
        if self.how == "stranger":
            obs["z"] = obs["a"]
        if self.how == "shape":
            obs["b"] = np.zeros(3, np.float32)
        if self.how == "nan":
            obs["b"] = np.full(2, np.nan, np.float32)
        return obs, info

    def step(self, actions: Any) -> Any:
        if self.how == "raise":
            raise KeyError("lost")
        obs, rewards, terminated, truncated, info = super().step(actions)
        if self.how == "four":
            return obs, rewards, terminated, info
        if self.how == "reward":
            rewards["a"] = None
        if self.how == "inf":
            rewards["a"] = np.inf
        if self.how == "missing":
            del rewards["b"]
        if self.how == "flag":
            terminated["a"] = "no"
        if self.how == "left":
            self.agents.remove("b")
        return obs, rewards, terminated, truncated, info


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("reset", r"reset\(\) must return \(observations, infos\)"),
        ("stranger", "'z' is not among possible_agents"),
        ("shape", r"observation\['b'\]: expected shape \(2,\)"),
        ("nan", r"observation\['b'\]\[0\]: expected a finite number"),
        ("raise", r"\(index 0\) at step 1 raised KeyError in step"),
        ("four", "must return five dicts"),
        ("reward", r"rewards\['a'\]: expected a number, found None"),
        ("inf", r"reward\['a'\]: expected a finite number, found inf"),
        ("missing", "rewards: expected agent 'b'"),
        ("flag", r"terminations\['a'\]: expected a bool, found str"),
        ("left", "agent 'b' left without terminated or truncated"),
    ],
)
def test_a_wrong_parallel_environment_is_one_clear_error(how: str, message: str) -> None:
    envs = make_multi_agent_envs(Wrong, 1, one, env_config={"how": how})
    with pytest.raises(EnvError, match=message):  # noqa: PT012 - either call may be the wrong one
        envs.reset()
        envs.step({"all": np.zeros(3, np.int64)})


class TwoKinds(Leaving):
    def observation_space(self, agent: str) -> Any:
        return Box(-9, 99, (2 if agent == "a" else 3,), np.float32)


@pytest.mark.parametrize(
    ("env", "mapping", "message"),
    [
        ("MultiAgentCartPole", lambda a: "ood", "unknown policy 'ood'.*did you mean 'odd'"),
        ("MultiAgentCartPole", {"agent_0": "even"}, "for 'agent_1' it gave None"),
        ("MultiAgentCartPoel", one, "did you mean 'MultiAgentCartPole'"),
        (TwoKinds, lambda a: "odd", "'a' and 'b', whose spaces differ"),
        (dict, one, "expected a PettingZoo parallel environment"),
        (3, one, "a name, a factory or a MultiAgentVector"),
        (lambda num_envs: {}, one, "expected a rillflow.envs.MultiAgentVector"),
    ],
)
def test_what_cannot_be_grouped_or_made_is_refused(env: Any, mapping: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        make_multi_agent_envs(env, 2, mapping, policies=["even", "odd"])


def test_a_multi_agent_environment_given_as_a_single_one_says_where_to_go() -> None:
    with pytest.raises(EnvError, match="use make_multi_agent_envs"):
        make_envs(Leaving, 1)


def test_actions_must_come_from_every_policy() -> None:
    envs = poles()
    actions = {"even": np.zeros(6, np.int64)}
    with pytest.raises(EnvError, match="call reset"):
        envs.step(actions)
    envs.reset()
    with pytest.raises(EnvError, match=r"actions of the policies \['even', 'odd'\], found"):
        envs.step(actions)
    with pytest.raises(EnvError, match="policy 'odd': actions: expected integers of shape"):
        envs.step({**actions, "odd": np.zeros(5, np.int64)})
    envs.close()


def test_steps_of_different_kinds_join() -> None:
    """One agent that skips steps beside one that does not."""
    flags = np.zeros(1, bool)
    zeros, ones = np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)
    rewards = np.zeros(1, np.float32)
    joined = join_steps(
        [
            Step(zeros, rewards, flags, flags, flags, None),
            Step(zeros, rewards, flags, flags, None, ones),
        ]
    )
    assert joined.valid is not None
    assert joined.next_obs is not None
    assert joined.valid.tolist() == [False, True]
    assert joined.next_obs.tolist() == [[0, 0], [1, 1]]
