"""What is done to Atari games before a policy sees them: the protocol of the papers, option by
option, and the same as Gymnasium's own preprocessing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rillflow.envs import Envs, make_envs
from rillflow.envs.atari_options import OPTIONS, SHORT, atari_options, of_ale
from rillflow.errors import BuildError

pytest.importorskip("ale_py", reason="ale-py is an optional extra")

PLAIN = {"noop_max": 0, "use_fire_reset": False, "sticky_actions": 0.0}
"""nothing at random, nothing pressed"""


def opened(game: str, copies: int = 1, **config: Any) -> Envs:
    return make_envs(f"ALE/{game}-v5", copies, seed=3, env_config={"num_threads": 1, **config})


def by_area(image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Each pixel of the smaller image is the mean of what it covers: OpenCV's INTER_AREA."""

    def weights(many: int, few: int) -> NDArray[np.float64]:
        edges = np.arange(few + 1) * many / few
        pixels = np.arange(many)
        ends = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
        return np.clip(ends, 0, None) * few / many

    width, height = size
    mean = weights(image.shape[0], height) @ image @ weights(image.shape[1], width).T
    return np.rint(mean).astype(np.uint8)


@pytest.fixture
def gymnasium_pong(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gymnasium's `AtariPreprocessing` and `FrameStackObservation`, without OpenCV."""
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    def resize(image: NDArray[Any], size: tuple[int, int], interpolation: int) -> NDArray[Any]:
        assert interpolation == 3
        return by_area(image, size)

    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(resize=resize, INTER_AREA=3))
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    small = AtariPreprocessing(env, noop_max=0, frame_skip=4)
    stacked = FrameStackObservation(small, 4, padding_type="zero")
    yield stacked
    stacked.close()


def test_frames_are_those_of_gymnasiums_own_preprocessing(gymnasium_pong: Any) -> None:
    """The same actions give the same rewards and images: skipped frames, the maximum of two, grey,
    84 x 84, four of them; pixels to within the rounding of a mean."""
    envs = opened("Pong", **PLAIN)
    ours, (theirs, _) = envs.reset()[0], gymnasium_pong.reset(seed=3)
    rng, rewards = np.random.default_rng(0), []
    for _ in range(120):
        assert np.abs(ours.astype(int) - theirs).max() <= 1
        action = rng.integers(0, 6, 1)
        step = envs.step(action)
        ours, (theirs, reward, terminated, *_) = step.obs[0], gymnasium_pong.step(int(action[0]))
        assert (step.rewards[0], step.terminated[0]) == (reward, terminated)
        rewards.append(reward)
    assert min(rewards) == -1.0, "nobody scored: the test has seen too little"
    envs.close()


def frames_at_start(games: int = 4, **config: Any) -> NDArray[Any]:
    envs = opened("Breakout", games, resumable=False, **config)
    _, info = envs.vector.reset(seed=0)
    envs.close()
    frames: NDArray[Any] = info["episode_frame_number"]
    return frames


def test_episodes_begin_with_up_to_thirty_idle_frames() -> None:
    idle = frames_at_start(32, use_fire_reset=False)
    assert idle.min() == 0
    assert 20 <= idle.max() <= 30
    assert len(set(idle.tolist())) > 10
    assert not frames_at_start(noop_max=0, use_fire_reset=False).any()


def test_fire_begins_the_game_unless_it_is_not_to() -> None:
    assert (frames_at_start(noop_max=0) == 1).all()
    waits = opened("Breakout", 1, **PLAIN)
    waits.reset()
    still = [waits.step(np.zeros(1, int)).obs[0, -1] for _ in range(20)]
    assert all(np.array_equal(still[4], frame) for frame in still[5:])  # no ball flies
    waits.close()


def test_a_game_is_cut_after_so_many_frames() -> None:
    envs = opened("Pong", **PLAIN, max_frames=400)
    envs.reset()
    steps = [envs.step(np.zeros(1, int)) for _ in range(100)]
    assert [t for t, step in enumerate(steps, 1) if step.truncated[0]] == [100]
    assert not any(step.terminated[0] for step in steps)
    assert OPTIONS["max_num_frames_per_episode"].standard == 108_000
    envs.close()


def test_sticky_actions_repeat_the_last_one() -> None:
    """One action throughout is the same game sticky or not; another one now and then is not."""
    seen = {}
    for sticky in (0.0, 0.9):
        envs = opened("Breakout", **{**PLAIN, "sticky_actions": sticky})
        envs.reset()
        fire, moves = np.ones(1, int), np.array([2])
        envs.step(fire)
        seen[sticky] = [envs.step(moves).obs for _ in range(6)]
        envs.close()
    assert not np.array_equal(seen[0.0][-1], seen[0.9][-1])
    assert atari_options("ALE/Pong-v5", {})["repeat_action_probability"] == 0.25


def test_an_old_name_of_version_four_is_not_sticky() -> None:
    def sticky(name: str) -> Any:
        from rillflow.envs.registry import living_name

        with pytest.warns(UserWarning, match="is an old name"):
            return living_name(name).config["repeat_action_probability"]

    assert (sticky("PongNoFrameskip-v4"), sticky("Pong-v0")) == (0.0, 0.25)


