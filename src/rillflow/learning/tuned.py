"""Settings that suit a family of environments, so that a newcomer need not look for them."""

from __future__ import annotations

import sys
from typing import Any

from rillflow.envs.registry import is_atari


def tuned(settings: type, env: Any) -> dict[str, Any]:
    """What the algorithm of these settings is best given for an environment; often nothing.

    It stands in the algorithm's file, as `TUNED`, under the environment's id or its family:
    "atari". `Config.make`, and so `rf.train` and the command line, begin with it; what is said
    there wins.

    >>> from rillflow.algorithms import ppo
    >>> tuned(ppo.Config, "ALE/Pong-v5")["clip_param"]
    0.1
    >>> tuned(ppo.Config, "CartPole-v1")
    {}
    """
    table = getattr(sys.modules.get(settings.__module__), "TUNED", {})
    if not isinstance(env, str):
        return {}
    return dict(table.get(env) or table.get("atari" if is_atari(env) else "") or {})
