"""Tianshou: PPO on CartPole-v1 with the tuned settings of rl-zoo3, in its own form."""

from __future__ import annotations

import contextlib
from typing import Any

import gymnasium as gym
import numpy as np
import tianshou
import torch
from _driver import EnoughError, Tracker, arguments, emit
from tianshou.algorithm.modelfree.ppo import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import (
    AdamOptimizerFactory,
    LRSchedulerFactoryLinear,
)
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

options = arguments(total=100_000)
COPIES, ROLLOUT = 8, 256
torch.set_num_threads(options.threads)
np.random.seed(options.seed)
torch.manual_seed(options.seed)
tracker = Tracker(options.budget)


class Watched(Collector):
    """Tells the tracker what it collects."""

    def collect(self, *args: Any, **kwargs: Any) -> Any:
        """As the collector does."""
        found = super().collect(*args, **kwargs)
        for episode_return in found.returns if found.returns is not None else []:
            tracker.episode(episode_return, self.collect_step)
        tracker.mark(self.collect_step)
        if tracker.done:
            raise EnoughError
        return found


def network() -> Net:
    """Two hidden layers."""
    return Net(state_shape=(4,), hidden_sizes=[64, 64], activation=torch.nn.Tanh)


def initialised(module: torch.nn.Module, last: float) -> torch.nn.Module:
    """Orthogonal weights, as the zoo's other libraries have."""
    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)]
    for layer in layers:
        torch.nn.init.orthogonal_(layer.weight, last if layer is layers[-1] else 2**0.5)
        torch.nn.init.zeros_(layer.bias)
    return module


envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(COPIES)])
envs.seed(options.seed)
actor = DiscreteActor(preprocess_net=network(), action_shape=2, softmax_output=False)
policy = DiscreteActorPolicy(
    actor=initialised(actor, 0.01),
    dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
    action_space=envs.action_space[0],
    deterministic_eval=False,
)
schedule = LRSchedulerFactoryLinear(
    max_epochs=1, epoch_num_steps=options.total, collection_step_num_env_steps=ROLLOUT
)
algorithm = PPO(
    policy=policy,
    critic=initialised(DiscreteCritic(preprocess_net=network()), 1.0),
    optim=AdamOptimizerFactory(lr=1e-3, eps=1e-5).with_lr_scheduler_factory(schedule),
    eps_clip=0.2,
    vf_coef=0.5,
    max_grad_norm=0.5,
    advantage_normalization=True,
    gamma=0.98,
    gae_lambda=0.8,
    ent_coef=0.0,
)
collector = Watched(algorithm, envs, VectorReplayBuffer(20_000, COPIES))
collector.reset()
tracker.start()
with contextlib.suppress(EnoughError):
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            test_collector=None,
            max_epochs=1,
            epoch_num_steps=options.total,
            collection_step_num_env_steps=ROLLOUT,
            update_step_num_repetitions=20,
            batch_size=256,
            test_step_num_episodes=0,
            verbose=False,
            show_progress=False,
        )
    )
emit("tianshou", variant="zoo", seed=options.seed, version=tianshou.__version__, **tracker.fields())
