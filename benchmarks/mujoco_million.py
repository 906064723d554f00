"""PPO's defaults after a million steps on MuJoCo: at par with what others have published?

Five environments, five seeds, a million steps each; one run a processor, so that a machine with 16
cores needs about half an hour. The score of a seed is the mean of 100 greedy episodes of its last
policy; told are the interquartile mean of the seeds and its 95 % bootstrap interval.

Published beside it, neither of them measured here:

- SB3's zoo (`benchmark.md` of DLR-RM/rl-baselines3-zoo): one trained agent each, with settings
  tuned for the environment, deterministic, the MuJoCo of `-v3`.
- CleanRL (`docs/benchmark/ppo_continuous_action.md` of vwxyzjn/cleanrl): the same settings for all,
  returns of training with exploration, the MuJoCo of `-v4`.

The environments here are `-v5`, whose rewards differ a little from both.

    ENVS=Hopper-v5 SEEDS=3 AT_ONCE=2 python benchmarks/mujoco_million.py     a part of it
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from _common import Report, figure, script
from _drivers import OURS, Driver, DriverError
from _left import left_or_new, settings_of

from rillflow.results.statistics import interval, iqm

MINUTES = 240
SEEDS = (101, 102, 103, 104, 105)
STEPS = 1_000_000
ENVS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "InvertedPendulum-v5")
PUBLISHED = {
    "HalfCheetah-v5": {"zoo": (5819.1, 663.5), "cleanrl": (1442.64, 46.03)},
    "Hopper-v5": {"zoo": (2410.4, 10.0), "cleanrl": (2382.86, 271.74)},
    "Walker2d-v5": {"zoo": (3478.8, 821.7), "cleanrl": (2287.95, 571.78)},
    "Ant-v5": {"zoo": (1327.2, 451.6)},
    "InvertedPendulum-v5": {"cleanrl": (963.09, 22.20)},
}
"""mean and deviation: the zoo's over episodes, CleanRL's over seeds"""


def ask(report: Report) -> None:
    quick = report.options.quick
    envs = [e for e in os.environ.get("ENVS", "").split(",") if e] or ENVS
    seeds = SEEDS[: int(os.environ.get("SEEDS", 2 if quick else len(SEEDS)))]
    steps, episodes = (4000, 4) if quick else (STEPS, 100)
    at_once = int(os.environ.get("AT_ONCE", len(os.sched_getaffinity(0))))
    report.settings.update(seeds=seeds, steps=steps, episodes=episodes, at_once=at_once)

    def attempt(env: str, seed: int) -> dict[str, Any]:
        task = {"env": env, "steps": steps, "episodes": episodes, "settings": '{"engine": "sim"}'}
        key = {**task, "seed": seed, "defaults": settings_of("ppo")}
        return left_or_new("mujoco_million", key, lambda: _run(report, task, seed))

    with ThreadPoolExecutor(at_once) as pool:
        asked = {(env, seed): pool.submit(attempt, env, seed) for env in envs for seed in seeds}
        for (env, seed), answer in asked.items():
            report.measured(env, round=seeds.index(seed), **answer.result())
    for env in envs:
        _conclude(report, env)


def _run(report: Report, task: dict[str, Any], seed: int) -> dict[str, Any]:
    print(f"  {task['env']}, seed {seed}", file=sys.stderr, flush=True)
    try:
        return Driver(OURS, "rillflow_generality.py", task, limit=6 * 3600).run(seed=seed)
    except DriverError as failure:
        report.lacks(task["env"], str(failure))
        return {"failed": str(failure)}


def _conclude(report: Report, env: str) -> None:
    """The interquartile mean of an environment's seeds, and what others have published."""
    scores = np.array([score for score in report.values(env, "score") if score is not None])
    if not len(scores):
        return
    low, high = (round(float(end), 1) for end in interval(scores, iqm))
    published = {f"published_{who}": list(pair) for who, pair in PUBLISHED.get(env, {}).items()}
    told = "; ".join(f"{who} {pair[0]:g}" for who, pair in PUBLISHED.get(env, {}).items())
    note = f"95 % from {low:g} to {high:g}, {len(scores)} seeds; published: {told or 'nothing'}"
    middle = float(iqm(scores))
    report.add(
        figure(env, middle, "interquartile mean", interval=[low, high], note=note, **published)
    )


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
