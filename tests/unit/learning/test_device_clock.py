"""Where the time of a batch goes on a device: with a stand-in for its marks."""

from __future__ import annotations

import numpy as np
import pytest

from rillflow.algorithms import impala
from rillflow.learning.device_clock import DeviceClock, clock_of
from rillflow.learning.make_learner import make_learner
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo


class Device:
    """Each mark is left two milliseconds after the one before."""

    def __init__(self, done: bool = True) -> None:
        self.done, self.marks = done, 0

    def mark(self) -> Mark:
        self.marks += 1
        return Mark(self, 2.0 * self.marks)


class Mark:
    def __init__(self, device: Device, at: float) -> None:
        self.device, self.at = device, at

    def query(self) -> bool:
        return self.device.done

    def elapsed_time(self, later: Mark) -> float:
        return later.at - self.at


def seconds() -> object:
    """A clock of the processor that goes on by 10 ms each time it is asked."""
    ticks = iter(np.arange(1, 1000) / 100)
    return lambda: float(next(ticks))


def one_batch(clock: DeviceClock) -> None:
    clock.begin()
    assert clock.copied("tensors") == "tensors"
    clock.launched()
    clock.answered()


def test_the_stages_of_a_batch() -> None:
    clock = DeviceClock(Device().mark, now=seconds())  # type: ignore[arg-type]
    one_batch(clock)
    assert clock.told == pytest.approx(
        {"device_copy_ms": 2, "device_learn_ms": 2, "launch_ms": 10, "device_wait_ms": 10}
    )


def test_one_batch_of_several_is_looked_at() -> None:
    device = Device()
    clock = DeviceClock(device.mark, every=4)
    for _ in range(9):
        one_batch(clock)
    assert device.marks == 3 * 3  # of batches 0, 4 and 8


def test_nobody_waits_for_a_mark() -> None:
    device = Device(done=False)
    clock = DeviceClock(device.mark, every=1)
    one_batch(clock)
    assert clock.told == {}
    device.done = True
    one_batch(clock)
    assert clock.told.keys() == {
        "device_copy_ms",
        "device_learn_ms",
        "launch_ms",
        "device_wait_ms",
    }


def test_what_is_copied_elsewhere_is_no_batch() -> None:
    """Gradients computed for others, and looks at a batch, send rows too."""
    clock = DeviceClock(Device().mark, every=1)
    clock.copied(1)
    clock.answered()
    assert clock.told == {}


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_a_learner_tells_of_a_device_and_of_no_processor(framework: str) -> None:
    config = impala.Config(num_workers=0, num_envs_per_worker=2, framework=framework)
    spec = Workers(config).spec
    batch = RolloutWorker(config, spec, ActorInfo("worker-0", 0, 0, seed=1)).sample()
    learner = make_learner(spec, config, 0)
    assert not [name for name in learner.train(batch).stats if name.endswith("_ms")]
    if framework == "torch":
        learner.clock = DeviceClock(Device().mark)
        assert learner.train(batch).stats["device_learn_ms"] == 2.0


def test_only_cuda_has_marks() -> None:
    import torch

    clock = clock_of(torch.device("cpu"))
    one_batch(clock)
    assert clock.told == {}
