"""How well do settings for many workers learn when what they learn from is old?

    python benchmarks/atari_virtual.py                      all cases, some minutes each on one core
    python benchmarks/atari_virtual.py ppo appo-passes --steps 300000 --seed 1

Sixteen virtual workers with eight games each play MinAtar's Breakout on the `sim` engine: as many
fragments are under way as on a machine with sixteen cores and a GPU, so a batch is as many updates
old as there. It needs `pip install minatar`. Each case prints its mean return of the last hundred
games, ten times on the way; the settings are those that Atari games on a GPU were chosen from.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import _one_thread  # noqa: F401 - before NumPy
import gymnasium
import numpy as np
import torch

import rillflow as rf

COMMON: dict[str, Any] = {
    "num_workers": 16,
    "num_envs_per_worker": 8,
    "rollout_fragment_length": 20,
    "lr": 5e-4,
    "entropy_coef": 0.01,
    "normalize_observations": False,
    "scale_rewards": False,
}
ASYNC: dict[str, Any] = {
    "learner_queue_size": 1,
    "learner_placement": "thread",
    "max_sample_requests_in_flight_per_worker": 1,
    "grad_clip": 0.5,
    "vtrace_lambda": 0.95,
}
PASSES: dict[str, Any] = {
    **ASYNC,
    "rollout_fragment_length": 32,
    "standardize_advantages": True,
    "train_batch_size": 2048,
    "sgd_minibatch_size": 256,
    "batch_uses": 4,
    "target_network_update_freq": 8192,
    "clip_param": 0.1,
}
BEFORE: dict[str, Any] = {
    "train_batch_size": 160,
    "grad_clip": 40.0,
    "learner_queue_size": 2,
    "learner_placement": "thread",
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "impala-before": ("impala", BEFORE),
    "impala-one-request": (
        "impala",
        {**BEFORE, "max_sample_requests_in_flight_per_worker": 1},
    ),
    "impala": ("impala", {**ASYNC, "train_batch_size": 320, "sgd_minibatch_size": 160}),
    "impala-standardized": (
        "impala",
        {
            **ASYNC,
            "train_batch_size": 320,
            "sgd_minibatch_size": 160,
            "standardize_advantages": True,
        },
    ),
    "appo-two-uses": (
        "appo",
        {
            **BEFORE,
            "max_sample_requests_in_flight_per_worker": 1,
            "batch_uses": 2,
            "target_network_update_freq": 640,
        },
    ),
    "appo-passes": ("appo", PASSES),
    "ppo": (
        "ppo",
        {
            "rollout_fragment_length": 32,
            "train_batch_size": 4096,
            "sgd_minibatch_size": 256,
            "num_sgd_iter": 4,
            "clip_param": 0.1,
        },
    ),
}


class Breakout(gymnasium.Env[Any, Any]):
    """MinAtar's Breakout as bytes, channels first; one action of ten is the last one again."""

    def __init__(self) -> None:
        from minatar import Environment

        self._game = Environment("breakout", sticky_action_prob=0.1)
        height, width, channels = self._game.state_shape()
        self.observation_space = gymnasium.spaces.Box(0, 1, (channels, height, width), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(6)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """A new game."""
        if seed is not None:
            self._game.seed(seed)
        self._game.reset()
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One frame."""
        reward, ended = self._game.act(int(action))
        return self._seen(), float(reward), bool(ended), False, {}

    def _seen(self) -> Any:
        return np.ascontiguousarray(self._game.state().transpose(2, 0, 1), dtype=np.uint8)


def attempt(case: str, steps: int, seed: int) -> dict[str, Any]:
    """One training run."""
    algorithm, settings = CASES[case]
    curve: list[float | None] = []

    def note(row: dict[str, float]) -> None:
        if row["steps"] >= steps / 10 * (len(curve) + 1):
            curve.append(round(row["return"], 2) if row["return"] == row["return"] else None)

    began = time.process_time()
    rf.train(
        algorithm,
        Breakout,
        until={"steps": steps},
        seed=seed,
        engine="sim",
        on_progress=note,
        progress=False,
        **{**COMMON, **settings},
    )
    seconds = round(time.process_time() - began)
    return {"case": case, "seed": seed, "steps": steps, "curve": curve, "cpu_seconds": seconds}


def main() -> int:
    """The cases that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for case in options.cases or CASES:
        print(json.dumps(attempt(case, options.steps, options.seed)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
