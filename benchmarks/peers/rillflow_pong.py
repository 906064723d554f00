"""rillflow: PPO, IMPALA or APPO on Pong, Nature CNN, two workers; batches as the peers' are."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch  # noqa: F401 - the peers' imports are not part of their training time either
from _driver import EnoughError, Tracker, arguments, emit

import rillflow as rf

options = arguments(algo="ppo", engine="local", workers=2, copies=4, variant="same")
SAME: dict[str, dict[str, Any]] = {
    "ppo": {
        "rollout_fragment_length": 128,
        "train_batch_size": 1024,
        "sgd_minibatch_size": 256,
        "num_sgd_iter": 4,
        "lr": 2.5e-4,
        "clip_param": 0.1,
        "vf_loss_coef": 0.5,
        "entropy_coef": 0.01,
        "num_learner_threads": 2,  # it learns while nobody samples
    },
    "impala": {"rollout_fragment_length": 50, "train_batch_size": 500, "lr": 5e-4},
}
SAME["appo"] = {**SAME["impala"], "batch_uses": 1}

spent: list[tuple[int, float]] = []
"""steps, and seconds of the processor that all processes together have had until then"""


def processor_seconds() -> float:
    """Of this process and those that it started."""
    known, total = {os.getpid()}, 0.0
    rows = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            words = path.read_text().rpartition(")")[2].split()
            rows[int(path.parent.name)] = (int(words[1]), int(words[11]) + int(words[12]))
    for process, (parent, ticks) in sorted(rows.items()):
        if parent in known or process in known:
            known.add(process)
            total += ticks / os.sysconf("SC_CLK_TCK")
    return total


tracker = Tracker(options.budget, threshold=float("inf"), least=4)


def watch(row: dict[str, float]) -> None:
    """Tell the tracker of each training result."""
    tracker.mark(int(row["steps"]))
    spent.append((int(row["steps"]), processor_seconds()))
    if tracker.done:
        raise EnoughError


settings: dict[str, Any] = {}
if options.variant == "same":
    settings = {**SAME[options.algo], "num_envs_per_worker": options.copies}
train = rf.train  # imported at its first use
tracker.start()
with contextlib.suppress(EnoughError):
    train(
        options.algo,
        "ALE/Pong-v5",
        until={"seconds": 100 * options.budget},
        seed=options.seed,
        engine=options.engine,
        num_workers=options.workers,
        on_progress=watch,
        **settings,
    )
first, last = spent[min(len(spent) - 2, int(len(spent) * 0.3))], spent[-1]
emit(
    "rillflow",
    steps_per_cpu_s=(last[0] - first[0]) / max(1e-9, last[1] - first[1]),
    variant=f"{options.algo}-{options.engine}-{options.variant}",
    seed=options.seed,
    version=rf.__version__,
    updates=len(tracker.marks),
    **tracker.fields(),
)