def test_actions_are_those_that_do_something_or_all() -> None:
    sizes = []
    for config in ({}, {"full_action_space": True}):
        envs = opened("Breakout", **config)
        sizes.append(envs.action_space.n)  # type: ignore[attr-defined]
        envs.close()
    assert sizes == [4, 18]


def play(envs: Envs, steps: int) -> tuple[int, list[tuple[float, int]]]:
    """At random: how often an episode ended for learning, and the whole games."""
    envs.reset()
    rng, ends, games = np.random.default_rng(0), 0, []
    for _ in range(steps):
        step = envs.step(rng.integers(0, 4, envs.num_envs))
        assert step.valid is not None
        assert not (step.terminated & ~step.valid).any()
        ends += int(step.terminated.sum())
        games += envs.pop_episodes()
    return ends, games


def test_a_life_lost_ends_the_episode_for_learning_and_the_game_goes_on() -> None:
    """Breakout has five lives: nearly five ends to each game that is counted, and no row is lost;
    games, scores and frames are those that are played without."""
    told = {}
    for learns in (False, True):
        envs = opened("Breakout", 2)
        envs.lives_end = learns
        told[learns] = play(envs, 700)
        envs.close()
    (ends, games), (lives, same) = told[False], told[True]
    assert games == same
    assert ends == len(games) >= 4
    assert 5 * len(games) <= lives <= 5 * (len(games) + 2)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_ends_of_lives_are_the_same_in_both_modes_of_beginning_anew(mode: str) -> None:
    envs = opened("Breakout", autoreset_mode=mode, **PLAIN)
    envs.lives_end = True
    envs.reset()
    envs.step(np.ones(1, int))
    ends = []
    for t in range(300):
        step = envs.step(np.array([t % 2]))  # FIRE now and then, and nothing else
        if step.terminated[0]:
            ends.append(bool(envs._was_done[0]))
    assert ends[:5] == [False, False, False, False, True]
    envs.close()


def test_lives_can_be_left_alone_and_rewards_as_they_are() -> None:
    envs = opened("SpaceInvaders", 2, episodic_life=False, clip_rewards=False)
    envs.lives_end = True
    envs.reset()
    rng, most, ends, games = np.random.default_rng(0), 0.0, 0, 0
    for _ in range(600):
        step = envs.step(rng.integers(0, 6, 2))
        most = max(most, float(step.rewards.max()))
        ends += int(step.terminated.sum())
        games += len(envs.pop_episodes())
    assert ends == games >= 1
    assert most > 1.0
    envs.close()


def test_lives_are_saved_with_the_games() -> None:
    envs = opened("Breakout", 2)
    envs.lives_end = True
    envs.reset()
    rng = np.random.default_rng(0)
    for _ in range(50):
        envs.step(rng.integers(0, 4, 2))
    saved = envs.get_state()
    actions = rng.integers(0, 4, (80, 2))
    future = [envs.step(one).terminated for one in actions]
    assert np.any(future)
    envs.set_state(saved)
    assert np.array_equal([envs.step(one).terminated for one in actions], future)
    envs.close()


def test_games_that_need_not_be_resumed_are_not_recorded() -> None:
    envs = opened("Pong", resumable=False)
    assert not envs.exact
    envs.reset()
    envs.step(np.zeros(1, int))
    assert envs.get_state()["env"] is None
    envs.close()


class TestOptions:
    def test_easy_names_mean_the_same(self) -> None:
        for short, name in SHORT.items():
            value = {"sticky_actions": 0.1, "frame_skip": 2, "max_frames": 500}.get(short, False)
            assert atari_options("ALE/Pong-v5", {short: value})[name] == value

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"sticky": 0.5}, "no option 'sticky', did you mean 'sticky_actions'"),
            ({"sticky_actions": 1.5}, "sticky_actions must be a number from 0 to below 1, got 1.5"),
            ({"frameskip": 0}, "frameskip must be a whole number of at least 1, got 0"),
            ({"noop_max": True}, "noop_max must be a whole number of at least 0, got True"),
            ({"episodic_life": 1}, "episodic_life must be True or False, got 1"),
            ({"batch_size": 4}, "'batch_size': all games of a worker are stepped together"),
            ({"life_loss_info": True}, "episodic_life=True ends episodes with each life"),
            (
                {"frame_skip": 2, "frameskip": 4},
                "frameskip is another name of frameskip|frame_skip is another name of frameskip",
            ),
        ],
    )
    def test_what_cannot_be_is_told(self, config: dict[str, Any], message: str) -> None:
        with pytest.raises(BuildError, match=message):
            make_envs("ALE/Pong-v5", 1, env_config=config)

    def test_everything_that_is_wrong_is_told_at_once(self) -> None:
        with pytest.raises(BuildError, match=r"frameskip must.*; noop_max must"):
            atari_options("ALE/Pong-v5", {"frameskip": 0, "noop_max": -1})

    def test_ale_is_told_of_its_own_options_and_never_clips(self) -> None:
        told = of_ale(atari_options("ALE/Pong-v5", {"clip_rewards": True}))
        assert told["reward_clipping"] is False
        assert not {"episodic_life", "resumable"} & told.keys()
