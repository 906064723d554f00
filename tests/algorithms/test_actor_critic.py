"""PG, A2C, A3C and PPO: the same everywhere, the same twice, and they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.runs.train import Trained, train

SYNC, ALL = ("pg", "a2c", "ppo"), ("pg", "a2c", "a3c", "ppo")


def short(algorithm: str, engine: str, steps: int = 3000, **settings: Any) -> Trained:
    return train(algorithm, "CartPole-v1", until={"steps": steps}, seed=3, engine=engine,
                 num_envs_per_worker=8, rollout_fragment_length=16, **settings)  # fmt: skip


def figures(trained: Trained) -> list[dict[str, float]]:
    """The history without the clock."""
    return [
        {k: v for k, v in row.items() if k != "seconds" and not np.isnan(v)}
        for row in trained.history
    ]


@pytest.mark.parametrize("algorithm", ALL)
def test_same_seed_same_run(algorithm: str) -> None:
    """On sim a run repeats itself bit for bit, asynchronous plans included."""
    one, two = short(algorithm, "sim"), short(algorithm, "sim")
    assert figures(one) == figures(two)
    assert all(np.array_equal(one.weights[k], two.weights[k]) for k in one.weights)


@pytest.mark.proc
@pytest.mark.parametrize("algorithm", SYNC)
def test_synchronous_plans_give_the_same_numbers_on_processes(algorithm: str) -> None:
    """Where it runs makes no difference to what is computed."""
    assert figures(short(algorithm, "sim")) == figures(short(algorithm, "local"))


@pytest.mark.proc
@pytest.mark.parametrize("algorithm", ALL)
def test_no_workers_equals_one_worker(algorithm: str) -> None:
    """`num_workers=0` is one actor in the driver: the same as one worker on sim."""
    alone = figures(short(algorithm, "sim", num_workers=0))
    assert alone == figures(short(algorithm, "sim", num_workers=1))
    if algorithm in SYNC:
        assert alone == figures(short(algorithm, "local", num_workers=0))


def test_ppo_learns_cartpole() -> None:
    """A mean of 475 over 100 training episodes within 150,000 steps; and it acts and evaluates."""
    trained = train(
        "ppo", "CartPole-v1", until={"return": 475, "steps": 150_000}, seed=0, engine="sim"
    )
    assert trained.history[-1]["return"] >= 475, trained.history[-1]
    assert np.mean(trained.evaluate(20)) >= 450
    assert trained.act(np.zeros(4, np.float32)) in (0, 1)


def test_wrong_names_are_told() -> None:
    """The algorithm, the setting and the limit, each with what there is."""
    with pytest.raises(rf.BuildError, match=r"unknown algorithm 'poo'.*'ppo'\?"):
        train("poo")
    with pytest.raises(rf.BuildError, match=r"'num_worker', did you mean 'num_workers'"):
        train("ppo", num_worker=1)
    with pytest.raises(rf.BuildError, match="return, steps, seconds"):
        train("ppo", until={"reward": 3})


def test_a_trained_policy_is_saved_without_pickle(tmp_path: Any) -> None:
    """One file of plain arrays."""
    trained = short("ppo", "sim", steps=500)
    trained.save(tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as file:
        names = {name.removeprefix("weights/") for name in file.files} - {"settings"}
        assert names == set(trained.weights)
        assert b"CartPole-v1" in file["settings"].tobytes()
