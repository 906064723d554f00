"""What does it cost to compose two policies into one flow (the paper's Figure 14)?

PPO and DQN each train two agents of an environment with four, from one split stream of rollouts.
The bound comes from the policies alone, by Amdahl's law. In one flow rollouts are made once and
both train on them, one after the other. Each alone has the same rollouts, of all four agents, and
trains its own policy on them. So, in seconds per round of rollouts:

    bound = PPO alone + DQN alone - rollouts alone
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from _common import Report, ratio, script

import rillflow as rf
from rillflow.algorithms import dqn, ppo
from rillflow.rl.metrics import Progress
from rillflow.rl.multi_agent import MultiAgentConfig, Select
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.weights import published_of
from rillflow.rl.workers import create_rollout_workers

MINUTES = 2
SEED = 1
ROUNDS = 6
"""of rollouts, in one measurement; PPO learns from two at a time"""
CONFIG = MultiAgentConfig(
    env="MultiAgentCartPole",
    env_config={"agents": 4},
    policies={"PPO": ppo.Config(train_batch_size=2048), "DQN": dqn.Config()},
    policy_mapping=lambda agent: "PPO" if agent in ("agent_0", "agent_1") else "DQN",
    num_envs_per_worker=8,
)
STEPS = 2 * 8 * CONFIG.rollout_fragment_length * 4
"""of all agents in one round: workers, environments, steps of each, agents"""


class GiveWeights:
    """Sends all policies their first weights and passes rollouts on, read but not learned from."""

    def __init__(self, workers: Any) -> None:
        self.workers = workers

    def on_start(self, ctx: rf.Context) -> None:
        for one in self.workers.policies.values():
            published_of(one, ctx).send(ctx, self.workers.actors)

    def __call__(self, item: Any) -> Any:
        return item


def both(workers: Any) -> rf.Flow[Any]:
    r1, r2 = ParallelRollouts(workers).split()
    ppo_op = ppo.plan(Select(r1, policy="PPO"), workers)
    dqn_op = dqn.plan(Select(r2, policy="DQN"), workers)
    return rf.Union(ppo_op, dqn_op)


def alone(policy: str, workers: Any) -> rf.Flow[Any]:
    """One policy learns; the other acts with the weights it began with."""
    rollouts = ParallelRollouts(workers, mode="bulk_sync").for_each(GiveWeights(workers))
    return {"PPO": ppo, "DQN": dqn}[policy].plan(Select(rollouts, policy=policy), workers)


def rollouts(workers: Any) -> rf.Flow[Any]:
    """Nobody learns."""
    return ParallelRollouts(workers, mode="bulk_sync").for_each(GiveWeights(workers))


SIDES: dict[str, Callable[[Any], rf.Flow[Any]]] = {
    "both": both,
    "ppo_alone": lambda workers: alone("PPO", workers),
    "dqn_alone": lambda workers: alone("DQN", workers),
    "rollouts_alone": rollouts,
}


class Side:
    """One flow, driven for a while at a time."""

    def __init__(self, make: Callable[[Any], rf.Flow[Any]], stack: ExitStack) -> None:
        workers = create_rollout_workers(CONFIG)
        self.progress = Progress()
        self.run = stack.enter_context(make(workers).run("local", seed=SEED))
        self.run.on_metrics(self.progress.record)

    def seconds_per_round(self, rounds: int) -> float:
        """Wall time of whole rounds, from the moment one has come to the moment a later one has."""
        self._until(self.progress.steps + 1)
        began = time.perf_counter()
        self._until(self.progress.steps + (rounds - 1) * STEPS + 1)
        return (time.perf_counter() - began) / rounds

    def _until(self, steps: int) -> None:
        while self.progress.steps < steps:
            next(self.run)


def ask(report: Report) -> None:
    rounds = 2 if report.options.quick else ROUNDS
    report.settings |= {"seed": SEED, "rounds": rounds, "env": "MultiAgentCartPole", "agents": 4}
    with ExitStack() as stack:
        sides = {name: Side(make, stack) for name, make in SIDES.items()}
        for side in sides.values():
            side.seconds_per_round(rounds)
        for round_ in range(report.options.repeats):
            for name in sides if round_ % 2 == 0 else reversed(sides):
                took = sides[name].seconds_per_round(rounds)
                report.measured(name, round=round_, seconds_per_round=round(took, 6))
    took_by = {name: report.values(name, "seconds_per_round") for name in sides}
    bound = [
        p + d - r  # type: ignore[operator]
        for p, d, r in zip(
            took_by["ppo_alone"], took_by["dqn_alone"], took_by["rollouts_alone"], strict=True
        )
    ]
    report.add(ratio("composition", bound, took_by["both"], "of the bound", ">= 0.95"))


if __name__ == "__main__":
    sys.exit(script(__file__, ask, repeats=5))
