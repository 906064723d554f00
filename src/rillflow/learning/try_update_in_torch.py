"""An update tried in torch on invented rows; see `learning.try_update`."""

from __future__ import annotations

import numpy as np
import torch

from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.schedules import at_first
from rillflow.learning.torch_modules import TorchModules
from rillflow.learning.try_update import invented
from rillflow.learning.update import Step, steps_of
from rillflow.policies.spec import PolicySpec


def torch_steps(spec: PolicySpec, config: AlgorithmConfig) -> list[Step]:
    """The steps of an update in torch, on invented rows."""
    config = at_first(config)
    m = TorchModules(config.modules(spec), 0)
    m.draw_from(np.random.default_rng(0))
    tensors = {name: torch.from_numpy(column) for name, column in invented(spec).items()}
    with torch.no_grad():
        rows = (config.prepare or config.algorithm.prepare)(m, tensors, config)
        return list(steps_of(config.update or config.algorithm.update, m, rows, config))
