"""Where a worker's network acts: on the processor, or on a share of a CUDA device.

Nothing here imports torch before a device is asked for: flows for many GPUs are drawn without it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rillflow.errors import BuildError
from rillflow.learning.devices import problems_of_learners

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig
    from rillflow.policies.spec import PolicySpec

EACH = 1 << 30
"""bytes of a device that there must be for each worker, if nobody said that workers act on it"""
_STILL = "num_gpus_per_worker=0 for workers that act on the processor"


def problems(config: AlgorithmConfig) -> list[str]:
    """What is wrong with the settings that say where something is computed."""
    share, wrong = config.num_gpus_per_worker, problems_of_learners(config)
    if share is None or 0 <= share <= 1:
        return wrong
    return [
        *wrong,
        "num_gpus_per_worker must be between 0 and 1, the part of a device that a worker's network "
        f"acts on, got {share!r}",
    ]


def wanted(spec: PolicySpec, config: AlgorithmConfig) -> tuple[bool, str]:
    """Whether workers act on a device where there is one, and why.

    >>> from gymnasium import spaces
    >>> from rillflow.algorithms import ppo
    >>> pixels = spaces.Box(0, 255, (4, 84, 84), "uint8")
    >>> cfg = ppo.Config(num_gpus=1)
    >>> wanted(cfg.policy_spec(pixels, spaces.Discrete(2)), cfg)
    (True, 'observations are images, and num_gpus=1')
    """
    share = config.num_gpus_per_worker
    if share is not None:
        return share > 0, f"num_gpus_per_worker={share:g}"
    if not config.num_gpus:
        return False, "num_gpus=0"
    if config.source is not None or not config.plays:
        return False, "no environments are played"
    if spec.plain or (spec.image is None and not spec.packed):
        return False, "observations are no images, whose network would be worth the way"
    return True, f"observations are images, and num_gpus={config.num_gpus}"


def resources(*configs: AlgorithmConfig) -> dict[str, float]:
    """What one worker asks of a cluster: the largest share that one of its policies was given.

    Who was given none asks for nothing: a cluster's workers may be on machines without a GPU.
    """
    share = max((config.num_gpus_per_worker or 0.0 for config in configs), default=0.0)
    return {"num_gpus": share} if share and configs[0].num_workers else {}


def require_devices(config: AlgorithmConfig, engine: str) -> None:
    """Refuse shares of devices that this machine does not have; Ray knows what its machines have.

    Raises:
        BuildError: there are fewer devices than workers take.
    """
    share = config.num_gpus_per_worker
    if not share or engine == "ray":
        return
    import torch

    found = torch.cuda.device_count()
    if not found:
        raise BuildError(
            f"num_gpus_per_worker={share:g}, but this machine has 0 CUDA devices; set {_STILL}."
        )
    workers = max(1, config.num_workers)
    if engine == "sim" or share * workers <= found + 1e-9:
        return
    most = math.floor(1e4 * found / workers) / 1e4
    raise BuildError(
        f"num_gpus_per_worker={share:g} of {workers} workers is {share * workers:g} CUDA devices, "
        f"but this machine has {found}; set num_gpus_per_worker={most:g}, or fewer workers, or "
        f"{_STILL}."
    )


def device_of(
    spec: PolicySpec, config: AlgorithmConfig, engine: str, index: int
) -> tuple[str, str]:
    """The device on which a worker acts, and what a person should know of that; mostly nothing.

    Worker i acts on device i, modulo as many devices as the shares of all add up to, or as the
    learner has; on `sim`, where workers take turns, on the first.

    Args:
        spec: of the policy.
        config: its settings.
        engine: on which the worker lives.
        index: of the worker.
    """
    if not wanted(spec, config)[0]:
        return "cpu", ""
    share, workers = config.num_gpus_per_worker, max(1, config.num_workers)
    if share is None and engine == "ray":
        return "cpu", "acts on the processor: on Ray num_gpus_per_worker asks for a share of a GPU"
    import torch

    found = torch.cuda.device_count()
    if not found:
        if share is None:
            return "cpu", "acts on the processor: there is no CUDA device where it runs"
        raise BuildError(
            f"num_gpus_per_worker={share:g}, but there is no CUDA device where a worker runs; set "
            f"{_STILL}."
        )
    devices = config.num_gpus if share is None else math.ceil(share * workers - 1e-9)
    devices = 1 if engine == "sim" else min(found, max(1, devices))
    if share is None:
        room = torch.cuda.get_device_properties(0).total_memory
        sharing = 1 if engine == "sim" else -(-workers // devices)  # processes
        if room < sharing * EACH:
            return "cpu", (
                f"acts on the processor: {sharing} workers on a device of {room / EACH:.0f} GiB "
                f"are too many; num_gpus_per_worker={1 / sharing:.4f} has them act there"
            )
    return f"cuda:{index % devices}", ""


def told(spec: PolicySpec, config: AlgorithmConfig) -> str:
    """One sentence on where workers act; nothing where nobody asked for a device.

    >>> from gymnasium import spaces
    >>> from rillflow.algorithms import ppo
    >>> cfg = ppo.Config(num_gpus=1)
    >>> told(cfg.policy_spec(spaces.Box(-1, 1, (4,)), spaces.Discrete(2)), cfg)[:30]
    'workers act on the processor: '
    """
    if not config.num_gpus and config.num_gpus_per_worker is None:
        return ""
    acts, why = wanted(spec, config)
    if not acts:
        return f"workers act on the processor: {why}"
    if config.num_gpus_per_worker is not None:
        return f"workers act on CUDA devices: {why}"
    return f"workers act on the learner's CUDA device: {why} ({_STILL})"
