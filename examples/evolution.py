"""Evolution strategies: tasks inside workers, and an update without a gradient.

Each worker plays with the weights and noise, and with the weights less the same noise, and says
which was better by how much. Nobody sends noise around: who knows its seed can draw it again
(Salimans et al. 2017, arXiv:1703.03864).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import rillflow as rf
from rillflow.algorithms import a2c
from rillflow.experience.named_vector import NamedVector
from rillflow.learning.results import TrainStats
from rillflow.rl.tasks import ParallelTasks
from rillflow.rl.weights import published_of
from rillflow.rl.workers import Workers

SCALE = 0.1
"""of the noise"""
PAIRS = 8
"""pairs of policies that a worker tries in a turn"""


@dataclass(frozen=True)
class Trials:
    """What one worker has tried in one turn."""

    seed: int
    gains: list[float]
    """how much better each noise was than its opposite"""
    mean: float
    steps: int


def noises(seed: int, size: int) -> Iterator[Any]:
    """The noise of each pair."""
    rng = np.random.default_rng(seed)
    for _ in range(PAIRS):
        yield rng.standard_normal(size, dtype=np.float32)


def try_noises(worker: Any, turn: int) -> Trials:
    """The task: play one episode per environment with each policy of each pair."""
    weights = NamedVector.of(worker.weights)
    seed, before = worker.info.seed + turn, worker.steps
    gains, returns = [], []
    for noise in noises(seed, len(weights.vector)):
        pair = []
        for sign in (1, -1):
            moved = weights.vector + np.float32(sign * SCALE) * noise
            worker.policy.set_weights(NamedVector(moved, weights.layout))
            pair.append(float(np.mean(worker.play(worker.envs.num_envs, greedy=True))))
        gains.append(pair[0] - pair[1])
        returns += pair
    worker.policy.set_weights(weights)
    return Trials(seed, gains, float(np.mean(returns)), worker.steps - before)


class Evolve(rf.Operator[list[Trials], TrainStats]):
    """Move the weights towards the noise that was better, and send them to all workers."""

    def __init__(self, workers: Workers, lr: float) -> None:
        self.workers, self.lr, self.version = workers, lr, 0

    def on_start(self, ctx: rf.Context) -> None:
        """Workers begin with the same weights."""
        published_of(self.workers, ctx).send(ctx, self.workers.actors)

    def __call__(self, round_: list[Trials], ctx: rf.Context) -> TrainStats:
        """One step, from the trials of all workers."""
        published = published_of(self.workers, ctx)
        weights = NamedVector.of(published.weights)
        gains = np.array([gain for trials in round_ for gain in trials.gains])
        gains /= gains.std() + 1e-8
        drawn = (noise for t in round_ for noise in noises(t.seed, len(weights.vector)))
        step = sum(gain * noise for gain, noise in zip(gains, drawn, strict=True))
        moved = weights.vector + np.float32(self.lr / len(gains)) * step
        self.version += 1
        published.renew(NamedVector(moved.astype(np.float32), weights.layout), self.version)
        published.send(ctx, self.workers.actors)
        ctx.mark("trained")
        mean = float(np.mean([trials.mean for trials in round_]))
        return TrainStats(sum(trials.steps for trials in round_), {"return": mean})


def plan(workers: Workers, lr: float = 0.3) -> rf.Flow[TrainStats]:
    """Rounds of tasks in all workers; one step of evolution for each."""
    return ParallelTasks(workers, try_noises).gather_sync().for_each(Evolve(workers, lr))


if __name__ == "__main__":
    config = a2c.Config(env="CartPole-v1", num_workers=2, num_envs_per_worker=2, hidden=(16,))
    flow = plan(Workers(config))
    print(flow.explain())
    with flow.run("local", seed=0) as run:
        for _, result in zip(range(40), run, strict=False):
            print(f"mean return {result.stats['return']:6.1f}")
            if result.stats["return"] > 150:
                break
