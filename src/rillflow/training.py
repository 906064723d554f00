"""`rf.train`: an algorithm, an environment, when to stop; a trained policy comes back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.algorithms import get_algorithm
from rillflow.batch import Array
from rillflow.engines.base import Engine
from rillflow.errors import BuildError
from rillflow.rl.metrics import Progress
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.scheduler.stats import RunStats

if TYPE_CHECKING:
    from rillflow.rl.weights import Published

_LIMITS = ("return", "steps", "seconds")
_PLAIN = (int, float, str, tuple, dict, type(None))


class Trained:
    """A trained policy: act with it, evaluate it, save it; `history` has a row per result."""

    def __init__(
        self,
        workers: Workers,
        weights: dict[str, Array],
        history: list[dict[str, float]],
        stats: RunStats,
    ) -> None:
        from rillflow.policies.make import make_actor

        self.config = workers.config
        self.weights = weights
        self.history = history
        self.stats = stats
        """per operator rates and the verdict on the bottleneck; `print` it"""
        self._policy = make_actor(workers.spec, 0)
        self._policy.set_weights(weights)

    def act(self, obs: Array) -> Array:
        """The most likely action: for one observation, or for several stacked."""
        shape = self._policy.spec.observation_shape
        single = np.ndim(obs) == len(shape)
        actions = self._policy.greedy(np.asarray(obs)[None] if single else np.asarray(obs))
        return actions[0] if single else actions

    def evaluate(self, episodes: int = 20, *, seed: int = 1) -> list[float]:
        """Returns of whole episodes, acting greedily, in environments of their own."""
        from rillflow.envs.make import make_envs

        count = min(episodes, 20)
        envs = make_envs(self.config.env, count, seed=seed, env_config=self.config.env_config)
        obs = envs.reset()
        returns: list[float] = []
        while len(returns) < episodes:
            obs = envs.step(self._policy.greedy(obs)).obs
            returns += [float(episode_return) for episode_return, _ in envs.pop_episodes()]
        envs.close()
        return returns[:episodes]

    def save(self, path: str | Path) -> None:
        """Weights and settings in one file of plain arrays, without pickle."""
        settings = {
            f.name: value
            for f in dataclasses.fields(self.config)
            if isinstance(value := getattr(self.config, f.name), _PLAIN)
        }
        arrays: dict[str, Any] = {f"weights/{name}": w for name, w in self.weights.items()}
        arrays["settings"] = np.frombuffer(json.dumps(settings).encode(), dtype=np.uint8)
        np.savez(path, **arrays)


def train(
    algorithm: str,
    env: Any = None,
    *,
    until: Mapping[str, float] | None = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Callable[[dict[str, float]], None] | None = None,
    **settings: Any,
) -> Trained:
    """Train until one of `until` is reached: `return` (mean of 100 episodes), `steps` or `seconds`.

    Settings are the fields of the algorithm's `Config`, such as `num_workers` or `lr`.
    """
    until = {"steps": 100_000} if until is None else dict(until)
    unknown = [name for name in until if name not in _LIMITS]
    if unknown or not until:
        raise BuildError(f"train: `until` takes some of {', '.join(_LIMITS)}; got {sorted(until)}.")
    module = get_algorithm(algorithm)
    if env is not None:
        settings["env"] = env
    workers = Workers(module.Config.make(**settings))
    flow = module.plan(ParallelRollouts(workers), workers)
    progress, history = Progress(), []
    with flow.run(engine, seed=seed) as run:
        run.on_metrics(progress.record)
        for result in run:
            history.append(progress.row(result))
            if on_progress is not None:
                on_progress(history[-1])
            if _reached(until, history[-1]):
                break
        published: Published = run.shared[workers.weights_key]
        return Trained(workers, published.weights, history, run.stats())


def _reached(until: Mapping[str, float], row: Mapping[str, float]) -> bool:
    return any(row[name] >= limit for name, limit in until.items())
