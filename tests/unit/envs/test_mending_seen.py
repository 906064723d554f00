"""A vector that is made anew is seen as the one before: stacked, with its masks and its infos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rillflow.envs.checks import EnvError
from rillflow.envs.make import make_envs
from rillflow.envs.multiagent import MultiAgentEnvs
from rillflow.envs.multiagent_mapping import make_multi_agent_envs
from rillflow.envs.preprocessing import Preprocessing
from rillflow.envs.spaces import Array
from rillflow.envs.step import Step
from rillflow.envs.toy_multiagent_cartpole import MultiAgentCartPole
from rillflow.envs.vector import Envs
from tests.unit.envs.test_mending_several import Whole

MODES = list(AutoresetMode)
FAILS = 130


class Telling(Whole):
    """With masks of actions, and the number of the episode where one ends, in its infos."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        obs, info = super().reset(seed=seed, options=options)
        return obs, info | self._masks()

    def step(self, actions: Any) -> Any:
        episodes = self.episode.copy()
        obs, rewards, done, cut, info = super().step(actions)
        ended = {"episode": episodes, "_episode": done}
        info |= {"final_info": ended} if self.mode == AutoresetMode.SAME_STEP else ended
        return obs, rewards, done, cut, info | self._masks()

    def _masks(self) -> dict[str, Any]:
        odd = self.t % 2 == 1
        return {"action_mask": np.stack([~odd, odd], 1)}


def telling(mode: AutoresetMode, **settings: Any) -> Envs:
    Whole.made = 1  # the next one has the fault
    envs = make_envs(lambda num_envs: Telling(num_envs, mode, (FAILS,), []), 3, **settings)
    envs.want_infos(["episode"])
    envs.mend()
    envs.reset()
    return envs


def stepped(envs: Envs, steps: int) -> Step:
    for _ in range(steps):
        step = envs.step(np.zeros(3, np.int64))
    return step


@pytest.mark.parametrize("mode", MODES)
def test_masks_and_infos_are_read_of_the_new_vector_too(mode: AutoresetMode) -> None:
    envs = telling(mode)
    stepped(envs, FAILS - 1)
    assert len(envs.pop_infos()[0]) == len(envs.pop_episodes()) == 13
    begun = stepped(envs, 1)
    assert Whole.made == 3
    assert begun.starts.all()
    assert begun.obs.tolist() == [[2, copy, 1, 0, 1, 0] for copy in range(3)]
    assert stepped(envs, 1).obs[:, -2:].tolist() == [[0, 1]] * 3
    stepped(envs, 64)
    infos, episodes = envs.pop_infos()[0], envs.pop_episodes()
    assert len(infos) == len(episodes) == 6
    assert infos[0] == {"episode": 1}, "it counts from the beginning again"


@pytest.mark.parametrize("mode", MODES)
def test_a_stack_begins_with_the_first_observation_of_the_new_vector(mode: AutoresetMode) -> None:
    envs = telling(mode, preprocessing=Preprocessing(frame_stack=2), action_masks=False)
    assert stepped(envs, FAILS - 1).obs[1].tolist() != [2, 1, 1, 0] * 2
    assert stepped(envs, 1).obs[1].tolist() == [2, 1, 1, 0] * 2
    assert stepped(envs, 1).obs[1].tolist() == [2, 1, 1, 0, 2, 1, 1, 1]


# -- several agents --------------------------------------------------------------------------------


class Poles(MultiAgentCartPole):
    """Raises in one step of the first one's life, and has infos."""

    made = 0

    def __init__(self, num_envs: int, fails: int) -> None:
        super().__init__(num_envs, max_episode_steps=10)
        self.fails = fails if Poles.made == 0 else 0
        Poles.made, self.life = Poles.made + 1, 0
        self.infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]

    def step(self, actions: Mapping[str, Array]) -> dict[str, Step]:
        self.life += 1
        if self.life == self.fails:
            raise ValueError("the simulator broke")
        self.infos = [{agent: {"life": self.life} for agent in self.agents} for _ in self.infos]
        return super().step(actions)


def poles(fails: int, **settings: Any) -> MultiAgentEnvs:
    Poles.made = 0
    envs = make_multi_agent_envs(
        lambda num_envs: Poles(num_envs, fails), 3, lambda agent: "all", **settings
    )
    envs.want_infos(["life"])
    envs.mend()
    envs.reset()
    return envs


def test_a_vector_of_several_agents_is_made_anew_with_all_that_was_around_it() -> None:
    envs = poles(105, preprocessing=Preprocessing(frame_stack=3))
    first = envs.reset()["all"]
    for _ in range(104):
        went_on = envs.step({"all": np.ones(6, np.int64)})["all"]
    before, infos = envs.pop_episodes()["all"], envs.pop_infos()[0]["all"]
    assert len(before) == len(infos) > 50
    step = envs.step({"all": np.ones(6, np.int64)})["all"]
    assert Poles.made == 2
    assert step.obs.shape == (6, 12) == first.shape
    newest = step.obs[:, -4:]
    assert np.array_equal(step.obs, np.concatenate([newest] * 3, 1))
    assert not np.array_equal(newest, first[:, -4:]), "it does not repeat its first episodes"
    assert step.starts.all()
    assert step.cut is not None
    assert np.array_equal(step.cut, ~(went_on.terminated | went_on.truncated) & went_on.valid)
    assert not envs.pop_episodes()["all"], "nothing is said of episodes that did not end"
    for _ in range(12):
        envs.step({"all": np.ones(6, np.int64)})
    infos = envs.pop_infos()[0]["all"]
    assert len(infos) == len(envs.pop_episodes()["all"]) >= 6
    assert {info["life"] for info in infos} <= set(range(1, 13))
    count, told = envs.pop_failures()
    assert count == 1
    assert "its whole vector begins anew" in told[0]


def test_infos_of_agents_are_read_through_what_is_done_to_their_observations() -> None:
    envs = poles(0, preprocessing=Preprocessing(frame_stack=2))
    for _ in range(11):
        envs.step({"all": np.ones(6, np.int64)})
    infos = envs.pop_infos()[0]["all"]
    assert len(infos) == len(envs.pop_episodes()["all"]) >= 6


def test_an_environment_with_other_copies_is_not_the_same_one() -> None:
    Poles.made = 0

    def make(num_envs: int) -> Poles:
        return Poles(num_envs if Poles.made == 0 else num_envs + 1, 105)

    envs = make_multi_agent_envs(make, 3, lambda agent: "all")
    envs.mend()
    envs.reset()
    with pytest.raises(EnvError, match="made anew with 4 copies instead of 3; its factory must"):
        [envs.step({"all": np.ones(6, np.int64)}) for _ in range(110)]
