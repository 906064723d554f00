"""How many updates per second do SAC, TD3, DDPG and distributional DQN make, beside SB3?

One process, one thread, batches of 256 rows of Pendulum-v1's shape, or of CartPole-v1's; slices of
updates in turn, so that a slow moment hits all. An update of theirs draws its rows from a full
replay buffer; ours shuffles them out of larger batches, as its learner gets them from replay.
Stable-Baselines3 has to be installed beside rillflow; without it only our own rates are told.

Of distributions of returns, the peer (sb3-contrib) has QR-DQN and we have C51: both with 51 numbers
for each action, neither dueling, double nor prioritized. Quantiles are compared each with each, so
its loss does more; the networks are the same.

`by_hand` are updates of SAC and TD3 in bare NumPy (`sac_by_hand.py`): the limit of what an update
in NumPy can do on the machine. `by_hand_in_torch` is that of SAC, in torch without autograd.
README.md says where the time goes.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import _one_thread  # noqa: F401 - before NumPy is imported
import gymnasium as gym
import numpy as np
import torch
from _common import Report, figure, interleaved, load, ratio, script
from sac_by_hand import ALGORITHMS, by_hand
from sac_by_hand_in_torch import by_hand_in_torch
from threadpoolctl import threadpool_info

from rillflow.algorithms import get_algorithm
from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import learns_in_numpy, make_learner

MINUTES = 6
ROWS, BATCH = 256, 1024
BARS = {64: {"numpy": ">= 5", "torch": ">= 3"}, 256: {"auto": ">= 1.15"}}
"""what a framework has to reach with two layers of so many units, in times the peer's rate"""
C51: dict[str, Any] = {
    "v_min": 0.0,
    "v_max": 100.0,
    "scale_rewards": False,
    **dict.fromkeys(("noisy", "dueling", "double_q", "prioritized_replay"), False),
    "n_step": 1,
}
"""of Rainbow, what is left of it: 51 atoms"""
Train = Callable[[int], object]


def ask(report: Report) -> None:
    """Rates of each framework and of the peer, slice by slice."""
    torch.set_num_threads(1)
    peer = importlib.util.find_spec("stable_baselines3") is not None
    if not peer:
        report.lacks("sb3", "stable_baselines3 is not installed in this environment")
    rounds = 3 if report.options.quick else 5 * report.options.repeats
    kernels = [one["architecture"] for one in threadpool_info() if "architecture" in one]
    report.settings |= {"env": "Pendulum-v1", "rows": ROWS, "rounds": rounds, "kernels": kernels}
    for algorithm in ("sac", "td3", "ddpg", "c51"):
        for width, bars in BARS.items():
            rivals = contestants(report, algorithm, width, peer)
            updates = 40 if width == 64 else 16
            rates = dict(zip(rivals, measured(rivals, updates, rounds), strict=True))
            for name, values in rates.items():
                for value in values:
                    report.measured(f"{algorithm} {width}x{width}, {name}", updates_per_s=value)
            picked = "numpy" if picks_numpy(algorithm, width) else "torch"
            if "by_hand" in rates:
                title, unit = f"{algorithm}_{width}_numpy_vs_by_hand", "our updates/s / by hand"
                report.add(ratio(title, rates["numpy"], rates["by_hand"], unit, load=load()))
            for name in sorted(rates.keys() & {"by_hand", "by_hand_in_torch"}):
                title, unit = f"{algorithm}_{width}_{name}_vs_sb3", "by hand / SB3's updates/s"
                report.add(ratio(title, rates[name], rates.get("sb3", []), unit, load=load()))
            for name in ("numpy", "torch", "auto"):
                ours = rates[picked if name == "auto" else name]
                title = f"{algorithm}_{width}_{name}_vs_sb3"
                beside = ratio(
                    title,
                    ours,
                    rates.get("sb3", []),
                    "our updates/s / SB3's",
                    bars.get(name),
                    load=load(),
                )
                alone = figure(f"{algorithm}_{width}_{name}", max(ours), "updates/s")
                report.add(alone if beside is None else beside)


