"""RLlib: PPO on CartPole-v1 with the settings of its own tuned example."""

from __future__ import annotations

import logging

import ray
import torch
from _driver import Tracker, arguments, emit, quit_now
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

options = arguments(workers=0, copies=8)
torch.set_num_threads(options.threads)
ray.init(
    num_cpus=max(2, options.workers + 1),
    include_dashboard=False,
    logging_level=logging.ERROR,
    log_to_driver=False,
    object_store_memory=10**9,
)
model = DefaultModelConfig(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .debugging(seed=options.seed, log_level="ERROR")
    .env_runners(num_env_runners=options.workers, num_envs_per_env_runner=options.copies)
    .training(lr=0.0003, num_epochs=6, vf_loss_coeff=0.01)
    .rl_module(model_config=model)
    .reporting(
        metrics_num_episodes_for_smoothing=100,
        min_time_s_per_iteration=0,
        min_sample_timesteps_per_iteration=0,
    )
)
algorithm = config.build_algo()
tracker = Tracker(options.budget)
tracker.start()
while not tracker.done:
    runners = algorithm.train()["env_runners"]
    steps = int(runners.get("num_env_steps_sampled_lifetime", 0))
    tracker.mark(steps)
    tracker.mean(runners.get("episode_return_mean", float("nan")), steps)
emit("rllib", variant="tuned", seed=options.seed, version=ray.__version__, **tracker.fields())
quit_now()
