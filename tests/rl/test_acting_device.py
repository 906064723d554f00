"""Which workers act on a GPU, how it is decided and told, and what becomes of one that fails."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rillflow as rf
from rillflow.algorithms import bc, dqn, impala, ppo
from rillflow.cli.main import main
from rillflow.learning.acting_device import device_of, require_devices, resources, told, wanted
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.overview import overview
from rillflow.policies.device_policy import DevicePolicy
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.rl import acting_worker, multi_agent_worker
from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

PIXELS = spaces.Box(0, 255, (4, 84, 84), np.uint8)
VECTOR = spaces.Box(-1, 1, (4,), np.float32)
PARTS = {"num_workers": 2, "num_envs_per_worker": 4, "rollout_fragment_length": 8, "hidden": (8,)}
LIMITS = {"train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 1}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Device:
    """What `torch.cuda.get_device_properties` says of a device."""

    total_memory = 24 << 30


def machine(monkeypatch: pytest.MonkeyPatch, devices: int, gib: int = 24) -> None:
    """One with so many devices."""
    Device.total_memory = gib << 30
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Device)


def spec_of(config: AlgorithmConfig, space: Any = PIXELS) -> Any:
    return config.policy_spec(space, spaces.Discrete(3))


def where(config: AlgorithmConfig, engine: str = "local", space: Any = PIXELS) -> list[str]:
    """The device of each worker."""
    indices = range(max(1, config.num_workers))
    return [device_of(spec_of(config, space), config, engine, index)[0] for index in indices]


# -- who acts on a device --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "space", "acts", "why"),
    [
        (ppo.Config(num_gpus=1), PIXELS, True, "images, and num_gpus=1"),
        (dqn.Config(num_gpus=2), PIXELS, True, "images, and num_gpus=2"),
        (impala.Config(num_gpus=1, memory="lstm"), PIXELS, True, "images"),
        (ppo.Config(), PIXELS, False, "num_gpus=0"),
        (ppo.Config(num_gpus=1), VECTOR, False, "no images"),
        (ppo.Config(num_gpus=1, memory="gru"), VECTOR, False, "no images"),
        (ppo.Config(num_gpus=1, model="mlp"), PIXELS, False, "no images"),
        (bc.Config(num_gpus=1), PIXELS, False, "no environments"),
        (ppo.Config(num_gpus=1, source=iter), PIXELS, False, "no environments"),
        (ppo.Config(num_gpus=1, num_gpus_per_worker=0), PIXELS, False, "num_gpus_per_worker=0"),
        (ppo.Config(num_gpus_per_worker=0.25), VECTOR, True, "num_gpus_per_worker=0.25"),
    ],
)
def test_by_default_pixels_are_acted_on_where_the_learner_is(
    config: AlgorithmConfig, space: Any, acts: bool, why: str
) -> None:
    found = wanted(spec_of(config, space), config)
    assert found[0] == acts
    assert why in found[1]


def test_workers_take_the_devices_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the learner; or, if shares are given, as many as these add up to."""
    machine(monkeypatch, 4)
    one, two = "cuda:0", "cuda:1"
    assert where(ppo.Config(num_gpus=1, num_workers=3)) == [one] * 3
    assert where(ppo.Config(num_gpus=2, num_workers=3)) == [one, two, one]
    assert where(ppo.Config(num_gpus=2, num_workers=0)) == [one]
    assert where(ppo.Config(num_gpus_per_worker=0.25, num_workers=4)) == [one] * 4
    assert where(ppo.Config(num_gpus_per_worker=0.5, num_workers=4)) == [one, two] * 2
    assert where(ppo.Config(num_gpus_per_worker=1, num_workers=2)) == [one, two]
    assert where(ppo.Config(num_gpus=4, num_workers=3), "sim") == [one] * 3
    assert where(ppo.Config(num_workers=3)) == ["cpu"] * 3


def test_who_was_not_asked_stays_on_the_processor_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No device, too little memory for so many, or a cluster, of which one asks for shares."""
    config = ppo.Config(num_gpus=1, num_workers=12)
    spec = spec_of(config)
    machine(monkeypatch, 1, gib=12)
    assert device_of(spec, config, "local", 5) == ("cuda:0", "")
    machine(monkeypatch, 1, gib=8)
    device, note = device_of(spec, config, "local", 5)
    assert device == "cpu"
    assert "12 workers on a device of 8 GiB are too many; num_gpus_per_worker=0.0833" in note
    assert device_of(spec, config, "sim", 5) == ("cuda:0", "")
    machine(monkeypatch, 2, gib=8)
    both = ppo.Config(num_gpus=2, num_workers=12)
    assert device_of(spec, both, "local", 5) == ("cuda:1", "")
    device, note = device_of(spec, config, "ray", 5)
    assert (device, "on Ray num_gpus_per_worker asks" in note) == ("cpu", True)
    machine(monkeypatch, 0)
    device, note = device_of(spec, config, "local", 5)
    assert (device, "there is no CUDA device" in note) == ("cpu", True)


def test_a_share_is_what_a_worker_asks_of_a_cluster() -> None:
    """Without one it asks for nothing: the driver's learner may have the only GPU there is."""
    assert resources(ppo.Config(num_gpus=1)) == {}
    assert resources(ppo.Config(num_gpus_per_worker=0)) == {}
    assert resources(ppo.Config(num_gpus_per_worker=0.25, num_workers=0)) == {}
    given = ppo.Config(num_gpus_per_worker=0.25, **PARTS)
    assert Workers(given).actors.resources == {"num_gpus": 0.25}
    both = MultiAgentConfig(
        policies={"a": given, "b": ppo.Config()},
        policy_mapping={"agent_0": "a", "agent_1": "b"},
    )
    assert MultiAgentWorkers(both).actors.resources == {"num_gpus": 0.25}


