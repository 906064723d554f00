"""What `env_config` may say of an Atari game, and what is done where it says nothing.

The standard is that of the papers (Mnih et al. 2015, doi:10.1038/nature14236; Espeholt et al. 2018,
arXiv:1802.01561), but for sticky actions, which are those that the version-5 ids stand for (Machado
et al. 2018, arXiv:1709.06009). `docs/atari.md` has the protocols of the papers side by side.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rillflow.errors import BuildError


@dataclass(frozen=True)
class Option:
    """One thing that may be chosen."""

    standard: Any
    """what is taken where nothing is said"""
    fits: Callable[[Any], bool]
    expected: str
    """of a value, in words"""
    ours: bool = False
    """whether ALE is not told of it: it is done here"""


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _yes_or_no(value: Any) -> bool:
    return isinstance(value, bool)


def _probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def _switch(standard: bool, *, ours: bool = False) -> Option:
    return Option(standard, _yes_or_no, "True or False", ours)


def _count(standard: int, least: int = 1) -> Option:
    return Option(standard, _whole(least), f"a whole number of at least {least}")


OPTIONS: dict[str, Option] = {
    "noop_max": _count(30, 0),  # an episode begins with up to 29 idle frames, as ALE draws them
    "use_fire_reset": _switch(True),  # and with FIRE, in games that wait for it
    "frameskip": _count(4),
    "maxpool": _switch(True),  # of the last two of the frames that are skipped
    "img_height": _count(84),
    "img_width": _count(84),
    "grayscale": _switch(True),
    "stack_num": _count(4),
    "repeat_action_probability": Option(0.25, _probability, "a number from 0 to below 1"),
    "full_action_space": _switch(False),  # else the actions that do something in the game
    "max_num_frames_per_episode": _count(108_000),  # half an hour of play
    "continuous": _switch(False),
    "continuous_action_threshold": Option(0.5, _probability, "a number from 0 to below 1"),
    "num_threads": _count(0, 0),
    "thread_affinity_offset": Option(-1, _whole(-1), "a whole number of at least -1"),
    "autoreset_mode": Option("NextStep", lambda value: True, "a mode of Gymnasium"),
    "episodic_life": _switch(True, ours=True),
    "reward_clipping": _switch(True, ours=True),
    "resumable": _switch(True, ours=True),
}
"""by the names of `ale_py.AtariVectorEnv`, and one of our own"""

SHORT: dict[str, str] = {
    "sticky_actions": "repeat_action_probability",
    "frame_skip": "frameskip",
    "fire_on_reset": "use_fire_reset",
    "clip_rewards": "reward_clipping",
    "max_frames": "max_num_frames_per_episode",
}
"""easier names for some of them"""

_REFUSED = {
    "batch_size": "all games of a worker are stepped together",
    "life_loss_info": "episodic_life=True ends episodes with each life, for learning",
    "game": "the environment's id names it",
    "num_envs": "num_envs_per_worker says how many there are",
}


def atari_options(env_id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option of a game, under ALE's names; what cannot be is told at once.

    >>> atari_options("ALE/Pong-v5", {"sticky_actions": 0.0})["repeat_action_probability"]
    0.0
    """
    chosen: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in given.items():
        long = SHORT.get(name, name)
        option = OPTIONS.get(long)
        if option is None:
            problems.append(_unknown(name))
        elif long in chosen:
            problems.append(f"{name} is another name of {long}: give one of the two")
        elif not option.fits(value):
            problems.append(f"{name} must be {option.expected}, got {value!r}")
        else:
            chosen[long] = value
    if problems:
        raise BuildError(
            f"environment {env_id!r} cannot be made with this env_config: " + "; ".join(problems)
        )
    return {name: chosen.get(name, option.standard) for name, option in OPTIONS.items()}


def of_ale(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that ALE's vector environment is made with; rewards stay the game's."""
    told = {name: value for name, value in options.items() if not OPTIONS[name].ours}
    return {**told, "reward_clipping": False}


def _unknown(name: str) -> str:
    if name in _REFUSED:
        return f"there is no option {name!r}: {_REFUSED[name]}"
    near = difflib.get_close_matches(name, [*OPTIONS, *SHORT], n=1)
    hint = f", did you mean {near[0]!r}?" if near else f"; there are {', '.join(OPTIONS)}"
    return f"there is no option {name!r}{hint}"
