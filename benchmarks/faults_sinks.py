"""How fast a run is whose metrics go to somebody who blocks, or raises; for `faults.py`."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from rillflow.algorithms import ppo
from rillflow.runs.aside import Aside
from rillflow.runs.job import Job, run_job
from rillflow.runs.listeners import Listener


class Bad(Listener):
    """A sink that takes its first row and never comes back, or raises at it."""

    def __init__(self, how: str) -> None:
        self.how = how

    def on_row(self, row: Any) -> None:
        if self.how == "raises":
            raise OSError("no route to the service")
        threading.Event().wait()


def speed_with(how: str, seconds: float) -> float:
    """Steps a second of PPO on CartPole with such a sink; without one, if `how` is empty."""
    config = ppo.Config.make(env="CartPole-v1", num_workers=2)
    job = Job("ppo", ppo, config, {"seconds": seconds}, 0, "local")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = run_job(job, listeners=[Aside(Bad(how))] if how else [])
    rows = outcome.trained.history
    first, last = rows[min(3, len(rows) - 2)], rows[-1]  # without the start
    return float(last["steps"] - first["steps"]) / (last["seconds"] - first["seconds"])
