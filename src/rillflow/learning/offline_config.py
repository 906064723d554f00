"""Settings of algorithms that learn from recorded data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from rillflow.errors import BuildError
from rillflow.learning.config import AlgorithmConfig, below_one
from rillflow.learning.fault_settings import bytes_of

_OF_ROLLOUTS = ("num_envs_per_worker", "rollout_fragment_length", "env_timeout")
"""settings that are read where an environment is played while learning"""


@dataclass(frozen=True, kw_only=True)
class OfflineConfig(AlgorithmConfig):
    """Settings of algorithms that learn from recorded data.

    A step is a row learned from: `until=100_000` learns from so many rows, of a smaller dataset
    from each several times. Environments are played to evaluate, and for nothing else.
    """

    READ_ONCE: ClassVar[tuple[str, ...]] = ("gamma",)  # rows are made with it

    data: str | None = None
    """what to learn from: a dataset of Minari, a directory or the id of one on this machine"""
    data_memory: int | str = "512MiB"
    """memory that each worker keeps rows in, such as 2GiB; larger data streams through it"""
    check_data: bool = True
    """whether every number of the data is looked at before the start; its shapes always are"""
    num_workers: int = 0
    """processes that read, each its own part of the episodes; 0: the driver reads"""
    eval_every: int | None = 100_000
    """rows between two evaluations, in environments of their own; none: there are none"""
    n_step: int = 1
    """steps that a row looks ahead"""
    train_batch_size: int = 256
    """rows per optimiser step"""
    batches_per_draw: int = 8
    """training batches that are read at once, and learned from one after another"""
    lr: float = 1e-3
    grad_clip: float | None = None

    @property
    def rows_per_draw(self) -> int:
        """Rows that are read at once."""
        return self.train_batch_size * self.batches_per_draw

    @property
    def minibatch(self) -> int | None:
        """Rows per optimiser step, where several batches are read at once."""
        return self.train_batch_size if self.batches_per_draw > 1 else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a step is here."""
        return (f"learns from {self.data or self.source}: a step is a row learned from",)

    @property
    def plays(self) -> bool:
        """Whether environments are played to learn; rows of data go on where they were."""
        return self.source is not None

    def require_ready(self, until: Mapping[str, float]) -> None:
        """Refuse to begin without data, and limits that nothing could reach."""
        name = self.algorithm.name
        if self.data is None and self.source is None:
            raise BuildError(
                f"{name} learns from recorded data, and was given none: data='data/mine' (--data "
                "data/mine), a dataset of Minari. `rillflow record-data RUN -o data/mine` makes "
                "one of a policy."
            )
        if "return" in until:
            raise BuildError(
                f"a limit of return is about episodes of training, and {name} plays none: "
                "eval_return is that of evaluations."
            )

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + below_one(self, "n_step", "batches_per_draw")
        usual = {field.name: field.default for field in fields(AlgorithmConfig)}
        played = [name for name in _OF_ROLLOUTS if getattr(self, name) != usual[name]]
        if played:
            wrong.append(
                f"{' and '.join(played)} is about playing while learning, and here rows come from "
                "data: leave it out"
            )
        if self.data is not None and self.source is not None:
            wrong.append("data and source are two places for rows: give one of them")
        if self.scale_rewards:
            wrong.append("scale_rewards needs the running return of rollouts: leave it out")
        if self.frame_stack > 1:
            wrong.append("frame_stack is about rollouts, and rows of data stand alone")
        try:
            if (bytes_of(self.data_memory) or 0) < 1:
                wrong.append(f"data_memory must be above 0, got {self.data_memory!r}")
        except BuildError:
            wrong.append(f"data_memory is a size such as '2GiB', got {self.data_memory!r}")
        return wrong
