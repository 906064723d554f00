"""Rainbow: six improvements of DQN together (Hessel et al. 2017, arXiv:1710.02298).

Each is a switch of `dqn.Config`: distributions of returns, noisy layers, several steps ahead,
prioritized replay, dueling and double. Networks, update and plan are those of DQN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rillflow.algorithms import dqn
from rillflow.algorithms.dqn import plan as plan
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.q_learning import explorer, modules, prepare, update


@dataclass(frozen=True, kw_only=True)
class Config(dqn.Config):
    """Settings of Rainbow.

    The ends of the distributions are those of the paper. They suit rewards that are scaled, as they
    are by default; who knows what an episode can bring gives `v_min` and `v_max` of it.
    """

    num_atoms: int = 51
    v_min: float | None = -10.0
    v_max: float | None = 10.0
    noisy: bool = True
    n_step: int = 3
    scale_rewards: bool | None = None
    prioritized_replay_alpha: float = 0.5
    prioritized_replay_beta_timesteps: int = 100_000
    target_network_update_freq: int = 8000


TUNED: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "hidden": (128, 128),
        "activation": "tanh",
        "lr": 2e-3,
        "final_lr": 2e-4,
        "lr_updates": 12_000,
        # of batches of 64, half as many rows for each step, one seed of three ended at 349
        "train_batch_size": 128,
        "training_intensity": 32.0,
        "sigma0": 0.1,
        "learning_starts": 500,
        "prioritized_replay_beta_timesteps": 50_000,
        "scale_rewards": False,
        "v_min": 0.0,
        "v_max": 100.0,
    },
    # those of DQN would switch off what makes it Rainbow
    "MountainCar-v0": {"hidden": (128, 128), "activation": "tanh"},
    "atari": {
        "lr": 1e-4,
        "batches_per_draw": 1,
        "target_network_update_freq": 64_000,
        "learning_starts": 10_000,
        "scale_rewards": False,
        "num_learner_threads": dqn.TUNED["atari"]["num_learner_threads"],
    },
    "atari-gpu": dqn.TUNED["atari-gpu"],
}
"""settings for environments that the defaults do not suit; rewards of Atari games are clipped"""

RAINBOW = Algorithm(
    "rainbow",
    Config,
    modules,
    update,
    plan,
    prepare=prepare,
    explorer=explorer,
    tuned=TUNED,
)