# -- what is told ----------------------------------------------------------------------------------


def test_fewer_devices_than_asked_for_are_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = ppo.Config(num_gpus_per_worker=0.5, num_workers=16)
    machine(monkeypatch, 1)
    with pytest.raises(rf.BuildError, match=r"16 workers is 8 CUDA .*has 1; .*per_worker=0\.0625"):
        require_devices(config, "local")
    require_devices(ppo.Config(num_gpus_per_worker=0.0625, num_workers=16), "local")
    require_devices(ppo.Config(num_gpus_per_worker=0.3333, num_workers=3), "local")
    require_devices(config, "sim")
    machine(monkeypatch, 8)
    require_devices(config, "local")
    machine(monkeypatch, 0)
    require_devices(config, "ray")  # which knows what its machines have
    for engine in ("local", "sim"):
        with pytest.raises(rf.BuildError, match="has 0 CUDA devices; set num_gpus_per_worker=0"):
            rf.train("ppo", num_gpus_per_worker=0.5, engine=engine, until={"steps": 1})
    with pytest.raises(rf.BuildError, match=r"no CUDA device where a worker runs; set .*worker=0"):
        device_of(spec_of(config), config, "local", 0)


@pytest.mark.parametrize("share", [-0.5, 1.5, float("nan")])
def test_a_share_is_a_part_of_one_device(share: float) -> None:
    with pytest.raises(rf.BuildError, match="num_gpus_per_worker must be between 0 and 1"):
        ppo.Config(num_gpus_per_worker=share)


def test_it_cannot_change_while_a_run_goes_on() -> None:
    with pytest.raises(rf.BuildError, match="num_gpus_per_worker is read once"):
        ppo.Config(num_gpus_per_worker="1:0.5")


@pytest.mark.parametrize(
    "name", ["num_gpus_per_env_runner", "inference_device", "num_gpus_per_workers"]
)
def test_other_names_for_it_are_understood(name: str) -> None:
    with pytest.raises(rf.BuildError, match="did you mean 'num_gpus_per_worker'"):
        ppo.Config.make(**{name: 1})


def test_where_workers_act_is_said_if_a_device_was_asked_for() -> None:
    plain, auto = ppo.Config(), ppo.Config(num_gpus=1, framework="torch")
    given = ppo.Config(num_gpus_per_worker=0.5)
    assert told(spec_of(plain), plain) == ""
    assert "learner's CUDA device: observations are images" in told(spec_of(auto), auto)
    assert told(spec_of(auto, VECTOR), auto).startswith("workers act on the processor: ")
    assert told(spec_of(given), given) == "workers act on CUDA devices: num_gpus_per_worker=0.5"
    text = str(overview(spec_of(auto, VECTOR), auto))
    assert "\nWorkers act on the processor: observations are no images" in text
    own = ppo.Config(num_gpus=1, **PARTS)
    assert Workers(own).notes == (told(spec_of(own, VECTOR), own),)
    assert Workers(ppo.Config(**PARTS)).notes == ()
    assert "Workers act" not in str(overview(spec_of(plain, VECTOR), plain))


