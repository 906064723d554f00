"""Fragments: what was written, and what followed each step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rillflow.envs import Envs, make_envs
from rillflow.experience.batch import SampleBatch
from rillflow.experience.fragment_writer import FragmentWriter
from tests.unit.envs.parts import Counting

MODES = list(AutoresetMode)


def counting(mode: AutoresetMode, num_envs: int = 3) -> Envs:
    return make_envs(SyncVectorEnv([Counting] * num_envs, autoreset_mode=mode), num_envs)


def filled(envs: Envs, length: int) -> tuple[SampleBatch, list[Any]]:
    """The next fragment, and the steps it was written from."""
    writer, steps = FragmentWriter(length), []
    obs = envs.reset() if envs.obs is None else envs.obs
    for _ in range(length):
        actions = (obs.sum(axis=1).astype(np.int64)) % 5
        step = envs.step(actions)
        writer.write(obs, actions, -obs[:, 0], step)
        steps.append((obs, actions, step))
        obs = step.obs
    return writer.finish(obs), steps


@pytest.mark.parametrize("mode", MODES)
def test_columns_hold_what_was_written(mode: AutoresetMode) -> None:
    """Time-major, one row per step, in the dtype that came."""
    batch, steps = filled(counting(mode), 7)
    for t, (obs, actions, step) in enumerate(steps):
        row = {"obs": obs, "actions": actions, "logp": -obs[:, 0], "rewards": step.rewards,
               "terminated": step.terminated, "truncated": step.truncated}  # fmt: skip
        if step.valid is not None:
            row["valid"] = step.valid
        for name, value in row.items():
            np.testing.assert_array_equal(batch[name][t], value)
            assert batch[name].dtype == value.dtype
    np.testing.assert_array_equal(batch["bootstrap_obs"], steps[-1][2].obs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("length", [1, 2, 5, 9])
def test_what_followed_is_true_in_every_row(mode: AutoresetMode, length: int) -> None:
    """Whether there is a column of it or not, and in every mode that begins episodes."""
    envs = counting(mode)
    for _ in range(4):
        batch, steps = filled(envs, length)
        for t, (_, _, step) in enumerate(steps):
            true = step.obs if step.next_obs is None else step.next_obs
            np.testing.assert_array_equal(batch.following()[t], true)


def test_what_follows_from_the_next_row_has_no_column() -> None:
    """Of images it would be half of all the bytes."""
    envs = counting(AutoresetMode.SAME_STEP)
    first, _ = filled(envs, 1)
    assert "next_obs" not in first
    assert "next_obs" in filled(envs, 1)[0]  # the first episode is over after two steps
    assert "next_obs" not in filled(counting(AutoresetMode.NEXT_STEP), 9)[0]


def test_fragments_with_and_without_the_column_are_joined() -> None:
    """Those without it get what it would have said."""
    envs = counting(AutoresetMode.SAME_STEP)
    parts = [filled(envs, 1)[0] for _ in range(3)]
    assert len({"next_obs" in part for part in parts}) == 2
    whole = SampleBatch.concat(parts)
    expected = np.concatenate([part.following() for part in parts], axis=1)
    np.testing.assert_array_equal(whole["next_obs"], expected)
    assert "next_obs" not in parts[0]


def test_fragments_share_no_memory_with_the_steps() -> None:
    """Later steps change nothing in them."""
    envs = counting(AutoresetMode.SAME_STEP)
    batch, steps = filled(envs, 5)
    for column in batch.values():
        for obs, actions, step in steps:
            for array in (obs, actions, *(x for x in step if x is not None)):
                assert not np.shares_memory(column, array)
