"""Streams of experience: shapes, counts, what survives a join."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.experience.batch import BOOTSTRAP, SampleBatch
from rillflow.rl.rollouts import ConcatBatches, ParallelRollouts, StandardizeFields
from rillflow.rl.workers import Workers


def workers(count: int = 2, **settings: object) -> Workers:
    return Workers(ppo.Config.make(num_workers=count, num_envs_per_worker=4,
                                   rollout_fragment_length=10, **settings))  # fmt: skip


def fragment(value: float, envs: int = 2, time: int = 3) -> SampleBatch:
    rewards = np.full((time, envs), value, np.float32)
    return SampleBatch({"rewards": rewards, BOOTSTRAP: np.full((envs, 4), value)})


def test_building_workers_starts_nothing_and_a_plan_is_drawn_at_once() -> None:
    """A plan for many workers is only data."""
    many = workers(256)
    assert "256 \u00d7 worker" in ppo.plan(ParallelRollouts(many), many).explain()


def test_a_parallel_rollout_is_one_fragment_per_worker() -> None:
    """Without a mode the flow is parallel: rounds of fragments."""
    first, second = ParallelRollouts(workers()).gather_sync().take(1, engine="sim")[0]
    assert first["obs"].shape == (10, 4, 4)
    assert second["logp"].shape == (10, 4)
    assert not np.array_equal(first["obs"], second["obs"]), "each worker has its own seed"


@pytest.mark.parametrize(("mode", "envs"), [("bulk_sync", 8), ("async", 4)])
def test_gathered_rollouts(mode: str, envs: int) -> None:
    """bulk_sync joins a round side by side; async gives fragments as they come."""
    (batch,) = ParallelRollouts(workers(), mode=mode).take(1, engine="sim")  # type: ignore[call-overload]
    assert batch["actions"].shape == (10, envs)
    assert batch[BOOTSTRAP].shape == (envs, 4)


def test_fragments_follow_each_other() -> None:
    """The next fragment begins where the last one ended, and every true step is counted once."""
    with ParallelRollouts(workers(1), mode="async").run("sim") as run:
        steps: list[int] = []
        run.on_metrics(lambda actor, seq, metrics: steps.append(metrics["steps"]))
        one, two = next(run), next(run)
    assert np.array_equal(one[BOOTSTRAP], two["obs"][0])
    assert steps[:2] == [one.steps, two.steps]


def test_an_unknown_mode_is_refused() -> None:
    """The message names the modes."""
    with pytest.raises(rf.BuildError, match="bulk_sync"):
        ParallelRollouts(workers(), mode="bulksync")  # type: ignore[call-overload]


def test_concat_batches_collects_to_a_size() -> None:
    """Nothing is split: the batch is the first sum at or above the size."""
    concat = ConcatBatches(10)
    assert concat(fragment(1.0)) == []
    (batch,) = concat(fragment(2.0))
    assert batch.steps == 12
    assert batch["rewards"].shape == (3, 4)
    assert batch[BOOTSTRAP].shape == (4, 4)


def test_concat_batches_keeps_its_parts_in_its_state() -> None:
    """A resumed operator goes on collecting."""
    concat, other = ConcatBatches(10), ConcatBatches(10)
    concat(fragment(1.0))
    other.set_state(concat.get_state())
    assert other(fragment(2.0))[0].steps == 12


def test_standardized_fields_have_mean_zero_and_deviation_one() -> None:
    """The input is left as it was."""
    batch = SampleBatch({"rewards": np.arange(12.0).reshape(3, 4)})
    out = StandardizeFields(["rewards"])(batch)
    assert abs(out["rewards"].mean()) < 1e-6
    assert abs(out["rewards"].std() - 1.0) < 1e-3
    assert batch["rewards"][0, 1] == 1.0


def test_fragments_of_other_lengths_are_not_joined() -> None:
    """The message says what differs."""
    with pytest.raises(rf.BuildError, match=r"lengths \[3, 4\]"):
        SampleBatch.concat([fragment(1.0), fragment(1.0, time=4)])


def test_an_unknown_setting_is_told_with_the_nearest_name() -> None:
    """All wrong names at once."""
    with pytest.raises(rf.BuildError, match=r"'num_worker', did you mean 'num_workers'\?.*'gama'"):
        ppo.Config.make(num_worker=2, gama=0.9)


@pytest.mark.proc
def test_workers_of_small_policies_never_import_torch() -> None:
    """Neither do algorithm modules: torch is imported where learning happens."""
    code = "import sys, rillflow.algorithms.ppo; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    loaded = ParallelRollouts(workers(1)).for_each(_torch_is_loaded).gather_sync()
    assert loaded.take(1, engine="local") == [[False]]


def _torch_is_loaded(_: SampleBatch) -> bool:
    return "torch" in sys.modules
