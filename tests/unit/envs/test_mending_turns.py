"""Of environments in which agents take turns the one that raises begins anew, alone."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.envs.multiagent import MultiAgentEnvs, starts_after
from rillflow.envs.multiagent_mapping import make_multi_agent_envs
from rillflow.experience.batch import SampleBatch
from rillflow.experience.fragment_writer import FragmentWriter
from rillflow.experience.transitions import transitions

LAST = 7
"""turns in an episode"""
SEEN = spaces.Box(0, 1e6, (3,), np.float32)


class Turns:
    """Two agents that count in turns: PettingZoo's turn-based API.

    What both see is which copy, episode and turn it is. The first copy that is made raises.

    Args:
        fails: turns of its life in which it raises.
    """

    made = 0
    possible_agents: ClassVar[list[str]] = ["first", "second"]

    def __init__(self, fails: tuple[int, ...]) -> None:
        self.name, Turns.made = Turns.made, Turns.made + 1
        self.fails = fails if self.name == 0 else ()
        self.agents: list[str] = []
        self.agent_selection = ""
        self.episode, self.turn, self.life = -1, 0, 0

    def observation_space(self, agent: str) -> Any:
        return SEEN

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.agent_selection = "first"
        self.episode, self.turn = self.episode + 1, 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}

    def observe(self, agent: str) -> Any:
        return np.array([self.name, self.episode, self.turn], np.float32)

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self.agents.remove(self.agent_selection)
            self.agent_selection = next(iter(self.agents), "")
            return
        self.life += 1
        if self.life in self.fails:
            raise ValueError("the game broke")
        self.turn += 1
        self.rewards = dict.fromkeys(self.agents, 1.0)
        self.terminations = dict.fromkeys(self.agents, self.turn == LAST)
        others = [agent for agent in self.agents if agent != self.agent_selection]
        self.agent_selection = others[0] if self.turn < LAST else self.agents[0]

    def close(self) -> None:
        pass


def turns(*fails: int) -> MultiAgentEnvs:
    """Three copies, one policy for both agents: rows 0 and 3 are of the copy that raises."""
    Turns.made = 0
    envs = make_multi_agent_envs(lambda: Turns(fails), 3, lambda agent: "all")
    envs.mend()
    envs.reset()
    return envs


def played(envs: MultiAgentEnvs, steps: int) -> SampleBatch:
    """A fragment in which everybody does the first thing allowed."""
    assert envs.obs is not None
    fragment, obs = FragmentWriter(steps), envs.obs["all"]
    nothing = np.zeros(len(obs), np.int64)
    for _ in range(steps):
        step = envs.step({"all": nothing})["all"]
        fragment.write(obs, nothing, np.zeros(len(obs), np.float32), step)
        obs = step.obs
    return fragment.finish(obs)


@pytest.mark.parametrize("life", [36, 37, 40, 41, 42], ids="turn {}".format)
def test_whoever_turn_it_was_the_copy_begins_anew_and_the_others_play_on(life: int) -> None:
    """In the first turn of an episode, in the middle and in the last one, of both agents."""
    envs = turns(life)
    batch = played(envs, 70)
    names, episodes, turn = (batch["obs"][..., i] for i in range(3))
    masks = batch["obs"][..., 3:]
    assert np.flatnonzero(~batch["valid"].all(1)).tolist() == [life - 1]
    assert np.flatnonzero(~batch["valid"].all(0)).tolist() == [0, 3]
    # the agents of a copy see the same game, and one of both has the first turn of it
    assert np.array_equal(batch["obs"][:, :3, :3], batch["obs"][:, 3:, :3])
    assert turn[life, 0] == 0
    assert masks[life, [0, 3]].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert (episodes[life:, 0] > episodes[life - 1, 0]).all()
    assert np.array_equal(episodes[:, 1], np.arange(70) // LAST)
    assert np.array_equal(turn[:, 2], np.arange(70) % LAST)
    rows = transitions(batch, 1, 0.9)
    assert len(rows["rewards"]) == 70 * 6 - 2
    assert np.array_equal(rows["obs"][:, :2], rows["next_obs"][:, :2])
    assert np.array_equal(rows["obs"][:, 2] + 1, rows["next_obs"][:, 2])
    assert np.array_equal(np.unique(names), [0, 1, 2])
    assert {length for _, length in envs.pop_episodes()["all"]} == {LAST}
    count, told = envs.pop_failures()
    assert count == 1
    assert "(index 0)" in told[0]
    assert "the game broke" in told[0]
    assert "that copy alone begins anew" in told[0]


def test_where_a_game_breaks_both_agents_are_cut_and_both_begin() -> None:
    envs = turns(40)
    batch = played(envs, 39)
    assert not batch["truncated"].any()
    step = envs.step({"all": np.zeros(6, np.int64)})["all"]
    assert step.cut is not None
    assert np.flatnonzero(step.cut).tolist() == [0, 3]
    assert np.flatnonzero(starts_after(step, np.zeros(6, bool))).tolist() == [0, 3]


def test_a_game_that_breaks_in_its_first_turns_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="raised ValueError in step: the game broke"):
        played(turns(5), 10)
