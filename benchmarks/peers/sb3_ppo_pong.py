"""Stable-Baselines3: PPO on Pong with the Atari settings of rl-zoo3 (8 x 128, 4 epochs)."""

from __future__ import annotations

import ale_py
import gymnasium
import stable_baselines3 as sb3
import torch
from _driver import Tracker, arguments, emit, quit_now
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

options = arguments()
gymnasium.register_envs(ale_py)
torch.set_num_threads(options.threads)
tracker = Tracker(options.budget, threshold=float("inf"), least=4)


class Watch(BaseCallback):
    """Tells the tracker of each rollout; ends between two of them."""

    def _on_step(self) -> bool:
        return not tracker.done

    def _on_rollout_start(self) -> None:
        tracker.mark(self.num_timesteps)


envs = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=8, seed=options.seed), 4)
model = sb3.PPO(
    "CnnPolicy",
    envs,
    n_steps=128,
    n_epochs=4,
    batch_size=256,
    learning_rate=2.5e-4,
    clip_range=0.1,
    vf_coef=0.5,
    ent_coef=0.01,
    device="cpu",
    seed=options.seed,
)
tracker.start()
model.learn(10_000_000, callback=Watch())
emit("sb3", variant="ppo", seed=options.seed, version=sb3.__version__, **tracker.fields())
quit_now()
