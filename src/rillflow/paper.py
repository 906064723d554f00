"""The paper's own spellings, and a loader that runs its listings as they were printed.

RLlib Flow: Liang et al., NeurIPS 2021, arXiv:2011.12719.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

from rillflow.graph.merge import Concurrently as Concurrently
from rillflow.graph.merge import Union as Union
from rillflow.graph.queues import Dequeue as Dequeue
from rillflow.graph.queues import Enqueue as Enqueue
from rillflow.rl.config import AlgorithmConfig
from rillflow.rl.metrics import ReportMetrics as ReportMetrics
from rillflow.rl.rollouts import ConcatBatches as ConcatBatches
from rillflow.rl.rollouts import ParallelRollouts as ParallelRollouts
from rillflow.rl.rollouts import StandardizeFields as StandardizeFields
from rillflow.rl.train import ApplyGradients as ApplyGradients
from rillflow.rl.train import AverageGradients as AverageGradients
from rillflow.rl.train import ComputeGradients as ComputeGradients
from rillflow.rl.train import TrainOneStep as TrainOneStep
from rillflow.rl.workers import create_rollout_workers as create_rollout_workers

StandardMetricsReporting = ReportMetrics

_NUMBER = re.compile(r"^\s*\d+(?:\s|$)")


def load(listing: str, config: AlgorithmConfig) -> Callable[[], Any]:
    """A printed listing as a function that builds its flow, with workers for `config`.

    Printed line numbers are stripped, a line that begins with `.` is joined to the one before, and
    the whole is wrapped in a function, because listings end in a bare `return`.
    """
    lines: list[str] = []
    for printed in listing.splitlines():
        line = _NUMBER.sub("", printed, count=1).rstrip()
        if line.lstrip().startswith(".") and lines:
            lines[-1] += line.lstrip()
        elif line.strip():
            lines.append(line)
    body = textwrap.indent(textwrap.dedent("\n".join(lines)), "    ")
    names = dict(globals(), create_rollout_workers=partial(create_rollout_workers, config))
    exec(compile(f"def build():\n{body}\n", "<listing>", "exec"), names)
    build: Callable[[], Any] = names["build"]
    return build
