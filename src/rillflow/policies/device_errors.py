"""What a CUDA device says when it fails, in words that help."""

from __future__ import annotations

from types import TracebackType

import torch

from rillflow.errors import DeviceLost, RunError

_NO_MEMORY = ("out of memory", "ALLOC_FAILED")
_FAILED = ("CUDA error", "cuDNN error", "CUBLAS_STATUS", "CUDNN_STATUS", "device-side assert")


def ran_out(error: BaseException) -> bool:
    """Whether an error says that a device has no memory left.

    >>> ran_out(RuntimeError("CUDA error: out of memory")), ran_out(RuntimeError("no"))
    (True, False)
    """
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return has_failed(error) and any(words in str(error) for words in _NO_MEMORY)


def has_failed(error: BaseException) -> bool:
    """Whether an error is a device's own, after which its process can do nothing more there.

    >>> has_failed(RuntimeError("CUDA error: an illegal memory access was encountered"))
    True
    """
    if not isinstance(error, RuntimeError):
        return False
    own = getattr(torch, "AcceleratorError", None)  # torch has it since 2.8
    if own is not None and isinstance(error, own):
        return True
    return any(words in str(error) for words in _FAILED)


class ActingErrors:
    """Inside, errors of the device on which a worker acts say what to do.

    Raises:
        RunError: the device has no memory left.
        DeviceLost: it has failed.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

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
            raise RunError(
                f"{self.device} has no memory left for a worker that acts there ({said}). Lower "
                "num_envs_per_worker, or num_workers, of which each holds a copy of the network "
                "and a CUDA context; or set num_gpus_per_worker=0 to act on the processor."
            ) from error
        if has_failed(error):
            raise DeviceLost(
                f"{self.device} failed while a worker acted there ({said}). After that its process "
                "cannot use the device any more; only a new one can."
            ) from error
