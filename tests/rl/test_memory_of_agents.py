"""Several agents that remember: each in each copy for itself, for the length of an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import dqn, ppo
from rillflow.envs.multiagent import starts_after
from rillflow.envs.vector import Step
from rillflow.experience.batch import STATE, MultiAgentBatch, SampleBatch
from rillflow.learning.torch_learner import TorchLearner
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers
from rillflow.rl.multi_agent_worker import MultiAgentWorker
from rillflow.types import ActorInfo
from tests.unit.envs.test_multiagent import Leaving

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL: dict[str, Any] = {"hidden": (8,), "memory_size": 6}


def worker_of(env: Any, policies: dict[str, Any], mapping: Any, **settings: Any) -> Any:
    """A worker of several policies, and the handles that a plan would see."""
    given = {"num_workers": 0, "num_envs_per_worker": 2, "rollout_fragment_length": 8, **settings}
    config = MultiAgentConfig(env=env, policies=policies, policy_mapping=mapping, **given)
    workers = MultiAgentWorkers(config)
    handles = workers.policies
    settings_of = {name: one.config for name, one in handles.items()}
    specs = {name: one.spec for name, one in handles.items()}
    info = ActorInfo("worker-0", 0, 0, seed=3)
    return MultiAgentWorker(config, settings_of, specs, info), handles


def episodes_of(batches: list[SampleBatch], row: int) -> list[np.ndarray]:
    """The steps of one agent in one copy, episode by episode."""
    whole = {name: np.concatenate([b[name][:, row] for b in batches]) for name in batches[0]
             if name not in (STATE, "bootstrap_obs")}  # fmt: skip
    ends = whole["terminated"] | whole["truncated"]
    found, now = [], []
    for t in np.flatnonzero(whole["valid"]):
        now.append(t)
        if ends[t]:
            found.append({name: column[now] for name, column in whole.items()})
            now = []
    return found


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_agents_that_come_and_go_remember_their_own_episodes(memory: str) -> None:
    """One policy for all: each acts as if it were alone, whenever the others end and begin."""
    settings = ppo.Config(memory=memory, **SMALL)
    worker, handles = worker_of(Leaving, {"all": settings}, lambda agent: "all")
    policy = TorchPolicy(handles["all"].spec, 7)
    worker.set_weights({"all": policy.get_weights()})
    batches = [worker.sample()["all"] for _ in range(3)]
    played = 0
    for row in range(6):
        for episode in episodes_of(batches, row):
            starts = torch.zeros(len(episode["obs"]), 1, dtype=torch.bool)
            with torch.no_grad():
                logp, *_ = policy.evaluate_recurrent(
                    episode["obs"][:, None], episode["actions"][:, None],
                    policy.initial_state(1), starts,
                )  # fmt: skip
            np.testing.assert_allclose(logp[:, 0], episode["logp"], atol=1e-5)
            played += 1
    assert played >= 6 * 6
    learner = TorchLearner(handles["all"].spec, handles["all"].config, 0, devices=("cpu",))
    learner.set_weights(policy.get_weights())
    rows = learner.rows(batches[-1])
    with torch.no_grad():
        logp, _, _ = learner.m.policy.evaluate_rows(rows)
    np.testing.assert_allclose(logp[rows.valid], batches[-1]["logp"][rows.valid], atol=1e-5)


def test_who_waits_for_a_turn_goes_on_with_the_same_episode() -> None:
    """A row without an act is no end; after an end the next act is the first of an episode."""
    no = np.zeros(3, bool)
    obs = np.zeros((3, 1), np.float32)

    def step(valid: Any, ended: Any) -> Step:
        return Step(obs, np.zeros(3, np.float32), np.array(ended), no, np.array(valid), obs)

    starts = np.ones(3, bool)
    seen = []
    for valid, ended in (
        ([True, False, True], [False, False, False]),
        ([False, True, True], [False, False, True]),
        ([True, False, False], [False, False, False]),
        ([False, True, False], [False, True, False]),
    ):
        starts = starts_after(step(valid, ended), starts)
        seen.append(starts.tolist())
    assert seen == [
        [False, True, False],  # the second has not acted yet
        [False, False, True],  # the first waits; the third has ended
        [False, False, True],  # the third is not there
        [False, True, True],
    ]


def test_a_restored_worker_goes_on_with_what_its_agents_knew() -> None:
    """To the bit, burn-in included; poles can be saved."""
    policies = {"p": ppo.Config(memory="gru", **SMALL), "q": dqn.Config(memory="lstm", burn_in=3,
                rollout_fragment_length=8, **SMALL)}  # fmt: skip

    def made() -> Any:
        return worker_of("MultiAgentCartPole", policies, {"agent_0": "p", "agent_1": "q"})[0]

    one, other = made(), made()
    one.sample()
    state = one.get_state()
    expected = [one.sample() for _ in range(2)]
    other.set_state(state)
    for batch in expected:
        again: MultiAgentBatch = other.sample()
        for name, own in batch.items():
            assert {n: c.tobytes() for n, c in own.items()} == {
                n: c.tobytes() for n, c in again[name].items()
            }
    assert batch["q"].shape[0] == 11
    assert batch["p"].shape[0] == 8


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("ppo", {"memory": "gru"}),
        ("impala", {"memory": "lstm"}),
        ("dqn", {"memory": "gru", "learning_starts": 200, "training_intensity": 1.0}),
    ],
)
def test_agents_that_remember_are_trained_evaluated_and_saved(
    algorithm: str, settings: Any, tmp_path: Path
) -> None:
    """The same episodes before and after, although nothing but a file was between."""
    trained = rf.train(
        algorithm, "MultiAgentCartPole", policies="each", until={"steps": 700}, engine="sim",
        num_workers=1, num_envs_per_worker=4, **SMALL, **settings,
    )  # fmt: skip
    assert all(one.spec.recurrent for one in trained.policies.values())
    trained.save(tmp_path / "agents")
    again = rf.load(tmp_path / "agents")
    assert again.evaluate(2) == trained.evaluate(2)
