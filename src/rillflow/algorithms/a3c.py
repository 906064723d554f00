"""Asynchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from __future__ import annotations

from rillflow.algorithms.a2c import Config as Config
from rillflow.algorithms.a2c import loss as loss
from rillflow.algorithms.a2c import numpy_loss as numpy_loss
from rillflow.algorithms.a2c import numpy_postprocess as numpy_postprocess
from rillflow.algorithms.a2c import postprocess as postprocess
from rillflow.batch import SampleBatch
from rillflow.graph.flow import Flow
from rillflow.graph.parallel import ParallelFlow
from rillflow.rl.results import TrainStats
from rillflow.rl.train import ApplyGradients, ComputeGradients
from rillflow.rl.workers import AnyWorkers, bind


def plan(
    rollouts: ParallelFlow[SampleBatch], workers: AnyWorkers, cfg: Config | None = None
) -> Flow[TrainStats]:
    """Gradients computed in the workers, applied as they come, answered with new weights."""
    workers, _ = bind(Config, rollouts, workers, cfg)
    grads = rollouts.par_for_each(ComputeGradients()).gather_async()
    return grads.for_each(ApplyGradients(workers))
