"""Rewards divided by the running standard deviation of the discounted return.

What an episode has brought so far, discounted, is written by whoever steps the environments
(`experience/running_return.py`); how much it varies is the learner's to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rillflow.errors import RunError
from rillflow.experience.batch import Array, SampleBatch
from rillflow.experience.running_return import RUNNING_RETURN
from rillflow.policies.normalizer import CLIP, EPSILON, Moments, as_buffers, moments_in


class RewardScale:
    """The variance of discounted returns, and batches whose rewards are scaled by it.

    Args:
        required: whether a batch that does not tell its returns is an error, or stays as it is.
    """

    def __init__(self, required: bool = True) -> None:
        self.required = required
        self.moments = Moments.none(())

    def scaled(self, batch: SampleBatch, *, see: bool) -> SampleBatch:
        """A batch with rewards to learn from; to `see` it, its returns count from now on."""
        if RUNNING_RETURN not in batch and not self.required:
            return batch
        if RUNNING_RETURN not in batch:
            raise RunError(
                f"scale_rewards=True needs the column {RUNNING_RETURN!r} beside rewards, which "
                "rollout workers write; batches of a source of your own have to bring it "
                "(rillflow.experience.running_return), or leave scale_rewards out."
            )
        if see:
            self.see(counted(batch, RUNNING_RETURN))
        return batch.without(RUNNING_RETURN).with_columns(rewards=self.of(batch["rewards"]))

    def see(self, returns: Array) -> None:
        """Let these discounted returns count from now on."""
        self.moments = self.moments.joined(Moments.of(returns))

    def of(self, rewards: Array) -> Array:
        """Rewards as they are learned from."""
        factor = 1 / np.sqrt(self.moments.variance + EPSILON)
        scaled: Array = np.clip(rewards * factor, -CLIP, CLIP).astype(rewards.dtype, copy=False)
        return scaled

    def get_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return dict(as_buffers(self.moments))

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.moments = moments_in(state)


def counted(batch: SampleBatch, name: str) -> Any:
    """A column as rows, without the steps that only reset an environment."""
    column = batch[name]
    if "valid" in batch:
        return column[batch["valid"]]
    return column.reshape(-1, *column.shape[2:])
