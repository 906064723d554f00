"""One copy of an environment that raises is reset alone; nothing is made up in its place."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rillflow.algorithms import ppo
from rillflow.envs import reset_after_error
from rillflow.envs.checks import EnvError
from rillflow.envs.make import make_envs
from rillflow.experience.transitions import transitions
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo
from tests.masked import Gate


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_after_error, "_PAUSE", 0.0)


class Counting(gymnasium.Env[Any, Any]):
    """Says which episode and which step of it this is; raises in steps and resets as it is told.

    Args:
        fails: the steps of a copy's life in which it raises.
        resets: of these many resets after a failure each raises; a new copy counts anew.
        log: every transition that really happened is added to it.
    """

    made = 0
    observation_space = spaces.Box(-1e6, 1e6, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, fails: tuple[int, ...], resets: int, log: list[Any]) -> None:
        self.fails, self.resets, self.log = fails, resets, log
        self.name, Counting.made = Counting.made, Counting.made + 1
        self.episode, self.t, self.life = -1, 0, 0
        self.broken = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if self.broken and self.resets:
            self.resets -= 1
            raise OSError("the simulator does not start")
        self.broken = False
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.life += 1
        if self.life in self.fails:
            self.broken = True
            raise ValueError("the simulator broke")
        before = self._obs()
        self.t += 1
        self.log.append((*before, *self._obs()))
        return self._obs(), 1.0, self.t == 50, False, {}

    def _obs(self) -> Any:
        return np.array([self.name, self.episode, self.t], np.float32)


def worker(fails: tuple[int, ...], resets: int = 0, length: int = 60) -> tuple[Any, list[Any]]:
    log: list[Any] = []
    Counting.made = 0
    first = {0: fails}

    def make() -> Counting:
        return Counting(first.get(Counting.made - 1, ()), resets, log)  # one is made to be asked

    config = ppo.Config.make(
        env=make, num_workers=1, num_envs_per_worker=3, rollout_fragment_length=length, hidden=(4,)
    )
    spec = Workers(config).spec
    return RolloutWorker(config, spec, ActorInfo("worker-0", 0, 0, seed=1)), log


def learned_from(batch: Any) -> set[tuple[float, ...]]:
    """Each transition of a batch: what was seen, and what followed."""
    valid, following = batch["valid"], batch.following()
    return {
        (*batch["obs"][t, i].tolist(), *following[t, i].tolist())
        for t, i in zip(*np.nonzero(valid), strict=True)
    }


@pytest.mark.parametrize("step", [52, 60, 61, 120], ids=["late", "last", "first", "next"])
def test_no_transition_is_made_up_and_none_is_lost(step: int) -> None:
    """Wherever in a fragment it fails, the rows are exactly the steps that happened."""
    sampler, log = worker((step,))
    batches = [sampler.sample() for _ in range(3)]
    made: set[tuple[float, ...]] = set()
    for batch in batches:
        made |= learned_from(batch)
    assert made == set(log)
    episodes = [length for _, length in sampler.envs.pop_episodes()]
    assert set(episodes) == {50}, "an episode that was cut is no episode that ended"
    assert sampler.envs.pop_failures()[0] == 1


def test_the_step_before_is_marked_as_the_last_of_its_episode() -> None:
    sampler, _ = worker((55,))
    batch = sampler.sample()
    cut = [tuple(where) for where in np.argwhere(batch["truncated"])]
    assert cut == [(54, 0)]  # one step of the copy's 55 was a reset
    assert not batch["valid"][55, 0]
    assert batch["valid"][54, 0]
    rows = transitions(batch, 3, 0.9)
    ends = {tuple(end) for end in rows["next_obs"][rows["obs"][:, 0] == 0].tolist()}
    assert all(start == end or end[2] for start, end in zip(ends, ends, strict=True))
    same = rows["obs"][:, :2] == rows["next_obs"][:, :2]
    assert same.all(), "no row leads from one episode into another"


def test_the_others_go_on() -> None:
    sampler, _ = worker((55,))
    batch = sampler.sample()
    assert batch["valid"][:, 1:].sum() == 2 * 59  # each was reset once, after 50 steps
    assert not batch["truncated"][:, 1:].any()


def test_a_copy_that_cannot_be_reset_is_made_anew() -> None:
    sampler, log = worker((55,), resets=1)
    before = Counting.made
    batch = sampler.sample()
    assert Counting.made == before + 1
    assert learned_from(batch) == set(log)
    assert batch["obs"][-1, 0, 0] == before


def test_resets_are_tried_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, _ = worker((55,), resets=1000)
    monkeypatch.setattr(Counting, "__init__", _always_broken(Counting.__init__))
    with pytest.raises(OSError, match="does not start") as failed:
        sampler.sample()
    assert "tried 5 times" in failed.value.__notes__[0]
    assert Counting.made == 4 + 4  # four copies, and four that were to take the place of one


def _always_broken(make: Any) -> Any:
    def init(self: Any, *arguments: Any) -> None:
        make(self, *arguments)
        self.broken = True

    return init


def test_what_fails_in_the_first_steps_is_a_mistake() -> None:
    """It is told at once, in the words that it always was."""
    sampler, _ = worker((2,))
    with pytest.raises(ValueError, match=r"\(index 0\) at step 2 raised ValueError in step"):
        sampler.sample()


def test_what_fails_often_is_a_mistake_too() -> None:
    sampler, _ = worker(tuple(range(55, 200, 2)))
    with pytest.raises(ValueError, match="the simulator broke"):
        [sampler.sample() for _ in range(3)]
    assert 1 <= sampler.envs.pop_failures()[0] <= 5


def test_a_broken_promise_is_not_mended() -> None:
    class Short(Counting):
        def step(self, action: Any) -> Any:
            obs, *rest = super().step(action)
            return (obs[:2] if self.life == 70 else obs, *rest)

    envs = make_envs(lambda: Short((), 0, []), 2)
    envs.mend()
    envs.reset()
    with pytest.raises(EnvError, match="expected shape"):
        [envs.step(np.zeros(2, int)) for _ in range(80)]


def test_only_who_asks_for_it_has_copies_mended() -> None:
    """An evaluation wants to know."""
    envs = make_envs(lambda: Counting((70,), 0, []), 2)
    envs.reset()
    with pytest.raises(ValueError, match="the simulator broke"):
        [envs.step(np.zeros(2, int)) for _ in range(80)]


def test_time_limits_count_from_the_new_beginning() -> None:
    """Also those that a step goes past."""
    made: list[int] = []

    def make() -> Any:
        made.append(0)
        inner = Counting((40,) if len(made) == 1 else (), 0, [])
        return gymnasium.wrappers.TimeLimit(inner, 30)

    envs = make_envs(make, 4)
    envs.mend()
    envs.reset()
    truncated = np.array([envs.step(np.zeros(4, int)).truncated for _ in range(90)])
    others = np.flatnonzero(truncated[:, 1]).tolist()
    assert others == [29, 60]
    # 30 steps and a reset; then eight more, the failure in the ninth, and 30 from there
    assert np.flatnonzero(truncated[:, 0]).tolist() == [29, 70]


def test_few_of_many_failures_are_told() -> None:
    mend = reset_after_error.Mending(lambda index, seed: 0)
    mend.allowed = True
    told = []
    for _ in range(1000):
        mend.reset(0, reset_after_error.EnvFailed("broke"), 10**9)
        told += mend.pop()[1]
    assert len(told) == 3 + 2 + 2 + 1  # 1, 2, 3, then 10, 30, 100, 300, 1000


def test_an_error_that_a_guard_tells_is_not_its_own_cause() -> None:
    """Whoever follows the causes of an error comes to an end."""
    envs = make_envs(partial(Gate, size=9), 1, action_masks=False)
    envs.reset()
    forbidden = np.array([int(envs.vector.envs[0].unwrapped.mask.argmin())])
    with pytest.raises(EnvError, match="is forbidden by") as raised:
        envs.step(forbidden)
    causes: list[BaseException] = [raised.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
        assert len(causes) < 10
    assert isinstance(causes[-1], ValueError)
