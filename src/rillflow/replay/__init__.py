"""Replay: rows in, rows out, from NumPy arrays alone. Knows neither graph nor engines."""

from rillflow.replay.buffer import ReplayBuffer as ReplayBuffer
from rillflow.replay.buffer import ReplaySample as ReplaySample
from rillflow.replay.columns import Columns as Columns
from rillflow.replay.n_step import n_step_transitions as n_step_transitions
from rillflow.replay.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
from rillflow.replay.sequence import SequenceReplayBuffer as SequenceReplayBuffer
from rillflow.replay.sum_tree import MinTree as MinTree
from rillflow.replay.sum_tree import SumTree as SumTree
