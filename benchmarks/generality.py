"""Do the defaults travel: PPO and SAC beside SB3's, where nobody here has tuned anything?

Both sides train with their defaults for the same number of steps: PPO 100,000 on ten environments
(MuJoCo, Box2D, MinAtar, one with a dict of observations, one with several choices in an action),
SAC 20,000 on four. Ours gets the environment as a factory, for which no settings of single
environments are found. The score is that of the last policy, 100 greedy episodes, the same ones for
both: (ours - random) / (SB3's - random), of means over three seeds.

SB3's side takes hours and does not change, so its scores are kept in `results/generality_sb3.json`
(delete a row to have it measured again); seconds are compared in a run of their own, in turn. Ours
are kept in `build/generality.jsonl` until the settings change, so that a run that was ended goes on
where it stopped; delete the file to begin anew. Rows can be measured elsewhere (`_left.py`):

    python benchmarks/generality.py --only sac:Hopper-v5 --seeds 101,102 --out part.jsonl
    python benchmarks/generality.py --only time:Hopper-v5 --seeds 1 --out part.jsonl

Whether three seeds were lucky is told by three others, `OTHER_SEEDS`: they are not part of a run;
where rows of all of them are in `build/`, they have figures of their own.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent / "peers"))  # where the environments are

from _common import RESULTS, Report, figure, ratio, script
from _drivers import OURS, Driver, DriverError, measure
from _generality import random_score
from _left import LACKING, left, left_or_new, may_measure, parts, settings_of

MINUTES = 40
SEEDS = (101, 102, 103)
OTHER_SEEDS = (111, 112, 113)
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
        scores, others = [], []
        for name in names:
            task = _task(algorithm, name, steps[algorithm])
            for round_, seed in enumerate(seeds):
                _ours(report, task, round_, seed)
                _peer(report, task, round_, seed)
            scores.append(_score(report, algorithm, name))
            others.append(_score_of_others(report, task, name))
        _conclude(report, algorithm, scores)
        _conclude(report, f"{algorithm}_other_seeds", others)
    _seconds(report)


def _conclude(report: Report, name: str, scores: list[float | None]) -> None:
    known = [score for score in scores if score is not None]
    if known:
        median, least = statistics.median(known), min(known)
        told = {"note": f"{len(known)} of {len(scores)} environments"}
        report.add(figure(f"{name}_median", median, "of SB3's gain", ">= 1", **told))
        report.add(figure(f"{name}_least", least, "of SB3's gain", ">= 0.8", **told))


def _ours(report: Report, task: dict[str, Any], round_: int, seed: int) -> None:
    """Our score: the one that a run before this has left, or a new one."""
    case = f"{OURS} {task['algorithm']} {task['env']}"

    def measured() -> dict[str, Any]:
        print(f"  {case}, seed {seed}", file=sys.stderr, flush=True)
        return _measured(task, seed)

    found = left_or_new("generality", _key(task, seed), measured)
    if "failed" in found:
        report.lacks(f"{case}, seed {seed}", found["failed"])
    for seconds in ("train_s", "wall_s"):  # they are compared in a run of their own
        found.pop(seconds, None)
    report.measured(case, round=round_, **found)


def _task(algorithm: str, name: str, steps: int) -> dict[str, Any]:
    return {"algorithm": algorithm, "env": name, "steps": steps}


def _key(task: dict[str, Any], seed: int) -> dict[str, Any]:
    return {**task, "seed": seed, "settings": settings_of(task["algorithm"])}


def _measured(task: dict[str, Any], seed: int) -> dict[str, Any]:
    # in one process: scores are the same as in several, seconds are compared elsewhere
    driver = Driver(OURS, "rillflow_generality.py", {**task, "settings": IN_ONE}, limit=3600)
    try:
        return driver.run(seed=seed)
    except DriverError as failure:
        return {"failed": str(failure)}


def _row(algorithm: str, name: str, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    if algorithm == "time":
        return _time_key(name, seed, 40_000), _pair(name, seed)
    task = _task(algorithm, name, STEPS[algorithm])
    return _key(task, seed), _measured(task, seed)


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
    if not may_measure():
        report.lacks(f"{case}, seed {seed}", LACKING)
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
    ours = report.values(f"{OURS} {algorithm} {name}", "score")
    return _gain(report, f"{algorithm}_{name}", ours, f"sb3 {algorithm} {name}")


def _score_of_others(report: Report, task: dict[str, Any], name: str) -> float | None:
    """The same of `OTHER_SEEDS`, where all of them have been measured."""
    rows = [left("generality", _key(task, seed)) for seed in OTHER_SEEDS]
    if report.options.quick or None in rows:
        return None
    ours = [row["score"] for row in rows if row is not None]
    case = f"{task['algorithm']}_{name}_other_seeds"
    return _gain(report, case, ours, f"sb3 {task['algorithm']} {name}", seeds=OTHER_SEEDS)


def _gain(
    report: Report, case: str, ours: Sequence[float | None], sb3: str, **more: Any
) -> float | None:
    """A figure: ours over random actions, in parts of SB3's; None: a side has no score."""
    own = [value for value in ours if value is not None]
    theirs = [value for value in report.values(sb3, "score") if value is not None]
    if not own or not theirs:
        report.lacks(case, "one of the sides has no score")
        return None
    nothing = random_score(sb3.split(" ", 2)[2])
    means = statistics.mean(own), statistics.mean(theirs)
    score = (means[0] - nothing) / (means[1] - nothing)
    seeds = {"our_seeds": len(own), "sb3_seeds": len(theirs)}
    each = (", ".join(f"{value:.4g}" for value in side) for side in (own, theirs))
    note = "ours {}; SB3 {}".format(*each)
    details = {"ours": means[0], "sb3": means[1], "random": nothing, **seeds, **more, "note": note}
    report.add(figure(case, score, "of SB3's gain", ">= 0.8", **details))
    return score


