"""TorchRL: PPO on CartPole-v1 (collector, GAE, ClipPPOLoss) with the tuned settings of rl-zoo3."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
import torchrl
from _driver import Tracker, arguments, emit, quit_now
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, RewardSum, TransformedEnv
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

options = arguments(total=100_000)
COPIES, LENGTH, EPOCHS = 8, 32, 20
torch.set_num_threads(options.threads)
torch.manual_seed(options.seed)
tracker = Tracker(options.budget)


def network(outputs: int, last: float) -> MLP:
    """Two hidden layers with orthogonal weights."""
    made = MLP(in_features=4, out_features=outputs, num_cells=[64, 64], activation_class=nn.Tanh)
    layers = [layer for layer in made if isinstance(layer, nn.Linear)]
    for layer in layers:
        nn.init.orthogonal_(layer.weight, last if layer is layers[-1] else 2**0.5)
        nn.init.zeros_(layer.bias)
    return made


mode = gymnasium.vector.AutoresetMode.SAME_STEP
vector = gymnasium.make_vec(
    "CartPole-v1", COPIES, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
)
env = TransformedEnv(GymWrapper(vector), RewardSum())
env.set_seed(options.seed)
actor = ProbabilisticActor(
    TensorDictModule(network(2, 0.01), ["observation"], ["logits"]),
    in_keys=["logits"],
    spec=env.action_spec_unbatched,
    distribution_class=OneHotCategorical,
    return_log_prob=True,
)
critic = ValueOperator(network(1, 1.0), in_keys=["observation"])
advantages = GAE(gamma=0.98, lmbda=0.8, value_network=critic, average_gae=False)
loss = ClipPPOLoss(
    actor,
    critic,
    clip_epsilon=0.2,
    entropy_bonus=False,
    critic_coeff=0.5,
    loss_critic_type="l2",
    normalize_advantage=True,
)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3, eps=1e-5)
collector = Collector(
    env,
    actor,
    frames_per_batch=COPIES * LENGTH,
    total_frames=options.total,
    track_traj_ids=False,
)


def learn(batch: Any, left: float) -> None:
    """All epochs on one rollout, which is one minibatch."""
    optimizer.param_groups[0]["lr"] = 1e-3 * left
    loss.clip_epsilon.fill_(max(0.2 * left, 1e-3))
    with torch.no_grad():
        advantages(batch)
    rows = batch.reshape(-1)
    for _ in range(EPOCHS):
        losses = loss(rows)
        optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
        optimizer.step()


tracker.start()
steps = 0
for batch in collector:
    steps += batch.numel()
    ended = batch["next", "done"].squeeze(-1)
    for episode_return in batch["next", "episode_reward"].squeeze(-1)[ended].tolist():
        tracker.episode(episode_return, steps)
    if tracker.done:
        break
    learn(batch, 1 - steps / options.total)
    tracker.mark(steps)
emit("torchrl", variant="zoo", seed=options.seed, version=torchrl.__version__, **tracker.fields())
quit_now()