def test_explain_says_where_workers_act(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(monkeypatch, 1)
    words = ["explain", "ppo", "CartPole-v1"]
    for more, expected in (
        ([], ""),
        (["--num-gpus=1"], "workers act on the processor: observations are no images"),
        (["--num-gpus-per-worker=0.5"], "workers act on CUDA devices: num_gpus_per_worker=0.5"),
    ):
        assert main([*words, *more]) == 0
        found = [line for line in capsys.readouterr().out.splitlines() if "act on" in line]
        assert len(found) == bool(expected)
        assert not found or found[0].startswith(expected)


def test_flows_for_workers_on_gpus_are_drawn_without_torch() -> None:
    code = """
import sys
from rillflow.algorithms import ppo
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
workers = Workers(ppo.Config(num_gpus_per_worker=0.5, num_workers=256))
flow = ppo.plan(ParallelRollouts(workers), workers)
flow.check()
assert "TrainOneStep" in flow.explain()
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- what workers do -------------------------------------------------------------------------------


def info(index: int = 0) -> ActorInfo:
    return ActorInfo(f"worker-{index}", index, 0, seed=5, engine="local")


def on_a_device(monkeypatch: pytest.MonkeyPatch, note: str = "") -> None:
    """Workers act as they do on a device, on this processor."""
    for module in (acting_worker, multi_agent_worker):
        monkeypatch.setattr(module, "device_of", lambda *_: ("cpu:0", note))


def fragments_of(worker: Any) -> list[Any]:
    """Some fragments, with new weights between and a state that is taken and given back."""
    found = [worker.sample(), worker.sample()]
    weights = worker.policy.get_weights()
    worker.set_weights({name: array * 1.5 for name, array in weights.items()})
    found.append(worker.sample())
    state = worker.get_state()
    worker.sample()
    worker.set_state(state)
    return [*found, worker.sample(), worker.play(5)]


@pytest.mark.parametrize("memory", [None, "gru"])
@pytest.mark.parametrize("algorithm", [ppo, dqn, impala])
def test_a_worker_samples_the_same_on_a_device(
    algorithm: Any, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, if the device is the processor: batches, buffers and states are all the same."""
    model = Torch if memory is None else None
    config = algorithm.Config.make(env="RepeatPast", memory=memory, model=model, **PARTS)
    spec = Workers(config).spec
    plain = fragments_of(RolloutWorker(config, spec, info()))
    on_a_device(monkeypatch)
    worker = RolloutWorker(config, spec, info())
    assert isinstance(worker.policy, DevicePolicy)
    found = fragments_of(worker)
    assert found.pop() == plain.pop()
    for one, other in zip(found, plain, strict=True):
        assert one.columns.keys() == other.columns.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    worker.close()


def Torch(spec: Any) -> Any:  # noqa: N802 - as a class is called
    """A network of the user's own: one that torch acts with on the processor, too."""
    from rillflow.policies.mlp import Mlp

    return Mlp(spec)


def test_a_worker_tells_once_why_it_is_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one does: all would say the same."""
    on_a_device(monkeypatch, "acts on the processor: there is none")
    config = ppo.Config(**PARTS)
    spec = Workers(config).spec
    for index, expected in ((0, ["acts on the processor: there is none"]), (1, [])):
        worker = RolloutWorker(config, spec, info(index))
        for notes in (expected, []):
            worker.sample()
            metrics = worker.pop_metrics()
            assert metrics is not None
            assert metrics.get("notes", []) == notes
        assert metrics["seconds"]["policy"] > 0
        worker.close()


def test_several_agents_act_on_devices_each_policy_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(monkeypatch, 0)
    given = ppo.Config(hidden=(8,), num_gpus_per_worker=0)
    other = ppo.Config(hidden=(8,))
    config = MultiAgentConfig(
        policies={"a": given, "b": other},
        policy_mapping={"agent_0": "a", "agent_1": "b"},
        num_envs_per_worker=2,
        rollout_fragment_length=4,
    )
    workers = MultiAgentWorkers(config)
    settings = {name: one.config for name, one in workers.policies.items()}
    specs = {name: one.spec for name, one in workers.policies.items()}

    def first_on_a_device(spec: Any, own: Any, *_: Any) -> tuple[str, str]:
        return ("cpu:0", "") if own.num_gpus_per_worker == 0 else ("cpu", "stays")

    monkeypatch.setattr(multi_agent_worker, "device_of", first_on_a_device)
    worker = multi_agent_worker.MultiAgentWorker(config, settings, specs, info())
    assert isinstance(worker.policies["a"], DevicePolicy)
    assert isinstance(worker.policies["b"], NumpyPolicy)
    batch = worker.sample()
    assert batch["a"].shape == batch["b"].shape == (4, 2)
    metrics = worker.pop_metrics()
    assert metrics is not None
    assert metrics["notes"] == ["policy 'b' stays"]


# -- on a device -----------------------------------------------------------------------------------


@needs_cuda
@pytest.mark.proc
@pytest.mark.parametrize("engine", ["local", "sim"])
@pytest.mark.parametrize("memory", [None, "lstm"])
def test_a_run_on_cuda_acts_there(engine: str, memory: Any) -> None:
    """In the processes of the workers, with weights that follow each other."""
    run = rf.train(
        "ppo", "CartPole-v1", engine=engine, memory=memory, num_gpus=1, num_gpus_per_worker=0.5,
        until={"steps": 1000}, **PARTS, **LIMITS,
    )  # fmt: skip
    assert run.history[-1]["steps"] >= 1000


@needs_cuda
def test_the_driver_does_not_touch_a_device_because_of_its_workers() -> None:
    code = """
import torch
import rillflow as rf
rf.train("ppo", "CartPole-v1", num_gpus_per_worker=0.25, num_workers=2, until={"steps": 500})
assert not torch.cuda.is_initialized()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
