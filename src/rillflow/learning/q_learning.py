"""What the algorithms that learn q values share: settings, rows, loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.experience.batch import Array
from rillflow.learning import analytic
from rillflow.learning.config import AlgorithmConfig, refused
from rillflow.learning.results import Loss

if TYPE_CHECKING:
    import torch

Rows = dict[str, "torch.Tensor"]


@dataclass(frozen=True, kw_only=True)
class QNetworkConfig(AlgorithmConfig):
    """Settings of q learning with a target network, wherever its rows come from."""

    lr: float = 1e-3
    activation: str = "relu"
    grad_clip: float | None = 10.0
    num_envs_per_worker: int = 8
    rollout_fragment_length: int = 8
    target_network_update_freq: int = 2000
    """rows trained between two updates of the target network"""
    n_step: int = 1
    """steps that a row looks ahead"""
    double_q: bool = False
    """whether the network that is trained picks the action that the target network values"""
    dueling: bool = False
    """q values as a value plus advantages"""
    initial_epsilon: float = 1.0
    """how often actions are random at first"""
    final_epsilon: float = 0.04
    """how often actions are random in the end"""
    epsilon_timesteps: int = 10_000
    """steps of all workers together over which it falls, in a line"""

    @property
    def policy_options(self) -> dict[str, Any]:
        """Q values, dueling or not."""
        return {"head": "q", "dueling": self.dueling}

    @property
    def target_freq(self) -> int:
        """Rows trained between two updates of the target network."""
        return self.target_network_update_freq

    def exploration(self, worker: int, steps: int) -> float:
        """A line from the first rate to the last, by the steps of all workers."""
        done = min(1.0, steps * max(1, self.num_workers) / max(1, self.epsilon_timesteps))
        return self.initial_epsilon + done * (self.final_epsilon - self.initial_epsilon)

    def validate(self) -> None:
        """Refuse numbers that cannot work, all at once."""
        super().validate()
        wrong = self._wrong()
        if wrong:
            raise refused(type(self), wrong)

    def _wrong(self) -> list[str]:
        wrong = self._below_one("target_network_update_freq", "n_step")
        for name in ("initial_epsilon", "final_epsilon"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                wrong.append(f"{name} must be between 0 and 1, got {getattr(self, name)!r}")
        return wrong

    def _below_one(self, *names: str) -> list[str]:
        return [
            f"{name} must be at least 1, got {getattr(self, name)!r}"
            for name in names
            if getattr(self, name) < 1
        ]


@dataclass(frozen=True, kw_only=True)
class QConfig(QNetworkConfig):
    """Settings of q learning with replay and a target network."""

    train_batch_size: int = 64
    """rows per optimiser step"""
    batches_per_draw: int = 1
    """training batches drawn from replay at once, and learned from one after another: less to draw
    and to send, but weights and priorities are renewed once for all of them"""
    learning_starts: int = 1000
    """rows in replay before learning begins, all shards together"""
    buffer_size: int = 50_000
    """rows that replay holds, all shards together"""
    num_replay_buffer_shards: int = 1
    """replay actors that share the rows"""
    prioritized_replay: bool = False
    """whether rows with large errors are drawn more often"""
    prioritized_replay_alpha: float = 0.6
    """how much priorities count: 0 not at all, 1 in proportion"""
    prioritized_replay_beta: float = 0.4
    """how much importance weights correct for that: 1 wholly"""
    prioritized_replay_epsilon: float = 1e-6
    """added to every priority, so that no row is lost for good"""
    training_intensity: float = 8.0
    """rows trained for each step sampled"""

    @property
    def train_turns(self) -> float:
        """Draws from replay for each round of rollouts, so that `training_intensity` holds."""
        sampled = self.fragment_steps * max(1, self.num_workers)
        return self.training_intensity * sampled / self.rows_per_draw

    @property
    def rows_per_draw(self) -> int:
        """Rows that replay gives at once."""
        return self.train_batch_size * self.batches_per_draw

    @property
    def minibatch(self) -> int | None:
        """Rows per optimiser step, where replay gives several batches at once."""
        return self.train_batch_size if self.batches_per_draw > 1 else None

    @property
    def replay_options(self) -> dict[str, Any]:
        """What one replay actor is made with: its share of the rows."""
        shards = self.num_replay_buffer_shards
        return {
            "capacity": -(-self.buffer_size // shards),
            "learning_starts": -(-self.learning_starts // shards),
            "train_batch_size": self.rows_per_draw,
            "prioritized": self.prioritized_replay,
            "alpha": self.prioritized_replay_alpha,
            "beta": self.prioritized_replay_beta,
            "epsilon": self.prioritized_replay_epsilon,
            "n_step": self.n_step,
            "gamma": self.gamma,
        }

    def _wrong(self) -> list[str]:
        wrong = super()._wrong()
        wrong += self._below_one("learning_starts", "num_replay_buffer_shards", "batches_per_draw")
        if self.buffer_size < self.learning_starts:
            wrong.append(
                f"buffer_size must be at least learning_starts ({self.learning_starts}), "
                f"or learning never starts; got {self.buffer_size!r}"
            )
        if self.training_intensity <= 0:
            wrong.append(f"training_intensity must be above 0, got {self.training_intensity!r}")
        return wrong


def postprocess(policy: Any, batch: Rows, cfg: QNetworkConfig) -> Rows:
    """A postprocessor for batches from replay, which are rows already: without the time axis."""
    return {name: column.flatten(0, 1) for name, column in batch.items()}


def loss(policy: Any, rows: Rows, cfg: QNetworkConfig) -> Loss:
    """Huber's function of the TD errors, weighted by how likely each row was drawn.

    `next_q` of the rows are the target network's values of `next_obs`, from the learner.
    """
    import torch

    from rillflow.learning import losses

    known = (rows["actions"], rows["rewards"], rows["discount"], rows["next_q"])
    if cfg.double_q:
        q, next_q = policy.q_values(torch.cat([rows["obs"], rows["next_obs"]])).chunk(2)
        errors = losses.double_q_td_error(q, *known, next_q.detach())
    else:
        q = policy.q_values(rows["obs"])
        errors = losses.q_learning_td_error(q, *known)
    costs = losses.huber(errors)
    weights = rows.get("weights")
    total = (costs if weights is None else costs * weights).mean()
    stats = {"loss": total, "mean_q": q.mean(), "td_errors": errors}
    if "keys" in rows:
        stats["keys"] = rows["keys"]
    return Loss(total, {name: figure.detach() for name, figure in stats.items()})


def numpy_postprocess(
    network: analytic.Network, batch: Mapping[str, Array], cfg: QNetworkConfig
) -> analytic.Rows:
    """As `postprocess`, in NumPy."""
    return {name: analytic.flattened(column) for name, column in batch.items()}


def numpy_loss(
    network: analytic.Network, rows: analytic.Rows, cfg: QNetworkConfig
) -> dict[str, Any]:
    """As `loss`, in NumPy; it leaves the gradient in the network."""
    actions, everyone = rows["actions"], np.arange(len(rows["actions"]))
    next_q = rows["next_q"].T
    best = network.q_values(rows["next_obs"]) if cfg.double_q else next_q
    next_values = next_q[best.argmax(0), everyone]
    q = network.q_values(rows["obs"], remember=True)
    errors = analytic.td_errors(q, actions, rows["rewards"], rows["discount"], next_values)
    total, d_errors = analytic.huber_loss(errors, rows.get("weights"))
    d_q = np.zeros_like(q)
    d_q[actions, everyone] = -d_errors
    network.backward_q(d_q)
    figures = {"loss": total, "mean_q": np.add.reduce(q, None) / q.size, "td_errors": errors}
    return figures | ({"keys": rows["keys"]} if "keys" in rows else {})


CART_POLE: dict[str, Any] = {
    "hidden": (128, 128),
    "activation": "tanh",
    "lr": 2.3e-3,
    "dueling": False,
    "n_step": 3,
    "target_network_update_freq": 2560,
}
"""settings for CartPole-v1"""

MOUNTAIN_CAR: dict[str, Any] = {
    "hidden": (128, 128),
    "activation": "tanh",
    "lr": 4e-3,
    "train_batch_size": 128,
    "training_intensity": 16.0,
    "target_network_update_freq": 10_000,
}
"""settings for MountainCar-v0, whose goal is not found by chance: values begin above all that there
is to get, so that what has been tried soon looks worse than what has not"""
