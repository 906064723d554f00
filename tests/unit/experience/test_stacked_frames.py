"""Stacked observations whose frames are kept once, beside the same ones kept whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rillflow.engines.packing import hand_over, pack
from rillflow.envs import Envs, make_envs
from rillflow.envs.preprocessing import Preprocessing
from rillflow.envs.stacking import stacked_in
from rillflow.envs.step import Step
from rillflow.errors import RunError
from rillflow.experience import PrioritizedReplayBuffer, ReplayBuffer
from rillflow.experience.batch import SampleBatch
from rillflow.experience.stacked_frames import Stacks
from rillflow.experience.transitions import transitions
from rillflow.experience.waiting_steps import WaitingSteps
from tests.unit.envs.test_preprocessing import pictures

MODES = list(AutoresetMode)
LANES = 3
STACKED = Preprocessing(frame_stack=4, channels="first")
RANDOM = pictures((1, 24, 24))


def stacked_envs(mode: AutoresetMode) -> Envs:
    vector = SyncVectorEnv([RANDOM] * LANES, autoreset_mode=mode)
    return make_envs(vector, LANES, preprocessing=STACKED)


def fragments(envs: Envs, n_step: int, lengths: list[int], *, once: bool) -> list[SampleBatch]:
    """Fragments of the same steps, with each frame once, or with whole observations."""
    waiting = WaitingSteps(n_step, 4 if once else 1)
    obs, batches = envs.reset(), []
    for length in lengths:
        writer = waiting.begin(length)
        for _ in range(length):
            actions = (obs.sum(axis=(1, 2, 3)) % 5).astype(np.int64)
            step = envs.step(actions)
            writer.write(obs, actions, np.zeros(LANES, np.float32), step)
            obs = step.obs
        batches.append(waiting.hold_back(writer.finish(obs)))
    return batches


def both(mode: AutoresetMode, n_step: int, lengths: list[int]) -> tuple[Any, Any]:
    whole = fragments(stacked_envs(mode), n_step, lengths, once=False)
    once = fragments(stacked_envs(mode), n_step, lengths, once=True)
    assert all(isinstance(batch.columns["obs"], Stacks) for batch in once)
    return whole, once


def same(one: Any, other: Any) -> None:
    """The same columns, bit for bit."""
    assert set(one) == set(other)
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("lengths", [[1, 2, 5], [6, 6, 6], [17]])
def test_every_column_is_what_it_would_be_whole(
    mode: AutoresetMode, n_step: int, lengths: list[int]
) -> None:
    """Ends of episodes within a fragment, waiting steps and what truly followed included."""
    whole, once = both(mode, n_step, lengths)
    ended = sum(int((batch["terminated"] | batch["truncated"]).sum()) for batch in whole)
    assert ended, "no episode ends: the test would not see what becomes of one"
    for one, other in zip(whole, once, strict=True):
        same(one, other)
        same({"": one.following()}, {"": other.following()})


@pytest.mark.parametrize("mode", MODES)
def test_what_travels_is_the_frames_once(mode: AutoresetMode) -> None:
    """Across an actor's edge, within one process or not, and side by side with others."""
    whole, once = both(mode, 1, [20, 20])
    for carry in (lambda batch: pack(batch).get(), lambda batch: hand_over(batch).get()):
        here = [carry(batch) for batch in once]
        assert all(isinstance(batch.columns["obs"], Stacks) for batch in here)
        for one, other in zip(whole, here, strict=True):
            same(one, other)
        joined = SampleBatch.concat(here)
        assert isinstance(joined.columns["obs"], Stacks)
        same(SampleBatch.concat(whole), joined)
    plenty = pack(whole[0]).nbytes / pack(once[0]).nbytes
    assert plenty > 1.5, "an episode is 5 steps here: the frames of its first observation are new"


def test_long_episodes_travel_in_a_third_of_the_bytes_and_less() -> None:
    class Long(RANDOM):  # type: ignore[valid-type, misc] - made by a function
        def step(self, action: Any) -> Any:
            return self._observe(), 0.0, False, False, {}

    sizes = []
    for stacked in (1, 4):
        envs = make_envs(SyncVectorEnv([Long] * LANES), LANES, preprocessing=STACKED)
        assert stacked_in(envs) == 4
        writer, obs = WaitingSteps(1, stacked).begin(40), envs.reset()
        for _ in range(40):
            step = envs.step(np.zeros(LANES, np.int64))
            writer.write(obs, np.zeros(LANES, np.int64), np.zeros(LANES, np.float32), step)
            obs = step.obs
        sizes.append(pack(writer.finish(obs)).nbytes)
    assert sizes[0] > 3.2 * sizes[1]


def test_batches_of_both_kinds_can_be_joined() -> None:
    """As after a restore, whose batches are whole."""
    whole, once = both(AutoresetMode.NEXT_STEP, 1, [6, 6])
    same(SampleBatch.concat(whole), SampleBatch.concat([once[0], whole[1]]))
    same(SampleBatch.concat(whole), SampleBatch.concat([whole[0], once[1]]))
    other = once[1].with_columns(obs=whole[1]["obs"])
    same(SampleBatch.concat(whole), SampleBatch.concat([once[0], pack(other).get()]))


