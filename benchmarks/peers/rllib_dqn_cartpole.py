"""RLlib: DQN on CartPole-v1 with the settings of its own tuned example."""

from __future__ import annotations

import logging
from typing import Any

import ray
import torch
from _driver import Tracker, arguments, emit, quit_now
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

options = arguments(evaluate=1)
BATCH = 32
torch.set_num_threads(options.threads)
ray.init(
    num_cpus=2,
    include_dashboard=False,
    logging_level=logging.ERROR,
    log_to_driver=False,
    object_store_memory=10**9,
)
model = DefaultModelConfig(
    fcnet_hiddens=[256],
    fcnet_activation="tanh",
    head_fcnet_hiddens=[256],
    fcnet_bias_initializer="zeros_",
)
replay = {
    "type": "PrioritizedEpisodeReplayBuffer",
    "capacity": 50_000,
    "alpha": 0.6,
    "beta": 0.4,
}
config = (
    DQNConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=1)
    .debugging(seed=options.seed, log_level="ERROR")
    .training(
        lr=0.0005,
        train_batch_size_per_learner=BATCH,
        replay_buffer_config=replay,
        n_step=(2, 5),
        double_q=True,
        dueling=True,
        epsilon=[(0, 1.0), (10_000, 0.02)],
    )
    .rl_module(model_config=model)
    .reporting(metrics_num_episodes_for_smoothing=100, min_time_s_per_iteration=1)
)
algorithm = config.build_algo()


def act(obs: Any) -> Any:
    """The best action by the network's values."""
    with torch.inference_mode():
        module = algorithm.get_module()
        return module.forward_inference({"obs": torch.as_tensor(obs)})["actions"].numpy()


tracker = Tracker(options.budget)
tracker.start()
while not tracker.done:
    result = algorithm.train()
    steps = int(result["env_runners"].get("num_env_steps_sampled_lifetime", 0))
    learners = result.get("learners", {}).get("__all_modules__", {})
    trained = learners.get("num_env_steps_trained_lifetime")
    tracker.mark(steps, None if trained is None else trained / BATCH)
    if options.evaluate:
        tracker.evaluate(act, steps)
emit("rllib", variant="tuned", seed=options.seed, version=ray.__version__, **tracker.fields())
quit_now()
