"""What is wrong with settings of many algorithms: numbers of no range, and settings of no use."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rillflow.learning.suited_settings import suiting

if TYPE_CHECKING:
    from rillflow.learning.config import AlgorithmConfig

_LIMITS = ("grad_clip", "grad_clip_value", "target_kl", "vf_clip_param")
_NONE_BELOW_ZERO = ("vf_loss_coef", "max_weight_sync_delay")
_PARTS = ("lambda_", "vtrace_lambda")


def problems(cfg: AlgorithmConfig, known: Collection[str] = ()) -> list[str]:
    """What is wrong, each with the way out; not again what is known to be wrong with a number."""
    wrong = [
        f"{name} must be a finite number, got {value!r}"
        for name, value in vars(cfg).items()
        if isinstance(value, float) and not math.isfinite(value)
        if not any(one.startswith(f"{name} ") for one in known)
    ]
    wrong += [
        f"{name} must be above 0, or None, got {limit!r}"
        for name in _LIMITS
        if (limit := getattr(cfg, name, None)) is not None and not limit > 0
    ]
    wrong += [
        f"{name} must be 0 or above, got {value!r}"
        for name in _NONE_BELOW_ZERO
        if (value := getattr(cfg, name, 0)) < 0
    ]
    wrong += [
        f"{name} must be between 0 and 1, got {value!r}"
        for name in _PARTS
        if not 0 <= (value := getattr(cfg, name, 1)) <= 1
    ]
    if cfg.final_lr is None:
        wrong += [
            f"{told} is how long the learning rate falls, and final_lr=None: leave it out, "
            "or give final_lr, which an lr that is one number falls to"
            for told in chosen(cfg, "lr_updates")
        ]
    if cfg.memory is None and cfg.model in (None, "mlp", "cnn"):  # one's own may look at its spec
        wrong += [
            f"{told} is of the cells of a memory, and memory=None: leave it out, or give "
            "memory='lstm' or 'gru'"
            for told in chosen(cfg, "memory_size")
        ]
    return wrong


def chosen(cfg: AlgorithmConfig, *names: str) -> list[str]:
    """Of these settings those that somebody gave, with their values: they are neither the default
    nor what suits the environment.

    >>> from rillflow.algorithms import ppo
    >>> chosen(ppo.Config(gamma=0.5, lr=2e-3), "gamma", "lr", "hidden")  # CartPole-v1 suits 2e-3
    ['gamma=0.5']
    """
    usual: dict[str, Any] = {field.name: field.default for field in fields(cfg)}
    suits = suiting(type(cfg), vars(cfg))
    return [
        f"{name}={value!r}"
        for name in names
        if (value := getattr(cfg, name)) not in (usual[name], suits.get(name, usual[name]))
    ]
