"""Is training on CartPole as fast as with another source tree of rillflow?

    git worktree add ../before some-commit
    python benchmarks/old_and_new.py --old ../before [--pairs 5] [--only ppo]

Each pair trains with the old and with the new source, one after the other in turns, in processes of
their own, for the same number of steps and the same seed; the figure is the median of the ratios of
steps per second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

STEPS = {"ppo": 400_000, "impala": 600_000, "apex": 60_000, "dqn": 30_000}
"""environment steps of one run: a few seconds each"""
TRAIN = """
import sys, time
import rillflow as rf
algorithm, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
began = time.perf_counter()
trained = rf.train(algorithm, "CartPole-v1", until={"steps": steps}, num_workers=2, seed=seed)
print(time.perf_counter() - began)
"""


def seconds(tree: Path, algorithm: str, seed: int) -> float:
    """How long one run takes with the source of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-c", TRAIN, algorithm, str(STEPS[algorithm]), str(seed)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, cwd=tree
    )
    return float(done.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True, help="the other source tree")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs for each algorithm")
    parser.add_argument("--only", choices=STEPS, help="one algorithm")
    options = parser.parse_args()
    new = Path(__file__).resolve().parents[1]
    for algorithm in [options.only] if options.only else STEPS:
        ratios = []
        for seed in range(options.pairs):
            trees = [options.old.resolve(), new]
            took = {
                tree: seconds(tree, algorithm, seed) for tree in trees[:: -1 if seed % 2 else 1]
            }
            ratios.append(took[trees[0]] / took[new])
        print(json.dumps({
            "benchmark": f"old_and_new_{algorithm}", "value": round(statistics.median(ratios), 3),
            "unit": "steps/s of the new over the old", "bar": ">= 0.97",
            "ratios": [round(ratio, 3) for ratio in ratios],
        }), flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
