"""Weights and optimisers that are not finite are found in the state of every kind of run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rillflow.algorithms import get_algorithm
from rillflow.checkpoint import CheckpointStore
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.finite_weights import nonfinite, nonfinite_array
from rillflow.runs.multi_agent import build_agents

SMALL = {"hidden": (8,), "num_envs_per_worker": 2, "rollout_fragment_length": 20}
REPLAY = {**SMALL, "learning_starts": 64, "train_batch_size": 16, "training_intensity": 1.0}
PPO = {**SMALL, "train_batch_size": 64, "num_sgd_iter": 1, "sgd_minibatch_size": 32}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", PPO),
    "dqn": ("CartPole-v1", REPLAY),
    "impala": ("CartPole-v1", {**SMALL, "learner_placement": "process"}),
    "apex": ("CartPole-v1", REPLAY),
    "maml": ("PointGoal", SMALL),
    "agents": ("MultiAgentCartPole", PPO),
}


def state_of(name: str) -> Any:
    env, settings = RUNS[name]
    module = get_algorithm("ppo" if name == "agents" else name)
    config = module.Config.make(env=env, **settings)
    if name == "agents":
        _, flow = build_agents(module, config, {"agent_0": "left", "agent_1": "right"})
    else:
        workers = Workers(config)
        flow = module.plan(ParallelRollouts(workers), workers)
    with flow.run("sim") as run:
        list(itertools.islice(run, 4))
        return run.get_state()


def learners(state: Any) -> Iterator[dict[str, Any]]:
    """Every learner's part of a state, wherever it is."""
    if isinstance(state, dict):
        if "optimisers" in state:
            yield state
        for value in state.values():
            yield from learners(value)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from learners(value)


@pytest.mark.parametrize("name", RUNS)
def test_whatever_was_learned_is_looked_at(name: str) -> None:
    state = state_of(name)
    assert nonfinite(state) is None
    found = list(learners(state))
    assert len(found) == (2 if name == "agents" else 1)
    for learner in found:
        (own,) = learner["optimisers"].values()
        (networks,) = learner["networks"].values()
        arrays = {"networks": networks, "optimisers": next(iter(own.values()))}
        for part, mapping in arrays.items():
            for poison in (np.nan, np.inf):
                key, good = next((k, v) for k, v in mapping.items() if v.ndim)
                mapping[key] = np.full_like(good, poison)
                where = nonfinite(state)
                assert where is not None
                assert f"/{part}/" in where
                mapping[key] = good
    assert nonfinite(state) is None


def test_published_weights_are_looked_at_and_batches_are_not(tmp_path: Any) -> None:
    bad = np.array([np.inf])
    assert nonfinite({"w": {"weights": {"a": bad}, "version": 3}}) == "w/weights/a"
    assert nonfinite({"items": [{"weights": bad, "rewards": bad}]}) is None
    assert nonfinite({"weights": {"a": np.array([2**63 - 1])}, "version": 3}) is None
    with CheckpointStore(tmp_path) as store:  # a store by itself takes what it is given
        assert store.save(step=1, state={"rewards": bad})


def test_arrays_are_named() -> None:
    assert nonfinite_array({"a": {"b": np.array([np.nan])}}, "policy") == "policy/a/b"
    assert nonfinite_array({"a": np.zeros(3)}) is None
