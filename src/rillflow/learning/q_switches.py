"""What contradicts what among the switches of q learning: distributions, noise, exploration."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from rillflow.learning.suited_settings import tuned
from rillflow.policies.head_checks import support_problems

if TYPE_CHECKING:
    from rillflow.learning.q_learning import QNetworkConfig

LINE = ("initial_epsilon", "final_epsilon", "epsilon_timesteps")
"""settings of the line in which random actions become fewer"""


def problems(cfg: QNetworkConfig) -> list[str]:
    """What is wrong, each with the way out."""
    wrong = support_problems(cfg.num_atoms, cfg.v_min, cfg.v_max)
    if not 0.0 < cfg.sigma0 < 100.0:
        wrong.append(f"sigma0 must be above 0 and below 100, got {cfg.sigma0!r}")
    if cfg.noisy:
        wrong += _told_twice(cfg)
    elif cfg.sigma0 not in (_usual(cfg)["sigma0"], tuned(type(cfg), cfg.env).get("sigma0")):
        wrong.append(
            f"sigma0={cfg.sigma0!r} is how much noise noisy layers have, and noisy=False: give "
            "noisy=True, or leave it out"
        )
    for name, used in (("num_atoms", cfg.num_atoms > 1), ("noisy", cfg.noisy)):
        if used:
            wrong += _unfit(cfg, f"{name}={getattr(cfg, name)!r}")
    if cfg.num_atoms > 1 and getattr(cfg, "worker_priorities", False):
        wrong.append(
            "worker_priorities=True lets rows enter with errors of q values, but with "
            f"num_atoms={cfg.num_atoms} priorities are distances of distributions, which are other "
            "numbers: give worker_priorities=False"
        )
    if cfg.num_atoms > 1 and cfg.value_rescaling is not None:
        wrong.append(
            "value_rescaling makes q values smaller, and distributions are learned as they are: "
            "leave it out, or give num_atoms=1"
        )
    return wrong


def rates_that_stay(cfg: QNetworkConfig, who: str) -> list[str]:
    """Settings of the line, where each worker explores at a rate of its own that stays."""
    usual = _usual(cfg)
    return [
        f"{name} is of a rate that falls, and each worker of {who} explores "
        "at a rate of its own that stays: give `epsilon`, the largest rate, or leave it out"
        for name in LINE
        if getattr(cfg, name) != usual[name] and not cfg.noisy
    ]


def _told_twice(cfg: QNetworkConfig) -> list[str]:
    """Settings of random actions, which noisy layers take the place of."""
    way = "with noisy=True the noise of the layers explores: leave it out, or give noisy=False"
    if cfg.epsilon is not None:
        return [f"epsilon={cfg.epsilon!r} is how often actions are random, and {way}"]
    usual, suits = _usual(cfg), tuned(type(cfg), cfg.env)
    return [
        f"{name}={getattr(cfg, name)!r} is of random actions, and {way}"
        for name in LINE
        if getattr(cfg, name) not in (usual[name], suits.get(name))
    ]


def _unfit(cfg: QNetworkConfig, setting: str) -> list[str]:
    """Networks that a switch is not for."""
    wrong = []
    if cfg.remembers:
        wrong.append(
            f"{setting} is for a policy without a memory: leave memory, or a model that has one, "
            "out"
        )
    elif cfg.model is not None and not isinstance(cfg.model, str):
        wrong.append(
            f"{setting} changes layers that are built in, and the network is your own: leave one "
            "of the two out"
        )
    if cfg.compile:
        wrong.append(f"{setting} is not for compiled networks: leave compile out")
    return wrong


def _usual(cfg: QNetworkConfig) -> dict[str, object]:
    return {field.name: field.default for field in fields(cfg)}
