"""Stable-Baselines3: PPO or SAC with its defaults, on any environment."""

from __future__ import annotations

import json
import time

import stable_baselines3 as sb3
import torch
from _generality import START, make, options, score, tell
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

given = options()
torch.set_num_threads(given.threads)
env = Monitor(make(given.env))
policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
kind = {"ppo": sb3.PPO, "sac": sb3.SAC}[given.algorithm]
model = kind(policy, env, seed=given.seed, device="cpu", **json.loads(given.settings))


def act(observations: object) -> object:
    return model.predict(observations, deterministic=True)[0]


class Curve(BaseCallback):
    """Greedy scores on the way, off the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[int, float]] = []
        self.paused = 0.0

    def _on_step(self) -> bool:
        every = given.steps // given.curve if given.curve else given.steps + 1
        if self.num_timesteps % every == 0 and self.num_timesteps < given.steps:
            began = time.time()
            self.points.append((self.num_timesteps, score(given.env, act, 20)))
            self.paused += time.time() - began
        return True


curve = Curve()
began = time.time()
model.learn(given.steps, callback=curve)
train_s = time.time() - began - curve.paused
last = score(given.env, act, given.episodes)
tell(
    peer="sb3",
    version=sb3.__version__,
    algorithm=given.algorithm,
    env=given.env,
    seed=given.seed,
    steps=int(model.num_timesteps),
    score=last,
    curve=[*curve.points, (int(model.num_timesteps), last)],
    train_s=train_s,
    wall_s=time.time() - START - curve.paused,
)
