"""A device that has no memory left, or fails, while it is learned there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import rillflow as rf
from rillflow.algorithms import dqn, impala, ppo
from rillflow.errors import DeviceLost, RunError
from rillflow.learning.torch_learner import TorchLearner
from tests.engines.processes import children, gone
from tests.rl.test_device_learner import fragment, learner, replayed

NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has ...")
FAILED = RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")


def raising(error: BaseException, after: int = 0) -> Any:
    """An update that works so many times, and then raises this."""
    usual, made = TorchLearner.learn_from, []

    def update(self: Any, everywhere: Any, chosen: Any) -> Any:
        made.append(1)
        if len(made) > after:
            raise error
        return usual(self, everywhere, chosen)

    return update


@pytest.mark.parametrize(
    ("algorithm", "batch", "lower"),
    [
        (ppo, fragment, r"Lower sgd_minibatch_size \(now 64\) or train_batch_size \(now 2048\)"),
        (impala, fragment, r"Lower train_batch_size \(now 128\)"),
        (dqn, replayed, r"Lower minibatch \(now 64\) or train_batch_size \(now 64\)"),
    ],
)
def test_no_memory_names_the_settings_to_lower(
    algorithm: Any, batch: Any, lower: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what they are now; the other ways out, too."""
    one = learner(algorithm)
    monkeypatch.setattr(TorchLearner, "learn_from", raising(NO_MEMORY))
    with pytest.raises(RunError, match=lower) as caught:
        one.train(batch(0))
    told = str(caught.value)
    assert told.startswith("cpu has no memory left to learn there (CUDA out of memory. Tried")
    assert "learner_precision=bf16" in told
    assert "num_gpus_per_worker=0" in told
    assert "--init-from" in told
    assert "\n" not in told
    assert caught.value.__cause__ is NO_MEMORY


def test_a_failed_device_says_that_only_a_new_process_can_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = learner(ppo)
    monkeypatch.setattr(TorchLearner, "learn_from", raising(FAILED))
    with pytest.raises(DeviceLost, match=r"illegal memory access.*only a new one.*rillflow resume"):
        one.train(fragment(0))


def test_what_is_no_fault_of_a_device_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchLearner, "learn_from", raising(RuntimeError("shapes differ")))
    with pytest.raises(RuntimeError, match=r"^shapes differ$"):
        learner(ppo).train(fragment(0))


@pytest.mark.proc
@pytest.mark.parametrize(("error", "kind"), [(NO_MEMORY, RunError), (FAILED, DeviceLost)])
@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_a_run_ends_with_that_error_and_keeps_its_last_checkpoint(
    algorithm: str, error: BaseException, kind: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It can be gone on from as soon as the device is well again; no worker is left."""
    settings: dict[str, Any] = {"num_workers": 1, "num_envs_per_worker": 4, "framework": "torch"}
    if algorithm == "impala":
        settings["learner_placement"] = "thread"
    else:
        settings |= {"train_batch_size": 128, "sgd_minibatch_size": 64, "num_sgd_iter": 1}
    with monkeypatch.context() as patch:
        patch.setattr(TorchLearner, "learn_from", raising(error, after=30))
        before = children()
        with pytest.raises(kind, match=r"cpu (has no memory left|failed)"):
            rf.train(
                algorithm,
                "CartPole-v1",
                until={"steps": 100_000},
                run_dir=tmp_path / "run",
                checkpoint_steps=256,
                seed=1,
                **settings,
            )
        assert gone(list(children() - before))
    again = rf.resume(tmp_path / "run", until={"steps": 5_000})
    assert again.steps >= 5_000
