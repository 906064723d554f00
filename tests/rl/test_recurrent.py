"""Policies that remember: what workers record, and values of the true next observations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import NAMES, get_algorithm, impala, ppo
from rillflow.experience.batch import BOOTSTRAP, STATE, SampleBatch
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.torch_modules import Policy
from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import REMEMBERING, Workers
from rillflow.types import ActorInfo

MODES = {"NEXT_STEP": "CartPole-hidden-velocity", "SAME_STEP": "Corridor"}
"""an environment for each way to begin the next episode"""


class Sums(Policy):
    """Values are the sums of what was seen since the episode began: the simplest memory."""

    def __init__(self, recurrent: bool) -> None:
        self.spec: Any = SimpleNamespace(recurrent=recurrent)
        self.calls = 0

    def evaluate(self, obs: Any, actions: Any) -> Any:
        self.calls += 1
        values = obs[..., 0]
        return values + actions, -values, values

    def evaluate_recurrent(self, obs: Any, actions: Any, state: Any, starts: Any) -> Any:
        self.calls += 1
        total, values = state, []
        for seen, start in zip(obs[..., 0], starts, strict=True):
            total = torch.where(start, torch.zeros(()), total) + seen
            values.append(total)
        values = torch.stack(values)
        return values + actions, -values, values, total


def column(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows)


def same_step() -> dict[str, torch.Tensor]:
    """Three steps of three environments: the first is cut at its second step, the next one
    terminates there, the last is cut at the first and the third step."""
    no = [False, False, False]
    return {
        "obs": column([1.0, 2.0, 3.0], [10.0, 20.0, 7.0], [5.0, 6.0, 8.0])[..., None],
        "next_obs": column([10.0, 20.0, 40.0], [100.0, 200.0, 8.0], [11.0, 12.0, 90.0])[..., None],
        BOOTSTRAP: column([11.0], [12.0], [13.0]),
        "actions": torch.full((3, 3), 0.5),
        "rewards": torch.ones(3, 3),
        "terminated": column(no, [False, True, False], no),
        "truncated": column([False, False, True], [True, False, False], [False, False, True]),
        "starts": column([False, True, False], [False, False, True], [True, True, False]),
        STATE: torch.tensor([1000.0, 1000.0, 1000.0]),
    }


def test_next_values_of_steps_in_all_their_kinds() -> None:
    """Cut episodes are continued from their final observation, with the memory of the episode."""
    policy = Sums(recurrent=True)
    logp, entropy, values, following = policy.evaluate_fragments(same_step())
    assert policy.calls == 1
    expected = column([1001.0, 2.0, 1003.0], [1011.0, 22.0, 7.0], [5.0, 6.0, 15.0])
    assert values.tolist() == expected.tolist()
    assert logp.tolist() == (expected + 0.5).tolist()
    assert entropy.tolist() == (-expected).tolist()
    # environment 0: 1001 + 10; cut: 1011 + 100; then a new episode: 5 + 11
    assert following[:, 0].tolist() == [1011.0, 1111.0, 16.0]
    assert following[[0, 2], 1].tolist() == [22.0, 18.0]  # after termination nobody looks
    # environment 2: cut: 1003 + 40; a new episode: 7 + 8; cut: 15 + 90
    assert following[:, 2].tolist() == [1043.0, 15.0, 105.0]


def test_next_values_without_memory() -> None:
    """The same rows for a policy that sees one observation at a time."""
    policy = Sums(recurrent=False)
    _, _, values, following = policy.evaluate_fragments(same_step())
    assert policy.calls == 1
    assert values.tolist() == same_step()["obs"][..., 0].tolist()
    alive = ~same_step()["terminated"]
    assert torch.equal(following[alive], same_step()["next_obs"][..., 0][alive])


def test_next_values_where_a_step_only_resets() -> None:
    """Without `next_obs` the next observation is that of the next row, also at the end."""
    batch = {
        "obs": column([1.0], [100.0], [5.0])[..., None],  # cut; its final observation; a new one
        BOOTSTRAP: column([6.0]),
        "actions": torch.zeros(3, 1),
        "rewards": column([1.0], [0.0], [1.0]),
        "terminated": torch.zeros(3, 1, dtype=torch.bool),
        "truncated": column([True], [False], [False]),
        "valid": column([True], [False], [True]),
        "starts": column([True], [False], [True]),
        STATE: torch.tensor([1000.0]),
    }
    _, _, values, following = Sums(recurrent=True).evaluate_fragments(batch)
    assert values[[0, 2], 0].tolist() == [1.0, 5.0]
    assert following[[0, 2], 0].tolist() == [101.0, 11.0]


# -- workers ---------------------------------------------------------------------------------------


def worker(env: str, **settings: Any) -> tuple[RolloutWorker, Policy]:
    """A worker that remembers, and a policy with the same weights."""
    values = {"model": "lstm", "lstm_size": 8, "hidden": (8,), "num_envs_per_worker": 4, **settings}
    workers = Workers(impala.Config.make(env=env, **values))
    made = RolloutWorker(workers.config, workers.spec, ActorInfo("worker-0", 0, 0, seed=3))
    policy = Policy(workers.spec, seed=5)
    made.set_weights(policy.get_weights())
    return made, policy


def tensors(batch: SampleBatch) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.array(column)) for name, column in batch.items()}


@pytest.mark.parametrize("mode", MODES)
def test_learner_sees_what_the_worker_remembered(mode: str) -> None:
    """Across episodes and fragments the learner finds the log-probabilities that were recorded."""
    made, policy = worker(MODES[mode], rollout_fragment_length=20)
    ends = 0
    for _ in range(4):
        batch = made.sample()
        assert batch[STATE].shape == (4, 2, 8)
        ends += int((batch["terminated"] | batch["truncated"]).sum())
        with torch.no_grad():
            logp, *_ = policy.evaluate_fragments(tensors(batch))
        np.testing.assert_allclose(logp.numpy(), batch["logp"], atol=1e-5)
    assert ends > 4
    assert ("valid" in batch) == (mode == "NEXT_STEP")


@pytest.mark.parametrize("mode", MODES)
def test_starts_are_the_first_observations_of_episodes(mode: str) -> None:
    """True at the very first row, and in the row after a reset; the state is carried over."""
    made, _ = worker(MODES[mode], rollout_fragment_length=30)
    one, two = made.sample(), made.sample()
    joined = {name: np.concatenate([one[name], two[name]]) for name in ("starts", "terminated")}
    resets = 1 if mode == "SAME_STEP" else 2  # rows from the end of an episode to the next start
    assert joined["starts"][0].all()
    assert np.array_equal(joined["starts"][resets:], joined["terminated"][:-resets])
    assert not joined["starts"][1:resets].any()
    assert not np.array_equal(two[STATE], one[STATE])
    if mode == "NEXT_STEP":
        valid = np.concatenate([one["valid"], two["valid"]])
        assert np.array_equal(joined["starts"][1:], ~valid[:-1])


def test_values_of_cut_episodes_are_those_of_the_whole_sequence() -> None:
    """The value of a final observation is what the policy says after it saw the whole episode."""
    made, policy = worker("ConstantReward", rollout_fragment_length=25)
    batch = tensors(made.sample())
    assert batch["truncated"].sum() == 8  # two cuts of each
    with torch.no_grad():
        _, _, values, following = policy.evaluate_fragments(batch)
        ten = torch.cat([batch["obs"][:10], batch["next_obs"][9:10]])
        whole, _ = policy.values_recurrent(ten, batch[STATE], torch.zeros(11, 4, dtype=torch.bool))
    np.testing.assert_allclose(values[:10], whole[:10], atol=1e-6)
    np.testing.assert_allclose(following[:10], whole[1:], atol=1e-6)
    np.testing.assert_allclose(values[10:20], whole[:10], atol=1e-6)  # it began anew


# -- who takes them --------------------------------------------------------------------------------


ENVS = {
    "maml": "PointGoal",
    **dict.fromkeys(("apex_ddpg", "ddpg", "sac", "td3", "cql", "iql"), "Pendulum-v1"),
}


@pytest.mark.parametrize("algorithm", NAMES)
def test_who_takes_a_policy_that_remembers(algorithm: str) -> None:
    """Whoever says so, and nobody else; the others name all who do."""
    module = get_algorithm(algorithm)
    if algorithm == "rainbow":  # its settings know it already
        assert not module.recurrent
        with pytest.raises(rf.BuildError, match="num_atoms=51 is for a policy without a memory"):
            module.Config(memory="gru")
        return
    config = module.Config.make(env=ENVS.get(algorithm, "CartPole-v1"), memory="gru")
    assert module.recurrent == (algorithm in REMEMBERING)
    if module.recurrent:
        assert Workers(config).spec.recurrent
        return
    with pytest.raises(rf.BuildError, match=rf"memory='gru' remembers, and {algorithm} .*") as told:
        Workers(config)
    assert f"({', '.join(REMEMBERING)})" in str(told.value)


def test_who_takes_a_policy_that_remembers_among_several() -> None:
    """Each policy of several is asked for itself."""
    config = MultiAgentConfig(
        policies={"one": Forgetful(memory="lstm")}, policy_mapping=lambda agent: "one"
    )
    with pytest.raises(rf.BuildError, match=r"memory='lstm' remembers, and forgetful learns"):
        MultiAgentWorkers(config)


class Forgetful(ppo.Config):
    """Settings of an algorithm that does not say that it takes whole sequences."""


Algorithm("forgetful", Forgetful, ppo.modules, ppo.update, ppo.plan)
