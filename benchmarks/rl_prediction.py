"""Does `rillflow simulate` predict the steps per second that training really makes?"""

from __future__ import annotations

import os
import statistics
import sys
from itertools import pairwise
from typing import Any

from _common import Report, figure, load, script

from rillflow.algorithms import get_algorithm
from rillflow.cli.output.profile import measure
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.simulation import simulate

MINUTES = 4
ALGORITHMS = ("ppo", "a3c", "impala")
COUNTS = (1, 2)


def ask(report: Report) -> None:
    """Measured, predicted, measured, ...; each prediction beside its neighbours in time."""
    seconds = 0.5 if report.options.quick else 3.0
    report.settings |= {"seconds": seconds, "env": "CartPole-v1", "cores": os.cpu_count()}
    for algorithm in ALGORITHMS:
        module = get_algorithm(algorithm)
        measured, predicted = [_real(module, seconds)], []
        for _ in range(report.options.repeats):
            predicted.append(_predicted(module, seconds))
            measured.append(_real(module, seconds))
        for count in COUNTS:
            pairs = [(before[count], after[count]) for before, after in pairwise(measured)]
            guesses = [guess[count] for guess in predicted]
            for guess, pair in zip(guesses, pairs, strict=True):
                report.measured(f"{algorithm}, {count}", predicted=guess, measured=pair)
            ratios = [g / statistics.fmean(p) for g, p in zip(guesses, pairs, strict=True)]
            error = 100 * abs(statistics.median(ratios) - 1)
            name = f"predicted_{algorithm}_{count}_workers"
            told = {"ratios": [round(ratio, 3) for ratio in ratios], "load": load()}
            report.add(figure(name, error, "% off", "<= 20", **told))


def _predicted(module: Any, seconds: float) -> dict[int, float]:
    """Steps per second, by the number of workers, on the cores that there are."""

    def plan(count: int) -> Any:
        workers = Workers(module.Config.make(num_workers=count))
        return module.plan(ParallelRollouts(workers), workers)

    rows = simulate(plan, workers=COUNTS, measure_seconds=seconds).rows
    return {row.workers: row.steps or 0.0 for row in rows}


def _real(module: Any, seconds: float) -> dict[int, float]:
    return {
        count: measure(module, module.Config.make(num_workers=count), seconds).steps
        for count in COUNTS
    }


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
