"""What a training run reports: steps, episodes, returns. They travel with the workers' answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rillflow.flows.flow import Flow
from rillflow.graph.context import Context, Operator
from rillflow.graph.node import Node
from rillflow.learning.results import DEFAULT_POLICY, TrainStats
from rillflow.rl.actor_item_pairs import unpaired
from rillflow.rl.workers import AnyWorkers
from rillflow.types import Ref

WINDOW = 100
"""episodes over which the reported return is the mean"""


@dataclass
class Progress:
    """Counts of a training run, fed by what travels with the workers' answers.

    >>> progress = Progress()
    >>> progress.record("worker-0", 0, {"steps": 40, "episodes": [(10.0, 20), (30.0, 20)]})
    >>> progress.mean_return, progress.window_is_full
    (20.0, False)
    """

    steps: int = 0
    episodes: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    by_policy: dict[str, deque[float]] = field(default_factory=dict)
    infos: dict[str, deque[float]] = field(default_factory=dict)
    """what the infos of environments said at the ends of episodes; see `info_metrics`"""
    begin: float = field(default_factory=time.monotonic)

    def record(self, actor: str, seq: int, metrics: Mapping[str, Any]) -> None:
        """One answer of a worker."""
        self.steps += metrics.get("steps", 0)
        self._count(self.returns, metrics.get("episodes", ()))
        for policy, episodes in metrics.get("policies", {}).items():
            own = self.by_policy.setdefault(policy, deque(maxlen=WINDOW))
            self.returns.extend(self._count(own, episodes))
        self._note_infos(metrics.get("infos", ()))

    def _note_infos(self, infos: Any) -> None:
        by_policy = infos if isinstance(infos, Mapping) else {"": infos}
        for policy, episodes in by_policy.items():
            prefix = f"{policy}/info/" if policy else "info/"
            for name, value in ((name, ep[name]) for ep in episodes for name in ep):
                own = self.infos.setdefault(prefix + name, deque(maxlen=WINDOW))
                own.append(value)

    def _count(self, returns: deque[float], episodes: Any) -> list[float]:
        self.episodes += len(episodes)
        new = [float(episode_return) for episode_return, _ in episodes]
        returns.extend(new)
        return new

    @property
    def mean_return(self) -> float:
        """Over the last 100 episodes, or as many as there are; not a number before the first."""
        return _mean(self.returns)

    @property
    def window_is_full(self) -> bool:
        """Whether the mean is that of 100 episodes: one of few says little."""
        return len(self.returns) == WINDOW

    def row(self, result: object = None) -> dict[str, float]:
        """One line of the history; figures of one policy among several have its name.

        What is no training result, such as a batch that was stored, has no figures of its own.
        """
        stats: Mapping[str, float] = {}
        if isinstance(result, TrainStats):
            prefix = "" if result.policy == DEFAULT_POLICY else f"{result.policy}/"
            stats = {prefix + name: value for name, value in result.stats.items()}
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "return": self.mean_return,
            **{f"{policy}/return": _mean(own) for policy, own in self.by_policy.items()},
            **{name: _mean(own) for name, own in self.infos.items()},
            "seconds": time.monotonic() - self.begin,
            **stats,
        }

    def get_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "returns": list(self.returns),
            "by_policy": {policy: list(own) for policy, own in self.by_policy.items()},
            "infos": {name: list(own) for name, own in self.infos.items()},
            "seconds": time.monotonic() - self.begin,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.steps, self.episodes = state["steps"], state["episodes"]
        self.returns = deque(state["returns"], maxlen=WINDOW)
        self.by_policy = {
            policy: deque(own, maxlen=WINDOW) for policy, own in state["by_policy"].items()
        }
        self.infos = {
            name: deque(own, maxlen=WINDOW) for name, own in state.get("infos", {}).items()
        }
        self.begin = time.monotonic() - state["seconds"]


def _mean(returns: deque[float]) -> float:
    return float(np.mean(returns)) if returns else float("nan")


class Report(Operator[Any, dict[str, float]]):
    """Each item as a row of figures, with what the workers reported meanwhile.

    A batch that was only stored gives a row without figures of a loss; with `stores` it stays
    unread, so that reporting brings no rollout into the driver.
    """

    takes_ref = True

    def __init__(self, workers: AnyWorkers, *, stores: bool = False) -> None:
        self.workers = workers
        self.stores = stores
        self.progress = Progress()

    def on_start(self, ctx: Context) -> None:
        """Listen to what travels with the answers."""
        self.progress = Progress()
        ctx.on_metrics(self.progress.record)

    def __call__(self, item: Any) -> dict[str, float]:
        """One row."""
        item = unpaired(item)
        if isinstance(item, Ref) and not self.stores:
            item = item.get()
        return self.progress.row(item)

    def get_state(self) -> dict[str, Any]:
        """What was counted so far."""
        return self.progress.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.progress.set_state(state)


def ReportMetrics(  # noqa: N802 - an operator, under the paper's name
    train_op: Flow[Any], workers: AnyWorkers
) -> Flow[dict[str, float]]:
    """Training results as rows of figures: steps, episodes, mean return, and the loss's own.

    >>> from rillflow.algorithms import ppo
    >>> from rillflow.rl.rollouts import ParallelRollouts
    >>> from rillflow.rl.workers import create_rollout_workers
    >>> workers = create_rollout_workers(ppo.Config())
    >>> flow = ReportMetrics(ppo.plan(ParallelRollouts(workers), workers), workers)
    >>> sorted(flow.take(1, engine="sim")[0])  # doctest: +NORMALIZE_WHITESPACE
    ['entropy', 'episodes', 'kl', 'policy_loss', 'return', 'seconds', 'steps', 'value_loss']

    Items that are no training results, such as the batches of a branch that stores them, give rows
    without figures of a loss.
    """
    return train_op.for_each(Report(workers, stores=_stores(train_op.node)))


def _stores(node: Node) -> bool:
    """Whether items come here that a `StoreToReplayBuffer` has passed on."""
    from rillflow.rl.replay import StoreToReplayBuffer

    while len(node.inputs) == 1:
        if isinstance(node.options.get("fn"), StoreToReplayBuffer):
            return True
        node = node.inputs[0]
    if node.kind != "union":
        return False
    return any(_stores(node.inputs[i]) for i in node["outputs"])
