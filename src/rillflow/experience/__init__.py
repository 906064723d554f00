"""Experience as NumPy arrays: batches, fragments, n-step transitions, replay.

This layer knows environments and arrays only: no graph, no engine, no tensors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rillflow.experience.buffer import ReplayBuffer as ReplayBuffer
    from rillflow.experience.buffer import ReplaySample as ReplaySample
    from rillflow.experience.columns import Columns as Columns
    from rillflow.experience.n_step import n_step_transitions as n_step_transitions
    from rillflow.experience.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
    from rillflow.experience.sequence import SequenceReplayBuffer as SequenceReplayBuffer
    from rillflow.experience.sum_tree import MinTree as MinTree
    from rillflow.experience.sum_tree import SumTree as SumTree

_LAZY = {
    "Columns": "rillflow.experience.columns",
    "MinTree": "rillflow.experience.sum_tree",
    "PrioritizedReplayBuffer": "rillflow.experience.prioritized",
    "ReplayBuffer": "rillflow.experience.buffer",
    "ReplaySample": "rillflow.experience.buffer",
    "SequenceReplayBuffer": "rillflow.experience.sequence",
    "SumTree": "rillflow.experience.sum_tree",
    "n_step_transitions": "rillflow.experience.n_step",
}
"""names whose modules are imported when they are first used: most of us need few of them"""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module rillflow.experience has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
