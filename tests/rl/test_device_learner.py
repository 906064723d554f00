"""Learning on a device: from stacked frames, in recorded updates, in fewer digits.

What needs a CUDA device is skipped where there is none; everything else shows the same code on the
processor.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rillflow.algorithms import appo, dqn, impala, ppo
from rillflow.engines.packing import hand_over, pack
from rillflow.experience.batch import SampleBatch
from rillflow.experience.stacked_frames import Stacks
from rillflow.learning import torch_learner
from rillflow.learning.torch_batches import on_device, sent_as_one, whole
from rillflow.learning.torch_graphs import WARM, UpdateGraphs, may_be_recorded
from rillflow.learning.torch_learner import TorchLearner
from rillflow.learning.torch_on_device import DeviceRates, fetched_together, sent_together
from rillflow.policies.convolutions import Convolutions

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SPACE, ACTIONS = Box(0, 255, (4, 36, 36), np.uint8), Discrete(4)
TIME, ENVS = 6, 4


def learner(algorithm: Any, device: str = "cpu", seed: int = 3, **settings: Any) -> TorchLearner:
    config = algorithm.Config(env="Corridor", framework="torch", hidden=(32,), **settings)
    spec = config.policy_spec(SPACE, ACTIONS)
    return TorchLearner(spec, config, seed, (device,))


def fragment(number: int) -> SampleBatch:
    """Stacked frames of a few environments, of which some end."""
    rng = np.random.default_rng(number)
    film = rng.integers(0, 255, (TIME + 4, ENVS, 1, 36, 36)).astype(np.uint8)
    frames = film.reshape(-1, 1, 36, 36)
    places = np.arange(4)[:, None] + np.arange(TIME + 1)  # [4, T + 1]
    rows = (places.T[:, None, :] * ENVS + np.arange(ENVS)[:, None]).astype(np.int32)
    ended = rng.random((TIME, ENVS)) < 0.1
    return SampleBatch(
        {
            "obs": Stacks(frames, rows[:-1]),
            "bootstrap_obs": Stacks(frames, rows[-1]),
            "actions": rng.integers(0, 4, (TIME, ENVS)),
            "logp": np.log(rng.uniform(0.2, 0.3, (TIME, ENVS))).astype(np.float32),
            "rewards": rng.normal(size=(TIME, ENVS)).astype(np.float32),
            "terminated": ended,
            "truncated": np.zeros((TIME, ENVS), bool),
            "valid": rng.random((TIME, ENVS)) < 0.95,
        }
    )


def replayed(number: int) -> SampleBatch:
    rng = np.random.default_rng(number)
    seen = rng.integers(0, 255, (2, 1, 16, 4, 36, 36)).astype(np.uint8)
    return SampleBatch(
        {
            "obs": seen[0],
            "next_obs": seen[1],
            "actions": rng.integers(0, 4, (1, 16)),
            "rewards": rng.normal(size=(1, 16)).astype(np.float32),
            "discount": np.full((1, 16), 0.99, np.float32),
            "weights": rng.uniform(0.5, 1, (1, 16)).astype(np.float32),
            "keys": np.arange(16)[None] + 100 * number,
        }
    )


CASES = {
    "ppo": (ppo, fragment, {"epochs": 3, "minibatch": 7}),
    "impala": (impala, fragment, {}),
    "appo": (appo, fragment, {}),
    "dqn": (dqn, replayed, {}),
}


def dense(batch: SampleBatch) -> SampleBatch:
    return SampleBatch(dict(batch))


def close(one: Any, other: Any, atol: float) -> None:
    assert set(one) == set(other)
    for name in one:
        np.testing.assert_allclose(one[name], other[name], atol=atol, err_msg=name)


@pytest.mark.parametrize("case", list(CASES))
def test_frames_once_are_learned_from_as_whole_observations(case: str) -> None:
    algorithm, make, options = CASES[case]
    one, other = learner(algorithm), learner(algorithm)
    for number in range(3):
        told = one.train(make(number), **options)
        assert told.stats == other.train(dense(make(number)), **options).stats
    for name, value in one.get_weights().items():
        np.testing.assert_array_equal(value, other.get_weights()[name])


def test_stacks_are_put_together_by_one_operation() -> None:
    """As it is done on a device, here on the processor."""
    stacks = fragment(1).columns["obs"]
    assert isinstance(stacks, Stacks)
    made = whole(torch.from_numpy(stacks.frames), torch.from_numpy(stacks.places))
    np.testing.assert_array_equal(made.numpy(), stacks.whole())


def test_frames_of_joined_fragments_are_joined_on_their_way() -> None:
    """To a device, and across an actor's edge; nobody has put them together before."""
    batches = [fragment(number) for number in range(3)]
    both = SampleBatch.concat(batches)
    for batch in (both, pack(both).get(), hand_over(both).get()):
        stacks = batch.columns["obs"]
        assert isinstance(stacks, Stacks)
        assert len(stacks.pool.parts) == 3
        frames = sent_as_one(stacks.pool.parts, torch.device("cpu"))
        np.testing.assert_array_equal(frames.numpy(), np.concatenate(stacks.pool.parts))
        whole_rows = np.concatenate([one["obs"] for one in batches], axis=1)
        made = whole(frames, torch.from_numpy(stacks.places.copy()))
        np.testing.assert_array_equal(made.numpy(), whole_rows)
        np.testing.assert_array_equal(batch["obs"], whole_rows)
        np.testing.assert_array_equal(
            batch["bootstrap_obs"], np.concatenate([one["bootstrap_obs"] for one in batches])
        )


