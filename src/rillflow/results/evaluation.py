"""How good a trained policy is, with an interval around it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.arguments import check_count
from rillflow.envs.final_info import mean_of
from rillflow.files import to_json
from rillflow.results import statistics
from rillflow.results.play_episodes import Episode, Watch, play, play_agents
from rillflow.results.player import Player, algorithm_name, env_name
from rillflow.results.policy_of import HasPolicy, policy_of

if TYPE_CHECKING:
    from rillflow.results.trained import Trained, TrainedAgents


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Returns and lengths of whole episodes, and what can be said from them; `print` it.

    Intervals are those of the bootstrap: they cover 95%, and follow from the returns alone.
    """

    returns: tuple[float, ...]
    """undiscounted sums of the environment's own rewards, before any clipping"""
    lengths: tuple[int, ...]
    """steps of each episode"""
    algorithm: str = ""
    env: str = ""
    policy: str = ""
    """which, of several"""
    seed: int = 0
    greedy: bool = True
    """most likely actions; otherwise sampled ones"""
    infos: Mapping[str, float] = field(default_factory=dict)
    """of `info_metrics`, such as is_success: means over the episodes that have them"""

    @property
    def episodes(self) -> int:
        """How many were played."""
        return len(self.returns)

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns (that of a sample); of one episode, not a number."""
        return float(np.std(self.returns, ddof=1)) if self.episodes > 1 else math.nan

    @property
    def median(self) -> float:
        """Median return."""
        return float(np.median(self.returns))

    @property
    def iqm(self) -> float:
        """Interquartile mean: that of the middle half of the returns."""
        return float(statistics.iqm(np.asarray(self.returns)))

    @property
    def min(self) -> float:
        """The worst return."""
        return min(self.returns)

    @property
    def max(self) -> float:
        """The best return."""
        return max(self.returns)

    @cached_property
    def mean_interval(self) -> tuple[float, float]:
        """In which the mean lies, with 95% confidence."""
        low, high = statistics.interval(np.asarray(self.returns))
        return float(low), float(high)

    @cached_property
    def iqm_interval(self) -> tuple[float, float]:
        """In which the interquartile mean lies, with 95% confidence."""
        low, high = statistics.interval(np.asarray(self.returns), statistics.iqm)
        return float(low), float(high)

    def to_data(self) -> dict[str, Any]:
        """All of it, as JSON can hold it; what is not a number is None."""
        names = ("algorithm", "env", "policy", "seed", "greedy", "episodes")
        figures = {name: getattr(self, name) for name in ("mean", "std", "median", "iqm")}
        return {
            **{name: getattr(self, name) for name in names},
            **{name: None if math.isnan(value) else value for name, value in figures.items()},
            "min": self.min,
            "max": self.max,
            "mean_interval": list(self.mean_interval),
            "iqm_interval": list(self.iqm_interval),
            "mean_length": float(np.mean(self.lengths)),
            **({"infos": dict(self.infos)} if self.infos else {}),
            "returns": list(self.returns),
            "lengths": list(self.lengths),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """All of it in one JSON object."""
        return to_json(self.to_data(), indent=indent)

    def __str__(self) -> str:
        acting = "greedy" if self.greedy else "sampled"
        what = " on ".join(name for name in (self.algorithm, self.env) if name)
        what += f", policy {self.policy}" if self.policy else ""
        played = f"{self.episodes} episode{'s' if self.episodes > 1 else ''}"
        lines = [f"{what + ': ' if what else ''}{played}, {acting} actions, seed {self.seed}", ""]
        rows = [
            ("mean return", self.mean, self.mean_interval),
            ("IQM", self.iqm, self.iqm_interval),
            ("median", self.median, None),
            ("std", self.std, None),
            ("min", self.min, None),
            ("max", self.max, None),
            ("mean length", float(np.mean(self.lengths)), None),
            *((name, value, None) for name, value in self.infos.items()),
        ]
        width = max(len(_figure(value)) for _, value, _ in rows)
        names = max(12, *(len(name) for name, _, _ in rows))
        for name, value, ends in rows:
            shown = f"   95% in [{_figure(ends[0])}, {_figure(ends[1])}]" if ends else ""
            lines.append(f"  {name:<{names}} {_figure(value):>{width}}{shown}")
        return "\n".join(lines)


def evaluate(
    trained: Trained | HasPolicy,
    episodes: int = 100,
    *,
    seed: int = 1,
    greedy: bool = True,
    max_steps: int = 100_000,
    watch: Watch = int,
) -> Evaluation:
    """Play whole episodes in environments of their own; the same seed gives the same figures.

    >>> import rillflow as rf
    >>> trained = rf.train("ppo", "Bandit", until={"steps": 4000}, engine="sim", num_workers=1)
    >>> print(evaluate(trained, episodes=40))
    ppo on Bandit: 40 episodes, greedy actions, seed 1
    <BLANKLINE>
      mean return  1.00   95% in [1.00, 1.00]
      IQM          1.00   95% in [1.00, 1.00]
      median       1.00
      std          0.00
      min          1.00
      max          1.00
      mean length  1.00

    Each environment plays its share to the end: the first to finish would be the short episodes.

    Args:
        trained: what `train` or `load` returned.
        episodes: how many.
        seed: of the environments, and of the actions if they are sampled.
        greedy: the most likely actions; False: sampled as in training, and for q values a random
            one in twenty.
        max_steps: an episode that takes longer than this is an error: it may never end.
        watch: called before each step; what it raises ends the evaluation.
    """
    check_count("episodes", episodes)
    check_count("max_steps", max_steps)
    policy: Trained = policy_of(trained)
    player = Player(policy, greedy=greedy, seed=seed)
    played = play(policy, player, episodes, seed, max_steps, watch)
    return _judged(policy, played, seed=seed, greedy=greedy)


def _judged(trained: Trained, played: list[Episode], **how: Any) -> Evaluation:
    return Evaluation(
        returns=tuple(episode.total for episode in played),
        lengths=tuple(episode.length for episode in played),
        infos=mean_of([episode.infos for episode in played]),
        algorithm=algorithm_name(trained),
        env=env_name(trained),
        **how,
    )


def evaluate_agents(
    trained: TrainedAgents | HasPolicy,
    episodes: int = 100,
    *,
    seed: int = 1,
    greedy: bool = True,
    max_steps: int = 100_000,
    watch: Watch = int,
) -> dict[str, Evaluation]:
    """The same for the policies of several agents: by policy, `episodes` of each of its agents."""
    check_count("episodes", episodes)
    check_count("max_steps", max_steps)
    policy: TrainedAgents = policy_of(trained)
    players = {
        name: Player(own, greedy=greedy, seed=seed + i)
        for i, (name, own) in enumerate(policy.policies.items())
    }
    played = play_agents(policy, players, episodes, seed, max_steps, watch)
    how = {"seed": seed, "greedy": greedy}
    return {
        name: _judged(policy.policies[name], own, policy=name, **how)
        for name, own in played.items()
    }


def _figure(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 10_000 else f"{value:,.0f}"
