"""What to do when the device on which a learner computes has no memory left, or fails."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from rillflow.errors import DeviceLost, RunError
from rillflow.policies.device_errors import has_failed, ran_out

_SIZES = ("sgd_minibatch_size", "minibatch", "train_batch_size", "rollout_fragment_length")
"""settings that say how many rows are on the device at once, the one to lower first in front"""


class LearningErrors:
    """Inside, errors of the device on which a learner computes say what to do.

    Raises:
        RunError: the device has no memory left.
        DeviceLost: it has failed.
    """

    def __init__(self, device: torch.device, config: Any) -> None:
        self.device = device
        self.config = config

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, RunError):
            return
        said = str(error).partition("\n")[0].rstrip(". ")
        if ran_out(error):
            sizes = [(name, getattr(self.config, name, None)) for name in _SIZES]
            given = " or ".join(f"{name} (now {size})" for name, size in sizes if size)
            short = self.config.learner_precision != "bf16"
            raise RunError(
                f"{self.device} has no memory left to learn there ({said}). Lower {given}"
                f"{', or try learner_precision=bf16' * short}; what workers hold of the device "
                "is theirs until num_gpus_per_worker=0. The last checkpoint stays as it is: a run "
                "of other sizes can begin with its policy, by --init-from."
            ) from error
        if has_failed(error):
            raise DeviceLost(
                f"{self.device} failed while it was learned there ({said}). After that its process "
                "cannot use the device any more: only a new one can, which goes on from the last "
                "checkpoint with `rillflow resume`."
            ) from error
