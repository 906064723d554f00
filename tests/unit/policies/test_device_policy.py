"""A network that acts on a device does what it does on the processor, and is asked in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rillflow.envs.spaces import observations_of
from rillflow.errors import DeviceLost, RunError
from rillflow.policies.device_policy import DevicePolicy
from rillflow.policies.fixed_shapes import FixedShapes
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.weights_to_device import WeightsToDevice
from tests.unit.policies.parts import CONTINUOUS, IMAGE, MIXED, SEVERAL, make_spec, shaken

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PARTS = {
    "seen": spaces.Box(0, 255, (9, 9, 3), np.uint8),
    "speed": spaces.Box(-1, 1, (2,)),
    "action_mask": spaces.MultiBinary(2),
}
MASKED = observations_of(spaces.Dict(PARTS), "game", 2).space
ATOMS: dict[str, Any] = {"num_atoms": 5, "v_min": -1.0, "v_max": 1.0}


class Own(nn.Module):
    """A network that decides in Python what it does."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.dense = nn.Linear(spec.observation_size, spec.width)
        self.calls = 0

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        outputs = self.dense(obs.flatten(1).float() / 255)
        return outputs * (self.calls % 2 + 1), outputs[:, 0]


FORWARD = {
    "actor and critic": make_spec(IMAGE, model="cnn"),
    "several actions": make_spec(IMAGE, SEVERAL, model="cnn"),
    "gaussian": make_spec(IMAGE, CONTINUOUS, model="cnn"),
    "squashed": make_spec(IMAGE, CONTINUOUS, model="cnn", head="squashed_gaussian"),
    "deterministic": make_spec(IMAGE, CONTINUOUS, model="cnn", head="deterministic"),
    "q": make_spec(IMAGE, model="cnn", head="q", dueling=True),
    "atoms": make_spec(IMAGE, model="cnn", head="q", dueling=True, **ATOMS),
    "noisy": make_spec(IMAGE, model="cnn", head="q", noisy=0.5),
    "masked": make_spec(MASKED, model="cnn"),
    "vectors": make_spec(),
    "choices and numbers": make_spec(IMAGE, MIXED, model="cnn"),
    "normalised": make_spec(normalize_observations=True),
    "own": make_spec(IMAGE, model=Own),
}
REMEMBERING = {
    "lstm": make_spec(IMAGE, model="cnn", memory="lstm", memory_size=7),
    "gru": make_spec(IMAGE, CONTINUOUS, model="cnn", memory="gru", memory_size=7),
    "q lstm": make_spec(IMAGE, model="cnn", memory="lstm", head="q", memory_size=7),
}