def contestants(report: Report, algorithm: str, width: int, peer: bool) -> dict[str, Train]:
    """Ours in both frameworks, those by hand, and the peer."""
    rivals = {name: learner(algorithm, width, name) for name in ("numpy", "torch")}
    given = list(columns().values())
    if algorithm in ALGORITHMS:
        rivals["by_hand"] = by_hand(algorithm, width, given, ROWS)
    if algorithm == "sac":
        rivals["by_hand_in_torch"] = by_hand_in_torch(width, given, ROWS)
    if algorithm == "c51" and importlib.util.find_spec("sb3_contrib") is None:
        report.lacks("sb3-contrib", "sb3_contrib is not installed in this environment")
    elif peer:
        rivals["sb3"] = stable_baselines(algorithm, width)
    return rivals


def measured(rivals: dict[str, Train], updates: int, rounds: int) -> list[list[float]]:
    """Updates per second of processor time of each, round by round."""

    def rate(train: Train) -> Callable[[], float]:
        def once() -> float:
            began = time.process_time()  # one thread: what others do meanwhile does not count
            train(updates)
            return updates / (time.process_time() - began)

        train(updates)  # the first ones allocate
        return once

    return interleaved([rate(train) for train in rivals.values()], rounds)


def setting(algorithm: str, width: int, framework: str) -> tuple[Any, Any]:
    """The policy and the settings."""
    name, env, own = algorithm, "Pendulum-v1", {}
    if algorithm == "c51":
        name, env, own = "rainbow", "CartPole-v1", C51
    config = get_algorithm(name).Config(
        env=env, hidden=(width, width), framework=framework, train_batch_size=ROWS, **own
    )
    spaces = gym.make(env)
    return config.policy_spec(spaces.observation_space, spaces.action_space), config


def picks_numpy(algorithm: str, width: int) -> bool:
    """Whether `framework="auto"` learns in NumPy."""
    return learns_in_numpy(*setting(algorithm, width, "auto"))


def learner(algorithm: str, width: int, framework: str) -> Train:
    """Ours: passes over a batch in minibatches."""
    ours = make_learner(*setting(algorithm, width, framework), 0)
    batch = SampleBatch({name: column[None] for name, column in columns(algorithm).items()})
    passes = BATCH // ROWS
    return lambda updates: [ours.train(batch, 1, ROWS) for _ in range(updates // passes)]


def columns(algorithm: str = "sac") -> dict[str, Any]:
    """Rows of Pendulum-v1's shape, or of CartPole-v1's."""
    rng = np.random.default_rng(0)
    numbers = 4 if algorithm == "c51" else 3
    actions: Any = rng.uniform(-2, 2, (BATCH, 1)).astype(np.float32)
    return {
        "obs": rng.standard_normal((BATCH, numbers), np.float32),
        "actions": rng.integers(0, 2, BATCH) if algorithm == "c51" else actions,
        "rewards": rng.standard_normal(BATCH, np.float32),
        "next_obs": rng.standard_normal((BATCH, numbers), np.float32),
        "discount": np.full(BATCH, 0.99, np.float32),
    }


def stable_baselines(algorithm: str, width: int) -> Train:
    """The peer, with as many steps in its buffer as a batch of ours has rows."""
    import stable_baselines3

    kind, own = getattr(stable_baselines3, algorithm.upper(), None), {}
    if algorithm == "c51":
        import sb3_contrib

        kind, own = sb3_contrib.QRDQN, {"n_quantiles": 51}
    assert kind is not None
    theirs = kind(
        "MlpPolicy",
        "CartPole-v1" if algorithm == "c51" else "Pendulum-v1",
        policy_kwargs={"net_arch": [width, width], **own},
        batch_size=ROWS,
        learning_starts=BATCH,
        device="cpu",
    )
    theirs.learn(BATCH + 8)
    return lambda updates: theirs.train(updates, ROWS)


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
