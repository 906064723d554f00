"""`rf.train`: an algorithm, an environment, when to stop; a trained policy comes back."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any, overload

import numpy as np

from rillflow.engines.contract import Engine
from rillflow.errors import BuildError
from rillflow.results.trained import Trained as Trained
from rillflow.results.trained import TrainedAgents as TrainedAgents
from rillflow.results.trained import load as load
from rillflow.runs.find_algorithm import find_algorithm
from rillflow.runs.job import Job, run_job
from rillflow.runs.multi_agent import assigned

USUAL_STEPS = 100_000
"""after which a run ends if nobody says when"""
_LIMITS = ("return", "steps", "seconds")

Told = Callable[[dict[str, float]], None]


@overload
def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Mapping[str, float] | None = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Told | None = None,
    policies: None = None,
    **settings: Any,
) -> Trained: ...
@overload
def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Mapping[str, float] | None = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Told | None = None,
    policies: str | Mapping[str, str],
    **settings: Any,
) -> TrainedAgents: ...
def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Mapping[str, float] | None = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Told | None = None,
    policies: str | Mapping[str, str] | None = None,
    **settings: Any,
) -> Trained | TrainedAgents:
    """Train until one of `until` is reached: `return` (mean of 100 episodes), `steps` or `seconds`.

    >>> trained = train("ppo", "CartPole-v1", until={"steps": 4000}, engine="sim", num_workers=2)
    >>> trained.act(np.zeros(4, np.float32)).shape, len(trained.evaluate(3))
    ((), 3)

    Args:
        algorithm: a name, an `Algorithm` of your own, a module with one, or `module:name`.
        env: an id, a factory of environments, or `module:name`.
        until: when to stop.
        seed: on `sim`, the same seed gives the same run.
        engine: where it runs.
        on_progress: called with each row of the history; what it raises ends the run.
        policies: for an environment with several agents: "shared" (one policy for all), "each"
            (one for each agent), or a dict with the name of each agent's policy.
        settings: fields of the algorithm's `Config`, such as `num_workers`, `lr`, `model`, `loss`.
    """
    limits = _checked({"steps": USUAL_STEPS} if until is None else dict(until))
    module = find_algorithm(algorithm)
    if env is not None:
        settings["env"] = env
    config = module.Config.make(**settings)
    agents = assigned(config, policies, by_default=None)
    job = Job("train", module, config, limits, seed, engine, agents)
    trained: Trained | TrainedAgents = run_job(job, on_row=on_progress).trained
    return trained


def _checked(until: dict[str, float]) -> dict[str, float]:
    """The limits, or an error that tells every wrong one."""
    wrong = [] if until else ["it is empty, so training would never end"]
    for name, limit in until.items():
        if name not in _LIMITS:
            near = difflib.get_close_matches(str(name), [*_LIMITS, *_OTHER_NAMES], n=1)
            hint = f", did you mean {_OTHER_NAMES.get(near[0], near[0])!r}?" if near else ""
            wrong.append(f"unknown limit {name!r}{hint}")
        elif not _is_number(limit) or (name != "return" and limit <= 0):
            kind = "a number" if name == "return" else "a number above 0"
            wrong.append(f"{name} must be {kind}, got {limit!r}")
    if wrong:
        limits = ", ".join(_LIMITS)
        raise BuildError(f"train: `until` takes some of {limits}: " + "; ".join(wrong) + ".")
    return until


_OTHER_NAMES = {"reward": "return", "score": "return", "timesteps": "steps", "time": "seconds"}


def _is_number(value: object) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and not isinstance(value, bool) and math.isfinite(value)  # type: ignore[arg-type]
