"""Stable-Baselines3: DQN on CartPole-v1 with the tuned settings of rl-zoo3."""

from __future__ import annotations

from typing import Any

import stable_baselines3 as sb3
import torch
from _driver import Tracker, arguments, emit
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

options = arguments(evaluate=1)
FREQUENCY = 256
"""steps between two turns of training"""
torch.set_num_threads(options.threads)
tracker = Tracker(options.budget, least=0 if options.evaluate else 8)


class Watch(BaseCallback):
    """Tells the tracker, and evaluates."""

    def _on_step(self) -> bool:
        if self.num_timesteps % FREQUENCY == 0:
            tracker.mark(self.num_timesteps, self.model._n_updates)
            if options.evaluate and self.model._n_updates:
                tracker.evaluate(self._act, self.num_timesteps)
        return not tracker.done

    def _act(self, obs: Any) -> Any:
        return self.model.predict(obs, deterministic=True)[0]


model = sb3.DQN(
    "MlpPolicy",
    make_vec_env("CartPole-v1", n_envs=1, seed=options.seed),
    learning_rate=2.3e-3,
    batch_size=64,
    buffer_size=100_000,
    learning_starts=1000,
    gamma=0.99,
    target_update_interval=10,
    train_freq=FREQUENCY,
    gradient_steps=128,
    exploration_fraction=8000 / 1e6,
    exploration_final_eps=0.04,
    policy_kwargs={"net_arch": [256, 256]},
    seed=options.seed,
    device="cpu",
)
tracker.start()
model.learn(1_000_000, callback=Watch())
emit("sb3", variant="zoo", seed=options.seed, version=sb3.__version__, **tracker.fields())
