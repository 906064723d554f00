"""No algorithm ever takes a forbidden action, whatever it learns in and wherever masks are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.envs.multiagent_mapping import make_multi_agent_envs
from rillflow.policies.explorers import random_actions
from rillflow.results import evaluate
from rillflow.results.evaluation import evaluate_agents
from rillflow.rl.workers import create_rollout_workers
from tests.masked import LENGTH, Beside, Gate, Pairs, Tasks

SMALL: dict[str, Any] = {"num_workers": 1, "num_envs_per_worker": 4, "on_failure": "raise"}
ALGORITHMS = (
    *("ppo", "a2c", "a3c", "impala", "appo", "pg"),
    *("dqn", "rainbow", "simple_q", "apex", "async_dqn", "sac"),
)


def trained(algorithm: str, env: Any, steps: int, **settings: Any) -> Any:
    known = {"engine": "sim", "seed": 1, **SMALL}
    return rf.train(algorithm, env, until={"steps": steps}, **{**known, **settings})


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_algorithm_takes_what_is_forbidden(algorithm: str, framework: str) -> None:
    """A thousand steps of training and of evaluation in an environment that would raise."""
    env = Gate if framework == "numpy" else Beside
    policy = trained(algorithm, env, 1500, framework=framework)
    for greedy in (True, False):
        evaluate(policy, episodes=5, greedy=greedy)


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("algorithm", ["ppo", "impala", "dqn"])
def test_nor_however_episodes_begin_again(algorithm: str, mode: AutoresetMode) -> None:
    def make(num_envs: int) -> Any:
        return SyncVectorEnv([Beside] * num_envs, autoreset_mode=mode)

    policy = trained(algorithm, make, 1000)
    assert np.isfinite([x for w in policy.weights.values() for x in np.ravel(w)]).all()


def test_nor_with_a_memory_or_several_choices_or_a_task() -> None:
    for algorithm, env, settings in (
        ("impala", Gate, {"model": "lstm", "lstm_size": 8}),
        ("ppo", Beside, {"memory": "gru", "memory_size": 8}),
        ("dqn", Gate, {"memory": "lstm", "memory_size": 8}),
        ("r2d2", Gate, {"memory_size": 8}),
        ("ppo", Pairs, {}),
        ("maml", Tasks, {}),
    ):
        trained(algorithm, env, 1000, **settings)


def test_what_is_allowed_and_right_is_learned() -> None:
    policy = trained("ppo", Gate, 8000, num_envs_per_worker=32)
    assert evaluate(policy, episodes=20).mean == LENGTH


def test_masks_that_are_switched_off_rule_nothing_out() -> None:
    with pytest.raises(rf.RillflowError, match="is forbidden by"):
        trained("ppo", Gate, 1000, action_masks=False)


def test_workers_in_processes_keep_to_masks_too() -> None:
    trained("ppo", Gate, 1000, engine="local", num_workers=2)


# -- several agents ----------------------------------------------------------------------------

TURNS = "pettingzoo.classic.tictactoe_v3"
old_names = pytest.mark.filterwarnings("ignore:The old environment creation API")


def tic_tac_toe(count: int = 3) -> Any:
    pytest.importorskip("pettingzoo")
    return make_multi_agent_envs(TURNS, count, lambda agent: "both")


@old_names
def test_agents_take_turns_and_those_who_wait_have_no_choice() -> None:
    """Rewards of both sides come in the step of the last move, and add up to 0."""
    envs = tic_tac_toe()
    group = envs.groups["both"]
    layout: Any = group.observation_space.layout  # type: ignore[attr-defined]
    rng, obs, rewards = np.random.default_rng(0), envs.reset()["both"], np.zeros(6)
    spec = ppo.Config().policy_spec(group.observation_space, group.action_space)
    for _ in range(60):
        masks = layout.mask(obs)
        choices = masks.sum(1).reshape(2, 3)
        assert (choices.min(0) == 1).all()  # one of both waits, or has one square left
        step = envs.step({"both": random_actions(spec, 6, rng, masks)})["both"]
        obs = step.obs
        rewards += step.rewards
        np.testing.assert_array_equal(step.rewards[:3], -step.rewards[3:])
        np.testing.assert_array_equal(step.terminated[:3], step.terminated[3:])
        assert step.valid is None or step.valid.all()
    lengths = {length for _, length in envs.pop_episodes()["both"]}
    assert lengths <= set(range(5, 10))
    assert rewards.any()


@old_names
def test_two_players_train_in_a_game_of_turns() -> None:
    """With a policy for each side; nobody takes a square that is taken."""
    pytest.importorskip("pettingzoo")
    policies = rf.train(
        "ppo",
        TURNS,
        until={"steps": 6000},
        engine="sim",
        policies={"player_1": "x", "player_2": "o"},
        seed=1,
        **SMALL,
    )
    assert all(own.spec.masked for own in policies.policies.values())
    found = evaluate_agents(policies, episodes=5)
    assert found["x"].mean == -found["o"].mean


class Signs:
    """A parallel environment whose masks are in infos."""

    possible_agents = ("a", "b")

    def __init__(self) -> None:
        from gymnasium.spaces import Box, Discrete

        self.agents: list[str] = []
        self.spaces = Box(0, 1, (1,), np.float32), Discrete(3)

    def observation_space(self, agent: str) -> Any:
        return self.spaces[0]

    def action_space(self, agent: str) -> Any:
        return self.spaces[1]

    def _infos(self) -> Any:
        masks = self.rng.random((2, 3)) < 0.5
        masks[:, self.rng.integers(3)] = True
        self.masks = dict(zip(self.possible_agents, masks, strict=True))
        return {agent: {"action_mask": self.masks[agent].astype(np.int8)} for agent in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.time = np.random.default_rng(seed), 0
        self.agents = list(self.possible_agents)
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, self._infos()

    def step(self, actions: Any) -> Any:
        for agent, action in actions.items():
            if not self.masks[agent][action]:
                raise ValueError(f"{agent} may not {action}")
        self.time += 1
        over = dict.fromkeys(self.agents, self.time == 5)
        obs = {agent: np.zeros(1, np.float32) for agent in self.agents}
        rewards, never = dict.fromkeys(self.agents, 1.0), dict.fromkeys(self.agents, False)
        infos = self._infos()
        self.agents = [] if self.time == 5 else self.agents
        return obs, rewards, over, never, {} if self.time == 5 else infos

    def close(self) -> None:
        pass


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_masks_in_the_infos_of_several_agents(algorithm: str) -> None:
    rf.train(
        algorithm,
        Signs,
        until={"steps": 1000},
        engine="sim",
        policies="shared",
        seed=1,
        **SMALL,
    )


def test_a_spec_tells_that_it_is_masked() -> None:
    assert create_rollout_workers(ppo.Config(env=Beside)).spec.masked
    assert not create_rollout_workers(ppo.Config(env=Beside, action_masks=False)).spec.masked


@pytest.mark.slow
def test_taxi_is_learned_faster_with_its_masks() -> None:
    """With half of the actions ruled out, the first deliveries come sooner."""
    returns = {}
    for masks in (True, False):
        found = [
            trained("dqn", "Taxi-v4", 60_000, seed=seed, num_workers=2, action_masks=masks)
            for seed in (1, 2)
        ]
        returns[masks] = np.mean([evaluate(one, episodes=50).mean for one in found])
    assert returns[True] > returns[False] + 50, returns
