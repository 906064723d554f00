"""Where a learner computes: on the processor, on a CUDA device, or on several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig


def learner_devices(num_gpus: int) -> tuple[str, ...]:
    """The devices that `num_gpus` asks for, or an error that says how many there are.

    >>> learner_devices(0)
    ('cpu',)
    """
    if num_gpus == 0:
        return ("cpu",)
    import torch  # only for whoever asks for a device: graphs are built without it

    found = torch.cuda.device_count()
    if num_gpus > found:
        one = "device" if found == 1 else "devices"
        fewer = f"num_gpus={found}, or " if found else ""
        raise BuildError(
            f"num_gpus={num_gpus}, but this machine has {found} CUDA {one}; set {fewer}num_gpus=0 "
            "to learn on the processor."
        )
    return tuple(f"cuda:{index}" for index in range(num_gpus))


def problems_of_learners(config: AlgorithmConfig) -> list[str]:
    """What is wrong with the number of learners, for the settings to tell."""
    learners, gpus = config.num_learners, config.num_gpus
    if learners < 1:
        return [f"num_learners must be at least 1, got {learners!r}"]
    if learners > 1 and gpus not in (0, learners):
        return [
            f"each of num_learners={learners} learners has a GPU of its own, or none of them has: "
            f"give num_gpus={learners}, or num_gpus=0; got {gpus}"
        ]
    return []


def require_one_policy(config: AlgorithmConfig, several: bool) -> None:
    """Refuse several learners of several policies."""
    if several and config.num_learners > 1:
        raise BuildError(
            f"num_learners={config.num_learners} is for one policy; each of several policies has a "
            "learner of its own already: leave num_learners out."
        )


def portions(number: int, parts: int) -> Iterator[slice]:
    """So many examples in parts that differ by one at most; none of them is empty.

    >>> [(part.start, part.stop) for part in portions(5, 2)]
    [(0, 3), (3, 5)]
    """
    begin = 0
    for index in range(min(parts, number)):
        end = begin + number // parts + (index < number % parts)
        yield slice(begin, end)
        begin = end


def shares(weights: Sequence[int]) -> list[float]:
    """What each part counts in the mean over all; equally if there is nothing to count."""
    whole = sum(weights)
    return [weight / whole if whole else 1 / len(weights) for weight in weights]