@pytest.mark.parametrize("case", list(CASES))
def test_convolutions_in_bf16_learn_nearly_the_same(case: str) -> None:
    """Weights, the other layers and losses keep their digits; by default convolutions do too."""
    algorithm, make, options = CASES[case]
    usual, short = learner(algorithm), learner(algorithm, learner_precision="bf16")
    trunks = [m for m in short.acting.network.modules() if isinstance(m, Convolutions)]
    assert [trunk.reduced for trunk in trunks] == [torch.bfloat16]
    one, other = (lr.train(make(0), **options) for lr in (usual, short))
    assert one.stats != other.stats
    for name in one.stats:
        assert np.isclose(one.stats[name], other.stats[name], rtol=0.05, atol=0.02), name
    assert all(p.dtype == torch.float32 for p in short.acting.network.parameters())
    close(usual.get_weights(), short.get_weights(), 0.01)


def test_figures_of_a_device_are_fetched_in_one_piece() -> None:
    figures = [
        {"loss": torch.tensor(1.5), "rows": torch.arange(3), "plain": 7.0},
        {"loss": torch.tensor(2.5)},
    ]
    found, sizes = fetched_together(figures, [torch.tensor(3.0), torch.tensor(float("nan"))])
    assert [told["loss"] for told in found] == [1.5, 2.5]
    assert found[0]["plain"] == 7.0
    assert found[0]["rows"] is figures[0]["rows"]
    assert sizes[0] == 3.0
    assert np.isnan(sizes[1])
    assert fetched_together([{}], [0.0]) == ([{}], [0.0])


def test_the_minibatches_of_a_pass_go_to_a_device_in_one_piece() -> None:
    orders = [np.array([3, 1]), np.array([0, 2])]
    sent = list(sent_together(iter(orders), torch.device("cpu")))
    assert [part.tolist() for part in sent if part is not None] == [[3, 1], [0, 2]]
    assert list(sent_together(iter([None]), torch.device("cpu"))) == [None]


def test_steps_of_a_device_are_counted_without_asking_it() -> None:
    """Those that the device left out are taken back when that is known."""
    rates = DeviceRates(torch.device("cpu"))
    assert [float(rates.next("policy", rate)) for rate in (0.1, 0.2)] == [0.1, 0.2]
    assert rates.made == {"policy": 2}
    rates.forget_left_out([1.0, float("nan")])
    assert rates.made == {"policy": 1}


@pytest.mark.parametrize("as_on_a_device", [False, True])
def test_a_rate_that_falls_with_steps_falls_on_a_device_too(as_on_a_device: bool) -> None:
    lr = learner(ppo, final_lr=0.0, lr=1e-3, lr_updates=10)
    lr.looks = not as_on_a_device
    for number in range(3):
        lr.train(fragment(number), epochs=1, minibatch=12)
    steps = int(next(iter(lr.optimiser_state("policy").values()))["step"])
    lr._set_rate("policy", lr.optimisers["policy"])
    rate = lr.optimisers["policy"].param_groups[0]["lr"]
    assert rate == pytest.approx(1e-3 * (1 - steps / 10))


