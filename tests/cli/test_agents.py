"""Several agents from the command line and from `rf.train`: one policy, or one for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.runs.multi_agent import assigned, with_copies
from rillflow.runs.train import TrainedAgents
from tests.cli.conftest import QUICK

SMALL: dict[str, Any] = {
    "num_workers": 1,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 16,
    "hidden": (8,),
    "train_batch_size": 64,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 1,
}
SHORT = ("train", "ppo", "MultiAgentCartPole", *QUICK, "--num-envs-per-worker=2", "--name", "run")

GUESS = """
import gymnasium as gym, numpy as np

class Guess:
    possible_agents = ["left", "right"]

    def observation_space(self, agent): return gym.spaces.Discrete(2)
    def action_space(self, agent): return gym.spaces.Discrete(2 if agent == "left" else 3)

    def reset(self, seed=None, options=None):
        self.agents, self.left = list(self.possible_agents), 5
        return dict.fromkeys(self.agents, 0), {}

    def step(self, actions):
        self.left -= 1
        over = self.left == 0
        every = lambda value: dict.fromkeys(self.possible_agents, value)
        self.agents = [] if over else self.agents
        return every(0), every(1.0), every(over), every(False), every({})

    def close(self): pass

def parallel_env(): return Guess()
"""


@pytest.fixture
def guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the shape of PettingZoo's, with agents whose actions differ."""
    package = tmp_path / "games"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "guess_v0.py").write_text(GUESS)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("games", "games.guess_v0"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "games.guess_v0"


def test_policies_are_assigned_as_asked() -> None:
    config = ppo.Config(env="MultiAgentCartPole", env_config={"agents": 3})
    each = {"agent_0": "agent_0", "agent_1": "agent_1", "agent_2": "agent_2"}
    two = {"agent_0": "a", "agent_1": "b", "agent_2": "b"}
    assert assigned(config, None) == dict.fromkeys(each, "shared")
    assert assigned(config, "each") == each
    assert assigned(config, two) == two
    assert assigned(ppo.Config(), None) is None


def test_many_agents_of_a_policy_are_given_one_copy_unless_somebody_says_how_many() -> None:
    """Each agent is a row; twenty of them in eight copies would be 160 for each step."""
    config = ppo.Config(env="MultiAgentCartPole", num_envs_per_worker=8)
    many = {f"agent_{i}": "shared" for i in range(9)}
    assert with_copies(config, many, ()).num_envs_per_worker == 1
    assert with_copies(config, many, ("num_envs_per_worker",)) is config
    assert with_copies(config, dict(list(many.items())[:8]), ()) is config
    assert with_copies(config, {agent: agent for agent in many}, ()) is config
    assert with_copies(config, None, ()) is config


def test_training_many_agents_begins_with_one_copy() -> None:
    how: dict[str, Any] = {"until": {"steps": 1}, "engine": "sim", "policies": "shared", **SMALL}
    how |= {"env_config": {"agents": 33}, "num_sgd_iter": 1}
    copies = how.pop("num_envs_per_worker")
    assert rf.train("ppo", "MultiAgentCartPole", **how).config.num_envs_per_worker == 1
    trained = rf.train("ppo", "MultiAgentCartPole", num_envs_per_worker=copies, **how)
    assert trained.config.num_envs_per_worker == copies


@pytest.mark.parametrize(
    ("env", "policies", "message"),
    [
        ("CartPole-v1", "each", "environment 'CartPole-v1' has one"),
        ("MultiAgentCartPole", "eech", r"\"shared\", \"each\" or a dict .* got 'eech'"),
        ("MultiAgentCartPole", {"agent_0": "a"}, "missing or unknown: agent_1"),
        ("MultiAgentCartPole", {"agent_0": "a", "agent_1": "../b"}, r"got '\.\./b'"),
    ],
)
def test_a_wrong_assignment_is_told(env: str, policies: Any, message: str) -> None:
    with pytest.raises(rf.BuildError, match=message):
        rf.train("ppo", env, policies=policies, engine="sim", until={"steps": 1})


def test_one_policy_is_shared_if_nobody_says_as_on_the_command_line() -> None:
    run = rf.train("ppo", "MultiAgentCartPole", engine="sim", until=64, num_workers=1, hidden=(8,))
    assert run.agents == {"agent_0": "shared", "agent_1": "shared"}


@pytest.mark.parametrize("algorithm", ["a3c", "async_dqn", "maml"])
def test_algorithms_whose_workers_know_one_policy_are_refused(algorithm: str) -> None:
    with pytest.raises(rf.BuildError, match="know one policy: train several agents with another"):
        rf.train(algorithm, "MultiAgentCartPole", policies="shared", until={"steps": 1})


def test_trained_policies_act_and_come_back_from_their_files(tmp_path: Path) -> None:
    how: dict[str, Any] = {"until": {"steps": 200}, "engine": "sim", **SMALL}
    trained = rf.train("ppo", "MultiAgentCartPole", policies="each", **how)
    seen = {"agent_0": np.ones(4, np.float32), "agent_1": np.ones((3, 4), np.float32)}
    acts = trained.act(seen)
    assert (acts["agent_0"].shape, acts["agent_1"].shape) == ((), (3,))
    assert {name: len(own) for name, own in trained.evaluate(3).items()} == {
        "agent_0": 3,
        "agent_1": 3,
    }
    trained.save(tmp_path / "both")
    again = TrainedAgents.load(tmp_path / "both")
    assert (again.agents, len(again.history)) == (trained.agents, len(trained.history))
    assert again.evaluate(2) == trained.evaluate(2)
    with pytest.raises(rf.BuildError, match=r"has no policies of several agents \(agents.json"):
        TrainedAgents.load(tmp_path)


def test_the_command_line_trains_goes_on_and_evaluates(call: Any) -> None:
    assert call(*SHORT, "--until", "steps=256", "--quiet").code == 0
    about = json.loads(Path("runs/run/run.json").read_text())
    assert about["agents"] == {"agent_0": "shared", "agent_1": "shared"}
    assert call("resume", "runs/run", "--until", "steps=512", "--quiet").code == 0
    assert TrainedAgents.load("runs/run/policies").history[-1]["steps"] >= 512
    told = call("evaluate", "runs/run", "--episodes", "3")
    assert "ppo on MultiAgentCartPole, policy shared: 6 episodes" in told.out
    found = json.loads(call("evaluate", "runs/run", "--episodes", "3", "--json").out)
    assert len(found["shared"]["returns"]) == 6


def test_what_is_about_one_policy_says_so(call: Any) -> None:
    assert call(*SHORT, "--until", "steps=64", "--quiet").code == 0
    assert "has the policies of several agents: films are of one" in call("record", "runs/run").err
    assert "`rillflow export runs/run/policies/shared.npz`" in call("export", "runs/run").err
    alone = call("evaluate", "runs/run/policies/shared.npz").err
    assert "has several agents, and one policy alone cannot play in it" in alone


def test_a_module_of_pettingzoos_kind_is_an_environment(call: Any, guess: str) -> None:
    """Its name is enough; agents that differ need policies of their own."""
    flags = (*QUICK, "--num-envs-per-worker=2", "--until", "steps=64", "--name", "run")
    refused = call("train", "ppo", guess, *flags)
    assert "whose spaces differ" in refused.err
    assert "or each agent to its own" in refused.err
    done = call("train", "ppo", guess, *flags, "--policies", "each")
    assert done.out.splitlines()[1].startswith("if resumed: environments begin new episodes")
    mapping = '{"left": "l", "right": "r"}'
    shown = call("explain", "ppo", guess, "--policies", mapping)
    assert "split(2)[1]" in shown.out
