"""Images in another size, in grey, and several observations as one, for any environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rillflow.envs import make_envs, make_multi_agent_envs
from rillflow.envs.preprocessing import Preprocessing
from rillflow.envs.resizing import along, taps
from rillflow.errors import BuildError
from rillflow.images import image_in
from tests.catch import Catch
from tests.unit.envs.parts import Counting

MODES = list(AutoresetMode)


@pytest.mark.parametrize(("old", "new"), [(457, 114), (10, 4), (7, 7), (5, 12), (3, 1), (1, 3)])
def test_no_brightness_is_lost(old: int, new: int) -> None:
    """Each new pixel is a mean of old ones, and each old one counts alike where images shrink."""
    weights = along(np.eye(old, dtype=np.float32), 0, taps(old, new))
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    assert (weights >= 0).all()
    if new <= old:
        np.testing.assert_allclose(weights.sum(0), new / old, rtol=1e-4)


def test_a_shrunk_image_is_the_mean_of_the_areas() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(1, 4, 6)
    small = along(along(image, 1, taps(4, 2)), 2, taps(6, 2))
    assert small.tolist() == [[[4, 7], [16, 19]]]


def pictures(shape: tuple[int, ...], most: int = 255, dtype: Any = np.uint8) -> Any:
    """An environment that shows random pictures."""

    class Pictures(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = Box(0, most, shape, dtype)
            self.rng = np.random.default_rng(0)

        def _observe(self) -> Any:
            return (self.rng.random(shape) * most).round().astype(dtype)

    return Pictures


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((30, 20, 3), (8, 6, 3)), ((3, 30, 20), (3, 8, 6)), ((30, 20), (8, 6))],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_are_resized_on_whatever_axes_they_have(
    shape: Any, expected: Any, dtype: Any
) -> None:
    raw = make_envs(pictures(shape, dtype=dtype), 2).reset()
    envs = make_envs(pictures(shape, dtype=dtype), 2, preprocessing=Preprocessing(resize=(8, 6)))
    small = envs.reset()
    assert (small.shape, small.dtype) == ((2, *expected), dtype)
    assert envs.observation_space.shape == expected
    assert small.mean() == pytest.approx(raw.mean(), rel=0.02)


def test_grey_is_as_bright_as_its_colours() -> None:
    plain = make_envs(pictures((20, 20, 3)), 1).reset()
    grey = make_envs(pictures((20, 20, 3)), 1, preprocessing=Preprocessing(grayscale=True)).reset()
    assert grey.shape == (1, 20, 20, 1)
    expected = plain @ np.array([0.299, 0.587, 0.114])
    assert np.abs(grey[..., 0] - expected).max() <= 0.51


def test_an_average_of_bits_is_a_byte() -> None:
    envs = make_envs(Catch, 3, preprocessing=Preprocessing(resize=5))
    small = envs.reset()
    assert envs.observation_space.high.max() == 255
    assert 0 < small.max() < 255


def test_large_images_are_shrunk_and_that_is_told() -> None:
    envs = make_envs(pictures((457, 120, 3)), 1, preprocessing=Preprocessing(resize="auto"))
    assert envs.observation_space.shape == (114, 30, 3)
    assert "457x120 pixels are shrunk to 114x30" in (envs.shrunk or "")
    kept = make_envs(pictures((128, 100, 3)), 1, preprocessing=Preprocessing(resize="auto"))
    assert kept.shrunk is None
    assert kept.observation_space.shape == (128, 100, 3)


def test_a_long_and_narrow_image_stays_an_image() -> None:
    """Shrunk to three pixels it would be a table, which an mlp is given flat."""
    envs = make_envs(pictures((300, 9, 3)), 1, preprocessing=Preprocessing(resize="auto"))
    assert envs.observation_space.shape == (100, 5, 3)
    assert image_in(envs.observation_space) is not None
    flat = make_envs(pictures((300, 4, 3)), 1, preprocessing=Preprocessing(resize="auto"))
    assert flat.observation_space.shape == (300, 4, 3)  # a table it was


def vector(mode: AutoresetMode) -> Any:
    return lambda num_envs: SyncVectorEnv([Counting] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_frames_begin_with_their_episode(mode: AutoresetMode) -> None:
    """In each mode, each stack is the last three observations of its own episode."""
    plain = make_envs(vector(mode), 3, seed=1)
    stacked = make_envs(vector(mode), 3, seed=1, preprocessing=Preprocessing(frame_stack=3))
    assert stacked.observation_space.shape == (6,)
    frames = [[row] * 3 for row in plain.reset()]
    assert np.array_equal(stacked.reset(), np.reshape(frames, (3, 6)))
    ends = 0
    for _ in range(12):
        step, whole = plain.step(np.zeros(3, int)), stacked.step(np.zeros(3, int))
        for i in range(3):
            true = step.obs if step.next_obs is None else step.next_obs
            after = [*frames[i][1:], true[i]]
            begins = step.starts[i]
            frames[i] = [step.obs[i]] * 3 if begins else after
            assert np.array_equal(whole.obs[i], np.ravel(frames[i]))
            if whole.next_obs is not None:
                assert np.array_equal(whole.next_obs[i], np.ravel(after))
            ends += int(step.terminated[i] or step.truncated[i])
    assert ends > 5


def test_frames_go_where_channels_are() -> None:
    for shape, expected in (((9, 8, 2), (9, 8, 6)), ((2, 9, 9), (6, 9, 9)), ((9, 8), (9, 8, 3))):
        envs = make_envs(pictures(shape), 2, preprocessing=Preprocessing(frame_stack=3))
        assert envs.reset().shape == (2, *expected)
        assert envs.observation_space.shape == expected
    order = make_envs(pictures((8, 6, 5)), 1, preprocessing=Preprocessing(frame_stack=3))
    assert order.observation_space.channels == "last", "there are more channels now than pixels"  # type: ignore[attr-defined]


def test_stacks_are_restored() -> None:
    how = Preprocessing(frame_stack=4, resize=6)
    envs, again = (make_envs("tests.catch:Catch", 2, seed=s, preprocessing=how) for s in (1, 2))
    if not envs.exact:
        envs, again = (make_envs(vectorised(), 2, seed=s, preprocessing=how) for s in (1, 2))
    envs.reset()
    for _ in range(5):
        envs.step(np.zeros(2, int))
    again.set_state(envs.get_state())
    for _ in range(12):
        one, other = envs.step(np.ones(2, int)), again.step(np.ones(2, int))
        assert np.array_equal(one.obs, other.obs)


def vectorised() -> Any:
    """Copies of the game as a vector environment that can be saved."""

    class Saved(SyncVectorEnv):
        def get_state(self) -> Any:
            inner: Any = self.envs
            return {
                "envs": [env.get_state() for env in inner],
                "ended": self._autoreset_envs.copy(),
            }

        def set_state(self, state: Any) -> None:
            inner: Any = self.envs
            for env, own in zip(inner, state["envs"], strict=True):
                env.set_state(own)
            self._autoreset_envs = state["ended"].copy()

    return lambda num_envs: Saved([Catch] * num_envs)


@pytest.mark.parametrize(
    ("how", "env", "message"),
    [
        (Preprocessing(resize=8), "CartPole-v1", "resize=8 is for images"),
        (Preprocessing(grayscale=True), Catch, "its images have 2 channels"),
        (Preprocessing(frame_stack=4), "ALE/Pong-v5", "standard preprocessing of Atari games"),
    ],
)
def test_what_cannot_be_done_is_told(how: Preprocessing, env: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        make_envs(env, 1, preprocessing=how)


def test_agents_that_see_no_images_are_left_alone() -> None:
    how = Preprocessing(resize="auto")
    envs = make_multi_agent_envs("MultiAgentCartPole", 2, lambda agent: "p", preprocessing=how)
    plain = make_multi_agent_envs("MultiAgentCartPole", 2, lambda agent: "p")
    assert type(envs.vector) is type(plain.vector)


def test_the_agents_of_a_policy_see_what_their_settings_say() -> None:
    plain = make_multi_agent_envs("MultiAgentCartPole", 2, lambda agent: "p", seed=1)
    how = Preprocessing(frame_stack=2)
    envs = make_multi_agent_envs(
        "MultiAgentCartPole", 2, lambda agent: "p", seed=1, preprocessing=how
    )
    size = plain.groups["p"].observation_space.shape[0]
    assert envs.groups["p"].observation_space.shape == (2 * size,)
    before = plain.reset()["p"]
    assert np.array_equal(envs.reset()["p"], np.tile(before, 2))
    for _ in range(60):
        actions = {"p": np.zeros(plain.rows("p"), int)}
        step, whole = plain.step(actions)["p"], envs.step(actions)["p"]
        assert np.array_equal(whole.obs[:, size:], step.obs)
        begun = np.zeros(len(step.obs), bool) if step.valid is None else ~step.valid
        expected = np.where(begun[:, None], step.obs, before)
        assert np.array_equal(whole.obs[:, :size], expected)
        before = step.obs
    state = envs.get_state()
    one = envs.step(actions)["p"].obs
    other = make_multi_agent_envs(
        "MultiAgentCartPole", 2, lambda agent: "p", seed=5, preprocessing=how
    )
    other.reset()
    other.set_state(state)
    assert np.array_equal(other.step(actions)["p"].obs, one)
