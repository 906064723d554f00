"""Experience as NumPy arrays: batches, fragments, n-step transitions, replay.

This layer knows environments and arrays only: no graph, no engine, no tensors.
"""

from rillflow.experience.buffer import ReplayBuffer as ReplayBuffer
from rillflow.experience.buffer import ReplaySample as ReplaySample
from rillflow.experience.columns import Columns as Columns
from rillflow.experience.n_step import n_step_transitions as n_step_transitions
from rillflow.experience.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
from rillflow.experience.sequence import SequenceReplayBuffer as SequenceReplayBuffer
from rillflow.experience.sum_tree import MinTree as MinTree
from rillflow.experience.sum_tree import SumTree as SumTree
