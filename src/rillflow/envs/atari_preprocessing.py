"""Atari through ALE's native vector environment, with the standard preprocessing.

84 x 84 grey images, the maximum of two frames, four of them stacked, one action for four frames,
idle actions at the start: `atari_options.py` has what may be chosen. Rewards are clipped to [-1, 1]
and episodes end with each life for learning only, by `Envs`, not here: episode statistics count
whole games and their own score.
"""

from __future__ import annotations

import re
from typing import Any

from rillflow.envs.atari_options import atari_options, of_ale
from rillflow.envs.preprocessing import Preprocessing
from rillflow.errors import BuildError


def refuse_preprocessing(env_id: str, preprocessing: Preprocessing | None) -> None:
    """Atari games are resized, made grey and stacked by ALE itself."""
    if preprocessing is not None and preprocessing.asked:
        raise BuildError(
            f"environment {env_id!r} has the standard preprocessing of Atari games (84x84, grey, "
            f"4 frames) in native code: leave out {' and '.join(preprocessing.asked)}, or change "
            'it by env_config={"img_height": ..., "img_width": ..., "grayscale": ..., '
            '"stack_num": ...}.'
        )


def make_atari(env_id: str, num_envs: int, config: dict[str, Any]) -> Any:
    """ALE's vector environment for an id such as "ALE/Pong-v5"."""
    options = atari_options(env_id, config)
    try:
        import ale_py
        from ale_py import roms
    except ImportError as error:
        raise BuildError(
            f"environment {env_id!r} needs the Arcade Learning Environment: "
            "pip install 'rillflow[atari]'"
        ) from error
    known = {rom.replace("_", ""): rom for rom in roms.get_all_rom_ids()}  # ms_pacman: MsPacman
    match = re.fullmatch(r"ALE/(\w+)-v5", env_id)
    game = known.get(match[1].lower()) if match else None
    if game is None:
        from rillflow.envs.registry import unknown

        raise unknown(env_id)
    from rillflow.envs.atari_state import SavedAtari

    try:
        games = ale_py.AtariVectorEnv(game, num_envs, **of_ale(options))
    except (TypeError, ValueError) as error:
        raise BuildError(
            f"environment {env_id!r} cannot be made with env_config={config}: {error}"
        ) from error
    return SavedAtari(games, env_id) if options["resumable"] else games
