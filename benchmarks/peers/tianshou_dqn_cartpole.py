"""Tianshou: DQN on CartPole-v1 with the tuned settings of rl-zoo3: 256 steps, then 128 updates."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium as gym
import numpy as np
import tianshou
import torch
from _driver import EnoughError, Tracker, arguments, emit
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

options = arguments(evaluate=1)
COPIES = 8
torch.set_num_threads(options.threads)
np.random.seed(options.seed)
torch.manual_seed(options.seed)
tracker = Tracker(options.budget)
network = Net(state_shape=(4,), action_shape=2, hidden_sizes=[256, 256])


def act(obs: Any) -> Any:
    """The best action by the network's values."""
    with torch.inference_mode():
        return network(torch.as_tensor(obs))[0].argmax(1).numpy()


class Watched(Collector):
    """Tells the tracker what it collects, and evaluates."""

    def collect(self, *args: Any, **kwargs: Any) -> Any:
        """As the collector does; training of what was collected before is done by now."""
        if options.evaluate and self.collect_step:
            tracker.evaluate(act, self.collect_step)
            if tracker.done:
                raise EnoughError
        found = super().collect(*args, **kwargs)
        policy.set_eps_training(max(0.04, 1 - 0.96 * self.collect_step / 8000))
        tracker.mark(self.collect_step, self.collect_step * 0.5)
        if tracker.done:
            raise EnoughError
        return found


envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(COPIES)])
envs.seed(options.seed)
policy = DiscreteQLearningPolicy(
    model=network,
    action_space=envs.action_space[0],
    eps_training=1.0,
    eps_inference=0.0,
)
algorithm = DQN(
    policy=policy,
    optim=AdamOptimizerFactory(lr=2.3e-3),
    gamma=0.99,
    target_update_freq=10,
    is_double=True,
)
buffer = VectorReplayBuffer(100_000, COPIES)
collector = Watched(algorithm, envs, buffer, exploration_noise=True)
collector.reset()
tracker.start()
with contextlib.suppress(EnoughError):
    collector.collect(n_step=1024, random=True)
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            test_collector=None,
            max_epochs=1000,
            epoch_num_steps=10_000,
            collection_step_num_env_steps=256,
            update_step_num_gradient_steps_per_sample=0.5,
            batch_size=64,
            test_step_num_episodes=0,
            verbose=False,
            show_progress=False,
        )
    )
emit("tianshou", variant="zoo", seed=options.seed, version=tianshou.__version__, **tracker.fields())
