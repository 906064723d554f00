"""Atari with the standard preprocessing, where ale-py is installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from rillflow.envs import make_envs
from rillflow.errors import BuildError


def test_without_ale_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(BuildError, match=r"pip install 'rillflow\[atari\]'"):
        make_envs("ALE/Pong-v5", 1)


class TestWithAle:
    @pytest.fixture(autouse=True)
    def _ale(self) -> None:
        pytest.importorskip("ale_py", reason="ale-py is an optional extra")

    def test_pong_is_four_grey_frames_of_84_by_84(self) -> None:
        envs = make_envs("ALE/Pong-v5", 2, seed=1)
        obs = envs.reset()
        assert (obs.shape, obs.dtype) == ((2, 4, 84, 84), np.uint8)
        rng = np.random.default_rng(0)
        for _ in range(900):
            step = envs.step(rng.integers(0, 6, 2))
            assert step.rewards.dtype == np.float32
            assert np.abs(step.rewards).max() <= 1
        episodes = envs.pop_episodes()
        assert episodes
        assert all(-21 <= total <= 0 and length > 100 for total, length in episodes)
        envs.close()

    def test_same_seed_same_game(self) -> None:
        seen = []
        for _ in range(2):
            envs = make_envs("ALE/Breakout-v5", 2, seed=7)
            obs = [envs.reset()]
            obs += [envs.step(np.array([t % 4, 3 - t % 4])).obs for t in range(60)]
            seen.append(np.stack(obs))
            envs.close()
        assert np.array_equal(seen[0], seen[1])

    def test_learning_sees_clipped_rewards_and_statistics_the_score(self) -> None:
        envs = make_envs("ALE/SpaceInvaders-v5", 2, seed=1)
        envs.reset()
        rng, episodes = np.random.default_rng(0), []
        for _ in range(1500):
            assert envs.step(rng.integers(0, 6, 2)).rewards.max() <= 1.0
            episodes += envs.pop_episodes()
        assert max(total for total, _ in episodes) >= 50
        envs.close()

    def test_an_old_id_plays(self) -> None:
        with pytest.warns(UserWarning, match="'Pong-v0' is an old name; using 'ALE/Pong-v5'"):
            envs = make_envs("Pong-v0", 1)
        assert envs.reset().shape == (1, 4, 84, 84)

    def test_config_overrides_the_standard(self) -> None:
        envs = make_envs("ALE/TicTacToe3D-v5", 1, env_config={"stack_num": 2})
        assert envs.observation_space.shape == (2, 84, 84)

    def test_an_unknown_game_or_option_is_named(self) -> None:
        with pytest.raises(BuildError, match="did you mean 'ALE/Pong-v5'"):
            make_envs("ALE/Pnog-v5", 1)
        with pytest.raises(BuildError, match="speed"):
            make_envs("ALE/Pong-v5", 1, env_config={"speed": 1})
