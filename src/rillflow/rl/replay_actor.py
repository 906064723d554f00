"""An actor that keeps rows of experience and gives some of them back, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillflow.errors import NotReady
from rillflow.experience import PrioritizedReplayBuffer, ReplayBuffer
from rillflow.experience.batch import BOOTSTRAP, Array, SampleBatch
from rillflow.experience.running_return import RUNNING_RETURN
from rillflow.experience.sequences import sequences_of, side_by_side
from rillflow.experience.transitions import transitions, worker_errors
from rillflow.learning.reward_scale import RewardScale
from rillflow.learning.schedules import Linear, Schedule
from rillflow.types import ActorInfo

KEY_BITS, ROW_BITS = 50, 40
"""a key: above the first so many bits the index of the replay actor, above the second so many its
incarnation, below a count of rows"""


class ReplayActor:
    """One shard of replay.

    Fragments come as workers made them, and become rows that each look `n_step` steps ahead. What
    it gives is a batch of one step, with columns [1, N, ...]: among them `keys`, by which new
    priorities are sent back, and `weights` if rows are prioritized.

    For a policy that remembers a row is a whole sequence, what one environment did in one fragment,
    and what it gives are sequences side by side, [T, N, ...]; all numbers then count sequences.

    >>> info = ActorInfo("replay-0", index=0, incarnation=0, seed=0)
    >>> replay = ReplayActor(100, learning_starts=2, train_batch_size=3, info=info)
    >>> replay.add(SampleBatch({"obs": np.zeros((1, 5, 4)), "rewards": np.ones((1, 5))}))
    >>> sorted(replay.replay()), replay.account()["resident"]
    (['keys', 'obs', 'rewards', 'weights'], 5)
    """

    def __init__(
        self,
        capacity: int = 50_000,
        learning_starts: int = 1000,
        train_batch_size: int = 64,
        *,
        prioritized: bool = True,
        alpha: float = 0.6,
        beta: float | Schedule = 0.4,
        final_beta: float | None = None,
        beta_rows: int = 1,
        epsilon: float = 1e-6,
        n_step: int = 1,
        gamma: float = 0.99,
        scale_rewards: bool = False,
        sequences: bool = False,
        info: ActorInfo,
    ) -> None:
        self.learning_starts = learning_starts
        self.train_batch_size = train_batch_size
        self.n_step = n_step
        self.gamma = gamma
        self.betas: Schedule = (
            beta
            if isinstance(beta, Schedule)
            else Linear(beta, beta if final_beta is None else final_beta, steps=max(1, beta_rows))
        )
        self.sequences = sequences
        self.reward_scale = RewardScale() if scale_rewards else None
        """for what workers think of rows, whose values are learned from scaled rewards"""
        life = info.incarnation % (1 << KEY_BITS - ROW_BITS)
        self.first_key = (info.index << KEY_BITS) + (life << ROW_BITS)
        self.strangers = 0
        """priorities for rows of an earlier incarnation, which are not the rows it has now"""
        self.buffer: ReplayBuffer
        if prioritized:
            self.buffer = PrioritizedReplayBuffer(
                capacity, alpha=alpha, beta=self.betas.at(0), epsilon=epsilon, seed=info.seed
            )
        else:
            self.buffer = ReplayBuffer(capacity, seed=info.seed)

    @property
    def beta(self) -> float:
        """How much importance weights correct now, after so many rows."""
        return self.betas.at(self.buffer.inserted)

    def add(self, batch: SampleBatch) -> None:
        """Keep the rows of a fragment, or of a batch of one step whose rows stand alone already.

        If the worker told what it thought of them, that decides how likely they are to be drawn.
        """
        if self.sequences:
            self.buffer.add(sequences_of(batch))
            return
        if BOOTSTRAP in batch:
            rows = transitions(batch, self.n_step, self.gamma)
        else:
            rows = {name: column[0] for name, column in batch.items()}
        errors = worker_errors(rows, self._learned_from(rows))
        if errors is not None and isinstance(self.buffer, PrioritizedReplayBuffer):
            self.buffer.add(rows, priorities=np.abs(errors))
        else:
            self.buffer.add(rows)

    def _learned_from(self, rows: dict[str, Array]) -> Array | None:
        """The rewards of rows as a learner scales them, by the returns of all rows so far; None: as
        they are. The learner's own scale is not known here; both have seen the same experience."""
        if self.reward_scale is None or RUNNING_RETURN not in rows:
            return None
        self.reward_scale.see(rows[RUNNING_RETURN])
        return self.reward_scale.of(rows["rewards"])

    def replay(self) -> SampleBatch:
        """A training batch; not ready before there are `learning_starts` rows."""
        if len(self.buffer) < self.learning_starts:
            raise NotReady
        if isinstance(self.buffer, PrioritizedReplayBuffer):
            self.buffer.beta = self.beta
        sample = self.buffer.sample(self.train_batch_size)
        columns = {**sample.columns, "keys": sample.keys + self.first_key}
        if sample.weights is not None:
            columns["weights"] = sample.weights
        if self.sequences:
            return side_by_side(columns)
        for column in columns.values():
            column.flags.writeable = False  # the batch's own: nobody need copy it
        return SampleBatch({name: column[None] for name, column in columns.items()})

    def update_priorities(self, keys: Array, priorities: Array) -> None:
        """New priorities of rows by their keys; rows that have left meanwhile are passed over, and
        so are those that an earlier incarnation had: its priorities say nothing of these rows."""
        keys, priorities = np.asarray(keys), np.asarray(priorities)
        own = keys >> ROW_BITS == self.first_key >> ROW_BITS
        if not own.all():
            self.strangers += int(np.count_nonzero(~own))
            keys, priorities = keys[own], priorities[own]
        if isinstance(self.buffer, PrioritizedReplayBuffer):
            self.buffer.update_priorities(keys - self.first_key, priorities)

    def account(self) -> dict[str, int]:
        """What became of all rows: inserted = resident + evicted."""
        buffer = self.buffer
        return {
            "inserted": buffer.inserted,
            "resident": buffer.resident,
            "evicted": buffer.evicted,
        }

    def get_state(self) -> dict[str, Any]:
        """All rows, their priorities and the random state."""
        state = self.buffer.get_state()
        if self.reward_scale is not None:
            state["reward_scale"] = self.reward_scale.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.buffer.set_state(state)
        if self.reward_scale is not None and "reward_scale" in state:
            self.reward_scale.set_state(state["reward_scale"])
