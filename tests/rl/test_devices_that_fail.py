"""What becomes of a worker whose GPU fails or has no room, and of its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import AlgorithmConfig
from rillflow.policies.device_policy import DevicePolicy
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.types import ActorInfo

PARTS = {"num_workers": 2, "num_envs_per_worker": 4, "rollout_fragment_length": 8, "hidden": (8,)}


class Failing(RolloutWorker):
    """A worker whose device fails in its fourth fragment, the first time it lives."""

    def __init__(self, config: AlgorithmConfig, spec: Any, info: ActorInfo) -> None:
        super().__init__(config, spec, info)
        self.policy = DevicePolicy(spec, info.seed, "cpu")
        self.left = 3 if info.index == 0 and info.incarnation == 0 else 10**9
        self.error: Exception = RuntimeError(
            "CUDA error: an illegal memory access was encountered\nmore"
        )

    def sample(self) -> Any:
        self.left -= 1
        if self.left < 0:
            self.policy._forward = self._fails
        return super().sample()

    def _fails(self, *_: Any) -> Any:
        raise self.error


class TooLarge(Failing):
    """A worker for whose observations there is no memory on its device."""

    def __init__(self, config: AlgorithmConfig, spec: Any, info: ActorInfo) -> None:
        super().__init__(config, spec, info)
        self.left, self.error = 0, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")


@dataclass(frozen=True, kw_only=True)
class Config(ppo.Config):
    """Settings of its own, as an algorithm has them."""


@dataclass(frozen=True, kw_only=True)
class LargeConfig(ppo.Config):
    """The same."""


LARGE = Algorithm(
    "large", LargeConfig, ppo.modules, ppo.update, ppo.plan, prepare=ppo.prepare, worker=TooLarge
)
ALGORITHM = Algorithm(
    "failing", Config, ppo.modules, ppo.update, ppo.plan, prepare=ppo.prepare, worker=Failing
)
LIMITS = {"train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 1}
SAID = "DeviceLost: cpu failed while a worker acted there .CUDA error: an illegal memory access"


@pytest.mark.proc
@pytest.mark.parametrize("on_failure", ["restart", "retry", "drop"])
def test_a_worker_whose_device_fails_gets_a_new_process(on_failure: Any) -> None:
    """Also where failures are answered otherwise: to ask the same process again would not help."""
    with pytest.warns(UserWarning, match=f"{SAID}.*worker-0 is restarted .1 of 5"):
        run = rf.train(
            ALGORITHM,
            "CartPole-v1",
            on_failure=on_failure,
            until={"steps": 1500},
            **PARTS,
            **LIMITS,
        )
    assert run.history[-1]["steps"] >= 1500


@pytest.mark.proc
def test_a_device_that_fails_ends_the_run_if_that_is_asked_for(tmp_path: Path) -> None:
    """With the operator, and the policy as it was saved last."""
    where_to = tmp_path / "run"
    with pytest.raises(rf.DeviceLost, match=SAID.partition(" cpu")[0]) as caught:
        rf.train(
            ALGORITHM, "CartPole-v1", on_failure="raise", until={"steps": 10**6},
            run_dir=where_to, checkpoint_steps=64, **PARTS, **LIMITS,
        )  # fmt: skip
    assert isinstance(caught.value, rf.OperatorError)
    assert "rollouts" in caught.value.operator
    assert caught.value.actor == "worker-0"
    assert list((where_to / "checkpoints").iterdir())


@pytest.mark.proc
def test_a_device_without_room_from_the_start_ends_the_run_at_once() -> None:
    """With what to lower, and nothing is tried again."""
    with pytest.raises(rf.OperatorError, match=r"no memory left .* Lower num_envs_per_worker, or"):
        rf.train(LARGE, "CartPole-v1", until={"steps": 10**6}, **PARTS, **LIMITS)


def test_in_the_driver_there_is_no_new_process() -> None:
    """There the learner's device is gone with it."""
    with pytest.raises(rf.DeviceLost, match="only a new one can"):
        rf.train(ALGORITHM, "CartPole-v1", engine="sim", until={"steps": 10**6}, **PARTS, **LIMITS)
