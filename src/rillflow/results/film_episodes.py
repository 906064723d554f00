"""A film of a trained policy at work."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rillflow.arguments import check_count, path_ending_in
from rillflow.errors import BuildError
from rillflow.files import whole_file
from rillflow.results.mp4_writer import write_mp4
from rillflow.results.optional_libraries import needs
from rillflow.results.player import Player
from rillflow.results.policy_of import HasPolicy, policy_of
from rillflow.results.rendering import Frame, Rendered, open_rendered

if TYPE_CHECKING:
    from rillflow.results.trained import Trained

MAX_STEPS = 3000
"""of one episode in a film"""


class Shot(NamedTuple):
    """One frame, and how it came about."""

    frame: Frame
    step: int
    """steps of its episode before it"""
    reward: float
    """of the last of them"""
    total: float
    """of all of them"""
    cut: bool = False
    """the episode would have gone on, but nobody looks any longer"""


def record(
    trained: Trained | HasPolicy,
    path: str | Path,
    episodes: int = 1,
    *,
    seed: int = 1,
    fps: float | None = None,
    greedy: bool = True,
    max_steps: int = MAX_STEPS,
) -> Path:
    """Film some episodes, one frame a step: `record(trained, "pole.mp4")`.

    Args:
        trained: what `train` or `load` returned.
        path: an `.mp4` (H.264, plays anywhere) or a `.gif` (in which equal frames are one, shown
            longer).
        episodes: how many, one after the other.
        seed: of the environment; the same seed gives the same film.
        fps: frames a second; by default what the environment was made for.
        greedy: the most likely actions; False: sampled ones.
        max_steps: an episode is cut here, with a warning.
    """
    path = path_ending_in(path, (".mp4", ".gif"), "a film")
    check_count("episodes", episodes)
    check_count("max_steps", max_steps)
    if fps is not None and not 0 < fps <= 1000:
        raise BuildError(f"fps must be above 0 and at most 1000, got {fps!r}.")
    policy: Trained = policy_of(trained)
    write = _write_gif if path.suffix.lower() == ".gif" else write_mp4
    library = "PIL.Image" if write is _write_gif else "imageio_ffmpeg"
    needs(library, "video", f"a film in {path.suffix}")  # before playing, not after
    with closing(open_rendered(policy, seed)) as rendered, whole_file(path) as part:
        player = Player(policy, greedy=greedy, seed=seed)
        shots = (shot for _ in range(episodes) for shot in play(rendered, player, max_steps))
        cuts: list[bool] = []
        write(part, _frames(shots, cuts), rendered.fps if fps is None else fps)
        if any(cuts):
            warn_of_cut(max_steps)
    return path


def play(rendered: Rendered, player: Player, max_steps: int) -> Iterator[Shot]:
    """The shots of one episode, from the first observation on."""
    obs, starts, total = rendered.reset(), np.ones(1, bool), 0.0
    yield Shot(rendered.frame(), 0, 0.0, 0.0)
    for number in range(1, max_steps + 1):
        step, reward = rendered.step(player.act(obs, starts))
        ended = bool(step.terminated[0] or step.truncated[0])
        total += reward
        if ended and step.next_obs is not None:
            return  # the environment is already in its next episode: there is no last frame
        yield Shot(rendered.frame(), number, reward, total, number == max_steps and not ended)
        if ended:
            return
        obs, starts = step.obs, np.zeros(1, bool)


def warn_of_cut(max_steps: int) -> None:
    """Say that an episode was longer than what is shown of it."""
    warnings.warn(
        f"an episode was cut after {max_steps} steps, before its end; a larger max_steps shows "
        "more",
        stacklevel=3,
    )


def _frames(shots: Iterator[Shot], cuts: list[bool]) -> Iterator[Frame]:
    for shot in shots:
        cuts.append(shot.cut)
        yield shot.frame


def _write_gif(path: Path, film: Iterator[Frame], fps: float) -> None:
    image = needs("PIL.Image", "video", "a film in .gif")
    # the format counts hundredths of a second, and viewers slow down anything below two of them
    hundredths = max(2, round(100 / fps))
    # a palette for each frame: that of the first would lose colours that come later
    how: dict[str, Any] = {"method": image.Quantize.FASTOCTREE, "dither": image.Dither.NONE}
    pictures = (image.fromarray(frame).quantize(128, **how) for frame in film)
    first = next(pictures)
    first.save(
        path,
        save_all=True,
        append_images=pictures,
        duration=10 * hundredths,
        loop=0,
        optimize=False,
    )
