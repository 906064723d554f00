from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageSequence

import rillflow as rf
from rillflow.results import evaluate, frame_strip, record
from rillflow.results.film_episodes import Shot, play
from rillflow.results.film_strip import spread
from rillflow.results.player import Player
from rillflow.results.rendering import Rendered, open_rendered
from rillflow.runs.train import Trained
from tests.results.policies import Lottery, untrained


@contextmanager
def opened(trained: Trained, seed: int) -> Iterator[Rendered]:
    with closing(open_rendered(trained, seed)) as rendered:
        yield rendered


class Film(NamedTuple):
    codec: str
    size: tuple[int, int]
    fps: float
    frames: NDArray[np.uint8]


def read(path: Path) -> Film:
    """What ffmpeg finds in a film."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo"]
    done = subprocess.run([*command, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True)
    told = re.search(r"Video: (\w+).*? (\d{2,})x(\d{2,}).*? ([\d.]+) fps", done.stderr.decode())
    assert told, done.stderr.decode()
    width, height = int(told[2]), int(told[3])
    frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)
    return Film(told[1], (width, height), float(told[4]), frames)


def test_an_mp4_has_a_frame_for_each_step(tmp_path: Path) -> None:
    trained = untrained("CartPole-v1")
    path = record(trained, tmp_path / "new" / "pole.mp4", episodes=2, seed=3, fps=25)
    assert path == tmp_path / "new" / "pole.mp4"
    film = read(path)
    assert (film.codec, film.size, film.fps) == ("h264", (600, 400), 25.0)
    with opened(trained, 3) as rendered:
        player = Player(trained)
        shots = [shot for _ in range(2) for shot in play(rendered, player, 1000)]
    assert len(film.frames) == len(shots)
    for frame, shot in zip(film.frames, shots, strict=True):  # compressed, but the same pictures
        assert np.abs(frame.astype(int) - shot.frame).mean() < 3
    assert not list(tmp_path.glob("**/.*")), "no half-written file is left"


def test_frames_are_those_of_gymnasium(cartpole: Trained) -> None:
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    obs, _ = env.reset(seed=11)
    with opened(cartpole, 11) as rendered:
        shots = play(rendered, Player(cartpole), 12)
        assert rendered.fps == 50
        for number, shot in enumerate(shots):
            assert (shot.step, shot.total) == (number, number)
            assert np.array_equal(shot.frame, env.render())
            obs = env.step(cartpole.act(obs))[0]
    env.close()


def test_a_gif_has_a_frame_for_each_step_and_a_cut_is_told(tmp_path: Path) -> None:
    trained = untrained("Pendulum-v1")
    with pytest.warns(UserWarning, match="cut after 20 steps"):
        path = record(trained, tmp_path / "pendulum.gif", max_steps=20, fps=20)
    with Image.open(path) as film:
        assert film.size == (500, 500)
        assert film.n_frames == 21  # type: ignore[attr-defined]
        assert film.info["duration"] == 50
        colours = np.asarray(film.convert("RGB")).reshape(-1, 3)
    assert (np.abs(colours.astype(int) - (204, 77, 77)).sum(1) < 30).any(), "the rod is red"


def test_an_atari_film_shows_the_game_that_the_policy_plays() -> None:
    """Whole frames in colour, of the very game whose small grey images it acts on."""
    trained = untrained("ALE/Pong-v5")
    with opened(trained, 2) as rendered:
        obs, player, rng = rendered.reset(), Player(trained), np.random.default_rng(0)
        assert rendered.fps == 15
        player.act(obs, np.ones(1, bool))
        for _ in range(60):
            step, reward = rendered.step(rng.integers(6, size=1))
        frame = rendered.frame()
        assert frame.shape == (420, 320, 3)
        assert frame.std(axis=(0, 1)).min() > 5, "there is something to see, in colour"
        grey = Image.fromarray(frame[::2, ::2]).convert("L").resize((84, 84), Image.Resampling.BOX)
        assert np.abs(np.asarray(grey).astype(int) - step.obs[0, -1]).mean() < 2
        assert reward in (-1.0, 0.0, 1.0)


def test_an_atari_score_in_a_film_is_the_one_of_the_evaluation() -> None:
    """Also the two games that are played, for the policy and for the film, stay the same one."""
    trained = untrained("ALE/MsPacman-v5", env_config={"max_num_frames_per_episode": 400})
    with opened(trained, 1) as rendered:
        player = Player(trained)
        *_, last = play(rendered, player, 1000)
        *_, next_last = play(rendered, player, 1000)
    found = evaluate(trained, 1, seed=1)
    assert (last.step, last.total) == (found.lengths[0], found.returns[0])
    assert next_last.step == last.step


def test_a_policy_that_remembers_is_filmed_with_its_memory(tmp_path: Path) -> None:
    def pole(render_mode: str | None = None) -> Any:
        return gymnasium.make("CartPole-v1", render_mode=render_mode)

    trained = untrained(pole, "impala", model="lstm", lstm_size=8)
    steps = evaluate(trained, 1, seed=2).lengths[0]
    with Image.open(record(trained, tmp_path / "pole.gif", seed=2, fps=50)) as film:
        shown = sum(frame.info["duration"] for frame in ImageSequence.Iterator(film))
    assert shown == 20 * (steps + 1), "a frame that does not change is one frame, shown longer"


def test_a_strip_shows_an_episode_from_first_to_last(cartpole: Trained, tmp_path: Path) -> None:
    path = frame_strip(cartpole, tmp_path / "strip.png", frames=5)
    with Image.open(path) as strip:
        assert strip.size[0] == 2 * 16 + 5 * 240 + 4 * 10
        pixels = np.asarray(strip).astype(int)
    assert (pixels.sum(2) < 100).any(), "the cart is black"


@pytest.mark.parametrize(
    ("length", "count", "steps"),
    [
        (9, 3, [0, 4, 8]),
        (3, 8, [0, 1, 2]),
        (1, 4, [0]),
        (7, 1, [6]),
        (1000, 3, [0, 512, 999]),
    ],
)
def test_frames_are_spread_over_an_episode(length: int, count: int, steps: list[int]) -> None:
    shots = (Shot(np.zeros((1, 1, 3), np.uint8), i, 0.0, 0.0) for i in range(length))
    found = [shot.step for shot in spread(shots, count)]
    assert found[0] == steps[0]
    assert found[-1] == steps[-1]
    assert len(found) == len(steps)
    assert np.abs(np.array(found) - steps).max() <= max(1, length // 20)


def test_few_frames_are_held_at_a_time() -> None:
    alive: set[int] = set()

    class Counted(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            alive.discard(id(self))

    def shots() -> Iterator[Shot]:
        for i in range(2000):
            frame = np.zeros((1, 1, 3), np.uint8).view(Counted)
            alive.add(id(frame))
            assert len(alive) < 60
            yield Shot(frame, i, 0.0, 0.0)

    spread(shots(), 4)


class Seen(Lottery):
    """Can be seen, if asked to."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((30, 41, 3), self.left, np.uint8)


