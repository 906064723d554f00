"""The learner: on several devices as on one, and from its state as if it had never stopped."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import dqn, ppo
from rillflow.experience.batch import SampleBatch
from rillflow.learning import rows as rows_of
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.learner import Learner
from rillflow.learning.results import Loss, RowStats
from rillflow.rl.workers import Workers

TIME, ENVS = 8, 5


def fragment(seed: int = 0, time: int = TIME, envs: int = ENVS) -> SampleBatch:
    """What a worker on CartPole gives."""
    rng = np.random.default_rng(seed)
    shape = (time, envs)
    return SampleBatch(
        {
            "obs": rng.standard_normal((*shape, 4), np.float32),
            "actions": rng.integers(0, 2, shape),
            "logp": np.full(shape, -0.7, np.float32),
            "rewards": rng.standard_normal(shape, np.float32),
            "terminated": rng.random(shape) < 0.1,
            "truncated": np.zeros(shape, bool),
            "bootstrap_obs": rng.standard_normal((envs, 4), np.float32),
        }
    )


def replayed(seed: int = 0, rows: int = 9) -> SampleBatch:
    """What a replay actor gives."""
    batch = fragment(seed, 1, rows)
    rng = np.random.default_rng(seed + 100)
    columns = {k: batch[k] for k in ("obs", "actions", "rewards")}
    return SampleBatch(
        {
            **columns,
            "next_obs": rng.standard_normal((1, rows, 4), np.float32),
            "discount": np.full((1, rows), 0.99, np.float32),
            "weights": rng.random((1, rows), np.float32),
            "keys": np.arange(rows)[None],
        }
    )


def learner(config: AlgorithmConfig, devices: tuple[str, ...] = ("cpu",), seed: int = 0) -> Learner:
    workers = Workers(config)
    return Learner(workers.spec, workers.config, seed, devices=devices)


PPO = ppo.Config(hidden=(16, 16))
DQN = dqn.Config(hidden=(16, 16), target_network_update_freq=20)


def close(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return one.keys() == two.keys() and all(
        np.allclose(one[name], two[name], rtol=1e-4, atol=1e-5) for name in one
    )


def equal(one: Any, two: Any) -> bool:
    """Plain data, compared bit by bit."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[k], two[k]) for k in one)
    return bool(np.array_equal(one, two))


# -- devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
def test_minibatches_over_several_devices_equal_those_of_one(count: int) -> None:
    """The parts are of different sizes, and the average is that of the rows."""
    one, several = learner(PPO), learner(PPO, ("cpu",) * count)
    for seed in range(3):
        results = [lr.train(fragment(seed), epochs=3, minibatch=13) for lr in (one, several)]
        assert close(results[0].stats, results[1].stats)
    assert close(one.get_weights(), several.get_weights())
    assert equal(several.policies[0].get_weights(), several.policies[-1].get_weights())


def test_q_learning_over_two_devices_equals_that_of_one() -> None:
    """Errors of single rows keep their order and their keys."""
    one, two = learner(DQN), learner(DQN, ("cpu", "cpu"))
    for seed in range(4):
        results = [lr.train(replayed(seed)) for lr in (one, two)]
        assert all(isinstance(result, RowStats) for result in results)
        assert close(results[0].stats, results[1].stats)
        assert close(results[0].rows, results[1].rows)  # type: ignore[attr-defined]
    assert close(one.get_weights(), two.get_weights())
    assert close(one.get_target_weights(), two.get_target_weights())


def test_gradients_over_two_devices_equal_those_of_one() -> None:
    """Those computed, and what comes of applying them."""
    one, two = learner(PPO), learner(PPO, ("cpu", "cpu"))
    gradients = [lr.compute_gradients(fragment()) for lr in (one, two)]
    assert close(gradients[0].values, gradients[1].values)
    assert close(gradients[0].stats, gradients[1].stats)
    two.apply_gradients(gradients[0])
    one.apply_gradients(gradients[0])
    assert equal(one.get_weights(), two.get_weights())
    assert equal(two.policies[0].get_weights(), two.policies[1].get_weights())


def test_fewer_rows_than_devices() -> None:
    """Devices that have nothing to do change nothing."""
    one, four = learner(PPO), learner(PPO, ("cpu",) * 4)
    batch = fragment(time=3, envs=1)
    assert close(one.train(batch).stats, four.train(batch).stats)
    assert close(one.get_weights(), four.get_weights())


def whole(policy: Any, batch: dict[str, torch.Tensor], cfg: Any) -> dict[str, torch.Tensor]:
    return batch


def over_time(policy: Any, batch: dict[str, torch.Tensor], cfg: Any) -> Loss:
    """A loss that needs whole sequences: returns are sums over time, with a bootstrap."""
    returns = batch["rewards"].sum(0) + policy.values(batch["bootstrap_obs"]).detach()
    values = policy.values(batch["obs"])
    errors = (values - returns).square()
    valid = batch.get("valid")
    total = errors.mean() if valid is None else (errors * valid).sum() / valid.sum()
    return Loss(total, {"loss": total.detach(), "envs": float(returns.shape[0])})


