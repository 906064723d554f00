"""Flows whose runs are shown: small ones of real algorithms, and a plain one without torch."""

from __future__ import annotations

from typing import Any

import rillflow as rf


class Counting:
    """Makes numbers, and fails now and then if asked to."""

    def __init__(self, info: rf.ActorInfo, fails: int = 0) -> None:
        self.made, self.fails, self.weights = 0, fails, 0

    def sample(self) -> int:
        self.made += 1
        if self.fails and self.made % self.fails == 0:
            raise ValueError("now and then")
        return self.made

    def set_weights(self, version: int) -> None:
        self.weights = version


class Train(rf.Operator[int, dict[str, float]]):
    """A row for each number; new weights to whoever made it."""

    def __init__(self, workers: rf.Actors) -> None:
        self.workers, self.version = workers, 0

    def __call__(self, item: int, ctx: rf.Context) -> dict[str, float]:
        self.version += 1
        ctx.send(self.workers, "set_weights", self.version, version=self.version)
        ctx.mark("trained")
        return {
            "steps": 10 * self.version, "episodes": self.version, "seconds": 0.1 * self.version,
            "return": float(self.version), "loss": 1.0 / self.version,
        }  # fmt: skip


def plain_flow(workers: int = 2, fails: int = 0) -> rf.Flow[dict[str, float]]:
    actors = rf.Actors.of(Counting, workers, fails=fails, name="worker")
    return rf.from_actors(actors, "sample").gather_async(num_async=2).for_each(Train(actors))


def _reported(flow: rf.Flow[Any], workers: Any) -> rf.Flow[dict[str, float]]:
    from rillflow.rl.metrics import ReportMetrics

    return ReportMetrics(flow, workers)


def ppo_flow() -> rf.Flow[dict[str, float]]:
    from rillflow.algorithms import ppo
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import create_rollout_workers

    config = ppo.Config(num_workers=2, hidden=(16, 16), train_batch_size=512, num_sgd_iter=1)
    workers = create_rollout_workers(config)
    return _reported(ppo.plan(ParallelRollouts(workers), workers), workers)


def apex_flow() -> rf.Flow[dict[str, float]]:
    from rillflow.algorithms import apex
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import create_rollout_workers

    config = apex.Config(num_workers=2, hidden=(16, 16), learning_starts=64, train_batch_size=16)
    workers = create_rollout_workers(config)
    return _reported(apex.plan(ParallelRollouts(workers), workers), workers)


def multi_agent_flow() -> rf.Flow[dict[str, float]]:
    from rillflow.algorithms import dqn, ppo
    from rillflow.rl.multi_agent import MultiAgentConfig, Select
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import create_rollout_workers

    policies = {
        "PPO": ppo.Config(hidden=(16, 16), train_batch_size=64, num_sgd_iter=1),
        "DQN": dqn.Config(hidden=(16, 16), learning_starts=32, train_batch_size=16),
    }
    config = MultiAgentConfig(
        policies=policies,
        policy_mapping=lambda agent: "PPO" if agent == "agent_0" else "DQN",
        num_workers=2, num_envs_per_worker=8, rollout_fragment_length=16,
    )  # fmt: skip
    workers = create_rollout_workers(config)
    first, second = ParallelRollouts(workers).split()
    both = rf.Union(
        ppo.plan(Select(first, policy="PPO"), workers),
        dqn.plan(Select(second, policy="DQN"), workers),
    )
    return _reported(both, workers)
