"""RLlib: PPO or IMPALA on Pong, its own Atari wrappers, Nature CNN, two environment runners."""

from __future__ import annotations

import logging
from typing import Any

import ray
import torch
from _driver import Tracker, arguments, emit, quit_now
from ray import tune
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

options = arguments(algo="PPO", workers=2, copies=4)


def make(_: Any) -> Any:
    """Pong as everybody trains it: gray, 84 pixels a side, four frames."""
    import ale_py
    import gymnasium
    from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack

    gymnasium.register_envs(ale_py)
    pong = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    return wrap_atari_for_new_api_stack(pong, dim=84, framestack=4)


tune.register_env("pong", make)
ray.init(
    num_cpus=4,
    include_dashboard=False,
    logging_level=logging.ERROR,
    log_to_driver=False,
    object_store_memory=2 * 10**9,
)
config: Any = PPOConfig() if options.algo == "PPO" else IMPALAConfig()
config.environment("pong").debugging(seed=options.seed, log_level="ERROR")
config.rl_module(
    model_config=DefaultModelConfig(
        conv_filters=[[32, 8, 4], [64, 4, 2], [64, 3, 1]],
        conv_activation="relu",
        head_fcnet_hiddens=[512],
        vf_share_layers=True,
    )
)
config.env_runners(
    num_env_runners=options.workers,
    num_envs_per_env_runner=options.copies,
    rollout_fragment_length=128 if options.algo == "PPO" else 50,
)
if options.algo == "PPO":
    config.training(
        train_batch_size_per_learner=options.workers * options.copies * 128,
        minibatch_size=256,
        num_epochs=4,
        lr=2.5e-4,
        clip_param=0.1,
        vf_loss_coeff=0.5,
        entropy_coeff=0.01,
        lambda_=0.95,
        grad_clip=0.5,
    )
else:
    config.training(train_batch_size_per_learner=500, lr=5e-4)
config.learners(num_learners=0)
config.reporting(min_time_s_per_iteration=0 if options.algo == "PPO" else 2)
algorithm = config.build_algo()
torch.set_num_threads(options.threads)
tracker = Tracker(options.budget, threshold=float("inf"), least=4)
tracker.start()
trained = 0
while not tracker.done:
    result = algorithm.train()
    learners = result.get("learners", {}).get("__all_modules__", {})
    trained = learners.get("num_env_steps_trained_lifetime", trained)
    tracker.mark(int(result["env_runners"].get("num_env_steps_sampled_lifetime", 0)), trained)
fields = tracker.fields()
fields["trained_steps_per_s"] = fields.pop("updates_per_s", None)
emit("rllib", variant=options.algo, seed=options.seed, version=ray.__version__, **fields)
quit_now()
