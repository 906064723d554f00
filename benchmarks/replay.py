"""How many rows per second does prioritized replay add, sample and give new priorities?

100,000 rows as Ape-X keeps them on CartPole; fragments of 256 rows come in, batches of 512 go out.
A cycle is one of each: a fragment in, a batch out, new priorities of the batch. Our buffer as an
object, beside TorchRL's and one in plain NumPy (a ring of arrays, a running sum over all priorities
for each batch), all on one thread, per second of processor time. And cycles per second on the wall
through 1, 2 and 4 replay actors, as the Ape-X plan uses them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import _one_thread  # noqa: F401 - before NumPy
import numpy as np
from _common import Report, figure, ratio, script
from _drivers import Driver, measure

import rillflow as rf
from rillflow.experience import PrioritizedReplayBuffer
from rillflow.experience.batch import SampleBatch
from rillflow.learning.q_learning import QConfig
from rillflow.rl.replay import Replay, UpdateReplayPriorities, create_replay_actors

MINUTES = 2
SEED = 1
CAPACITY, FRAGMENT, BATCH = 100_000, 256, 512
SHARDS = (1, 2, 4)
RNG = np.random.default_rng(SEED)


def rows(count: int) -> dict[str, Any]:
    return {
        "obs": RNG.standard_normal((count, 4), np.float32),
        "next_obs": RNG.standard_normal((count, 4), np.float32),
        "actions": RNG.integers(2, size=count),
        "rewards": RNG.standard_normal(count, np.float32),
        "discount": np.ones(count, np.float32),
    }


class PlainNumpy:
    """What one writes in an hour."""

    def __init__(self, capacity: int, alpha: float = 0.6, beta: float = 0.4) -> None:
        self.capacity, self.alpha, self.beta = capacity, alpha, beta
        self.columns: dict[str, Any] = {}
        self.masses = np.zeros(capacity)
        self.position = self.size = 0
        self.rng = np.random.default_rng(SEED)

    def add(self, columns: dict[str, Any]) -> None:
        count = len(columns["rewards"])
        if not self.columns:
            self.columns = {
                name: np.empty((self.capacity, *column.shape[1:]), column.dtype)
                for name, column in columns.items()
            }
        at = (self.position + np.arange(count)) % self.capacity
        for name, column in columns.items():
            self.columns[name][at] = column
        self.masses[at] = self.masses.max(initial=1.0)
        self.position = (self.position + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def sample(self, count: int) -> tuple[dict[str, Any], Any, Any]:
        sums = np.cumsum(self.masses[: self.size])
        at = np.searchsorted(sums, self.rng.random(count) * sums[-1])
        weights = (self.size * self.masses[at] / sums[-1]) ** -self.beta
        batch = {name: column[at] for name, column in self.columns.items()}
        return batch, at, (weights / weights.max()).astype(np.float32)

    def update_priorities(self, at: Any, priorities: Any) -> None:
        self.masses[at] = (priorities + 1e-6) ** self.alpha


Clock = Callable[[], float]


def rate(
    operation: Callable[[], object], count: int, seconds: float, clock: Clock = time.process_time
) -> float:
    """Rows per second: of processor time, which other programs do not change, or on the wall."""
    for _ in range(3):
        operation()
    began, calls = clock(), 0
    while (took := clock() - began) < seconds:
        operation()
        calls += 1
    return round(count * calls / took, 1)


def one_process(buffer: Any, keys_of: Callable[[Any], Any], seconds: float) -> dict[str, float]:
    """The rates of a buffer that is a plain object."""
    for _ in range(CAPACITY // 10_000):
        buffer.add(rows(10_000))
    fragment, priorities = rows(FRAGMENT), RNG.random(BATCH) + 0.01
    for _ in range(CAPACITY // BATCH):  # priorities that differ
        buffer.update_priorities(keys_of(buffer.sample(BATCH)), RNG.random(BATCH) + 0.01)
    keys = keys_of(buffer.sample(BATCH))

    def cycle() -> None:
        buffer.add(fragment)
        buffer.update_priorities(keys_of(buffer.sample(BATCH)), priorities)

    return {
        "add": rate(lambda: buffer.add(fragment), FRAGMENT, seconds),
        "sample": rate(lambda: buffer.sample(BATCH), BATCH, seconds),
        "update": rate(lambda: buffer.update_priorities(keys, priorities), BATCH, seconds),
        "cycles": rate(cycle, 1, seconds),
    }


class Feed:
    """For each batch that comes, a fragment goes to the next shard, as from a rollout worker."""

    def __init__(self, actors: rf.Actors) -> None:
        self.actors = actors
        self.turn = 0
        self.ref: Any = None
        self.priorities = RNG.random((1, BATCH)) + 0.01

    def on_start(self, ctx: rf.Context) -> None:
        whole = SampleBatch({name: column[None] for name, column in rows(10_000).items()})
        for shard in range(CAPACITY // 10_000):
            ctx.send(self.actors[shard % len(self.actors)], "add", whole)
        part = SampleBatch({name: column[None] for name, column in rows(FRAGMENT).items()})
        self.ref = ctx.put(part)

    def __call__(self, batch: SampleBatch, ctx: rf.Context) -> SampleBatch:
        ctx.send(self.actors[self.turn], "add", self.ref)
        self.turn = (self.turn + 1) % len(self.actors)
        return batch.with_columns(td_errors=self.priorities)


def with_actors(shards: int, seconds: float) -> float:
    """Cycles per second through replay actors, seen from the driver."""
    config = QConfig.make(
        buffer_size=CAPACITY,
        learning_starts=CAPACITY // 2,
        train_batch_size=BATCH,
        prioritized_replay=True,
        num_replay_buffer_shards=shards,
    )
    actors = create_replay_actors(config)
    flow = Replay(actors).for_each(Feed(actors)).for_each(UpdateReplayPriorities())
    with flow.run("local", seed=SEED) as run:
        for _ in range(20):
            next(run)
        return rate(run.__next__, 1, seconds, time.perf_counter)


def ask(report: Report) -> None:
    quick = report.options.quick
    seconds = 0.1 if quick else 1.0
    sizes = {"capacity": CAPACITY, "fragment": FRAGMENT, "batch": BATCH}
    report.settings |= {"seed": SEED, "window_s": seconds, **sizes}
    torchrl = Driver("torchrl_replay", "torchrl_replay.py", {**sizes, "secs": seconds})
    wanted = report.options.peers is None or "torchrl" in report.options.peers
    for round_ in range(report.options.repeats):
        ours = PrioritizedReplayBuffer(CAPACITY, seed=SEED)
        report.measured("object", round=round_, **one_process(ours, lambda s: s.keys, seconds))
        if wanted and "torchrl" not in report.missing:
            measure(report, "torchrl", torchrl, round_, seed=SEED)
        plain = one_process(PlainNumpy(CAPACITY), lambda s: s[1], seconds)
        report.measured("plain_numpy", round=round_, **plain)
        for shards in SHARDS:
            cycles = with_actors(shards, seconds)
            report.measured(f"actors_{shards}", round=round_, cycles=cycles)
    conclude(report)


def conclude(report: Report) -> None:
    units = {"add": "rows/s", "sample": "rows/s", "update": "rows/s", "cycles": "cycles/s"}
    for what, unit in units.items():
        found = report.values("object", what)
        report.add(figure(f"{what}_object", sorted(found)[len(found) // 2], unit))  # type: ignore[type-var, arg-type]
        for peer in ("torchrl", "plain_numpy"):
            theirs = report.values(peer, what)
            name = f"{what}_over_{peer}"
            report.add(ratio(name, found, theirs, "ours / theirs"), otherwise=name)
    for shards in SHARDS:
        cycles = report.values(f"actors_{shards}", "cycles")
        report.add(figure(f"cycles_actors_{shards}", sorted(cycles)[len(cycles) // 2], "cycles/s"))  # type: ignore[type-var, arg-type]


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