def _seconds(report: Report) -> None:
    """Seconds for the same steps of PPO, in turn, processes and all."""
    steps = 4000 if report.options.quick else 40_000
    for name in TIMED:
        cases = f"{OURS} time {name}", f"sb3 time {name}"
        for round_ in range(report.options.repeats):
            found = left_or_new(
                "generality",
                _time_key(name, round_ + 1, steps),
                partial(_pair, name, round_ + 1, steps),
            )
            for case, who in zip(cases, ("ours", "sb3"), strict=True):
                report.measured(case, round=round_, train_s=found.get(f"{who}_s"))
            if "failed" in found:
                report.lacks(f"ppo_time_{name}, round {round_ + 1}", found["failed"])
        pair = [report.values(case, "train_s") for case in reversed(cases)]
        name = f"ppo_time_{name}"
        report.add(ratio(name, *pair, "SB3's seconds / ours", ">= 6"), otherwise=name)


def _time_key(name: str, round_: int, steps: int) -> dict[str, Any]:
    return {"time": name, "round": round_, "steps": steps, "settings": settings_of("ppo")}


def _pair(name: str, round_: int, steps: int = 40_000) -> dict[str, Any]:
    """Both sides, one after the other; the score is how much quicker ours is."""
    task = {"env": name, "steps": steps, "episodes": 1, "seed": round_}
    print(f"  seconds on {name}, round {round_}", file=sys.stderr, flush=True)
    try:
        ours = Driver(OURS, "rillflow_generality.py", task, limit=600).run()["train_s"]
        theirs = Driver("sb3", "sb3_generality.py", task, limit=600).run()["train_s"]
    except DriverError as failure:
        return {"failed": str(failure)}
    return {"score": theirs / ours, "ours_s": ours, "sb3_s": theirs}


ROWS = [
    (algorithm, name, seed)
    for algorithm, names in (("ppo", PPO), ("sac", SAC))
    for name in names
    for seed in SEEDS
] + [("time", name, round_) for name in TIMED for round_ in (1, 2, 3)]

if __name__ == "__main__":
    code = parts("generality", ROWS, _row)
    sys.exit(script(__file__, ask) if code is None else code)
