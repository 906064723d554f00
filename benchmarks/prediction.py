"""Is the throughput that a simulation predicts the one that is measured?"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from typing import Any

from _common import Figure, figure, load

import rillflow as rf
from rillflow.simulation import simulate

SECONDS = 1.0
"""short, and often: a shared processor changes its speed from second to second"""


class Worker:
    """5 ms per item, asleep or at work; the amount of work is the same for every item."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.weights = 0

    def next(self) -> int:
        if self.rounds:
            _work(self.rounds)
        else:
            time.sleep(0.005)
        return self.weights

    def set_weights(self, weights: int) -> None:
        self.weights = weights


class Answer:
    """Sends new weights to the source of each item."""

    def __init__(self) -> None:
        self.version = 0

    def __call__(self, item: int, ctx: rf.Context) -> int:
        self.version += 1
        ctx.send(ctx.sources, "set_weights", self.version, version=self.version)
        return item


def against_measured(repeats: int) -> Iterator[Figure]:
    """Two workers on `local`: measured, predicted, measured, ...; each beside its neighbours."""
    for kind, rounds in (("sleep", 0), ("cpu", _rounds(0.005))):
        group = rf.Actors.of(Worker, 2, rounds, name="worker")
        flow = rf.from_actors(group).gather_async().for_each(Answer())
        measured, predicted, same_run = [_measured(flow)], [], []
        for _ in range(2 * repeats - 1):
            report = simulate(flow, workers=[2], measure_seconds=SECONDS)
            predicted.append(report[2].throughput)
            same_run.append(report[2].throughput / report.calibration.rate)
            measured.append(_measured(flow))
        beside = [statistics.fmean(pair) for pair in itertools.pairwise(measured)]
        ratios = [p / real for p, real in zip(predicted, beside, strict=True)]
        error = abs(statistics.median(ratios) - 1)
        yield figure(
            f"predicted_{kind}_bound", 100 * error, "% off", "<= 10",
            predicted_items_per_s=round(statistics.median(predicted), 1),
            measured_items_per_s=round(statistics.median(measured), 1),
            ratios=[round(ratio, 3) for ratio in ratios],
            over_the_run_it_learned_from=[round(ratio, 3) for ratio in same_run], load=load(),
        )  # fmt: skip


def _measured(flow: rf.Flow[Any]) -> float:
    """Items per second of a real run."""
    with flow.run("local") as run:
        for _ in range(20):
            next(run)
        began, items = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < SECONDS:
            next(run)
            items += 1
        return items / passed


def _work(rounds: int) -> int:
    total = 0
    for i in range(rounds):
        total += i * i
    return total


def _rounds(seconds: float) -> int:
    """How many rounds of work take so much processor time here; the best of several tries."""
    rounds = 20_000
    best = min(_cpu(rounds) for _ in range(5))
    return round(rounds * seconds / best)


def _cpu(rounds: int) -> float:
    before = time.thread_time()
    _work(rounds)
    return time.thread_time() - before
