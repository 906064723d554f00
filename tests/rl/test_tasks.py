"""Tasks inside workers: functions of one's own, next to the policy and the environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import a2c
from rillflow.rl.tasks import ParallelTasks
from rillflow.rl.workers import Workers


def workers(**settings: Any) -> Workers:
    return Workers(a2c.Config(num_workers=2, num_envs_per_worker=3, hidden=(8,), **settings))


def turns(worker: Any, turn: int) -> tuple[int, int]:
    return worker.info.index, turn


@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_each_worker_runs_the_task_turn_after_turn(engine: str) -> None:
    rounds = ParallelTasks(workers(), turns).gather_sync().take(3, engine=engine)
    assert rounds == [[(0, turn), (1, turn)] for turn in range(3)]


def test_a_task_keeps_what_it_writes_to_its_worker() -> None:
    def count(worker: Any, turn: int) -> int:
        worker.seen = getattr(worker, "seen", 0) + 10
        return int(worker.seen)

    assert ParallelTasks(workers(), count).gather_sync().take(2, engine="sim") == [
        [10, 10],
        [20, 20],
    ]


def test_a_task_may_ask_for_the_context() -> None:
    def who(worker: Any, turn: int, ctx: rf.Context) -> bool:
        return ctx.actor is worker

    assert ParallelTasks(workers(), who).gather_sync().take(1, engine="sim") == [[True, True]]


def test_turns_go_on_in_a_restored_run() -> None:
    flow = ParallelTasks(workers(), turns).gather_sync()
    with flow.run("sim") as run:
        next(run)
        state = run.get_state()
    again = ParallelTasks(workers(), turns).gather_sync().run("sim")
    with again as run:
        run.set_state(state)
        assert next(run) == [(0, 1), (1, 1)]


def test_what_a_task_raises_names_the_task() -> None:
    def broken(worker: Any, turn: int) -> int:
        raise ValueError("no such perturbation")

    with pytest.raises(rf.OperatorError, match=r"RunTask\(broken\)"):
        ParallelTasks(workers(), broken).gather_sync().take(1, engine="sim")


def test_play_gives_whole_episodes_each_environment_one() -> None:
    """CartPole gives 1 for each step, so that a return is the length of its episode."""

    def play(worker: Any, turn: int) -> tuple[list[float], int]:
        before = worker.steps
        returns = worker.play(3)
        return returns, worker.steps - before

    ((returns, steps), _), *_ = ParallelTasks(workers(), play).gather_sync().take(1, engine="sim")
    assert len(returns) == 3
    assert sum(returns) == steps
    assert all(value >= 8 for value in returns)


def test_rollouts_go_on_after_playing() -> None:
    def both(worker: Any, turn: int) -> tuple[tuple[int, int], float]:
        worker.play(1, greedy=True)
        batch = worker.sample()
        return batch.shape, float(np.abs(batch["obs"][0]).max())

    ((one, other),) = ParallelTasks(workers(), both).gather_sync().take(1, engine="sim")
    assert one[0] == other[0] == (16, 3)
    assert max(one[1], other[1]) <= 0.05  # what an episode of CartPole begins with
