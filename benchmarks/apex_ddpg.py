"""How much sooner does Ape-X-DDPG reach -200 on Pendulum-v1 than DDPG does?

Seconds on the wall, on `local`, from before anything is started: DDPG as it begins there, all of it
in the driver; Ape-X-DDPG as it begins there, with two workers, two replay actors and a learner in
processes of their own. Both run in turn with the same seed. Four times a second the weights that
workers would be sent are put aside; when the run is over they are judged in order. The first one
whose 20 greedy episodes have a mean of -200 is taken, if 100 fresh episodes say so, too.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import _one_thread  # noqa: F401 - before NumPy is imported
from _common import Report, figure, interleaved, load, ratio, script

from rillflow.algorithms import get_algorithm
from rillflow.results import evaluate
from rillflow.results.trained import Trained
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import create_rollout_workers

MINUTES = 8
ENV, GOAL = "Pendulum-v1", -200.0
BETWEEN = 0.25
"""seconds between two policies that are put aside"""
FIRST_SEED = 201


@dataclass(frozen=True)
class Aside:
    """A policy that a run had after so many seconds."""

    seconds: float
    weights: Any
    updates: int
    rows: int
    """trained"""


def ask(report: Report) -> None:
    """Both in turn, seed by seed."""
    seconds = 4.0 if report.options.quick else 60.0
    rounds = report.options.repeats
    report.settings |= {
        "env": ENV,
        "goal": GOAL,
        "seconds_at_most": seconds,
        "seeds": [FIRST_SEED + round_ for round_ in range(rounds)],
    }
    names = ("ddpg", "apex_ddpg")
    seeds = {name: iter(report.settings["seeds"]) for name in names}

    def attempt(name: str) -> float:
        seed = next(seeds[name])
        row = reached(name, seed, seconds)
        report.measured(name, seed=seed, load=load(), **row)
        return float(row.get("train_s", seconds))

    found = interleaved([lambda name=name: attempt(name) for name in names], rounds)
    times = dict(zip(names, found, strict=True))
    for name, values in times.items():
        missed = sum(not row["solved"] for row in report.measurements if row["case"] == name)
        note = {"note": f"a lower bound: {missed} of {rounds} did not get there"} if missed else {}
        report.add(figure(f"{name}_seconds_to_goal", statistics.median(values), "s", **note))
    medians = [statistics.median(times[name]) for name in names]
    unit = "DDPG's seconds / Ape-X-DDPG's"
    report.add(figure("ddpg_median_vs_apex_ddpg", medians[0] / medians[1], unit, ">= 1"))
    pairs = ratio("ddpg_seconds_vs_apex_ddpg", times["ddpg"], times["apex_ddpg"], unit)
    report.add(pairs)


def reached(name: str, seed: int, most: float) -> dict[str, Any]:
    """Seconds, updates and rows until the goal; without them, if it was not reached."""
    config, spec, policies = put_aside(name, seed, most)
    for one in policies:
        trained = Trained(config=config, spec=spec, weights=one.weights, history=[])
        if evaluate(trained, 20, seed=seed).mean < GOAL:
            continue
        score = evaluate(trained, 100, seed=90_000 + seed).mean
        if score >= GOAL:
            told = {"train_s": round(one.seconds, 2), "score": round(score, 1)}
            return told | {"results": one.updates, "rows": one.rows, "solved": True}
    return {"run_s": most, "solved": False}


def put_aside(name: str, seed: int, most: float) -> tuple[Any, Any, list[Aside]]:
    """The policies of one run, one every quarter of a second."""
    algorithm = get_algorithm(name)
    began = time.perf_counter()
    workers = create_rollout_workers(algorithm.Config(env=ENV))
    flow = algorithm.plan(ParallelRollouts(workers), workers)
    policies: list[Aside] = []
    due, rows = BETWEEN, 0
    with flow.run("local", seed=seed) as run:
        for count, result in enumerate(run, 1):
            rows += result.steps
            passed = time.perf_counter() - began
            if passed >= due:
                weights = run.shared[workers.weights_key].weights  # a snapshot: it never changes
                policies.append(Aside(passed, weights, count, rows))
                due = passed + BETWEEN
            if passed >= most:
                break
    return workers.config, workers.spec, policies


if __name__ == "__main__":
    sys.exit(script(__file__, ask, repeats=5))
