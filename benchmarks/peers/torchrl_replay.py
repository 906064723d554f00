"""TorchRL: its prioritized replay buffer, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from _driver import arguments, emit, quit_now


def rate(operation: Callable[[], object], rows: int, seconds: float) -> float:
    """Rows per second of processor time."""
    for _ in range(3):
        operation()
    began, calls = time.process_time(), 0
    while (took := time.process_time() - began) < seconds:
        operation()
        calls += 1
    return rows * calls / took


if __name__ == "__main__":
    options = arguments(capacity=100_000, fragment=256, batch=512, secs=1.0)
    import torch
    import torchrl
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)

    def rows(count: int) -> Any:
        return TensorDict(
            {
                "obs": torch.randn(count, 4),
                "next_obs": torch.randn(count, 4),
                "actions": torch.randint(2, (count,)),
                "rewards": torch.randn(count),
                "discount": torch.ones(count),
            },
            [count],
        )

    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=0.6,
        beta=0.4,
        storage=LazyTensorStorage(options.capacity),
        batch_size=options.batch,
    )
    while len(buffer) < options.capacity:
        buffer.extend(rows(min(10_000, options.capacity - len(buffer))))
    fragment = rows(options.fragment)
    indices = buffer.sample()["index"]
    buffer.update_priority(torch.arange(options.capacity), torch.rand(options.capacity) + 0.01)
    priorities = torch.rand(options.batch) + 0.01

    def cycle() -> None:
        buffer.extend(fragment)
        buffer.update_priority(buffer.sample()["index"], priorities)

    found = {
        "add": rate(lambda: buffer.extend(fragment), options.fragment, options.secs),
        "sample": rate(buffer.sample, options.batch, options.secs),
        "update": rate(
            lambda: buffer.update_priority(indices, priorities), options.batch, options.secs
        ),
        "cycles": rate(cycle, 1, options.secs),
    }
    fields = {name: round(value, 1) for name, value in found.items()}
    emit("torchrl", version=torchrl.__version__, **fields)
    quit_now()
