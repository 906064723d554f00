"""Asynchronous DQN: gradients of n-step rows, computed in workers that have a target network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rillflow.algorithms import async_dqn
from rillflow.policies.exploration_schedules import Place
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.train import Trained, train

SMALL: dict[str, Any] = {
    "hidden": (16,),
    "num_workers": 2,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 8,
    "target_network_update_freq": 40,
    "epsilon_timesteps": 500,
}


def short(engine: str, seed: int = 0, **settings: Any) -> Trained:
    """A short run with small settings."""
    return train("async_dqn", until={"steps": 600}, engine=engine, seed=seed, **SMALL, **settings)


def figures(trained: Trained) -> str:
    return str([{k: v for k, v in row.items() if k != "seconds"} for row in trained.history])


def test_same_seed_same_run() -> None:
    """On sim, asynchronous as it is."""
    first = figures(short("sim"))
    assert first == figures(short("sim"))
    assert first != figures(short("sim", seed=1))


@pytest.mark.proc
def test_on_processes() -> None:
    """Workers compute gradients with torch, in their own processes."""
    trained = short("local")
    assert {"loss", "mean_q"} <= set(trained.history[-1])


def test_workers_have_the_target_network_of_the_learner() -> None:
    """It lags behind, changes every 40 rows, and is the same everywhere."""
    workers = Workers(async_dqn.Config.make(**SMALL))
    with async_dqn.plan(ParallelRollouts(workers), workers).run("sim") as run:
        for _ in range(9):
            next(run)
        updates = run.stats().operator("for_each(UpdateTargetNetwork)").counters["target_updates"]
        learner = run.shared[workers.learner_key]
        own, target = learner.get_weights(), learner.get_target_weights()
        ports = [actor.port for actor in run._scheduler.fleet.actors.values()]
        actors = [port.host.actor for port in ports]  # type: ignore[attr-defined]
        inside = [actor.learner.get_target_weights() for actor in actors]
    assert updates in (2, 3), "9 fragments of 16 steps, less those that wait or only reset"
    assert any((own[name] != target[name]).any() for name in own)
    for weights in inside:
        assert all(np.array_equal(weights[name], target[name]) for name in target)


def test_rows_look_ahead_inside_the_fragment() -> None:
    """Three steps ahead, and fewer at its end; the network is asked at what came then."""
    import torch

    class Policy:
        def q_values(self, obs: Any) -> Any:
            return obs

    m = SimpleNamespace(target=SimpleNamespace(policy=Policy()))

    steps = torch.arange(4.0)[:, None, None]  # the observation is the time
    no = torch.zeros(4, 1, dtype=torch.bool)
    batch = {
        "obs": steps,
        "actions": torch.zeros(4, 1, dtype=torch.long),
        "logp": torch.zeros(4, 1),
        "rewards": torch.ones(4, 1),
        "terminated": no,
        "truncated": no,
        "bootstrap_obs": torch.full((1, 1), 4.0),
    }
    rows = async_dqn.prepare(m, batch, async_dqn.Config(n_step=3, gamma=0.5))
    assert rows["next_obs"].ravel().tolist() == [3, 4, 4, 4]
    assert rows["next_q"].ravel().tolist() == [3, 4, 4, 4]
    assert rows["discount"].tolist() == [0.125, 0.125, 0.25, 0.5]
    assert rows["rewards"].tolist() == [1.75, 1.75, 1.5, 1]


def test_each_worker_explores_at_its_own_rate_in_the_end() -> None:
    """From the first one's rate to its square; at first all act at random."""
    config = async_dqn.Config(num_workers=3, final_epsilon=0.1, epsilon_timesteps=300)
    rate = config.explorer().rate  # type: ignore[attr-defined]
    assert [rate(Place(i, 3), 0) for i in range(3)] == [1, 1, 1]
    assert np.allclose([rate(Place(i, 3), 100) for i in range(3)], [0.1, 0.1**1.5, 0.01])
    assert np.isclose(rate(Place(), 10**9), 0.1)


def test_there_are_no_settings_of_replay() -> None:
    """What would be without effect is unknown."""
    with pytest.raises(Exception, match="unknown setting 'buffer_size'"):
        async_dqn.Config.make(buffer_size=10)