def test_a_factory_that_takes_a_render_mode_is_given_one(tmp_path: Path) -> None:
    trained = untrained(Seen)
    film = read(record(trained, tmp_path / "seen.mp4", seed=3))
    assert film.size == (328, 240), "small frames are enlarged"
    assert film.fps == 7
    assert len(film.frames) == evaluate(trained, 1, seed=3).lengths[0] + 1


@pytest.mark.parametrize("env", [Lottery, "Bandit"])
def test_what_cannot_be_seen_is_refused_with_a_way_out(env: Any, tmp_path: Path) -> None:
    name = env if isinstance(env, str) else "Lottery"
    with pytest.raises(rf.BuildError, match=f"'{name}' gives no frames.*render_mode"):
        record(untrained(env), tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_no_file_and_keeps_the_old_one(tmp_path: Path) -> None:
    class Broken(Seen):
        def render(self) -> Any:
            return None

    path = tmp_path / "film.gif"
    path.write_text("old")
    with pytest.raises(rf.RunError, match=r"render\(\) must return an image .* found None"):
        record(untrained(Broken), path)
    assert [p.name for p in tmp_path.iterdir()] == ["film.gif"]
    assert path.read_text() == "old"


def test_other_mistakes_are_told(cartpole: Trained, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    with pytest.raises(rf.BuildError, match=r"written as \.mp4 or \.gif, found 'film.avi'"):
        record(cartpole, "film.avi")
    with pytest.raises(rf.BuildError, match="fps must be above 0"):
        record(cartpole, tmp_path / "film.mp4", fps=0)
    with pytest.raises(rf.BuildError, match="frames must be a whole number"):
        frame_strip(cartpole, tmp_path / "strip.png", frames=0)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(rf.BuildError, match=r"needs imageio_ffmpeg: pip install 'rillflow\[video"):
        record(cartpole, tmp_path / "film.mp4")