def test_frames_that_do_not_overlap_come_out_as_they_went_in() -> None:
    """An environment that says it stacks frames, and does not: more bytes, the same numbers."""
    rng = np.random.default_rng(3)
    steps = rng.integers(0, 255, (9, LANES, 4, 24, 24)).astype(np.uint8)
    no, nothing = np.zeros(LANES, bool), np.zeros(LANES, np.float32)
    writer = WaitingSteps(1, 4).begin(8)
    for t in range(8):
        writer.write(steps[t], no, nothing, Step(steps[t + 1], nothing, no, no, None, None))
    batch = writer.finish(steps[8])
    np.testing.assert_array_equal(batch["obs"], steps[:8])
    np.testing.assert_array_equal(batch["bootstrap_obs"], steps[8])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("capacity", [4, 50, 211, 5000])
def test_replay_draws_the_same_rows(mode: AutoresetMode, n_step: int, capacity: int) -> None:
    """Before and after rows were replaced, and after a state was taken and given back."""
    whole, once = both(mode, n_step, [7, 20, 3] * 6)
    plain, ours = (PrioritizedReplayBuffer(capacity, seed=5) for _ in range(2))
    for number, (one, other) in enumerate(zip(whole, once, strict=True)):
        plain.add(transitions(one, n_step, 0.9))
        ours.add(transitions(other, n_step, 0.9))
        if number == 7:
            state = ours.get_state()
            assert "obs" not in state["columns"]
            ours = PrioritizedReplayBuffer(capacity, seed=0)
            ours.set_state(state)
        if len(plain):
            drawn, ourn = plain.sample(16), ours.sample(16)
            same(drawn.columns, ourn.columns)
    assert plain.evicted == ours.evicted


def test_replay_keeps_a_frame_no_longer_than_its_rows() -> None:
    """However many fragments come, the room for frames stays what the first ones asked for."""
    _, once = both(AutoresetMode.NEXT_STEP, 1, [20] * 60)
    buffer = ReplayBuffer(200)
    room = []
    for number, batch in enumerate(once):
        buffer.add(transitions(batch, 1, 0.9))
        ring = buffer._columns._frames
        assert ring is not None
        room.append(ring.nbytes)
        if number == 30:  # also those of a state
            state = buffer.get_state()
            buffer = ReplayBuffer(200)
            buffer.set_state(state)
    assert max(room[10:]) <= 1.6 * room[0]


def test_more_episodes_than_at_first_find_room() -> None:
    """Frames are as many as episodes begin: the room grows where more begin than at first."""
    rng = np.random.default_rng(1)

    def batch(frames: int) -> dict[str, Any]:
        pool = rng.integers(0, 255, (frames, 1, 24, 24)).astype(np.uint8)
        places = rng.integers(0, frames, (8, 4)).astype(np.int32)
        return {"obs": Stacks(pool, places), "n": np.arange(8)}

    whole, ours = ReplayBuffer(30), ReplayBuffer(30)
    for frames in (5, 9, 60, 200, 7, 300, 5, 5, 5, 5, 5):
        columns = batch(frames)
        ours.add(columns)
        whole.add({"obs": columns["obs"].whole(), "n": columns["n"]})
        same(whole.sample(20).columns, ours.sample(20).columns)


def test_replay_takes_whole_observations_among_stacked_ones_and_the_other_way_round() -> None:
    whole, once = both(AutoresetMode.NEXT_STEP, 1, [7, 7, 7, 7])
    kinds = [once[0], whole[1], once[2], whole[3]]
    for order in (kinds, [whole[0], once[1], whole[2], once[3]]):
        plain, ours = ReplayBuffer(60, seed=2), ReplayBuffer(60, seed=2)
        for one, other in zip(whole, order, strict=True):
            plain.add(transitions(one, 1, 0.9))
            ours.add(transitions(other, 1, 0.9))
            same(plain.sample(12).columns, ours.sample(12).columns)


def test_rows_of_another_kind_are_refused_before_anything_is_changed() -> None:
    _, once = both(AutoresetMode.NEXT_STEP, 1, [7, 7])
    buffer = ReplayBuffer(60)
    buffer.add(transitions(once[0], 1, 0.9))
    rows = transitions(once[1], 1, 0.9)
    small = {name: rows["obs"].whole()[:, :, :8] for name in ("obs", "next_obs")}
    with pytest.raises(RunError, match=r"expected 'obs' with rows of uint8 \(4, 24, 24\)"):
        buffer.add(rows | small)
    assert buffer.resident == len(transitions(once[0], 1, 0.9)["rewards"])
    buffer.add(rows)


def test_small_frames_and_woven_ones_are_kept_whole() -> None:
    """Where to know the place of a frame costs as much as the frame, or to take it out more."""
    cases = [((1, 12, 12), "first"), ((24, 24, 1), "last"), ((24, 24), "auto")]
    for shape, channels in cases:
        how = Preprocessing(frame_stack=4, channels=channels)
        envs = make_envs(SyncVectorEnv([pictures(shape)] * 2), 2, preprocessing=how)
        assert stacked_in(envs) == 1, shape
