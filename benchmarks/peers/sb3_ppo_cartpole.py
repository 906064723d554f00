"""Stable-Baselines3: PPO on CartPole-v1 with the tuned settings of rl-zoo3."""

from __future__ import annotations

import stable_baselines3 as sb3
import torch
from _driver import Tracker, arguments, emit
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

options = arguments()
torch.set_num_threads(options.threads)
tracker = Tracker(options.budget)


class Watch(BaseCallback):
    """Tells the tracker."""

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                tracker.episode(info["episode"]["r"], self.num_timesteps)
        return not tracker.done

    def _on_rollout_start(self) -> None:
        tracker.mark(self.num_timesteps)


model = sb3.PPO(
    "MlpPolicy",
    make_vec_env("CartPole-v1", n_envs=8, seed=options.seed),
    n_steps=32,
    batch_size=256,
    n_epochs=20,
    gae_lambda=0.8,
    gamma=0.98,
    ent_coef=0.0,
    learning_rate=lambda left: 0.001 * left,
    clip_range=lambda left: 0.2 * left,
    seed=options.seed,
    device="cpu",
)
tracker.start()
model.learn(100_000, callback=Watch())  # the schedule ends there; a run that failed is reported
emit("sb3", variant="zoo", seed=options.seed, version=sb3.__version__, **tracker.fields())
