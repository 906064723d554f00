"""Is the memory that replay stores worth its place? TD errors after burn-in, with it and without.

Sequences that an old policy made are looked at with newer weights: once from the state that the old
one's worker stored, as R2D2 does, and once from nothing (Kapturowski et al. 2019, section 3).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from _goals import Goal, Outcome

from rillflow.algorithms import get_algorithm
from rillflow.experience.batch import STATE, SampleBatch
from rillflow.learning.torch_learner import TorchLearner
from rillflow.rl.metrics import Progress
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

SEQUENCES = 1000


def judge(goal: Goal, seed: int) -> Outcome:
    """Mean TD error from a zero state, as a multiple of that from the stored one."""
    began = time.perf_counter()
    workers = Workers(get_algorithm(goal.algorithm).Config.make(env=goal.env, **goal.settings))
    old, new, steps = _weights_at(workers, seed, (goal.steps // 2, goal.steps))
    seconds = time.perf_counter() - began
    learner = TorchLearner(workers.spec, workers.config, seed, ("cpu",))
    learner.set_weights(new)
    learner.update_target()
    stored, zero = [], []
    for batch in _sequences(workers, old, seed):
        stored.append(_error(learner, batch))
        nothing = {**batch, STATE: np.zeros_like(batch[STATE])}
        zero.append(_error(learner, SampleBatch(nothing)))
    errors = {"stored": float(np.mean(stored)), "zero": float(np.mean(zero))}
    score = errors["zero"] / errors["stored"]
    return Outcome(
        seed=seed,
        score=round(score, 3),
        passed=score >= goal.each,
        steps=steps,
        seconds=round(seconds, 1),
        details={name: round(error, 4) for name, error in errors.items()},
    )


def _weights_at(workers: Workers, seed: int, marks: tuple[int, int]) -> tuple[Any, Any, int]:
    """What workers act by half-way through a run and at its end, and how many steps it had."""
    module = get_algorithm(workers.config.algorithm.name)
    progress, found = Progress(), []
    with module.plan(ParallelRollouts(workers), workers).run("sim", seed=seed) as run:
        run.on_metrics(progress.record)
        for _ in run:
            if progress.steps >= marks[len(found)]:
                found.append(run.shared[workers.weights_key].weights)
            if len(found) == len(marks):
                break
    return found[0], found[1], progress.steps


def _sequences(workers: Workers, weights: Mapping[str, Any], seed: int) -> list[SampleBatch]:
    """A thousand sequences with their burn-in, as the worker that explores least sends them."""
    info = ActorInfo("worker", max(0, workers.config.num_workers - 1), 0, seed=seed)
    worker = RolloutWorker(workers.config, workers.spec, info)
    worker.set_weights(weights)
    worker.sample()  # there is nothing before the first ones
    fragments = -(-SEQUENCES // workers.config.num_envs_per_worker)
    found = [worker.sample() for _ in range(fragments)]
    worker.close()
    return found


def _error(learner: Any, batch: SampleBatch) -> float:
    """Mean size of the TD errors of all steps that would be learned from."""
    rows = learner.rows(batch)
    figures, _ = learner.look_at(rows)
    sizes = figures["td_errors"].abs()
    return float(sizes[rows.valid].mean())
