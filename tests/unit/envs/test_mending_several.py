"""Environments with several agents, and vectors of one piece, begin anew in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from rillflow.algorithms import ppo
from rillflow.envs import reset_after_error
from rillflow.envs.make import make_envs
from rillflow.experience.batch import MultiAgentBatch, SampleBatch
from rillflow.experience.transitions import transitions
from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers
from rillflow.rl.multi_agent_worker import MultiAgentWorker
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

Transition = tuple[float, ...]
SEEN = spaces.Box(-1e6, 1e6, (4,), np.float32)
LENGTHS = np.array([20.0, 30.0, 40.0])
"""of the episodes of each copy of a vector"""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_after_error, "_PAUSE", 0.0)


class Pair:
    """Two agents, of whom one leaves after ten steps: PettingZoo's parallel API.

    Says which copy, episode, step and agent it is, and writes down what really happened.

    Args:
        fails: the steps of the first copy's life in which it raises.
        resets: that raise afterwards, each; a copy made later has none of these faults.
        log: of every transition.
    """

    made = 0
    possible_agents: ClassVar[list[str]] = ["left", "right"]

    def __init__(self, fails: tuple[int, ...], resets: int, log: list[Transition]) -> None:
        self.name, Pair.made = Pair.made, Pair.made + 1
        first = self.name == 1  # one is made to be asked
        self.fails, self.resets, self.log = fails if first else (), resets if first else 0, log
        self.agents: list[str] = []
        self.episode, self.t, self.life = -1, 0, 0
        self.broken = False

    def observation_space(self, agent: str) -> Any:
        return SEEN

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if self.broken and self.resets:
            self.resets -= 1
            raise OSError("the simulator does not start")
        self.agents = list(self.possible_agents)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, actions: Mapping[str, Any]) -> Any:
        self.life += 1
        if self.life in self.fails:
            self.broken = True
            raise ValueError("the simulator broke")
        before = self._obs()
        self.t += 1
        after, ends = self._obs(), {"left": self.t == 10, "right": self.t == 40}
        self.log += [(*before[agent], *after[agent]) for agent in actions]
        self.agents = [agent for agent in self.agents if not ends[agent]]
        none = dict.fromkeys(actions, False)
        return after, dict.fromkeys(actions, 1.0), ends, none, {}

    def _obs(self) -> dict[str, Any]:
        return {
            agent: np.array([self.name, self.episode, self.t, agent == "left"], np.float32)
            for agent in self.agents
        }

    def close(self) -> None:
        pass


def pairs(
    fails: tuple[int, ...], resets: int = 0, **settings: Any
) -> tuple[MultiAgentWorker, list[Transition]]:
    Pair.made = 0
    log: list[Transition] = []
    both = MultiAgentConfig(
        env=lambda: Pair(fails, resets, log),
        policies={"one": ppo.Config(hidden=(4,), **settings)},
        policy_mapping={"left": "one", "right": "one"},
        num_envs_per_worker=3,
        rollout_fragment_length=50,
    )
    workers = MultiAgentWorkers(both)
    policies = workers.policies
    configs = {name: policy.config for name, policy in policies.items()}
    specs = {name: policy.spec for name, policy in policies.items()}
    return MultiAgentWorker(both, configs, specs, ActorInfo("worker-0", 0, 0, seed=1)), log


def learned_from(batch: SampleBatch) -> list[Transition]:
    following = batch.following()
    valid = batch["valid"] if "valid" in batch else np.ones(batch.shape, bool)
    return [
        (*batch["obs"][t, i].tolist(), *following[t, i].tolist())
        for t, i in zip(*np.nonzero(valid), strict=True)
    ]


@pytest.mark.parametrize("resets", [0, 1], ids=["reset", "made-anew"])
@pytest.mark.parametrize("step", [35, 36, 45, 50, 51, 81, 90])
def test_of_several_agents_one_copy_begins_anew_and_nothing_is_made_up(
    step: int, resets: int
) -> None:
    """With one agent or both, as the first step of an episode or of a fragment."""
    sampler, log = pairs((step,), resets)
    batches = [sampler.sample()["one"] for _ in range(3)]
    made = [transition for batch in batches for transition in learned_from(batch)]
    assert sorted(made) == sorted(log)
    for batch in batches:
        rows = transitions(batch, 3, 0.9)
        same = rows["obs"][:, [0, 1, 3]] == rows["next_obs"][:, [0, 1, 3]]
        assert same.all(), "no row leads from one episode into another"
    told = sampler.pop_metrics()
    assert told is not None
    assert told["counters"] == {"env_failures": 1}
    assert "the simulator broke" in told["notes"][0]
    assert {length for _, length in told["policies"]["one"]} == {10, 40}


def test_the_agents_that_lived_are_cut_and_the_other_copies_go_on() -> None:
    sampler, _ = pairs((36,))
    batch = sampler.sample()["one"]
    cut = [tuple(where) for where in np.argwhere(batch["truncated"])]
    assert cut == [(34, 3)]  # in the first copy only the second agent, in row 3, still lived
    assert not batch["valid"][35, [0, 3]].any()
    assert batch["valid"][36, [0, 3]].all()
    assert batch["valid"][:, [4, 5]].all()


def test_a_failure_in_the_first_step_of_an_episode_leaves_the_end_before_it_as_it_was() -> None:
    sampler, _ = pairs((41,))
    batch = sampler.sample()["one"]
    assert batch["terminated"][39, 3]
    assert not batch["truncated"].any()


def test_an_episode_begins_where_another_ended_or_was_cut() -> None:
    """Explorers with a memory are told; here episodes of the second agent are longer."""
    sampler, _ = pairs((36,))
    starts = []
    for _ in range(45):
        steps = sampler.envs.step({"one": np.zeros(6, int)})
        starts.append(steps["one"].starts[3:])  # of the agents that live to the end
    assert np.argwhere(starts).tolist() == [[35, 0], [39, 1], [39, 2]]


def test_with_several_agents_it_is_a_mistake_in_the_first_steps_too() -> None:
    sampler, _ = pairs((2,))
    with pytest.raises(ValueError, match=r"\(index 0\) at step 2 raised ValueError in step"):
        sampler.sample()


# -- vectors of one piece --------------------------------------------------------------------------


class Whole(VectorEnv[Any, Any, Any]):
    """Three copies that are one object, and say which episode and step it is.

    The second one that is made has the faults: the first is asked for its spaces.
    """

    made = 0

    def __init__(
        self, num_envs: int, mode: AutoresetMode, fails: tuple[int, ...], log: list[Transition]
    ) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = SEEN, spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(SEEN, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.mode, self.log = mode, log
        self.name, Whole.made = Whole.made, Whole.made + 1
        self.fails = fails if self.name == 1 else ()
        self.episode, self.t = np.zeros(num_envs), np.zeros(num_envs)
        self.ended = np.zeros(num_envs, bool)
        self.life = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self._begin(mask)
        return self._obs(), {}

    def step(self, actions: Any) -> Any:
        self.life += 1
        if self.life in self.fails:
            raise ValueError("the simulator broke")
        before, ran = self._obs(), ~self.ended
        self.t += ran
        self._begin(self.ended)
        after = self._obs()
        for i in np.flatnonzero(ran):
            self.log.append((*before[i], *after[i]))
        done = self.t == LENGTHS[: self.num_envs]
        info: dict[str, Any] = {}
        if self.mode == AutoresetMode.NEXT_STEP:
            self.ended = done
        elif self.mode == AutoresetMode.SAME_STEP and done.any():
            info = {"final_obs": after}
            self._begin(done)
        return self._obs(), np.ones(self.num_envs), done, np.zeros(self.num_envs, bool), info

    def _begin(self, mask: Any) -> None:
        self.episode[mask] += 1
        self.t[mask] = 0

    def _obs(self) -> Any:
        columns = np.full(self.num_envs, self.name), np.arange(self.num_envs), self.episode, self.t
        return np.stack(columns, 1).astype(np.float32)


MODES = list(AutoresetMode)


def whole(mode: AutoresetMode, *fails: int) -> tuple[RolloutWorker, list[Transition]]:
    Whole.made = 0
    log: list[Transition] = []

    def make(num_envs: int) -> Whole:
        return Whole(num_envs, mode, fails, log)

    config = ppo.Config.make(
        env=make, num_workers=1, num_envs_per_worker=3, rollout_fragment_length=50, hidden=(4,)
    )
    return RolloutWorker(config, Workers(config).spec, ActorInfo("worker-0", 0, 0, seed=1)), log


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", [101, 121, 122, 130, 150, 151])
def test_a_vector_of_one_piece_is_made_anew_and_nothing_is_made_up(
    mode: AutoresetMode, step: int
) -> None:
    sampler, log = whole(mode, step)
    batches = [sampler.sample() for _ in range(4)]
    made = [transition for batch in batches for transition in learned_from(batch)]
    assert sorted(made) == sorted(log)
    assert Whole.made == 3
    for batch in batches:
        rows = transitions(batch, 3, 0.9)
        same = rows["obs"][:, :3] == rows["next_obs"][:, :3]
        assert same.all(), "no row leads from one episode into another"
    assert {length for _, length in sampler.envs.pop_episodes()} == {20, 30, 40}
    count, notes = sampler.envs.pop_failures()
    assert count == 1
    assert "at step" in notes[0]
    assert "its whole vector begins anew" in notes[0]


def test_a_fragment_has_the_column_only_from_a_failure_on() -> None:
    """And workers that had none are joined to it all the same."""
    sampler, _ = whole(AutoresetMode.SAME_STEP, 130)
    batches = [sampler.sample() for _ in range(4)]
    assert ["valid" in batch for batch in batches] == [False, False, True, False]
    joined = SampleBatch.concat(batches)
    assert joined["valid"].sum() == joined["valid"].size - 3
    assert MultiAgentBatch.concat([MultiAgentBatch({"a": b}) for b in batches])["a"].shape[1] == 12


def test_of_a_whole_vector_all_that_ran_is_cut() -> None:
    sampler, _ = whole(AutoresetMode.SAME_STEP, 130)
    batch = [sampler.sample() for _ in range(3)][-1]
    assert np.argwhere(batch["truncated"]).tolist() == [[28, 0], [28, 1], [28, 2]]
    assert not batch["valid"][29].any()
    assert batch["valid"][30:].all()


def test_a_whole_vector_that_fails_often_is_a_mistake() -> None:
    sampler, _ = whole(AutoresetMode.SAME_STEP, 60)
    with pytest.raises(ValueError, match="at step 60 raised ValueError in step"):
        [sampler.sample() for _ in range(2)]


def test_who_gives_a_vector_that_is_made_already_hears_what_it_raises() -> None:
    """There is no other in its place."""
    log: list[Transition] = []
    Whole.made = 1
    vector = Whole(3, AutoresetMode.SAME_STEP, (130,), log)
    envs = make_envs(vector, 3)
    envs.mend()
    envs.reset()
    with pytest.raises(ValueError, match="at step 130"):
        [envs.step(np.ones(3, int)) for _ in range(140)]
