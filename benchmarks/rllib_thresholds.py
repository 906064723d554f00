"""Are the gates of RLlib's own tests held, by every one of three seeds?

    python benchmarks/rllib_thresholds.py                      all of them, hours on one core
    python benchmarks/rllib_thresholds.py ppo "sac on Pend"    rows whose name begins so
    python benchmarks/rllib_thresholds.py --seeds 201 --list

`gate.py` has the gates of this project: a goal or two of each algorithm, by five seeds. Here are
those of RLlib, row by row (`_rllib_rows.py`): the newest return it asks, within the smallest number
of steps that it ever allowed. RLlib passes if one attempt of three gets there.

A run ends when the mean return of its last 100 episodes of training is what is asked, as there, or
with its steps. Of algorithms that explore by adding to what the policy does the greedy policy
counts: it is evaluated on the way, and where it seems to pass by a margin, or at the limit, by 100
fresh episodes. Settings are those that the algorithm begins with there.

Results are kept in results/rllib/thresholds.json; docs/rllib-thresholds.md is made from them. Some
can be measured side by side, and be put together afterwards:

    python benchmarks/rllib_thresholds.py td3 --seeds 201 --out rows/td3-201.json
    python benchmarks/rllib_thresholds.py --merge rows/td3-*.json
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import _recorded
import torch
from _goals import FRESH, commit
from _machine import facts, versions
from _rllib_rows import ROWS, Row

import rillflow as rf
from rillflow.algorithms import NAMES
from rillflow.results import evaluate

RESULTS = Path(__file__).parent / "results" / "rllib" / "thresholds.json"
SEEDS = (201, 202, 203)
LOOKS = 20
"""evaluations on the way to a limit, of greedy policies"""
MARGIN = 0.03
"""by which part of what is asked an evaluation has to be above it for the policy to be judged"""


def main() -> int:
    """Attempt, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("only", nargs="*", metavar="NAME", help="rows whose name begins so")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--list", action="store_true", help="print the rows")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file for what is found")
    parser.add_argument(
        "--merge", type=Path, nargs="+", default=(), metavar="FILE",
        help="attempt nothing: put the rows of these files among those that are kept",
    )  # fmt: skip
    options = parser.parse_args()
    for part in options.merge:
        merge(options.out, json.loads(part.read_text()))
    if options.merge:
        return 0
    torch.set_num_threads(1)
    good = True
    for row in chosen(options.only):
        print(f"{row}: {row.asks:g} within {row.within:,} steps", flush=True)
        for seed in () if options.list else options.seeds:
            try:
                found = attempt(row, seed)
            except rf.BuildError as error:
                print(f"  refused: {error}", flush=True)
                good = False
                break
            keep(options.out, row, found)
            good &= found["passed"]
            print(f"  {json.dumps(found)}", flush=True)
    return 0 if good else 1


def chosen(names: list[str]) -> list[Row]:
    """Rows of algorithms that there are; of these, those whose name begins with one of `names`."""
    known = [row for row in ROWS if row.algorithm in NAMES]
    return [row for row in known if not names or str(row).startswith(tuple(names))]


def attempt(row: Row, seed: int) -> dict[str, Any]:
    """Train with this seed on `sim`, one thread, until it is reached or the steps are over."""
    settings, until = dict(row.settings), {"steps": float(row.within)}
    if not row.greedy:
        until["return"] = row.asks
    else:
        until["eval_return"] = row.asks + MARGIN * abs(row.asks)
        settings |= {"eval_every": row.within // LOOKS, "eval_episodes": 50}
    if row.data is not None:
        settings["data"] = getattr(_recorded, row.data)(seed).path
    began = time.perf_counter()
    trained, score = _trained(row, seed, until, settings)
    if row.greedy and not score >= row.asks and trained.history[-1]["steps"] < row.within:
        # it only seemed to pass: then the policy at the limit is judged
        trained, score = _trained(row, seed, {"steps": float(row.within)}, settings)
    seconds = time.perf_counter() - began
    return {
        "seed": seed,
        "score": round(score, 3),
        "steps": int(trained.history[-1]["steps"]),
        "seconds": round(seconds, 1),
        "passed": not math.isnan(score) and score >= row.asks,
    }


def _trained(
    row: Row, seed: int, until: dict[str, float], settings: dict[str, Any]
) -> tuple[Any, float]:
    """What comes of a run, and its score."""
    trained: Any = rf.train(
        row.algorithm, row.env, until=until, seed=seed, engine="sim", **settings
    )
    if row.greedy:
        return trained, evaluate(trained, 100, seed=FRESH + seed).mean
    return trained, trained.history[-1]["return"]


def keep(path: Path, row: Row, found: dict[str, Any]) -> None:
    """Put one attempt in the place of an older one of the same row and seed."""
    which = {"row": str(row), "seed": found["seed"]}
    where = {"commit": commit(), "cpu": facts()["cpu"], "torch": versions()["torch"]}
    asked = {"asks": row.asks, "within": row.within, "greedy": row.greedy}
    merge(path, [{**which, **asked, **found, **where}])


def merge(path: Path, new: list[dict[str, Any]]) -> None:
    """Put attempts in the place of those of the same rows and seeds."""
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    kept = {(one["row"], one["seed"]): one for one in [*rows, *new]}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(kept[which]) for which in sorted(kept))
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
