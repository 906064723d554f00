"""Figures from the infos of environments, whichever way they begin the next episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rillflow.envs import make_envs
from rillflow.envs.checks import EnvError
from rillflow.envs.final_info import FinalInfos
from rillflow.envs.multiagent_mapping import make_multi_agent_envs


class Counting(gym.Env[Any, Any]):
    """Episodes of one, two, three, ... steps; the last info has their number."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, value: Any = None) -> None:
        self.value, self.length, self.step_number = value, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length, self.step_number = self.length + 1, 0
        return np.zeros(2, np.float32), {"moves": -1}

    def step(self, action: Any) -> Any:
        self.step_number += 1
        over = self.step_number >= self.length
        info = {"moves": self.step_number, "is_success": over} if over else {"moves": 0}
        info |= {} if self.value is None else {"value": self.value}
        return np.zeros(2, np.float32), 1.0, over, False, info


def vector(mode: AutoresetMode) -> Any:
    return lambda num_envs: gym.vector.SyncVectorEnv([Counting] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize("env", [Counting, *map(vector, AutoresetMode)])
def test_the_last_info_of_each_episode_is_read(env: Any) -> None:
    envs = make_envs(env, 3)
    envs.want_infos(["moves", "is_success", "nobody"])
    envs.reset()
    for _ in range(14):
        envs.step(np.zeros(3, int))
    episodes, (infos, _) = envs.pop_episodes(), envs.pop_infos()
    assert len(episodes) == len(infos) > 9
    assert infos == [{"moves": float(length), "is_success": 1.0} for _, length in episodes]
    assert envs.pop_infos() == ([], [])
    envs.close()


def test_what_was_not_popped_is_saved() -> None:
    envs = make_envs(Counting, 2)
    envs.want_infos(["moves"])
    envs.reset()
    envs.step(np.zeros(2, int))
    state = envs.get_state()
    other = make_envs(Counting, 2)
    other.want_infos(["moves"])
    other.set_state(state)
    assert len(other.pop_episodes()) == len(other.pop_infos()[0]) == 2
    without = {name: value for name, value in state.items() if name != "infos"}
    other.set_state(without)  # of a run that did not want them
    assert other.pop_infos()[0] == [{}, {}]


@pytest.mark.parametrize("value", ["text", [1, 2], {"r": 1.0}, np.zeros(3)])
def test_what_is_no_number_is_refused_with_advice(value: Any) -> None:
    envs = make_envs(lambda: Counting(value), 1)
    envs.want_infos(["value"])
    envs.reset()
    with pytest.raises(EnvError, match="leave it out of info_metrics, or have the environment"):
        envs.step(np.zeros(1, int))


@pytest.mark.parametrize("value", [True, 3, 2.5, np.float32(4), np.bool_(True), np.array([7])])
def test_numbers_of_all_kinds_are_taken(value: Any) -> None:
    infos = FinalInfos(["value"], "Maze")
    infos.read({"value": value})
    assert infos.pop() == [{"value": float(np.asarray(value).item())}]


def test_a_value_that_is_not_finite_or_none_is_left_out() -> None:
    infos = FinalInfos(["value"], "Maze")
    for value in (float("nan"), float("inf"), None):
        infos.read({"value": value})
    assert infos.pop() == [{}, {}, {}]


def test_a_key_that_never_comes_is_told_once() -> None:
    infos = FinalInfos(["is_sucess", "coins"], "Maze")
    for _ in range(60):
        infos.read({"is_success": True, "coins": 3})
    (note,) = infos.pop_notes()
    assert "without info['is_sucess']" in note
    assert "is_success, coins" in note or "coins, is_success" in note
    assert infos.pop_notes() == []


class TwoAgents:
    """A PettingZoo environment: the first agent wins after two steps, the second after three."""

    possible_agents = ("a", "b")

    def observation_space(self, agent: str) -> Any:
        return Counting.observation_space

    def action_space(self, agent: str) -> Any:
        return Counting.action_space

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.number = ["a", "b"], 0
        return {agent: np.zeros(2, np.float32) for agent in self.agents}, {}

    def step(self, actions: Any) -> Any:
        self.number += 1
        acting = list(actions)
        over = {agent: self.number >= (2 if agent == "a" else 3) for agent in acting}
        self.agents = [agent for agent in acting if not over[agent]]
        obs = {agent: np.zeros(2, np.float32) for agent in acting}
        flags = dict.fromkeys(acting, False)
        infos = {agent: {"moves": self.number} for agent in acting}
        return obs, dict.fromkeys(acting, 1.0), over, flags, infos

    def close(self) -> None:
        pass


def test_each_agent_has_its_own() -> None:
    envs = make_multi_agent_envs(TwoAgents, 2, {"a": "left", "b": "right"})
    envs.want_infos(["moves"])
    envs.reset()
    for _ in range(3):
        envs.step({"left": np.zeros(2, int), "right": np.zeros(2, int)})
    assert envs.pop_infos()[0] == {"left": [{"moves": 2.0}] * 2, "right": [{"moves": 3.0}] * 2}


def test_a_vector_of_agents_without_infos_says_what_it_needs() -> None:
    envs = make_multi_agent_envs("MultiAgentCartPole", 1, lambda agent: "shared")
    with pytest.raises(EnvError, match="give it an attribute `infos`"):
        envs.want_infos(["moves"])
    envs.close()