class AsOnCuda:
    """Stands for a device: what is recorded changes nothing, and is done again when repeated."""

    def __init__(self, lr: TorchLearner) -> None:
        self.lr = lr
        self.recorded = self.repeated = 0

    def aside(self, work: Any) -> Any:
        return work()

    def record(self, work: Any) -> Any:
        self.recorded += 1
        kept = [p.detach().clone() for p in self._all()]
        given = work()
        with torch.no_grad():
            for own, before in zip(self._all(), kept, strict=True):
                own.copy_(before)

        def repeat() -> None:
            self.repeated += 1
            self.lr.rates.recording = True  # as an operation of a graph, which counts nothing
            given.copy_(work())
            self.lr.rates.recording = False

        return given, repeat

    def _all(self) -> list[Any]:
        slots = [part for parts in self.lr.averages.values() for slot in parts for part in slot]
        return [*self.lr.acting.network.parameters(), *slots]


@pytest.mark.parametrize("case", list(CASES))
def test_repeated_updates_are_those_that_are_made(case: str) -> None:
    """Rows, rates and steps are those of the moment, and so are figures; on a device the same is
    asked of CUDA's own graphs."""
    algorithm, make, options = CASES[case]
    settings: dict[str, Any] = {"final_lr": 0.0, "lr_updates": 50}
    usual, graphs = (learner(algorithm, **settings) for _ in range(2))
    usual.looks = graphs.looks = False  # as on a device
    device = AsOnCuda(graphs)
    graphs.graphs = UpdateGraphs(graphs, device)
    for number in range(WARM + 6):
        one, other = (lr.train(make(number), **options) for lr in (usual, graphs))
        close(one.stats, other.stats, 1e-6)
        close(getattr(one, "rows", {}), getattr(other, "rows", {}), 1e-6)
    close(usual.get_weights(), graphs.get_weights(), 1e-6)
    assert device.recorded == 1
    assert device.repeated > WARM
    assert usual.rates.made == graphs.rates.made
    graphs.set_state(usual.get_state())
    for lr in (usual, graphs):
        for number in range(WARM + 3):
            lr.train(make(number + 20), **options)
    assert device.recorded == 2, "what was recorded before belongs to another state"
    close(usual.get_weights(), graphs.get_weights(), 1e-6)


def test_rows_of_many_shapes_are_learned_from_as_usual() -> None:
    """No more than a few shapes are recorded, and those that are never alike are forgotten."""
    usual, graphs = (learner(ppo) for _ in range(2))
    usual.looks = graphs.looks = False
    device = AsOnCuda(graphs)
    graphs.graphs = UpdateGraphs(graphs, device)
    for size in range(3, 11):
        for lr in (usual, graphs):
            lr.train(fragment(size), epochs=4, minibatch=size)
    close(usual.get_weights(), graphs.get_weights(), 1e-6)
    assert device.recorded == 4


def test_an_update_that_cannot_be_recorded_is_told_once_and_made() -> None:
    usual, graphs = (learner(ppo) for _ in range(2))
    usual.looks = graphs.looks = False
    device = AsOnCuda(graphs)
    device.record = lambda work: (_ for _ in ()).throw(RuntimeError("not while it is recorded"))  # type: ignore[method-assign]
    graphs.graphs = UpdateGraphs(graphs, device)
    usual.train(fragment(1), epochs=WARM + 2, minibatch=8)
    with pytest.warns(UserWarning, match=r"ppo cannot be recorded .*: not while it is recorded\."):
        graphs.train(fragment(1), epochs=WARM + 2, minibatch=8)
    for lr in (usual, graphs):
        lr.train(fragment(2), epochs=WARM + 2, minibatch=8)
    close(usual.get_weights(), graphs.get_weights(), 0)


def test_what_cannot_be_the_same_each_time_is_not_recorded() -> None:
    """On the processor that of large networks is not, unless it is asked for; on a device neither
    random nor changing updates are."""
    assert learner(ppo).graphs is None
    assert learner(ppo, record_updates=True).graphs is not None
    on_cuda = learner(ppo)
    on_cuda.device = torch.device("cuda")
    assert may_be_recorded(on_cuda)

    def with_settings(**settings: Any) -> bool:
        on_cuda.config = dataclasses.replace(on_cuda.config, **settings)
        try:
            return may_be_recorded(on_cuda)
        finally:
            on_cuda.config = dataclasses.replace(on_cuda.config, **dict.fromkeys(settings))

    assert not with_settings(record_updates=False)
    assert not with_settings(target_kl=0.01)
    noisy = learner(dqn, noisy=True)
    noisy.device = torch.device("cuda")
    assert not may_be_recorded(noisy)
    remembering = learner(ppo, memory="lstm", memory_size=8)
    remembering.device = torch.device("cuda")
    assert not may_be_recorded(remembering)


