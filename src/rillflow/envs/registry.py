"""Names of environments: our own, those of 2018 that live on elsewhere, and the nearest known.

Rule for Atari: `Pong-v0`, `Pong-v4`, `PongDeterministic-v4` and `PongNoFrameskip-v4` were one game
under different frame skips and stickiness. All become `ALE/Pong-v5` with the standard
preprocessing; the version-4 names keep their actions unsticky, as they were.
"""

from __future__ import annotations

import difflib
import re
import warnings
from typing import Any, NamedTuple

from rillflow.errors import BuildError

BUILT_IN = {
    "Bandit": "rillflow.envs.toy:Bandit",
    "Identity": "rillflow.envs.toy:Identity",
    "Corridor": "rillflow.envs.toy:Corridor",
    "RepeatPast": "rillflow.envs.toy:RepeatPast",
    "ConstantReward": "rillflow.envs.toy:ConstantReward",
    "PointGoal": "rillflow.envs.toy_point_goal:PointGoal",
    "CartPole-hidden-velocity": "rillflow.envs.toy:HiddenVelocityCartPole",
    "MultiAgentCartPole": "rillflow.envs.toy_multiagent_cartpole:MultiAgentCartPole",
}
"""our own small environments, by name"""

OLD = {
    "HalfCheetah": 5, "Ant": 5, "Hopper": 5, "Walker2d": 5, "Humanoid": 5, "HumanoidStandup": 5,
    "Swimmer": 5, "Reacher": 5, "Pusher": 5, "InvertedPendulum": 5, "InvertedDoublePendulum": 5,
    "Pendulum": 1, "CartPole": 1, "LunarLander": 3, "LunarLanderContinuous": 3, "BipedalWalker": 3,
    "BipedalWalkerHardcore": 3, "CarRacing": 3, "FrozenLake": 1, "FrozenLake8x8": 1, "Taxi": 4,
    "CliffWalking": 1, "Acrobot": 1, "MountainCar": 0, "MountainCarContinuous": 0, "Blackjack": 1,
}  # fmt: skip
"""the version that took over where an older one is gone from Gymnasium's own registry"""

_GAMES = """
    Adventure AirRaid Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider
    Berzerk Bowling Boxing Breakout Carnival Centipede ChopperCommand CrazyClimber Defender
    DemonAttack DoubleDunk ElevatorAction Enduro FishingDerby Freeway Frostbite Gopher Gravitar Hero
    IceHockey Jamesbond JourneyEscape Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman
    NameThisGame Phoenix Pitfall Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest
    Skiing Solaris SpaceInvaders StarGunner Tennis TimePilot Tutankham UpNDown Venture VideoPinball
    WizardOfWor YarsRevenge Zaxxon
"""
GAMES = frozenset(_GAMES.split())
"""the Atari games of the old ids, known even where ale-py is not installed"""

_ATARI = re.compile(r"([A-Z]\w*?)(-ram)?(Deterministic|NoFrameskip)?-v([045])")


def is_atari(env_id: str) -> bool:
    """Whether a name, old or new, is that of an Atari game.

    >>> is_atari("ALE/Pong-v5"), is_atari("PongNoFrameskip-v4"), is_atari("CartPole-v1")
    (True, True, False)
    """
    old = _ATARI.fullmatch(env_id)
    return env_id.startswith("ALE/") or bool(old and old[1] in GAMES)


def points_at_code(env_id: str) -> bool:
    """Whether a module that the name itself points at is imported to make the environment.

    >>> points_at_code("my_envs:Maze"), points_at_code("pettingzoo.classic.rps_v2")
    (True, True)
    >>> points_at_code("CartPole-v1"), points_at_code("ALE/Pong-v5"), points_at_code("Bandit")
    (False, False, False)
    """
    return env_id not in BUILT_IN and (":" in env_id or "." in env_id)


class Name(NamedTuple):
    """A name as it is known today, and what the old one implied."""

    id: str
    config: dict[str, Any]


def living_name(env_id: str) -> Name:
    """The living equivalent of an id; says so once, in one line, where it is another."""
    if env_id in BUILT_IN or env_id.startswith("ALE/") or ":" in env_id:
        return Name(env_id, {})
    atari = _ATARI.fullmatch(env_id)
    if atari and atari[1] in GAMES:
        if atari[2]:
            raise BuildError(
                f"environment {env_id!r} observes the console's memory, which ALE's vector "
                f"environment cannot; use 'ALE/{atari[1]}-v5' (images)"
            )
        sticky = 0.0 if atari[4] == "4" else 0.25
        return _moved(env_id, Name(f"ALE/{atari[1]}-v5", {"repeat_action_probability": sticky}))
    base, _, version = env_id.rpartition("-v")
    if version.isdecimal() and int(version) < OLD.get(base, -1):
        # the MuJoCo environments below version 4 are registered, only to say that they are gone
        dead = OLD[base] == 5 and int(version) < 4
        if dead or env_id not in known_ids():
            return _moved(env_id, _renamed(base))
    return Name(env_id, {})


def _renamed(base: str) -> Name:
    if base == "LunarLanderContinuous":
        return Name("LunarLander-v3", {"continuous": True})
    return Name(f"{base}-v{OLD[base]}", {})


def _moved(old: str, new: Name) -> Name:
    warnings.warn(f"environment {old!r} is an old name; using {new.id!r}", stacklevel=5)
    return new


def known_ids() -> list[str]:
    """Every name that can be asked for now: Gymnasium's registry and our own."""
    import gymnasium

    return [*BUILT_IN, *gymnasium.registry]


def unknown(env_id: str) -> BuildError:
    """The error for an id nobody knows, with the nearest that somebody does."""
    near = difflib.get_close_matches(env_id, known_ids(), n=3, cutoff=0.6)
    game = next((game for game in GAMES if game.lower() == env_id.lower()), None)
    if game is not None:
        near = [f"ALE/{game}-v5"]
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    return BuildError(
        f"unknown environment {env_id!r}{hint} Names are Gymnasium ids, 'module:name', or one of "
        f"{', '.join(BUILT_IN)}; a package that registers its own must be imported first"
    )
