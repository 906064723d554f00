"""Do the defaults travel: PPO and SAC beside SB3's, where nobody here has tuned anything?

Both sides train with their defaults for the same number of steps: PPO 100,000 on ten environments
(MuJoCo, Box2D, MinAtar, one with a dict of observations, one with several choices in an action),
SAC 20,000 on four. Ours gets the environment as a factory, for which no settings of single
environments are found. The score is that of the last policy, 100 greedy episodes, the same ones for
both: (ours - random) / (SB3's - random), of means over three seeds.

SB3's side takes hours and does not change, so its scores are kept in `results/generality_sb3.json`
(delete a row to have it measured again); seconds are compared in a run of their own, in turn. Ours
are kept in `build/generality.jsonl` until the settings change, so that a run that was ended goes on
where it stopped; delete the file to begin anew.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent / "peers"))  # where the environments are

from _common import RESULTS, Report, figure, ratio, script
from _drivers import OURS, Driver, DriverError, measure
from _generality import random_score
from _left import left_or_new, settings_of

MINUTES = 40
SEEDS = (101, 102, 103)
PPO = (
    "Hopper-v5",
    "HalfCheetah-v5",
    "Walker2d-v5",
    "InvertedDoublePendulum-v5",
    "LunarLander-v3",
    "BipedalWalker-v3",
    "MinAtar/Breakout-v1",
    "MinAtar/SpaceInvaders-v1",
    "Beacon",
    "Lock",
)
SAC = ("Pendulum-v1", "Hopper-v5", "HalfCheetah-v5", "LunarLanderContinuous-v3")
STEPS = {"ppo": 100_000, "sac": 20_000}
TIMED = ("Hopper-v5", "LunarLander-v3", "Lock")
"""where seconds are compared"""
IN_ONE = '{"engine": "sim"}'
KEPT = RESULTS / "generality_sb3.json"


def ask(report: Report) -> None:
    seeds = SEEDS[:1] if report.options.quick else SEEDS
    steps = dict.fromkeys(STEPS, 4000) if report.options.quick else STEPS
    report.settings.update(seeds=seeds, steps=steps, episodes=100)
    for algorithm, names in (("ppo", PPO), ("sac", SAC)):
        scores = []
        for name in names:
            task = {"algorithm": algorithm, "env": name, "steps": steps[algorithm]}
            for round_, seed in enumerate(seeds):
                _ours(report, task, round_, seed)
                _peer(report, task, round_, seed)
            scores.append(_score(report, algorithm, name))
        known = [score for score in scores if score is not None]
        if known:
            median, least = statistics.median(known), min(known)
            report.add(figure(f"{algorithm}_median", median, "of SB3's gain", ">= 1"))
            report.add(figure(f"{algorithm}_least", least, "of SB3's gain", ">= 0.8"))
    _seconds(report)


def _ours(report: Report, task: dict[str, Any], round_: int, seed: int) -> None:
    """Our score: the one that a run before this has left, or a new one."""
    case = f"{OURS} {task['algorithm']} {task['env']}"
    # in one process: scores are the same as in several, seconds are compared elsewhere
    driver = Driver(OURS, "rillflow_generality.py", {**task, "settings": IN_ONE}, limit=3600)

    def measured() -> dict[str, Any]:
        print(f"  {case}, seed {seed}", file=sys.stderr, flush=True)
        try:
            return driver.run(seed=seed)
        except DriverError as failure:
            report.lacks(case, str(failure))
            return {"failed": str(failure)}

    key = {**task, "seed": seed, "settings": settings_of(task["algorithm"])}
    found = left_or_new("generality", key, measured)
    for seconds in ("train_s", "wall_s"):  # they are compared in a run of their own
        found.pop(seconds, None)
    report.measured(case, round=round_, **found)


def _peer(report: Report, task: dict[str, Any], round_: int, seed: int) -> None:
    """SB3's score: the one that is kept, or a new one, which is kept then."""
    case = f"sb3 {task['algorithm']} {task['env']}"
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else []
    same = {**task, "seed": seed}
    for row in kept:
        if {**row, "steps": row["asked"]}.items() >= same.items():
            report.measured(case, round=round_, **row)
            report.versions["sb3"] = row["version"]
            return
    driver = Driver("sb3", "sb3_generality.py", task, limit=3600)
    found = measure(report, case, driver, round_, seed=seed)
    if "score" in found and not report.options.quick:
        row = {name: value for name, value in found.items() if name not in ("case", "round")}
        for seconds in ("train_s", "wall_s", "curve"):  # they are compared in a run of their own
            row.pop(seconds, None)
        lines = [json.dumps(one) for one in [*kept, {**row, "asked": task["steps"]}]]
        KEPT.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _score(report: Report, algorithm: str, name: str) -> float | None:
    """What ours gained over random actions, in parts of what SB3 gained."""
    sides = [report.values(f"{who} {algorithm} {name}", "score") for who in (OURS, "sb3")]
    ours, theirs = ([value for value in side if value is not None] for side in sides)
    if not ours or not theirs:
        report.lacks(f"{algorithm}_{name}", "one of the sides has no score")
        return None
    nothing = random_score(name)
    means = statistics.mean(ours), statistics.mean(theirs)
    score = (means[0] - nothing) / (means[1] - nothing)
    details = {"ours": means[0], "sb3": means[1], "random": nothing}
    report.add(figure(f"{algorithm}_{name}", score, "of SB3's gain", ">= 0.8", **details))
    return score


def _seconds(report: Report) -> None:
    """Seconds for the same steps of PPO, in turn, processes and all."""
    for name in TIMED:
        task = {"env": name, "steps": 4000 if report.options.quick else 40_000, "episodes": 1}
        cases = {f"{OURS} time {name}": (OURS, "rillflow"), f"sb3 time {name}": ("sb3", "sb3")}
        for round_ in range(report.options.repeats):
            for case, (who, prefix) in cases.items():
                driver = Driver(who, f"{prefix}_generality.py", task, limit=600)
                measure(report, case, driver, round_, seed=round_ + 1)
        pair = [report.values(case, "train_s") for case in reversed(cases)]
        name = f"ppo_time_{name}"
        report.add(ratio(name, *pair, "SB3's seconds / ours", ">= 6"), otherwise=name)


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
