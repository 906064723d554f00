"""rillflow: PPO on CartPole-v1, default settings, two workers."""

from __future__ import annotations

from _driver import Tracker, arguments, emit

import rillflow as rf

options = arguments(engine="local", workers=2)
tracker = Tracker(options.budget)
train = rf.train  # imported at its first use


def watch(row: dict[str, float]) -> None:
    """Tell the tracker of each training result."""
    steps = int(row["steps"])
    tracker.mark(steps)
    tracker.mean(row["return"], steps)


tracker.start()  # what follows makes the environments, starts the workers and trains
trained = train(
    "ppo",
    "CartPole-v1",
    until={"return": 475, "seconds": options.budget},
    seed=options.seed,
    engine=options.engine,
    num_workers=options.workers,
    on_progress=watch,
)
emit(
    "rillflow",
    variant="default",
    seed=options.seed,
    version=rf.__version__,
    first_result_s=round(tracker.marks[0][0] - tracker.began, 3),
    updates=len(trained.history),
    **tracker.fields(),
)
