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
    return lambda trial, name, default: trial.suggest_float(name, low, high, log=True)


def _linear(low: float, high: float) -> Suggest:
    return lambda trial, name, default: trial.suggest_float(name, low, high)


def _one_of(*values: Any) -> Suggest:
    return lambda trial, name, default: trial.suggest_categorical(name, list(values))


def _around(least: int) -> Suggest:
    """A quarter to four times the default, by powers of two."""

    def choose(trial: Any, name: str, default: int) -> int:
        values = [max(least, int(default * factor)) for factor in (0.25, 0.5, 1, 2, 4)]
        return int(trial.suggest_categorical(name, sorted(set(values))))

    return choose


def _layers(trial: Any, name: str, default: Any) -> tuple[int, ...]:
    # Optuna keeps plain values: layers are chosen by their text
    text = trial.suggest_categorical(name, ["64,64", "128,128", "256,256"])
    return tuple(int(part) for part in text.split(","))


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
"""by the name of the setting"""


def varied(config: type) -> list[str]:
    """The settings of this class that a search varies."""
    names = {field.name for field in dataclasses.fields(config)}
    return [name for name in SPACE if name in names]


def suggest(trial: Any, name: str, default: Any) -> Any:
    """A value for a setting in a trial."""
    return SPACE[name](trial, name, default)
