"""An episode at a glance: a few of its frames in one row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.arguments import check_count, path_ending_in
from rillflow.files import whole_file
from rillflow.results.film_episodes import MAX_STEPS, Shot, play, warn_of_cut
from rillflow.results.optional_libraries import needs
from rillflow.results.player import Player, algorithm_name, env_name
from rillflow.results.policy_of import HasPolicy, policy_of
from rillflow.results.rendering import open_rendered

if TYPE_CHECKING:
    from rillflow.results.trained import Trained

_SIDE, _GAP, _MARGIN, _LINE = 240, 10, 16, 22
_INK, _FAINT, _PAPER = (34, 34, 34), (110, 110, 110), (255, 255, 255)


def frame_strip(
    trained: Trained | HasPolicy,
    path: str | Path,
    frames: int = 8,
    *,
    seed: int = 1,
    greedy: bool = True,
    max_steps: int = MAX_STEPS,
) -> Path:
    """One PNG with frames of an episode in a row, from its first to its last.

    Below each: how many steps were made, the reward of the last one, and the sum of all.

    Args:
        trained: what `train` or `load` returned.
        path: a `.png`.
        frames: how many; fewer if the episode is shorter.
        seed: of the environment; the same seed gives the same picture.
        greedy: the most likely actions; False: sampled ones.
        max_steps: the episode is cut here, with a warning.
    """
    path = path_ending_in(path, (".png",), "a strip of frames")
    check_count("frames", frames)
    check_count("max_steps", max_steps)
    policy: Trained = policy_of(trained)
    needs("PIL.Image", "video", "a picture")
    with closing(open_rendered(policy, seed)) as rendered, whole_file(path) as part:
        player = Player(policy, greedy=greedy, seed=seed)
        shots = spread(play(rendered, player, max_steps), frames)
        if shots[-1].cut:
            warn_of_cut(max_steps)
        title = f"{algorithm_name(policy)} on {env_name(policy)}"
        _draw(shots, title).save(part)
    return path


def spread(shots: Iterator[Shot], count: int) -> list[Shot]:
    """`count` of the shots, about evenly spaced, with the first and the last.

    How many there will be is not known before, and keeping them all could take gigabytes: every
    n-th is kept, and n doubles when there are too many.
    """
    kept: list[Shot] = []
    every, last = 1, None
    for number, shot in enumerate(shots):
        last = shot
        if number % every == 0:
            kept.append(shot)
        if len(kept) > 8 * count:
            kept, every = kept[::2], 2 * every
    if last is not None and kept[-1] is not last:
        kept.append(last)
    if count == 1:
        return kept[-1:]
    places = np.linspace(0, len(kept) - 1, min(count, len(kept))).round().astype(int)
    return [kept[place] for place in places]


def _draw(shots: list[Shot], title: str) -> Any:
    image, draw, font = (
        needs(f"PIL.{name}", "video", "a picture") for name in ("Image", "ImageDraw", "ImageFont")
    )
    height, width = shots[0].frame.shape[:2]
    scale = _SIDE / max(height, width)
    size = (round(width * scale), round(height * scale))
    bold, plain = font.load_default(18), font.load_default(14)
    top = _MARGIN + 32
    whole = (
        2 * _MARGIN + len(shots) * (size[0] + _GAP) - _GAP,
        top + size[1] + 2 * _LINE + _MARGIN,
    )
    sheet = image.new("RGB", whole, _PAPER)
    pen = draw.Draw(sheet)
    pen.text((_MARGIN, _MARGIN), title, _INK, bold)
    for place, shot in enumerate(shots):
        left = _MARGIN + place * (size[0] + _GAP)
        small = image.fromarray(shot.frame).resize(size, image.Resampling.LANCZOS)
        sheet.paste(small, (left, top))
        pen.rectangle((left, top, left + size[0] - 1, top + size[1] - 1), outline=(200, 200, 200))
        below = top + size[1] + 6
        pen.text((left, below), f"step {shot.step}", _INK, plain)
        if shot.step:
            told = f"reward {_number(shot.reward)}, sum {_number(shot.total)}"
            pen.text((left, below + _LINE - 3), told, _FAINT, plain)
    return sheet


def _number(value: float) -> str:
    """As short as it can be said."""
    return f"{value:.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.2f}"