@pytest.mark.parametrize("masked", [False, True])
def test_a_fragment_is_split_by_environments(masked: bool) -> None:
    """A sequence stays on one device, and rows that are not valid do not count."""
    config = ppo.Config(hidden=(16,), loss=over_time, postprocess=whole)
    one, two = learner(config), learner(config, ("cpu", "cpu"))
    batch = fragment()
    if masked:
        batch = batch.with_columns(valid=np.arange(TIME * ENVS).reshape(TIME, ENVS) % 3 > 0)
    results = [lr.train(batch) for lr in (one, two)]
    assert np.isclose(results[0].stats["loss"], results[1].stats["loss"], rtol=1e-5)
    assert close(one.get_weights(), two.get_weights())


def test_minibatches_of_a_fragment_are_whole_sequences() -> None:
    """As many environments as rows allow, and at least one."""
    rows = {name: torch.from_numpy(column) for name, column in fragment().items()}
    rng = np.random.default_rng(0)
    assert rows_of.count(rows) == ENVS
    sizes = {
        size: [
            tuple(rows_of.take(rows, chosen)["rewards"].shape)
            for chosen in rows_of.orders(rows, size, rng)
            if chosen is not None
        ]
        for size in (1, 2 * TIME, ENVS * TIME)
    }
    assert sizes == {1: [(TIME, 1)] * ENVS, 2 * TIME: [(TIME, 2)] * 2, ENVS * TIME: []}


def test_more_devices_than_exist_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how many there are and what always works."""
    workers = Workers(ppo.Config(num_gpus=2))
    for found, way_out in ((0, "set num_gpus=0"), (1, "set num_gpus=1, or num_gpus=0")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda found=found: found)
        with pytest.raises(rf.BuildError, match=f"num_gpus=2, but .* has {found} CUDA.*{way_out}"):
            Learner(workers.spec, workers.config, 0)
        with pytest.raises(rf.BuildError, match="num_gpus=2"):
            rf.train("ppo", num_gpus=2, engine="sim", until={"steps": 1})


def test_plans_for_many_devices_are_drawn_without_torch() -> None:
    """On a machine that has none of them."""
    code = """
import sys
from rillflow.algorithms import ppo
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
workers = Workers(ppo.Config(num_gpus=8, num_workers=256))
flow = ppo.plan(ParallelRollouts(workers), workers)
flow.check()
assert "TrainOneStep" in flow.explain()
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("config", [PPO, DQN], ids=["ppo", "dqn"])
def test_a_cuda_device_learns_what_the_processor_learns(config: AlgorithmConfig) -> None:
    """Weights and state are given out as arrays, whatever they were computed on."""
    batches = [fragment(i) if config is PPO else replayed(i) for i in range(3)]
    cpu, cuda = learner(config), learner(config, ("cuda:0",))
    for batch in batches:
        options = {"epochs": 2, "minibatch": 13} if config is PPO else {}
        assert close(cpu.train(batch, **options).stats, cuda.train(batch, **options).stats)
    assert close(cpu.get_weights(), cuda.get_weights())
    assert plain(cuda.get_state())
    again = learner(config, ("cuda:0", "cuda:0"), seed=7)
    again.set_state(cuda.get_state())
    for lr in (cpu, again):
        lr.train(batches[0])
    assert close(cpu.get_weights(), again.get_weights())


# -- state -----------------------------------------------------------------------------------------


def plain(data: Any) -> bool:
    """Whether it is nothing but what a checkpoint without pickle can hold."""
    if isinstance(data, dict):
        return all(type(key) is str and plain(value) for key, value in data.items())
    return type(data) in (str, int, float, np.ndarray, type(None))


def lessons(lr: Learner, begin: int) -> None:
    """Three more batches."""
    for seed in range(begin, begin + 3):
        if lr.target is None:
            lr.train(fragment(seed), epochs=2, minibatch=16)
        else:
            lr.train(replayed(seed))


@pytest.mark.parametrize("config", [PPO, DQN], ids=["ppo", "dqn"])
def test_training_goes_on_from_its_state_bit_by_bit(config: AlgorithmConfig) -> None:
    """In the same learner, and in one that was made afterwards from another seed."""
    first = learner(config)
    lessons(first, 0)
    state = first.get_state()
    assert plain(state)
    assert state["optimizer"].keys() == first.parameters.keys()
    lessons(first, 10)
    expected = first.get_state()
    assert not equal(state, expected)

    fresh = learner(config, seed=9)
    for lr in (first, fresh):
        lr.set_state(state)
        assert equal(lr.get_state(), state)
        lessons(lr, 10)
        assert equal(lr.get_state(), expected)


def test_a_state_is_a_snapshot() -> None:
    """Later training does not change what was given out."""
    lr = learner(DQN)
    lessons(lr, 0)
    state, again = lr.get_state(), lr.get_state()
    lessons(lr, 10)
    assert equal(state, again)


def test_a_state_before_the_first_step_has_no_slots() -> None:
    """An optimiser that has not begun is restored as one."""
    lr = learner(PPO)
    state = lr.get_state()
    assert state["optimizer"] == {}
    lessons(lr, 0)
    expected = lr.get_weights()
    lr.set_state(state)
    lessons(lr, 0)
    assert equal(lr.get_weights(), expected)


def test_a_loss_must_return_a_loss() -> None:
    """The message names the function and what it gave."""

    def mine(policy: Any, rows: Any, cfg: Any) -> Any:
        return policy.values(rows["obs"]).mean()

    with pytest.raises(rf.RunError, match=r"Loss\(total, stats\), found Tensor from mine"):
        learner(ppo.Config(loss=mine)).train(fragment())
