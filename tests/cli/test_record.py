"""`rillflow record`: films that players can read, and nothing else on the terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(
    ("name", "left"), [("film.mp4", 4), ("film.gif", 4), ("strip.png", 4), ("film.mp4", 0)]
)
def test_a_film_that_does_not_fit_is_told_and_removed(
    call: Any, tmp_path: Path, small_disk: Path, name: str, left: int
) -> None:
    """What was there before is kept, and the exit code says that something went wrong."""
    untrained("CartPole-v1").save(tmp_path / "pole.npz")
    path = small_disk / name
    path.write_bytes(b"what was there before")
    (small_disk / "taken").write_bytes(bytes((20 - left) << 10))  # in pages of 4 kilobytes
    done = call("record", "pole.npz", "-o", str(path), "--seed", "3", "--episodes", "20")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith(f"rillflow record: '{path}' could not be written (")
    assert "No space left on device" in done.err
    assert done.err.endswith("what was there before is kept.\n")
    assert done.err.count("\n") == 1
    assert sorted(p.name for p in small_disk.iterdir()) == sorted([name, "taken"])
    assert path.read_bytes() == b"what was there before"


def test_a_film_that_grows_too_large_is_told_and_removed(tmp_path: Path) -> None:
    """Whatever the reason that it cannot be written, here a limit of the shell's."""
    untrained("CartPole-v1").save(tmp_path / "pole.npz")
    limited = (
        "import resource; from rillflow.cli.main import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "raise SystemExit(main(['record', 'pole.npz', '-o', 'film.mp4', '--episodes', '9']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rillflow record: 'film.mp4' could not be written (ffmpeg: ")
    assert done.stderr.endswith("nothing of it is left.\n")
    assert [p.name for p in tmp_path.iterdir()] == ["pole.npz"]
