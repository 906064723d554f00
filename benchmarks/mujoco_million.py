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

    AT_ONCE=2 python benchmarks/mujoco_million.py                          two at a time
    python benchmarks/mujoco_million.py --only Hopper-v5 --seeds 101 --out part.jsonl
    python benchmarks/mujoco_million.py --take part.jsonl         the rest, and an answer from all
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from _common import Report, figure, script
from _drivers import OURS, Driver, DriverError
from _left import left_or_new, parts, settings_of

from rillflow.results.statistics import interval, iqm

MINUTES = 240
SEEDS = (101, 102, 103, 104, 105)
WHOLE = {"steps": 1_000_000, "episodes": 100}
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
    seeds = SEEDS[:2] if quick else SEEDS
    task = {"steps": 4000, "episodes": 4} if quick else WHOLE
    at_once = int(os.environ.get("AT_ONCE", len(os.sched_getaffinity(0))))
    report.settings.update(seeds=seeds, at_once=at_once, **task)

    def attempt(env: str, seed: int) -> dict[str, Any]:
        return left_or_new("mujoco_million", _key(task, env, seed), lambda: _run(task, env, seed))

    with ThreadPoolExecutor(at_once) as pool:
        asked = {(env, seed): pool.submit(attempt, env, seed) for env in ENVS for seed in seeds}
        for (env, seed), answer in asked.items():
            found = answer.result()
            report.measured(env, round=seeds.index(seed), **found)
            if "failed" in found:
                report.lacks(f"{env}, seed {seed}", found["failed"])
    for env in ENVS:
        _conclude(report, env)


def _key(task: dict[str, Any], env: str, seed: int) -> dict[str, Any]:
    return {"env": env, **task, "seed": seed, "defaults": settings_of("ppo")}


def _run(task: dict[str, Any], env: str, seed: int) -> dict[str, Any]:
    print(f"  {env}, seed {seed}", file=sys.stderr, flush=True)
    driver = Driver(
        OURS,
        "rillflow_generality.py",
        {"env": env, **task, "settings": '{"engine": "sim"}'},
        limit=6 * 3600,
    )
    try:
        return driver.run(seed=seed)
    except DriverError as failure:
        return {"failed": str(failure)}


def _row(algorithm: str, env: str, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return _key(WHOLE, env, seed), _run(WHOLE, env, seed)


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
    code = parts("mujoco_million", [("ppo", env, seed) for env in ENVS for seed in SEEDS], _row)
    sys.exit(script(__file__, ask) if code is None else code)
