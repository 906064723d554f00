"""rillflow: PPO, IMPALA or APPO on Pong, Nature CNN, two workers; batches as the peers' are."""

from __future__ import annotations

import contextlib
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

tracker = Tracker(options.budget, threshold=float("inf"), least=4)


def watch(row: dict[str, float]) -> None:
    """Tell the tracker of each training result."""
    tracker.mark(int(row["steps"]))
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
emit(
    "rillflow",
    variant=f"{options.algo}-{options.engine}-{options.variant}",
    seed=options.seed,
    version=rf.__version__,
    updates=len(tracker.marks),
    **tracker.fields(),
)
