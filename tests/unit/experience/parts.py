"""What the tests of the buffers share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from rillflow.experience import PrioritizedReplayBuffer, ReplaySample

Passed = Callable[[PrioritizedReplayBuffer], PrioritizedReplayBuffer]


def rows(start: int, stop: int) -> dict[str, Any]:
    return {"x": np.arange(start, stop)}


def weights(sample: ReplaySample) -> Any:
    assert sample.weights is not None
    return sample.weights


def same(buffer: PrioritizedReplayBuffer) -> PrioritizedReplayBuffer:
    return buffer


def restored(buffer: PrioritizedReplayBuffer) -> PrioritizedReplayBuffer:
    state = buffer.get_state()
    state["rng"] = json.loads(json.dumps(state["rng"]))
    settings = {"alpha": buffer.alpha, "beta": buffer.beta, "epsilon": buffer.epsilon}
    other = PrioritizedReplayBuffer(buffer.capacity, **settings, seed=1234)
    other.add({"other": np.zeros((3, 2))}, priorities=[1, 2, 300])
    other.set_state(state)
    return other


def filled(n: int, **settings: Any) -> PrioritizedReplayBuffer:
    buffer = PrioritizedReplayBuffer(100, **{"alpha": 1.0, "beta": 1.0, "epsilon": 0.0} | settings)
    buffer.add(rows(0, n))
    return buffer
