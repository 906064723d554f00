"""Windows of n steps that go on in the next fragment, against an oracle that walks episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from rillflow.envs import make_envs
from rillflow.errors import RunError
from rillflow.experience.batch import SampleBatch
from rillflow.experience.transitions import transitions
from rillflow.experience.waiting_steps import WaitingSteps
from tests.unit.envs.parts import Counting

GAMMA = 0.5


class Walk:
    """Environments, the fragments they give, and each episode as it went, for an oracle."""

    def __init__(self, mode: AutoresetMode, lanes: int, n_step: int) -> None:
        vector = SyncVectorEnv([Counting] * lanes, autoreset_mode=mode)
        self.envs = make_envs(vector, lanes)
        self.obs = self.envs.reset()
        self.waiting = WaitingSteps(n_step)
        self.went: list[list[tuple[Any, ...]]] = [[] for _ in range(lanes)]
        """for each environment all its transitions: seen, reward, after, terminated, truncated"""

    def fragment(self, length: int) -> SampleBatch:
        writer = self.waiting.begin(length)
        for _ in range(length):
            seen = self.obs
            step = self.envs.step(np.zeros(len(seen), np.int64))
            writer.write(seen, np.zeros(len(seen), np.int64), seen[:, 0], step)
            after = step.obs if step.next_obs is None else step.next_obs
            for lane, went in enumerate(self.went):
                if step.valid is None or step.valid[lane]:
                    ends = bool(step.terminated[lane]), bool(step.truncated[lane])
                    went.append((seen[lane], step.rewards[lane], after[lane], *ends))
            self.obs = step.obs
        return self.waiting.hold_back(writer.finish(self.obs))


def oracle(went: list[tuple[Any, ...]], n: int) -> list[tuple[Any, ...]]:
    """A row for each transition whose window is known, step by step along each episode."""
    rows: list[tuple[Any, ...]] = []
    for t in range(len(went)):
        total, discount = 0.0, 1.0
        for k in range(n):
            if t + k >= len(went):
                return rows  # nobody knows yet
            _, reward, after, terminated, truncated = went[t + k]
            total += discount * reward
            discount *= GAMMA
            if terminated or truncated:
                break
        discount = 0.0 if terminated else discount
        rows.append((tuple(went[t][0]), total, discount, tuple(after)))
    return rows


def as_tuples(rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    parts = zip(rows["obs"], rows["rewards"], rows["discount"], rows["next_obs"], strict=True)
    return [(tuple(o), float(r), float(d), tuple(a)) for o, r, d, a in parts]


@settings(max_examples=60, deadline=None)
@given(
    mode=st.sampled_from(list(AutoresetMode)),
    lanes=st.integers(1, 3),
    n=st.integers(1, 6),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=12),
)
def test_every_row_looks_n_steps_ahead_or_to_the_end_of_its_episode(
    mode: AutoresetMode, lanes: int, n: int, lengths: list[int]
) -> None:
    """Whatever the fragments are cut into: the rows are those of whole episodes, each once."""
    walk = Walk(mode, lanes, n)
    made: list[tuple[Any, ...]] = []
    for length in lengths:
        batch = walk.fragment(length)
        rows = as_tuples(transitions(batch, n, GAMMA))
        assert batch.steps == len(rows)
        made += rows
    expected = [oracle(went, n) for went in walk.went]
    # an episode that has just ended is known to the oracle already; rows wait all the same
    steps = sum(lengths) - (n - 1)
    count = sum(len(went) for went in expected)
    assert count - lanes * (n - 1) <= len(made) <= count
    known = [row for went in expected for row in went]
    for row in made:
        assert row in known
        known.remove(row)
    if mode is not AutoresetMode.NEXT_STEP:
        assert len(made) == lanes * max(0, steps)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_fragments_of_any_length_give_the_same_rows(mode: AutoresetMode) -> None:
    """Of one step each as of thirty."""
    many, whole = Walk(mode, 2, 4), Walk(mode, 2, 4)
    rows = [transitions(many.fragment(1), 4, GAMMA) for _ in range(30)]
    together = as_tuples(transitions(whole.fragment(30), 4, GAMMA))
    assert sorted(row for part in rows for row in as_tuples(part)) == sorted(together)


def test_steps_that_wait_go_on_from_a_saved_state() -> None:
    one, two = (Walk(AutoresetMode.SAME_STEP, 2, 4) for _ in range(2))
    one.fragment(5)
    two.fragment(5)
    two.waiting = WaitingSteps(4)
    two.waiting.set_state(one.waiting.get_state())
    first, second = one.fragment(3), two.fragment(3)
    assert sorted(first) == sorted(second)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_another_n_step_is_refused() -> None:
    walk = Walk(AutoresetMode.SAME_STEP, 2, 4)
    walk.fragment(5)
    with pytest.raises(RunError, match="n_step=4; these settings have n_step=3"):
        WaitingSteps(3).set_state(walk.waiting.get_state())


def test_a_fragment_that_failed_leaves_no_window_over_the_gap() -> None:
    """What waited is lost with the steps that would have followed."""
    walk = Walk(AutoresetMode.SAME_STEP, 1, 3)
    walk.fragment(4)
    walk.waiting.begin(4)  # and the environment raised
    walk.obs = walk.envs.step(np.zeros(1, np.int64)).obs
    rows = transitions(walk.fragment(4), 3, GAMMA)
    assert len(rows["obs"]) == 4 - 2


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_that_begin_anew_truncate_what_waits(mode: AutoresetMode) -> None:
    """It is bootstrapped from the observation that really followed, not from the new episode's."""
    walk = Walk(mode, 1, 3)
    walk.fragment(4)
    before = walk.obs.copy()
    walk.waiting.cut()
    walk.obs = walk.envs.reset()
    first = tuple(walk.obs[0])
    rows = as_tuples(transitions(walk.fragment(3), 3, GAMMA))
    reached = [row for row in rows if row[3] == tuple(before[0])]
    assert reached
    for seen, _, discount, after in rows:
        if after == first or seen[0] != after[0]:
            pytest.fail(f"a window from {seen} reaches {after}, over the cut; {discount}")


def test_one_step_needs_nobody_to_wait() -> None:
    """Fragments are as they were: no padding, no column more."""
    batch = Walk(AutoresetMode.SAME_STEP, 2, 1).fragment(5)
    assert batch.shape == (5, 2)
    assert "valid" not in batch
