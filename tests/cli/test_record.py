"""`rillflow record`: films that players can read, and nothing else on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.results.policies import untrained

ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="films need the video extra")
image = pytest.importorskip("PIL.Image", reason="films need the video extra")


def frames_in(path: Path) -> int:
    """How many a player finds."""
    if path.suffix == ".gif":
        with image.open(path) as film:
            return int(film.n_frames)
    return int(ffmpeg.count_frames_and_secs(str(path))[0])


def test_a_film_of_cartpole_in_either_format(call: Any, tmp_path: Path) -> None:
    untrained("CartPole-v1").save(tmp_path / "pole.npz")
    for name in ("pole.mp4", "pole.gif"):
        done = call("record", "pole.npz", "-o", name, "--max-steps", "4")
        assert (done.code, done.out) == (0, f"{name}\n"), done.err
        assert "cut after 4 steps" in done.err
        assert frames_in(tmp_path / name) == 5


def test_a_film_of_atari(call: Any, tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="ale-py is an optional extra")
    untrained("ALE/Pong-v5").save(tmp_path / "pong.npz")
    done = call("record", "pong.npz", "-o", "pong.mp4", "--max-steps", "9")
    assert (done.code, done.out) == (0, "pong.mp4\n"), done.err
    assert frames_in(tmp_path / "pong.mp4") == 10


def test_without_a_screen_the_terminal_stays_clean(rillflow: Any, tmp_path: Path) -> None:
    """SDL, which draws the pole, complains where there is none unless it is told."""
    untrained("CartPole-v1").save(tmp_path / "pole.npz")
    done = rillflow("record", "pole.npz", "-o", "pole.gif", DISPLAY="", XDG_RUNTIME_DIR="")
    assert (done.code, done.out, done.err) == (0, "pole.gif\n", "")
