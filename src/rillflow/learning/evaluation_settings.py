"""Settings of evaluation during training, and of figures from environments' infos."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from rillflow.errors import BuildError

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig

C = TypeVar("C", bound="AlgorithmConfig")

EVALUATION_SETTINGS = ("eval_every", "eval_episodes", "eval_timeout", "max_eval_failures")
"""settings that a run which goes on may change: they say nothing of what is learned"""
_LEAST_INTERVAL, _EVALUATIONS = 10_000, 50


def interval_for(until: Mapping[str, float]) -> int:
    """Steps between two evaluations of a run that needs them and was not told how often.

    >>> interval_for({"eval_return": 475}), interval_for({"steps": 2_000_000})
    (10000, 40000)
    """
    return max(_LEAST_INTERVAL, int(until.get("steps", 0)) // _EVALUATIONS)


def for_limits(config: C, until: Mapping[str, float]) -> C:
    """The settings of a run with these limits: one that ends by its evaluations has some.

    Raises:
        BuildError: it is to be evaluated, and its environments cannot be made a second time.
    """
    config.require_ready(until)
    if "eval_return" in until and config.eval_every is None:
        every = interval_for(until)
        warnings.warn(
            f"a limit of eval_return needs evaluations: eval_every is {every:,} steps, since "
            "nothing else is said",
            stacklevel=3,
        )
        config = dataclasses.replace(config, eval_every=every)
    if config.eval_every is not None and not (isinstance(config.env, str) or callable(config.env)):
        raise BuildError(
            f"evaluation plays in environments of its own, and {type(config.env).__name__} is one "
            "that is made already: give a function that makes it, or leave eval_every out."
        )
    return config


def problems(config: AlgorithmConfig) -> list[str]:
    """What is wrong with these settings."""
    wrong = [
        f"{name} must be at least 1{', or None' if name == 'eval_every' else ''}, got {value!r}"
        for name in ("eval_every", "eval_episodes", "max_eval_failures")
        if (value := getattr(config, name)) is not None and value < 1
    ]
    seconds = config.eval_timeout
    if seconds is not None and not seconds >= 0:  # so written, not a number is refused too
        wrong.append(f"eval_timeout must be 0 or above, or None, got {seconds!r}")
    twice = sorted({n for n in config.info_metrics if config.info_metrics.count(n) > 1})
    if twice:
        wrong.append(f"info_metrics names {', '.join(map(repr, twice))} more than once")
    return wrong
