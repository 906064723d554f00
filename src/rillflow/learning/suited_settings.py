"""What settings begin with where nobody says otherwise, and their older names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rillflow.envs.layout import layout_of
from rillflow.envs.registry import is_atari
from rillflow.errors import BuildError
from rillflow.images import Channels, image_in


def tuned(settings: type, env: Any) -> dict[str, Any]:
    """What the algorithm of these settings is best given for an environment; often nothing.

    It stands in the algorithm's file, as `tuned`, under the environment's id or its family:
    "atari". Settings begin with it, however they are made; what is said there wins. Of classes
    that are derived from each other the first that knows the environment counts.

    >>> from rillflow.algorithms import ppo
    >>> tuned(ppo.Config, "ALE/Pong-v5")["clip_param"]
    0.1
    >>> tuned(ppo.Config, "Hopper-v5")
    {}
    """
    if not isinstance(env, str):
        return {}
    for cls in settings.__mro__:
        table = getattr(vars(cls).get("algorithm"), "tuned", {})
        for name in (env, "atari") if is_atari(env) else (env,):
            if name in table:
                return dict(table[name])
    return {}


def suiting(settings: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """What suits the environment best, and above it what a memory needs, if there is one."""
    env = values.get("env")
    suits = tuned(settings, env)
    if values.get("num_gpus") and isinstance(env, str) and is_atari(env):
        suits |= tuned(settings, ATARI_ON_A_GPU)
    if "model" in values and "memory" not in values:
        suits.pop("memory", None)  # a model that is named is that model, and nothing above it
    both = {**suits, **values}
    if remembers(both.get("model"), both.get("memory")):
        suits |= tuned(settings, MEMORY)
    return suits


def said_above(suits: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """All settings: what is said wins, and of an environment's options one by one.

    >>> said_above({"lr": 1, "env_config": {"a": 1, "b": 1}}, {"env_config": {"b": 2}})
    {'lr': 1, 'env_config': {'a': 1, 'b': 2}}
    """
    both = {**suits, **values}
    options = suits.get("env_config"), values.get("env_config")
    if all(isinstance(one, Mapping) for one in options):
        both["env_config"] = {**options[0], **options[1]}  # type: ignore[dict-item]
    return both


def remembers(model: Any, memory: Any) -> bool:
    """Whether a policy of these settings has a memory, of ours or in a network of the user's."""
    return memory is not None or model == "lstm" or getattr(model, "state_shape", None) is not None


def usual_model(observation_space: Any, channels: Channels) -> Literal["cnn", "mlp"]:
    """The network for observations of this space, where nobody names one."""
    layout = layout_of(observation_space)
    if layout is not None:
        return "cnn" if layout.packed else "mlp"
    return "mlp" if image_in(observation_space, channels) is None else "cnn"


ATARI_ON_A_GPU = "atari-gpu"
"""under which `tuned` has what Atari games are best given, above "atari", where a GPU learns and
many workers sample: far more steps in a second, and so more of them behind an update"""

MEMORY = "memory"
"""under which an algorithm's `tuned` has what it is best given with a policy that remembers"""

SAME = {"lstm_size": "memory_size"}
"""older names of settings that mean the same"""


def current(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under their names of today.

    >>> current({"lstm_size": 64})
    {'memory_size': 64}
    """
    renamed = {SAME.get(name, name): value for name, value in values.items()}
    if len(renamed) < len(values):
        old = next(name for name in values if name in SAME)
        raise BuildError(f"{old} is an older name of {SAME[old]}: give one of the two.")
    return renamed


AS_BEFORE: dict[str, Any] = {
    "resize": None,
    "action_masks": False,
    "normalize_observations": False,
    "scale_rewards": False,
    "amsgrad": False,
    "scale_actions": False,
}
"""what was done in runs of versions that had no such setting"""