def seen(spec: Any, count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if spec.layout is not None:
        return spec.layout.invented((count,), rng)
    shape = (count, *spec.observation_shape)
    if spec.observation_space.dtype == np.uint8:
        obs = rng.integers(0, 256, shape, np.uint8)
    else:
        obs = rng.standard_normal(shape).astype(np.float32)
    obs.flags.writeable = False  # as it is after crossing an actor edge
    return obs


def again(function: Any, inputs: Sequence[Tensor]) -> Any:
    """A recording on the processor: it reads the inputs, and writes the outputs, where they lie."""
    outputs = function(*inputs)

    def replay() -> None:
        for kept, new in zip(outputs, function(*inputs), strict=True):
            kept.copy_(new)

    return replay, outputs


def steps_of(policy: Any, spec: Any) -> list[Any]:
    """What it does in some steps, with other weights and other numbers of environments between."""
    found: list[Any] = []
    for step, count in enumerate((3, 3, 3, 3, 5, 3, 3, 5, 5, 5)):
        if step in (2, 6):
            policy.set_weights(shaken(TorchPolicy(spec, 5).get_weights(), step))
        obs = seen(spec, count, step)
        if spec.head == "q":
            found += policy.act_and_value(obs, 0.3)
            found.append(policy.action_values(obs))
        found += policy.act(obs, 0.3)
        found.append(policy.greedy(obs))
    return found


def steps_remembered(policy: Any, spec: Any) -> list[Any]:
    state, found = policy.initial_state(3), []
    for step in range(7):
        if step == 4:
            policy.set_weights(shaken(TorchPolicy(spec, 5).get_weights()))
        obs, starts = seen(spec, 3, step), np.arange(3) == step % 4
        actions, logp, after = policy.act_recurrent(obs, state, starts, 0.3)
        found += [actions, logp, after, *policy.greedy_recurrent(obs, state, starts)]
        found += policy.outputs_recurrent(obs, state, starts)
        state = after
    return found


def same(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("record", [None, again], ids=["called", "recorded"])
@pytest.mark.parametrize("name", FORWARD)
def test_it_acts_as_on_the_processor_bit_for_bit(name: str, record: Any) -> None:
    spec = FORWARD[name]
    policy = DevicePolicy(spec, 3, "cpu", record)
    assert same(steps_of(policy, spec), steps_of(TorchPolicy(spec, 3), spec))
    assert policy.pop_notes() == []
    other = DevicePolicy(spec, 8, "cpu", record)
    other.set_state(policy.get_state())
    obs = seen(spec, 3, 77)
    assert same(other.act(obs), policy.act(obs))


@pytest.mark.parametrize("record", [None, again], ids=["called", "recorded"])
@pytest.mark.parametrize("name", REMEMBERING)
def test_it_remembers_as_on_the_processor_bit_for_bit(name: str, record: Any) -> None:
    spec = REMEMBERING[name]
    policy = DevicePolicy(spec, 3, "cpu", record)
    assert same(steps_remembered(policy, spec), steps_remembered(TorchPolicy(spec, 3), spec))


def test_what_does_not_fit_is_refused_as_on_the_processor() -> None:
    policy = DevicePolicy(FORWARD["q"], 0, "cpu")
    with pytest.raises(RunError, match="observations must be"):
        policy.act(np.zeros((2, 3), np.float32))
    with pytest.raises(RunError, match="does not remember"):
        policy.act_recurrent(seen(policy.spec, 2, 0), np.zeros((2, 1)), np.ones(2, bool))
    with pytest.raises(RunError, match="_recurrent"):
        DevicePolicy(REMEMBERING["lstm"], 0, "cpu").act(seen(REMEMBERING["lstm"], 2, 0))
    weights = policy.get_weights()
    del weights["trunk.dense.bias"]
    with pytest.raises(RunError, match=r"missing trunk\.dense\.bias"):
        policy.set_weights(weights)


def test_what_was_given_out_is_not_written_to_again() -> None:
    """Arrays of one step are recorded in a fragment while the next one is acted on."""
    spec = FORWARD["q"]
    policy = DevicePolicy(spec, 0, "cpu", again)
    found = [policy.act_and_value(seen(spec, 3, step), 0.5) for step in range(6)]
    kept = [[array.copy() for array in step] for step in found]
    policy.act_and_value(seen(spec, 3, 99), 0.5)
    assert all(same(a, b) for a, b in zip(found, kept, strict=True))


# -- recording -------------------------------------------------------------------------------------


class Recorder:
    """Counts what is recorded."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.shapes: list[Any] = []
        self.error = error

    def __call__(self, function: Any, inputs: Sequence[Tensor]) -> Any:
        self.shapes.append(tuple(inputs[0].shape))
        if self.error is not None:
            raise self.error
        return again(function, inputs)


def doubled(numbers: Tensor) -> tuple[Tensor, ...]:
    return (numbers * 2,)


def test_the_third_call_of_each_shape_is_recorded_and_four_shapes_are_kept() -> None:
    """A fragment's last observations come in any number: those are computed one by one."""
    record = Recorder()
    twice = FixedShapes(doubled, torch.device("cpu"), record)
    for _ in range(2):
        twice(np.ones(3))
    assert record.shapes == []
    for size in (3, 3, 1, 1, 1, 1):
        assert twice(np.full(size, 4.0))[0].tolist() == [8.0] * size
    assert record.shapes == [(3,), (1,)]
    for size in range(4, 9):
        for _ in range(4):
            twice(np.ones(size))
    assert record.shapes == [(3,), (1,), (4,), (5,)]


def test_another_kind_of_number_is_another_shape() -> None:
    twice = FixedShapes(doubled, torch.device("cpu"), Recorder())
    for _ in range(4):
        assert twice(np.ones(2, np.uint8))[0].dtype == np.uint8
        assert twice(np.ones(2, np.float32))[0].dtype == np.float32


def test_what_cannot_be_recorded_is_called_and_that_is_told_once() -> None:
    policy = DevicePolicy(FORWARD["q"], 3, "cpu", Recorder(RuntimeError("no capture\nmore")))
    assert same(steps_of(policy, policy.spec), steps_of(TorchPolicy(policy.spec, 3), policy.spec))
    assert policy.pop_notes() == ["acts on cpu without a CUDA graph: no capture"]
    assert policy.pop_notes() == []


@pytest.mark.parametrize("name", ["own", "noisy"])
def test_what_is_not_the_same_in_each_step_is_never_recorded(name: str) -> None:
    record = Recorder()
    steps_of(DevicePolicy(FORWARD[name], 3, "cpu", record), FORWARD[name])
    assert record.shapes == []


# -- weights ---------------------------------------------------------------------------------------


def test_weights_of_all_kinds_arrive_in_one_transfer() -> None:
    """In whatever order a network keeps them in memory, scalars and empty ones included."""
    own = {
        "a": torch.zeros(3, 2, 5, 5).to(memory_format=torch.channels_last),
        "b": torch.zeros((), dtype=torch.float64),
        "c": torch.zeros(0, 4),
        "d": torch.zeros(3, dtype=torch.int64),
        "e": torch.zeros(1, dtype=torch.bool),
        "f": torch.zeros(2, 3).T,
    }
    rng = np.random.default_rng(0)
    loader = WeightsToDevice(own, torch.device("cpu"))
    for _ in range(2):
        drawn = {
            name: np.asarray(rng.integers(0, 9, tuple(tensor.shape))).astype(tensor.numpy().dtype)
            for name, tensor in own.items()
        }
        for array in drawn.values():
            array.flags.writeable = False
        places = {name: tensor.data_ptr() for name, tensor in own.items()}
        loader.load(drawn, own)
        assert all(np.array_equal(own[name].numpy(), drawn[name]) for name in own)
        assert places == {name: tensor.data_ptr() for name, tensor in own.items()}


# -- errors ----------------------------------------------------------------------------------------

NO_MEMORY = "no memory left .*num_envs_per_worker.*num_workers.*num_gpus_per_worker=0"


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), RunError, NO_MEMORY),
        (RuntimeError("CUDA error: out of memory"), RunError, NO_MEMORY),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), RunError, NO_MEMORY),
        (RuntimeError("CUDA error: an illegal memory access"), DeviceLost, "cpu failed while a w"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), DeviceLost, "only a new one"),
        (RuntimeError("sizes do not match"), RuntimeError, "^sizes do not match$"),
    ],
)
def test_errors_of_a_device_say_what_to_do(
    error: Exception, kind: type[Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    spec = FORWARD["gaussian"]
    policy = DevicePolicy(spec, 0, "cpu", Recorder())
    monkeypatch.setattr(policy, "_forward", fails)
    with pytest.raises(kind, match=told) as caught:
        policy.act(seen(spec, 2, 0))
    assert type(caught.value) is kind
    monkeypatch.setattr(policy._loader, "load", fails)
    with pytest.raises(kind, match=told):
        policy.set_weights(policy.get_weights())


def test_memory_that_runs_out_while_recording_is_no_reason_to_go_on() -> None:
    spec = FORWARD["q"]
    policy = DevicePolicy(spec, 0, "cpu", Recorder(torch.OutOfMemoryError("CUDA out of memory.")))
    policy.act(seen(spec, 2, 0))
    policy.act(seen(spec, 2, 0))
    with pytest.raises(RunError, match="no memory left"):
        policy.act(seen(spec, 2, 0))


def stirred(weights: dict[str, Any], seed: int) -> dict[str, Any]:
    """Weights in which nothing is zero, that give logits of about one.

    With logits of 2,000, as `shaken` weights give them, the processor itself is 7e-5 from the
    expectation over atoms that double precision gives.
    """
    moved = shaken(weights, seed)
    return {
        name: array + np.asarray(0.1, array.dtype) * (moved[name] - array)
        for name, array in weights.items()
    }


def near(found: Any, exact: Any) -> bool:
    """Up to sums in another order; what a mask forbids is the same."""
    scale = max(1.0, float(np.abs(exact[exact > -1e8]).max()))
    return found.shape == exact.shape and bool((np.abs(found - exact) <= 1e-4 * scale).all())


# -- on a device -----------------------------------------------------------------------------------


@needs_cuda
@pytest.mark.parametrize("name", FORWARD)
def test_a_cuda_device_acts_as_the_processor_does(name: str, monkeypatch: Any) -> None:
    """Up to rounding: probabilities of what was chosen, values and greedy actions that are real."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    spec = FORWARD[name]
    policy, plain = DevicePolicy(spec, 3, "cuda:0"), TorchPolicy(spec, 3)
    for step, count in enumerate((3, 3, 3, 3, 5, 3, 3, 5, 5, 5)):
        if step in (2, 6):
            weights = stirred(TorchPolicy(spec, 5).get_weights(), step)
            policy.set_weights(weights)
            plain.set_weights(weights)
        obs = seen(spec, count, step)
        if name != "own":  # which counts its calls
            with torch.no_grad():
                exact = plain._to_act(obs).numpy()
                assert near(policy._to_act(obs).numpy(), exact)
        actions, logp = policy.act(obs, 0.3)
        assert len(actions) == len(logp) == count
        if spec.head == "actor_critic" and name != "own":
            expected = plain.evaluate(obs, actions)[0].detach().numpy()
            assert np.allclose(logp, expected, rtol=1e-2, atol=5e-2)
    assert policy.pop_notes() == []
    recorded = [lane.replay is not None for lane in policy._pass._lanes.values()]
    assert recorded == [name not in ("own", "noisy")] * 2
    weights = policy.get_weights()
    assert all(np.array_equal(weights[n], plain.get_weights()[n]) for n in weights)


@needs_cuda
@pytest.mark.parametrize("name", REMEMBERING)
def test_a_cuda_device_remembers_as_the_processor_does(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    spec = REMEMBERING[name]
    policy, plain = DevicePolicy(spec, 3, "cuda:0"), TorchPolicy(spec, 3)
    state = plain.initial_state(3)
    for step in range(7):
        obs, starts = seen(spec, 3, step), np.arange(3) == step % 4
        expected, after = plain.outputs_recurrent(obs, state, starts)
        found, there = policy.outputs_recurrent(obs, state, starts)
        assert near(found, expected)
        assert near(there, after)
        policy.act_recurrent(obs, state, starts, 0.3)
        state = after
    assert policy.pop_notes() == []


@needs_cuda
def test_weights_that_follow_each_other_without_a_step_are_the_last_ones() -> None:
    """The buffer that they are sent from is not written to while it is read."""
    spec = FORWARD["actor and critic"]
    policy = DevicePolicy(spec, 0, "cuda:0")
    versions = [shaken(policy.get_weights(), seed) for seed in range(20)]
    for weights in versions:
        policy.set_weights(weights)
    found = policy.get_weights()
    assert all(np.array_equal(found[name], weights[name]) for name in weights)


@needs_cuda
def test_a_cuda_device_without_room_says_what_to_lower() -> None:
    spec = FORWARD["actor and critic"]
    policy = DevicePolicy(spec, 0, "cuda:0")
    torch.cuda.empty_cache()  # of others' memory none is left, either
    torch.cuda.set_per_process_memory_fraction(0.0)
    try:
        with pytest.raises(RunError, match=NO_MEMORY):
            policy.act(seen(spec, 1 << 16, 0))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
