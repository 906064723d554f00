"""How does the cost grow with the batch, the environments, the workers, the replay and the model?

Ours alone, without bars: each row of a curve is measured in every round, in another order. Sampling
and learning are timed in this process; only the curve over the workers starts some.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from _common import Report, figure, interleaved, script
from _drivers import OURS, Driver, DriverError

MINUTES = 3
CURVES = {
    "batch_size": ((256, 1024, 4096, 16384, 65536), "µs per row, one epoch in minibatches of 512"),
    "environments": ((8, 32, 128, 512, 2048), "µs per step of one environment"),
    "workers": ((1, 2, 4, 8), "µs per step, 64 environments a worker"),
    "replay_size": ((10_000, 100_000, 1_000_000), "µs per row added, drawn and updated"),
    "hidden_size": ((32, 64, 128, 256, 512), "µs per row, minibatches of 512"),
}


def ask(report: Report) -> None:
    import torch

    torch.set_num_threads(1)
    quick = report.options.quick
    for curve, (sizes, unit) in CURVES.items():
        sizes = sizes[:2] if quick else sizes
        print(f"  {curve}", file=sys.stderr, flush=True)
        measures = [COSTS[curve](size, 0.2 if quick else 1.0) for size in sizes]
        for size, values in zip(sizes, interleaved(measures, report.options.repeats), strict=True):
            for round_, value in enumerate(values):
                report.measured(f"{curve} {size}", round=round_, curve=curve, size=size, us=value)
            known = [value for value in values if value is not None]
            if known:
                cost = statistics.median(known)
                report.add(figure(f"{curve}_{size}", cost, unit, curve=curve, size=size))
            else:
                report.lacks(f"{curve}_{size}", "it could not be measured")


def per_item(step: Callable[[], int], seconds: float) -> float:
    """Microseconds per item of a step that returns how many it dealt with."""
    step()
    began, count = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds or not count:
        count += step()
    return took / count * 1e6


def learning(rows: int, seconds: float, hidden: int = 64) -> Callable[[], float]:
    """PPO's learner on a batch of so many rows."""
    from rillflow.algorithms import ppo
    from rillflow.learning.torch_learner import TorchLearner
    from rillflow.rl.rollout_worker import RolloutWorker
    from rillflow.rl.workers import Workers
    from rillflow.types import ActorInfo

    copies = min(rows // 32, 512)
    workers = Workers(
        ppo.Config(
            num_envs_per_worker=copies,
            rollout_fragment_length=rows // copies,
            hidden=(hidden, hidden),
        )
    )
    worker = RolloutWorker(workers.config, workers.spec, ActorInfo("worker-0", 0, 0, 0))
    batch = worker.sample()
    learner = TorchLearner(workers.spec, workers.config, 0)

    def step() -> int:
        learner.learn(batch, 1, 512)
        return rows

    return lambda: per_item(step, seconds)


def sampling(copies: int, seconds: float) -> Callable[[], float]:
    """One rollout worker, called directly."""
    from rillflow.algorithms import ppo
    from rillflow.rl.rollout_worker import RolloutWorker
    from rillflow.rl.workers import Workers
    from rillflow.types import ActorInfo

    workers = Workers(ppo.Config(num_envs_per_worker=copies))
    worker = RolloutWorker(workers.config, workers.spec, ActorInfo("worker-0", 0, 0, 0))
    return lambda: per_item(lambda: worker.sample().steps, seconds)


def workers(count: int, seconds: float) -> Callable[[], float | None]:
    """Rollouts of so many processes, gathered as they are ready."""
    case = "native:64:CartPole-v1"
    arguments = {"cases": case, "secs": seconds, "workers": count}
    driver = Driver(OURS, "rillflow_sample.py", arguments, limit=90)

    def measured() -> float | None:
        try:
            return 1e6 / driver.run()["rates"][case]
        except (DriverError, KeyError):
            return None

    return measured


def replaying(capacity: int, seconds: float) -> Callable[[], float]:
    """Prioritized replay, full: 64 rows in, 64 rows out, 64 new priorities."""
    from rillflow.experience.prioritized import PrioritizedReplayBuffer

    buffer = PrioritizedReplayBuffer(capacity)
    rng = np.random.default_rng(0)
    rows = {
        "obs": rng.random((64, 4), np.float32),
        "next_obs": rng.random((64, 4), np.float32),
        "actions": np.zeros(64, np.int64),
        "rewards": np.ones(64, np.float32),
    }
    many = {name: np.repeat(column, 100, 0) for name, column in rows.items()}
    while len(buffer) < capacity:
        buffer.add(many)

    def step() -> int:
        buffer.add(rows)
        drawn = buffer.sample(64)
        buffer.update_priorities(drawn.keys, rng.random(64))
        return 64

    return lambda: per_item(step, seconds)


COSTS: dict[str, Callable[[int, float], Callable[[], float | None]]] = {
    "batch_size": learning,
    "environments": sampling,
    "workers": workers,
    "replay_size": replaying,
    "hidden_size": lambda size, seconds: learning(4096, seconds, size),
}


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
