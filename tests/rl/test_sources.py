"""Batches from somewhere else than environments: any function that gives them is a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import a2c, ppo
from rillflow.experience.batch import SampleBatch
from rillflow.learning import losses
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.train import TrainOneStep
from rillflow.rl.workers import Workers


def fragment(rng: np.random.Generator, time: int = 4, envs: int = 8) -> SampleBatch:
    """Whoever leans to the right is pushed to the right: what an expert did."""
    shape = (time, envs)
    obs = rng.standard_normal((*shape, 4), np.float32)
    return SampleBatch(
        {
            "obs": obs,
            "actions": (obs[..., 2] > 0).astype(np.int64),
            "logp": np.zeros(shape, np.float32),
            "rewards": np.ones(shape, np.float32),
            "terminated": np.zeros(shape, bool),
            "truncated": np.zeros(shape, bool),
            "bootstrap_obs": rng.standard_normal((envs, 4), np.float32),
        }
    )


def expert(worker: Any) -> Iterator[SampleBatch]:
    rng = np.random.default_rng(worker.info.seed)
    while True:
        yield fragment(rng)


def cloned(m: Any, rows: rf.Rows, cfg: Any) -> Iterator[rf.Step]:
    """Behaviour cloning: make what the expert did likely."""
    logp, _, _ = m.policy.evaluate(rows.obs, rows.actions)
    loss = -losses.mean(logp)
    yield rf.Step(loss, stats={"loss": loss})


@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_an_algorithm_learns_from_a_source_without_an_environment(engine: str) -> None:
    trained = rf.train(
        "a2c",
        "CartPole-v1",
        until={"steps": 30_000},
        engine=engine,
        source=expert,
        update=cloned,
        lr=1e-2,
    )
    rng = np.random.default_rng(1)
    batch = fragment(rng)
    agreed = trained.act(batch["obs"].reshape(-1, 4)) == batch["actions"].reshape(-1)
    assert agreed.mean() > 0.95


def test_a_source_sees_the_newest_weights() -> None:
    """As self-play and learned models need them: the worker's policy is the learner's."""

    def acting(worker: Any) -> Iterator[SampleBatch]:
        rng = np.random.default_rng(0)
        while True:
            size = sum(np.abs(w).sum() for w in worker.policy.get_weights().values())
            batch = fragment(rng)
            yield batch.with_columns(rewards=np.full(batch.shape, size, np.float32))

    workers = Workers(a2c.Config(source=acting, num_workers=1, hidden=(8,), train_batch_size=32))
    rollouts = ParallelRollouts(workers, mode="bulk_sync")
    told, learned = rollouts.split()
    sizes = told.for_each(lambda batch: float(batch["rewards"][0, 0]))
    flow = rf.Concurrently([sizes, learned.for_each(TrainOneStep(workers))], output_indexes=[0])
    assert len(set(flow.take(3, engine="sim"))) == 3


def test_a_source_that_ends_ends_the_flow() -> None:
    def short(worker: Any) -> Iterator[SampleBatch]:
        yield from (fragment(np.random.default_rng(i)) for i in range(3))

    workers = Workers(ppo.Config(source=short, num_workers=2))
    batches = list(ParallelRollouts(workers, mode="bulk_sync").run("sim"))
    assert [batch.shape for batch in batches] == [(4, 16)] * 3


def test_a_source_that_yields_something_else_is_told() -> None:
    def wrong(worker: Any) -> Iterator[Any]:
        yield {"obs": np.zeros((1, 1, 4))}

    workers = Workers(ppo.Config(source=wrong, num_workers=1))
    with pytest.raises(rf.OperatorError, match=r"SampleBatch, time-major.*found dict from .*wrong"):
        ParallelRollouts(workers, mode="bulk_sync").take(1, engine="sim")


class Numbered:
    """A source that can be saved."""

    def __init__(self, worker: Any) -> None:
        self.count = 0

    def __iter__(self) -> Iterator[SampleBatch]:
        while True:
            self.count += 1
            batch = fragment(np.random.default_rng(0))
            yield batch.with_columns(rewards=np.full(batch.shape, self.count, np.float32))

    def get_state(self) -> dict[str, int]:
        return {"count": self.count}

    def set_state(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def test_a_source_with_a_state_goes_on_from_a_checkpoint() -> None:
    def flow() -> Any:
        return ParallelRollouts(Workers(ppo.Config(source=Numbered, num_workers=1)), mode="async")

    with flow().run("sim") as run:
        assert [float(next(run)["rewards"][0, 0]) for _ in range(3)] == [1, 2, 3]
        state = run.get_state()
        expected = [float(next(run)["rewards"][0, 0]) for _ in range(2)]
    with flow().run("sim") as run:
        run.set_state(state)
        assert [float(next(run)["rewards"][0, 0]) for _ in range(2)] == expected
