"""Settings of algorithms that learn from replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rillflow.learning.config import AlgorithmConfig, below_one
from rillflow.learning.schedules import divided
from rillflow.learning.setting_checks import chosen

_OF_PRIORITIES = (
    "prioritized_replay_alpha",
    "prioritized_replay_beta",
    "final_prioritized_replay_beta",
    "prioritized_replay_beta_timesteps",
    "prioritized_replay_epsilon",
)
"""settings that nothing looks at where rows are drawn alike"""


@dataclass(frozen=True, kw_only=True)
class ReplayConfig(AlgorithmConfig):
    """Settings of algorithms that learn from replay."""

    # replay actors are made with them, and the flow's turns
    READ_ONCE: ClassVar[tuple[str, ...]] = (
        "gamma",
        "training_intensity",
        "prioritized_replay_alpha",
        "final_prioritized_replay_beta",
        "prioritized_replay_epsilon",
    )

    n_step: int = 1
    """steps that a row looks ahead"""

    train_batch_size: int = 64
    """rows per optimiser step"""
    batches_per_draw: int = 1
    """training batches drawn from replay at once, and learned from one after another: less to draw
    and to send, but weights and priorities are renewed once for all of them"""
    learning_starts: int = 1000
    """rows in replay before learning begins, all shards together"""
    buffer_size: int = 50_000
    """rows that replay holds, all shards together"""
    num_replay_buffer_shards: int = 1
    """replay actors that share the rows"""
    prioritized_replay: bool = False
    """whether rows with large errors are drawn more often"""
    prioritized_replay_alpha: float = 0.6
    """how much priorities count: 0 not at all, 1 in proportion"""
    prioritized_replay_beta: float = 0.4
    """how much importance weights correct for that at first: 1 wholly; a schedule says it for the
    whole way, and the two settings below are of no use then"""
    final_prioritized_replay_beta: float = 1.0
    """how much they do in the end"""
    prioritized_replay_beta_timesteps: int = 200_000
    """steps of all workers together over which it changes, in a line"""
    prioritized_replay_epsilon: float = 1e-6
    """added to every priority, so that no row is lost for good"""
    training_intensity: float = 8.0
    """rows trained for each step sampled"""

    @property
    def train_turns(self) -> float:
        """Draws from replay for each round of rollouts, so that `training_intensity` holds."""
        sampled = self.fragment_steps * max(1, self.num_workers)
        return self.training_intensity * sampled / self.rows_per_draw

    def steps_behind(self, rows: int) -> float:
        """Steps of the environments that stand behind so many rows trained."""
        return self.learning_starts + rows / self.training_intensity

    @property
    def rows_per_draw(self) -> int:
        """Rows that replay gives at once."""
        if self.remembers:
            return self.sequences_per_draw * self.rollout_fragment_length
        return self.train_batch_size * self.batches_per_draw

    @property
    def sequences_per_draw(self) -> int:
        """Sequences that replay gives at once, of a policy that remembers: a sequence is what one
        environment did in one rollout."""
        each = max(1, self.train_batch_size // self.rollout_fragment_length)
        return each * self.batches_per_draw

    @property
    def minibatch(self) -> int | None:
        """Rows per optimiser step, where replay gives several batches at once."""
        return self.train_batch_size if self.batches_per_draw > 1 else None

    @property
    def replay_options(self) -> dict[str, Any]:
        """What one replay actor is made with: its share of the rows."""
        shards = self.num_replay_buffer_shards
        options = {
            "capacity": -(-self.buffer_size // shards),
            "learning_starts": -(-self.learning_starts // shards),
            "train_batch_size": self.rows_per_draw,
            "prioritized": self.prioritized_replay,
            "alpha": self.prioritized_replay_alpha,
            "beta": divided(self.prioritized_replay_beta, shards),
            "final_beta": self.final_prioritized_replay_beta,
            "beta_rows": -(-self.prioritized_replay_beta_timesteps // shards),
            "epsilon": self.prioritized_replay_epsilon,
            "n_step": self.n_step,
            "gamma": self.gamma,
            "scale_rewards": self.scale_rewards is not False,
        }
        return options | self._in_sequences(shards) if self.remembers else options

    def _in_sequences(self, shards: int) -> dict[str, Any]:
        """The share of a replay actor that keeps sequences, and counts them."""
        rows = shards * self.rollout_fragment_length
        return {
            "capacity": max(1, -(-self.buffer_size // rows)),
            "learning_starts": -(-self.learning_starts // rows),
            "train_batch_size": self.sequences_per_draw,
            "beta": divided(self.prioritized_replay_beta, rows),
            "sequences": True,
        }

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        names = "learning_starts", "num_replay_buffer_shards", "batches_per_draw", "n_step"
        wrong = super().problems() + below_one(self, *names, "prioritized_replay_beta_timesteps")
        for name in ("prioritized_replay_beta", "final_prioritized_replay_beta"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                wrong.append(f"{name} must be between 0 and 1, got {getattr(self, name)!r}")
        for name in ("prioritized_replay_alpha", "prioritized_replay_epsilon"):
            if getattr(self, name) < 0:
                wrong.append(f"{name} must be 0 or above, got {getattr(self, name)!r}")
        if not self.prioritized_replay:
            wrong += [
                f"{told} is about rows that are drawn by priority: leave it out, or give "
                "prioritized_replay=True"
                for told in chosen(self, *_OF_PRIORITIES)
            ]
        if self.buffer_size < self.learning_starts:
            wrong.append(
                f"buffer_size must be at least learning_starts ({self.learning_starts}), "
                f"or learning never starts; got {self.buffer_size!r}"
            )
        if self.training_intensity <= 0:
            wrong.append(f"training_intensity must be above 0, got {self.training_intensity!r}")
        return wrong


@dataclass(frozen=True, kw_only=True)
class ContinuousConfig(ReplayConfig):
    """Settings of algorithms that learn continuous actions from replay.

    An update for each step, and few environments in the driver itself: learning takes nearly all of
    the time, and rows are new while they are learned from.
    """

    env: Any = "Pendulum-v1"
    num_workers: int = 0
    num_envs_per_worker: int = 4
    rollout_fragment_length: int = 4
    lr: float = 3e-4
    grad_clip: float | None = None
    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    train_batch_size: int = 256
    batches_per_draw: int = 4
    training_intensity: float = 256.0
    learning_starts: int = 1000
    buffer_size: int = 300_000
    tau: float = 0.005
    """how far targets follow in an update"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if not 0.0 < self.tau <= 1.0:
            wrong.append(f"tau must be above 0 and at most 1, got {self.tau!r}")
        return wrong
