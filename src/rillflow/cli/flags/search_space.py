"""Which settings a search varies, and between what.

Ranges are around what is known to work for each kind of algorithm; a setting that an algorithm does
not have is not varied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

Suggest = Callable[[Any, str, Any], Any]


def _log(low: float, high: float) -> Suggest:
    def choose(trial: Any, name: str, default: float) -> Any:
        if default == 0:  # which no logarithm has: small values, and none at all
            return trial.suggest_float(name, 0.0, high / 5)
        return trial.suggest_float(name, min(low, default), max(high, default), log=True)

    return choose


def _linear(low: float, high: float) -> Suggest:
    return lambda trial, name, default: trial.suggest_float(
        name, min(low, default), max(high, default)
    )


def _one_of(*values: Any) -> Suggest:
    def choose(trial: Any, name: str, default: Any) -> Any:
        known = default in values
        return trial.suggest_categorical(name, [*values, *([] if known else [default])])

    return choose


def _around(least: int) -> Suggest:
    """A quarter to four times the default, by powers of two."""

    def choose(trial: Any, name: str, default: int) -> int:
        values = [max(least, int(default * factor)) for factor in (0.25, 0.5, 1, 2, 4)]
        return int(trial.suggest_categorical(name, sorted({*values, default})))

    return choose


_LAYERS = ["64,64", "128,128", "256,256"]


def _layers(trial: Any, name: str, default: Any) -> tuple[int, ...]:
    # Optuna keeps plain values: layers are chosen by their text
    usual = _as_text(default)
    text = trial.suggest_categorical(name, [*_LAYERS, *([] if usual in _LAYERS else [usual])])
    return tuple(int(part) for part in text.split(",") if part)


def _as_text(layers: Any) -> str:
    return ",".join(map(str, layers))


SPACE: dict[str, Suggest] = {
    "lr": _log(3e-5, 1e-2),
    "gamma": _one_of(0.95, 0.98, 0.99, 0.995, 0.999),
    "lambda_": _linear(0.9, 1.0),
    "entropy_coef": _log(1e-5, 0.1),
    "vf_loss_coef": _linear(0.25, 1.0),
    "clip_param": _linear(0.1, 0.4),
    "num_sgd_iter": _one_of(3, 5, 10, 20),
    "train_batch_size": _around(16),
    "target_network_update_freq": _around(100),
    "n_step": _one_of(1, 3, 5),
    "final_epsilon": _linear(0.01, 0.1),
    "grad_clip": _one_of(0.5, 1.0, 5.0, 10.0),
    "hidden": _layers,
}
"""by the name of the setting; every range holds the setting's own value, so that it is tried"""


def varied(config: type) -> list[str]:
    """The settings of this class that a search varies."""
    names = {field.name for field in dataclasses.fields(config)}
    return [name for name in SPACE if name in names]


def can_vary(name: str, default: Any) -> bool:
    """Whether a setting has a value of the kind that is varied: a schedule is the user's own."""
    if name in ("grad_clip", "n_step", "gamma", "num_sgd_iter"):
        return default is None or isinstance(default, int | float)
    if name == "hidden":
        return isinstance(default, tuple) and all(type(size) is int for size in default)
    return isinstance(default, int | float) and not isinstance(default, bool) and default >= 0


def usual_values(name: str, default: Any) -> Any:
    """What a trial chose if it chose the setting's own value."""
    return _as_text(default) if name == "hidden" else default


def suggest(trial: Any, name: str, default: Any) -> Any:
    """A value for a setting in a trial."""
    return SPACE[name](trial, name, default)
