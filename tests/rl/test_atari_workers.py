"""Rollout workers in Atari games: what they learn from, and the threads that they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rillflow.algorithms import impala
from rillflow.rl import rollout_worker
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

pytest.importorskip("ale_py", reason="ale-py is an optional extra")


def worker(**settings: Any) -> RolloutWorker:
    options = {"env_config": {"noop_max": 0}, "num_envs_per_worker": 2, **settings}
    config = impala.Config(env="ALE/Breakout-v5", num_workers=1, **options)
    return RolloutWorker(config, Workers(config).spec, ActorInfo("worker-0", 0, 0, seed=1))


def test_a_worker_learns_from_lives_and_counts_games() -> None:
    own = worker(rollout_fragment_length=250)
    batch = own.sample()
    told = own.pop_metrics()
    assert told is not None
    games, ends = len(told["episodes"]), int(batch["terminated"].sum())
    assert ends > games  # five lives to a game
    following = batch["terminated"][:-1] & batch["valid"][1:]
    assert following.any(), "after a life comes an ordinary step of the same game"
    own.close()


def test_playing_whole_episodes_does_not_stop_at_a_life() -> None:
    own = worker()
    lives: list[int] = []
    step = own._step

    def watched(actions: Any) -> Any:
        told = step(actions)
        assert own.envs._lives is not None
        lives.append(int(own.envs._lives.get_state().min()))
        return told

    own._step = watched
    own.play(2)
    assert 0 in lives, "both games went on to their last life"
    assert own.envs.lives_end
    own.close()


def test_workers_share_the_cores_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = set(range(16))
    monkeypatch.setattr(rollout_worker.os, "sched_getaffinity", lambda pid: cores)
    threads = {
        count: rollout_worker._own_cores(impala.Config(num_workers=count)) for count in (0, 4, 64)
    }
    assert threads == {0: 16, 4: 4, 64: 1}


def test_games_are_the_same_with_any_number_of_threads() -> None:
    seen = []
    for threads in (1, 2):
        own = worker(env_config={"num_threads": threads}, rollout_fragment_length=30)
        seen.append(own.sample())
        own.close()
    assert np.array_equal(seen[0]["obs"], seen[1]["obs"])
