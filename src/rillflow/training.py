"""`rf.train`: an algorithm, an environment, when to stop; a trained policy comes back."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.algorithms import NAMES, get_algorithm
from rillflow.batch import Array
from rillflow.engines.base import Engine
from rillflow.errors import BuildError, RunError
from rillflow.policies.make import make_actor
from rillflow.policies.spec import PolicySpec
from rillflow.rl.config import AlgorithmConfig
from rillflow.rl.devices import learner_devices
from rillflow.rl.metrics import Progress
from rillflow.rl.results import TrainStats
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.scheduler.stats import RunStats

if TYPE_CHECKING:
    from rillflow.rl.weights import Published

_LIMITS = ("return", "steps", "seconds")
_COPIES = 20
"""environments that are evaluated side by side"""


class Trained:
    """A trained policy: act with it, evaluate it, save it; `history` has a row per result."""

    def __init__(
        self,
        config: AlgorithmConfig,
        spec: PolicySpec,
        weights: dict[str, Array],
        history: list[dict[str, float]],
        stats: RunStats | None = None,
    ) -> None:
        self.config = config
        self.spec = spec
        self.weights = weights
        self.history = history
        self.stats = stats
        """per operator rates and the verdict on the bottleneck; `print` it. None: it was loaded"""
        self._policy: Any = make_actor(spec, 0)
        self._policy.set_weights(weights)
        self._memory: Array | None = None

    def act(self, obs: Array, starts: bool | Array = False) -> Array:
        """The most likely action: for one observation, or for several stacked.

        A policy that remembers goes on from what it saw in earlier calls; say where an episode
        `starts`, in one flag or in one for each observation.
        """
        shape = self._policy.spec.observation_shape
        single = np.ndim(obs) == len(shape)
        several = np.asarray(obs)[None] if single else np.asarray(obs)
        actions = self._greedy(several, np.broadcast_to(starts, len(several)))
        return actions[0] if single else actions

    def _greedy(self, obs: Array, starts: Array) -> Array:
        if not self.spec.recurrent:
            actions: Array = self._policy.greedy(obs)
            return actions
        if self._memory is None or len(self._memory) != len(obs):
            self._memory = self._policy.initial_state(len(obs))
        actions, self._memory = self._policy.greedy_recurrent(obs, self._memory, starts)
        return actions

    def evaluate(self, episodes: int = 20, *, seed: int = 1) -> list[float]:
        """Returns of whole episodes, acting greedily, in environments of their own.

        Each environment plays its share to the end: the first to finish would be the short ones.
        """
        from rillflow.envs.make import make_envs

        _check_whole("episodes", episodes)
        if self.config.env is None:
            raise BuildError(
                "this policy was trained in an environment of your own, and code is not saved: "
                "load it with env=..."
            )
        count = min(episodes, _COPIES)
        left = np.full(count, episodes // count) + (np.arange(count) < episodes % count)
        returns: list[list[float]] = [[] for _ in range(count)]
        envs = make_envs(self.config.env, count, seed=seed, env_config=self.config.env_config)
        try:
            obs, starts = envs.reset(), np.ones(count, bool)
            while left.any():
                step = envs.step(self._greedy(obs, starts))
                ended = np.flatnonzero(step.terminated | step.truncated)
                # episodes that ended with this step are told in the order of the environments
                for i, (episode_return, _) in zip(ended, envs.pop_episodes(), strict=True):
                    if left[i]:
                        left[i] -= 1
                        returns[i].append(float(episode_return))
                obs, starts = step.obs, step.starts
        finally:
            envs.close()
            self._memory = None  # what `act` sees next is another episode
        return [episode_return for own in returns for episode_return in own]

    def save(self, path: str | Path) -> None:
        """Weights, settings and history in one file of plain arrays and JSON, without pickle.

        Code is not saved: an environment, a network or a loss of your own is given again to `load`.
        """
        from rillflow.policies.saved import save_policy

        settings = {
            f.name: value
            for f in dataclasses.fields(self.config)
            if _is_plain(value := getattr(self.config, f.name))
        }
        module = type(self.config).__module__
        about = {"settings": settings, "config": module, "history": self.history}
        save_policy(path, self.spec, self.weights, about)


def load(path: str | Path, *, env: Any = None, model: Any = None) -> Trained:
    """What `Trained.save` wrote, acting as it did.

    Args:
        path: the file.
        env: to evaluate in; by default the one it was trained in, if that had a name.
        model: the network, if it was one of your own.
    """
    from rillflow.policies.saved import load_policy

    spec, weights, about = load_policy(path, model)
    package, _, name = about["config"].rpartition(".")
    known = package == "rillflow.algorithms" and name in NAMES
    kind = get_algorithm(name).Config if known else AlgorithmConfig
    names = {field.name for field in dataclasses.fields(kind)}
    settings: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in {"env": None, **about["settings"]}.items()
        if key in names  # another version may have had other settings
    }
    if env is not None:
        settings["env"] = env
    return Trained(kind(**settings), spec, weights, about["history"])


def train(
    algorithm: Any,
    env: Any = None,
    *,
    until: Mapping[str, float] | None = None,
    seed: int = 0,
    engine: str | Engine = "local",
    on_progress: Callable[[dict[str, float]], None] | None = None,
    **settings: Any,
) -> Trained:
    """Train until one of `until` is reached: `return` (mean of 100 episodes), `steps` or `seconds`.

    >>> trained = train("ppo", "CartPole-v1", until={"steps": 4000}, engine="sim", num_workers=2)
    >>> trained.act(np.zeros(4, np.float32)).shape, len(trained.evaluate(3))
    ((), 3)

    Args:
        algorithm: a name, or a module or object of your own with `Config` and `plan`; its `loss`
            and `postprocess`, if it has them, are used.
        env: an id, a factory of environments, or `module:name`.
        until: when to stop.
        seed: on `sim`, the same seed gives the same run.
        engine: where it runs.
        on_progress: called with each row of the history; what it raises ends the run.
        settings: fields of the algorithm's `Config`, such as `num_workers`, `lr`, `model`, `loss`.
    """
    until = _checked({"steps": 100_000} if until is None else dict(until))
    module = _algorithm(algorithm, settings)
    if env is not None:
        settings["env"] = env
    config = module.Config.make(**settings)
    learner_devices(config.num_gpus)  # what the learner will not find is told before workers start
    workers = Workers(config)
    flow = module.plan(ParallelRollouts(workers), workers)
    if not hasattr(flow, "run"):
        raise BuildError(
            f"train: a plan returns the flow of its training results, found {type(flow).__name__}: "
            "is a `return` missing, or the gathering?"
        )
    progress, history = Progress(), []
    with flow.run(engine, seed=seed) as run:
        run.on_metrics(progress.record)
        for result in run:
            if not isinstance(result, TrainStats):
                raise RunError(
                    "train: a plan's results are TrainStats, such as TrainOneStep gives, found "
                    f"{type(result).__name__}."
                )
            history.append(progress.row(result))
            if on_progress is not None:
                on_progress(history[-1])
            if _reached(until, history[-1]):
                break
        if workers.weights_key not in run.shared:
            raise RunError("train: nothing in this plan publishes weights, as TrainOneStep does.")
        published: Published = run.shared[workers.weights_key]
        return Trained(workers.config, workers.spec, published.weights, history, run.stats())


def _algorithm(given: Any, settings: dict[str, Any]) -> Any:
    """The module of an algorithm; one that is not ours brings its loss and postprocessor along."""
    if isinstance(given, str):
        return get_algorithm(given)
    config = getattr(given, "Config", None)
    fine = isinstance(config, type) and issubclass(config, AlgorithmConfig)
    if not fine or not callable(getattr(given, "plan", None)):
        raise BuildError(
            f"train: an algorithm is one of {', '.join(NAMES)}, or a module or object with a "
            "`Config` (a subclass of AlgorithmConfig) and a `plan(rollouts, workers)`; "
            f"found {given!r}."
        )
    for name in ("loss", "postprocess"):
        if callable(own := getattr(given, name, None)):
            settings.setdefault(name, own)
    return given


def _checked(until: dict[str, float]) -> dict[str, float]:
    """The limits, or an error that tells every wrong one."""
    wrong = [] if until else ["it is empty, so training would never end"]
    for name, limit in until.items():
        if name not in _LIMITS:
            near = difflib.get_close_matches(str(name), [*_LIMITS, *_OTHER_NAMES], n=1)
            hint = f", did you mean {_OTHER_NAMES.get(near[0], near[0])!r}?" if near else ""
            wrong.append(f"unknown limit {name!r}{hint}")
        elif not _is_number(limit) or (name != "return" and limit <= 0):
            kind = "a number" if name == "return" else "a number above 0"
            wrong.append(f"{name} must be {kind}, got {limit!r}")
    if wrong:
        limits = ", ".join(_LIMITS)
        raise BuildError(f"train: `until` takes some of {limits}: " + "; ".join(wrong) + ".")
    return until


_OTHER_NAMES = {"reward": "return", "score": "return", "timesteps": "steps", "time": "seconds"}


def _is_number(value: object) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and not isinstance(value, bool) and math.isfinite(value)  # type: ignore[arg-type]


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise BuildError(f"{name} must be a whole number of at least 1, got {value!r}.")


def _is_plain(value: object) -> bool:
    """Whether JSON can hold it."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _reached(until: Mapping[str, float], row: Mapping[str, float]) -> bool:
    return any(row[name] >= limit for name, limit in until.items())