@pytest.fixture
def same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device makes sums in the same order each time."""
    monkeypatch.setattr(torch_learner, "let_be_fast", lambda: None)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)


# -- on a CUDA device ------------------------------------------------------------------------------


@needs_cuda
@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("graphs", [None, False], ids=["recorded", "one by one"])
def test_a_cuda_device_learns_the_same_from_frames(case: str, graphs: Any) -> None:
    """Recorded updates too, of which there are enough here that most are repeated."""
    algorithm, make, options = CASES[case]
    cpu, cuda = learner(algorithm), learner(algorithm, "cuda:0", record_updates=graphs)
    for number in range(WARM + 4):
        told, there = (lr.train(make(number), **options) for lr in (cpu, cuda))
        close(told.stats, there.stats, 0.05)
        for name, rows in getattr(told, "rows", {}).items():
            np.testing.assert_allclose(rows, there.rows[name], atol=0.05)  # type: ignore[attr-defined]
    # TF32 has ten bits, and first steps of Adam are as long for a small gradient as for a large one
    close(cpu.get_weights(), cuda.get_weights(), 0.03)
    if graphs is None:
        assert cuda.graphs is not None
        assert cuda.graphs._recorded, "no update was recorded"
        assert not cuda.graphs._given_up
    else:
        assert cuda.graphs is None


@needs_cuda
@pytest.mark.usefixtures("same_sums")
@pytest.mark.parametrize("case", list(CASES))
def test_recorded_updates_are_those_made_one_by_one(case: str) -> None:
    """To the last digits, nearly: the order of sums may differ."""
    algorithm, make, options = CASES[case]
    one, other = (learner(algorithm, "cuda:0", record_updates=graphs) for graphs in (None, False))
    for number in range(WARM + 6):
        told = [lr.train(make(number), **options) for lr in (one, other)]
        close(told[0].stats, told[1].stats, 1e-3)
    close(one.get_weights(), other.get_weights(), 1e-4)
    steps = [int(next(iter(lr.optimiser_state("policy").values()))["step"]) for lr in (one, other)]
    assert steps[0] == steps[1] == one.rates.made["policy"]


@needs_cuda
@pytest.mark.usefixtures("same_sums")
def test_a_restored_state_is_what_recorded_updates_go_on_from() -> None:
    algorithm, make, options = CASES["ppo"]
    one = learner(algorithm, "cuda:0")
    for number in range(WARM + 2):
        one.train(make(number), **options)
    state = one.get_state()
    again = learner(algorithm, "cuda:0", seed=9)
    for number in range(WARM + 2):
        again.train(make(number + 50), **options)
    again.set_state(state)
    for lr in (one, again):
        for number in range(WARM + 2):
            lr.train(make(number + 20), **options)
    close(one.get_weights(), again.get_weights(), 1e-4)


@needs_cuda
def test_a_recorded_step_that_is_not_finite_is_left_out() -> None:
    lr = learner(ppo, "cuda:0")
    for number in range(WARM + 2):
        lr.train(fragment(number), epochs=1, minibatch=8)
    before = {name: np.array(value) for name, value in lr.get_weights().items()}
    poisoned = fragment(90)
    rewards = poisoned["rewards"].copy()
    rewards[:] = np.nan
    with pytest.warns(UserWarning, match="left out"):
        lr.train(poisoned.with_columns(rewards=rewards), epochs=1, minibatch=8)
    close(before, lr.get_weights(), 0)


@needs_cuda
def test_an_update_that_looks_at_numbers_is_made_one_by_one() -> None:
    def looks(m: Any, rows: Any, cfg: Any) -> Any:
        for step in ppo.update(m, rows, cfg):
            assert float(step.loss) == float(step.loss)
            yield step

    lr = learner(ppo, "cuda:0", update=looks, record_updates=True)
    with pytest.warns(UserWarning, match="cannot be recorded as a CUDA graph"):
        lr.train(fragment(0), epochs=WARM + 2, minibatch=8)
    assert lr.graphs is not None
    assert lr.graphs._given_up
    assert np.isfinite(lr.train(fragment(70), epochs=1, minibatch=8).stats["policy_loss"])


@needs_cuda
def test_batches_on_a_cuda_device_are_the_columns_that_were_sent() -> None:
    batch = fragment(2)
    for name, column in on_device(batch, torch.device("cuda")).items():
        np.testing.assert_array_equal(column.cpu().numpy(), batch[name])
