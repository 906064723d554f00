"""An algorithm is a value: settings, networks, what it learns by, and its plan.

    PPO = Algorithm("ppo", Config, modules, update, plan, prepare=prepare)

One per file, listed in `rillflow.algorithms`. Settings made by its `Config` know it, and so do
those of classes derived from it, unless these have an algorithm of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rillflow.errors import BuildError
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.prepare import fragments
from rillflow.learning.update import Rows, Steps
from rillflow.policies.explorers import Explorer, Sampled
from rillflow.policies.modules import Modules
from rillflow.policies.spec import PolicySpec


def sampled(cfg: Any) -> Explorer:
    """Actions drawn from the policy's own distribution."""
    return Sampled()


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm file says."""

    name: str
    """as users call it"""
    Config: type[AlgorithmConfig]
    """its settings; a class of its own"""
    modules: Callable[[PolicySpec, Any], Modules]
    """`modules(spec, cfg)`: the networks, described"""
    update: Callable[[Any, Rows, Any], Steps]
    """`update(m, rows, cfg)`: yields steps, each a loss and the networks it trains"""
    plan: Callable[..., Any]
    """`plan(rollouts, workers, cfg)`: the flow of training results"""
    prepare: Callable[[Any, Mapping[str, Any], Any], Rows] = fragments
    """`prepare(m, batch, cfg)`: rows to learn from, once per batch; by default fragments as they
    are"""
    explorer: Callable[[Any], Explorer] = sampled
    """`explorer(cfg)`: how workers choose actions; by default as the policy says"""
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """settings for environments that the defaults do not suit, under an id, or "atari" """
    worker: Callable[..., Any] | None = None
    """the actor that samples, made with `(config, spec, info)`; None: a RolloutWorker"""
    recurrent: bool = False
    """whether it can train a policy that remembers"""

    def __post_init__(self) -> None:
        owner = vars(self.Config).get("algorithm")
        if owner is not None and owner.name != self.name:
            raise BuildError(
                f"Algorithm {self.name!r}: {self.Config.__module__}.{self.Config.__qualname__} is "
                f"the settings of {owner.name!r}; derive a class of your own: "
                "`class Config(...): pass`."
            )
        self.Config.algorithm = self

    def __repr__(self) -> str:
        return f"<algorithm {self.name}>"
