"""How fast a run is whose metrics go to somebody who blocks, or raises; for `faults.py`."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from faults_product import Never

from rillflow.algorithms import ppo
from rillflow.runs.job import Job, run_job
from rillflow.runs.listener_thread import Aside
from rillflow.runs.listeners import Listener

START = 3
"""rows that are not measured: processes have just begun"""
NEVER = 120.0
"""seconds after which a run that stands still is ended"""


class Bad(Listener):
    """A sink that takes its first row and never comes back, or raises at it."""

    def __init__(self, how: str) -> None:
        self.how = how

    def on_row(self, row: Any) -> None:
        if self.how == "raises":
            raise OSError("no route to the service")
        threading.Event().wait()


def speed_with(how: str, seconds: float) -> float:
    """Steps a second of PPO on CartPole with such a sink; without one, if `how` is empty.

    Measured over so many seconds after the start, and ten rows at least, however slow they come.
    """
    config = ppo.Config.make(env="CartPole-v1", num_workers=2)
    job = Job("ppo", ppo, config, {"seconds": NEVER}, 0, "local")
    rows: list[Any] = []

    def enough(row: Any) -> bool:
        rows.append(row)
        return len(rows) >= START + 10 and row["seconds"] - rows[START]["seconds"] >= seconds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_job(job, listeners=[Aside(Bad(how))] if how else [], stop=enough)
    if len(rows) < START + 2:
        raise Never(f"with a sink that {how or 'is none'} there were {len(rows)} rows: {rows}")
    first, last = rows[START], rows[-1]
    return float(last["steps"] - first["steps"]) / (last["seconds"] - first["seconds"])
