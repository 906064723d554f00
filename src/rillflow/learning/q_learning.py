"""What the algorithms that learn q values share: settings, network, rows, update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rillflow.experience.batch import STATE
from rillflow.learning import losses, q_switches
from rillflow.learning.config import AlgorithmConfig, below_one
from rillflow.learning.prepare import flat_rows
from rillflow.learning.q_distributions import categorical_step
from rillflow.learning.q_sequences import priorities, q_values_of_sequences, sequence_rows
from rillflow.learning.replay_config import ReplayConfig
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.exploration_schedules import falling
from rillflow.policies.explorers import EpsilonGreedy, Explorer
from rillflow.policies.modules import Modules, q_values
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Hard


@dataclass(frozen=True, kw_only=True)
class QNetworkConfig(AlgorithmConfig):
    """Settings of q learning with a target network, wherever its rows come from."""

    # the network is made with them; workers and replay hold what was found on one scale
    READ_ONCE: ClassVar[tuple[str, ...]] = ("v_min", "v_max", "sigma0", "value_rescaling")

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
    num_atoms: int = 1
    """of each q value: how many returns, from `v_min` to `v_max`, have a chance each, which is what
    is learned; 51 is usual; 1: the q value alone is"""
    v_min: float | None = None
    """the least discounted return that there can be, with `num_atoms` above 1"""
    v_max: float | None = None
    """the largest one; what lies beyond the ends is told by the figure `clipped_mass`"""
    noisy: bool = False
    """whether noise in the fully connected layers explores, and no action is random otherwise"""
    sigma0: float = 0.5
    """with `noisy`, how much noise there is at first, by the root of a layer's inputs"""
    initial_epsilon: float = 1.0
    """how often actions are random at first"""
    final_epsilon: float = 0.04
    """how often actions are random in the end"""
    epsilon_timesteps: int = 10_000
    """steps of all workers together over which it falls, in a line"""
    epsilon: float | None = None
    """how often actions are random, in place of that line: a number, or a schedule"""
    value_rescaling: float | None = None
    """whether q values are learned on a smaller scale, sign(q) (sqrt(|q| + 1) - 1) + e q, so that
    returns may be of any size: the number e, such as 0.001; None: as they are"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems() + below_one(self, "target_network_update_freq", "n_step")
        wrong += q_switches.problems(self)
        for name in ("initial_epsilon", "final_epsilon", "epsilon"):
            rate = getattr(self, name)
            if rate is not None and not 0.0 <= rate <= 1.0:
                wrong.append(f"{name} must be between 0 and 1, got {rate!r}")
        if self.value_rescaling is not None and not self.value_rescaling >= 0:
            wrong.append(
                f"value_rescaling must be 0 or above, or None, got {self.value_rescaling!r}"
            )
        return wrong


@dataclass(frozen=True, kw_only=True)
class QConfig(QNetworkConfig, ReplayConfig):
    """Settings of q learning with replay and a target network."""

    worker_priorities: bool = False
    """whether rows enter prioritized replay with the error that the worker finds in them by its own
    q values, and not with the largest priority so far"""
    burn_in: int = 0
    """of a policy that remembers: steps before each sequence that are seen, not learned from"""

    def problems(self) -> list[str]:
        """What is wrong with the numbers."""
        wrong = super().problems()
        if self.burn_in < 0:
            wrong.append(f"burn_in must be at least 0, got {self.burn_in!r}")
        if self.burn_in and not self.remembers:
            wrong.append(
                f"burn_in={self.burn_in} is for a policy that remembers: give memory='lstm' or "
                "'gru', or leave it out"
            )
        usual = type(self).worker_priorities
        if self.worker_priorities and not usual and not self.prioritized_replay:
            wrong.append(
                "worker_priorities are of rows that are drawn by priority: leave it out, or give "
                "prioritized_replay=True"
            )
        if self.value_rescaling is not None and self.worker_priorities and not self.remembers:
            wrong.append(
                "value_rescaling changes the scale of errors, and workers tell theirs on the scale "
                "of rewards: give worker_priorities=False"
            )
        if self.burn_in > self.rollout_fragment_length:
            wrong.append(
                "burn_in is a part of the fragment before, so it must be at most "
                f"rollout_fragment_length={self.rollout_fragment_length}, got {self.burn_in!r}"
            )
        return wrong


def modules(spec: PolicySpec, cfg: QNetworkConfig) -> Modules:
    """One network of q values, and a target that is renewed now and then."""
    return Modules(
        policy=q_values(
            spec,
            cfg.dueling,
            num_atoms=cfg.num_atoms,
            v_min=cfg.v_min,
            v_max=cfg.v_max,
            noisy=cfg.sigma0 if cfg.noisy else 0.0,
        ),
        acts="policy",
        targets={"policy": Hard(cfg.target_network_update_freq)},
    )


def explorer(cfg: QNetworkConfig) -> Explorer:
    """The best action, or any, at a rate that falls in a line, or as `epsilon` says; with noisy
    layers always the best one."""
    epsilon, told = 0.0 if cfg.noisy else cfg.epsilon, tells_values(cfg)
    if epsilon is not None:
        return EpsilonGreedy(lambda place, steps: epsilon, told)
    rate = falling(cfg.initial_epsilon, cfg.final_epsilon, cfg.epsilon_timesteps)
    return EpsilonGreedy(rate, told)


def tells_values(cfg: QNetworkConfig) -> bool:
    """Whether workers tell what they think of each step: only prioritized rows can use it."""
    told = isinstance(cfg, QConfig) and cfg.prioritized_replay and cfg.worker_priorities
    return told and not cfg.remembers


def prepare(m: Any, batch: Mapping[str, Any], cfg: QNetworkConfig) -> Rows:
    """Rows from replay with the target network's values of what followed."""
    if STATE in batch:
        return sequence_rows(m, batch, cfg)
    return with_next_q(m, flat_rows(m, batch, cfg), cfg)


