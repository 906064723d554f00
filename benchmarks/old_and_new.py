"""Is training on CartPole as fast as with another source tree of rillflow?

    git worktree add ../before 942f4fa
    python benchmarks/old_and_new.py --old ../before [--pairs 5] [--only ppo] [--keep FILE]

942f4fa is the first edition of the RL layer, before losses were differentiated over a tape. Each
pair trains with the old and with the new source, one after the other in turns, in processes of
their own, with the same seed. Two questions:

- steps: so many steps, with the settings of the first edition, so that both do the same work. Where
  an edition has other ones since (Ape-X makes four times as many updates a step now), `WORK` says
  the old ones.
- goal: until the last hundred episodes reach a mean return, each with its own settings, or until a
  limit of steps.

The figures are medians of ratios of seconds, old over new. Beside those of the clock stand those of
processor time, of the driver and all workers: on a busy machine they alone mean something. Both
trees are compiled to bytecode first, as installed packages are.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

STEPS = {"ppo": 400_000, "impala": 600_000, "apex": 60_000, "dqn": 30_000}
"""environment steps of one run: a few seconds each"""
WORK: dict[str, dict[str, Any]] = {
    "apex": {
        "lr": 0.0023,
        "lr_updates": 10_000,
        "target_network_update_freq": 2_560,
        "train_batch_size": 128,
        "training_intensity": 8.0,
        "worker_priorities": False,
    }
}
"""settings of the first edition, for the new one, where those of today are others"""
GOALS = {"ppo": (475, 300_000), "impala": (475, 800_000), "apex": (400, 300_000), "dqn": (400, 150_000)}  # fmt: skip  # noqa: E501 - a table
"""mean return of the last hundred training episodes, explored ones too; and most steps"""
TRAIN = """
import json, sys, time
import rillflow as rf
algorithm, seed, until, settings = sys.argv[1], int(sys.argv[2]), *map(json.loads, sys.argv[3:])
began = time.perf_counter()
trained = rf.train(algorithm, "CartPole-v1", until=until, num_workers=2, seed=seed, **settings)
print(time.perf_counter() - began)
"""


def seconds(
    tree: Path, algorithm: str, seed: int, until: dict[str, int], settings: dict[str, Any]
) -> tuple[float, float]:
    """How long one run takes with the source of a tree: by the clock, and of processor time."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", TRAIN, algorithm, str(seed)]
    command += [json.dumps(until), json.dumps(settings)]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tree,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    told, errors = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)  # with the workers, which it has waited for
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{algorithm} in {tree}, seed {seed}:\n{errors}")
    return float(told.split()[-1]), used.ru_utime + used.ru_stime


def compared(old: Path, new: Path, question: str, algorithm: str, pairs: int) -> dict[str, Any]:
    """One figure: the medians over all pairs."""
    until, settings = {"steps": STEPS[algorithm]}, WORK.get(algorithm, {})
    if question == "goal":
        goal, most = GOALS[algorithm]
        until, settings = {"return": goal, "steps": most}, {}
    took: dict[Path, list[tuple[float, float]]] = {old: [], new: []}
    for seed in range(pairs):
        for tree in [old, new][:: -1 if seed % 2 else 1]:
            own = settings if tree == new else {}
            took[tree].append(seconds(tree, algorithm, seed, until, own))
    clock, processor = (
        [before[i] / after[i] for before, after in zip(took[old], took[new], strict=True)]
        for i in (0, 1)
    )
    return {
        "benchmark": f"old_and_new_{algorithm}_{question}",
        "value": round(statistics.median(clock), 3),
        "processor": round(statistics.median(processor), 3),
        "unit": "seconds of the old over those of the new",
        "bar": ">= 0.97",
        "ratios": [round(ratio, 3) for ratio in clock],
        "processor_ratios": [round(ratio, 3) for ratio in processor],
        "old_s": [round(clock, 2) for clock, _ in took[old]],
        "new_s": [round(clock, 2) for clock, _ in took[new]],
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True, help="the other source tree")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs for each algorithm")
    parser.add_argument("--only", choices=STEPS, help="one algorithm")
    parser.add_argument("--question", choices=["steps", "goal"], help="one of the two questions")
    parser.add_argument("--keep", type=Path, help="a file for the figures, besides showing them")
    options = parser.parse_args()
    old, new = options.old.resolve(), Path(__file__).resolve().parents[1]
    for tree in (old, new):
        compileall.compile_dir(tree / "src", quiet=1)
    figures = []
    for question in [options.question] if options.question else ["steps", "goal"]:
        for algorithm in [options.only] if options.only else STEPS:
            figures.append(compared(old, new, question, algorithm, options.pairs))
            print(json.dumps(figures[-1]), flush=True)
            if options.keep:
                options.keep.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
