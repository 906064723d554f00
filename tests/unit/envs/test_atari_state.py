"""Atari games go on from where they were saved, by playing the same actions again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rillflow.envs import EnvError, Envs, atari_state, make_envs

pytest.importorskip("ale_py", reason="ale-py is an optional extra")

SHORT = {"max_num_frames_per_episode": 80, "num_threads": 1}
"""episodes of 20 steps"""


def play(envs: Envs, steps: int, seed: int) -> list[Any]:
    """Random actions; every array that was seen."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        step = envs.step(rng.integers(0, 4, envs.num_envs))
        seen += [array for array in step if array is not None]
    return seen


def same(left: list[Any], right: list[Any]) -> bool:
    return len(left) == len(right) and all(map(np.array_equal, left, right))


def test_games_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames, sticky actions, idle starts and later seeds: the future is the same, bit for bit."""
    monkeypatch.setattr(atari_state, "STEPS_PER_SEED", 30)
    envs = make_envs("ALE/Breakout-v5", 2, seed=5, env_config=SHORT)
    assert envs.exact
    envs.reset()
    play(envs, 7, seed=0)
    envs.vector.reset(options={"reset_mask": np.array([True, False])})
    play(envs, 38, seed=0)
    saved = envs.get_state()
    # the first was seeded by that reset, the second with the episode that began after 42 steps:
    # no more than that has to be played again
    assert saved["env"]["taken"].tolist() == [2, 2]
    assert saved["env"]["tape"]["length"].tolist() == [38, 3]
    future, episodes = play(envs, 25, seed=1), envs.pop_episodes()
    envs.set_state(saved)
    assert np.array_equal(envs.obs, saved["obs"])
    assert same(play(envs, 25, seed=1), future)
    assert envs.pop_episodes() == episodes
    envs.close()


def test_an_episode_that_has_just_ended_begins_where_it_would_have() -> None:
    """Also when the next step would only have begun it; a game that goes elsewhere is refused."""
    envs = make_envs("ALE/Pong-v5", 1, seed=5, env_config=SHORT)
    envs.reset()
    while not envs.step(np.zeros(1, np.int64)).truncated[0]:
        pass
    saved = envs.get_state()
    future = play(envs, 5, seed=1)
    assert not future[4][0], "not valid: this step began the episode"
    envs.set_state(saved)
    assert same(play(envs, 5, seed=1), future)
    saved["env"]["seed"] += 1
    with pytest.raises(EnvError, match=r"'ALE/Pong-v5': .*went another way: .* ale-py"):
        envs.set_state(saved)
    envs.close()


def test_games_that_begin_within_a_step_go_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atari_state, "STEPS_PER_SEED", 30)
    config = {**SHORT, "autoreset_mode": "SameStep"}
    envs = make_envs("ALE/Pong-v5", 1, seed=5, env_config=config)
    envs.reset()
    play(envs, 25, seed=0)
    saved = envs.get_state()
    future = play(envs, 20, seed=1)
    assert envs.get_state()["env"]["tape"]["length"].tolist() == [5], "a new seed after 40"
    envs.set_state(saved)
    assert same(play(envs, 20, seed=1), future)
    envs.close()