def with_next_q(m: Any, rows: Rows, cfg: QNetworkConfig) -> Rows:
    """Rows with the target network's values of what followed, from one pass for all minibatches;
    of a noisy one as they are: each update asks it anew, under noise of its own."""
    return rows if cfg.noisy else _with_what_follows(m, rows, cfg)


def _with_what_follows(m: Any, rows: Rows, cfg: QNetworkConfig) -> Rows:
    if cfg.num_atoms > 1:
        return Rows({**rows, "next_logits": m.target.policy.q_logits(rows.next_obs)})
    return Rows({**rows, "next_q": m.target.policy.q_values(rows.next_obs)})


def update(m: Any, rows: Rows, cfg: QNetworkConfig) -> Steps:
    """Huber's function of the TD errors, or how far distributions are from their targets, weighted
    by how likely each row was drawn."""
    if cfg.noisy:
        rows = _with_what_follows(m, rows, cfg)
    if cfg.num_atoms > 1:
        yield categorical_step(m, rows, cfg)
        return
    q, chooser = q_and_chooser(m, rows, cfg)
    errors = losses.double_q_td_error(
        q, rows.actions, rows.rewards, rows.discount, rows.next_q, chooser, cfg.value_rescaling
    )
    loss = losses.huber_loss(errors, rows.get("weights"), rows.get("valid"))
    fine = m.policy.action_mask(rows.obs)  # what is forbidden has no value
    stats = {"loss": loss, "mean_q": losses.mean(q.detach(), fine), "td_errors": errors}
    if "keys" in rows:
        stats |= priorities(errors, rows) if STATE in rows else {"keys": rows["keys"]}
    yield Step(loss, trains="policy", stats=stats)


def q_and_chooser(m: Any, rows: Rows, cfg: QNetworkConfig) -> tuple[Any, Any]:
    """Q values of the rows, and those by which the best next action is picked."""
    if STATE in rows:
        q, ahead = q_values_of_sequences(m, rows)
        return q, ahead if cfg.double_q else rows.next_q
    q = m.policy.q_values(rows.obs)
    return q, m.frozen.policy.q_values(rows.next_obs) if cfg.double_q else rows.next_q
