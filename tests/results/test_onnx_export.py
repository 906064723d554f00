from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor, nn

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.envs.mixed_box import MixedBox
from rillflow.policies.make import first_weights, make_actor
from rillflow.policies.normalizer import Moments, as_buffers
from rillflow.policies.spec import PolicySpec
from rillflow.results import export_onnx, onnx_builtin_networks
from rillflow.results.onnx_parity import check_parity, generated
from rillflow.runs.train import Trained

VECTOR = Box(-np.inf, np.inf, (4,), np.float32)
WIDE = Box(np.float32([-1.2, 0, -np.inf]), np.float32([0.6, 90, np.inf]))
IMAGE = Box(0, 255, (2, 40, 44), np.uint8)
LAST = Box(0, 255, (40, 44, 3), np.uint8)
MIXED = MixedBox([2, 3], [-0.1, -0.1], [0.1, 0.2])
TORQUES = Box(-0.1, np.array([[0.1, 0.5]], np.float32), (1, 2), np.float32)

SPECS: dict[str, dict[str, Any]] = {
    "mlp": {},
    "relu": {"activation": "relu", "hidden": (8, 7, 5)},
    "linear": {"hidden": ()},
    "matrix": {"observation_space": Box(-1.0, 1.0, (2, 3), np.float32)},
    "multidiscrete": {"action_space": MultiDiscrete([[2, 3], [4, 2]])},
    "continuous": {"action_space": TORQUES},
    "mixed": {"action_space": MIXED},
    "continuous-in-units": {"action_space": TORQUES, "scale_actions": True},
    "far-in-units": {"action_space": Box(300, 500, (2,), np.float32), "scale_actions": True},
    "mixed-in-units": {"action_space": MIXED, "scale_actions": True},
    "gru-mixed-in-units": {
        "memory": "gru",
        "memory_size": 16,
        "action_space": MIXED,
        "scale_actions": True,
    },
    "gru-mixed": {"memory": "gru", "memory_size": 16, "action_space": MIXED},
    "scaled": {"observation_space": WIDE, "scale_observations": True},
    "lstm-scaled": {"observation_space": WIDE, "scale_observations": True, "model": "lstm"},
    "normalized": {"normalize_observations": True},
    "normalized-loosely": {"normalize_observations": "loosely"},
    "lstm-normalized-loosely": {
        "normalize_observations": "loosely",
        "memory": "lstm",
        "memory_size": 16,
    },
    "normalized-matrix": {
        "observation_space": Box(-1.0, 1.0, (2, 3), np.float32),
        "normalize_observations": True,
        "head": "q",
    },
    "normalized-pixels": {
        "observation_space": Box(0, 255, (3, 3, 1), np.uint8),
        "normalize_observations": True,
    },
    "lstm-normalized": {"normalize_observations": True, "model": "lstm", "memory_size": 16},
    "q": {"head": "q"},
    "dueling": {"head": "q", "dueling": True},
    "atoms": {"head": "q", "num_atoms": 51, "v_min": -10.0, "v_max": 10.0, "noisy": 0.5},
    "dueling-atoms": {"head": "q", "dueling": True, "num_atoms": 5, "v_min": 0.0, "v_max": 1.0},
    "cnn-atoms": {
        "observation_space": IMAGE,
        "model": "cnn",
        "head": "q",
        "dueling": True,
        "noisy": 0.5,
        "num_atoms": 11,
        "v_min": -1.0,
        "v_max": 1.0,
    },
    "cnn": {"observation_space": IMAGE, "model": "cnn"},
    "cnn-channels-last": {"observation_space": LAST, "model": "cnn", "head": "q", "dueling": True},
    "cnn-small": {"observation_space": Box(0, 1, (10, 10, 4), np.uint8), "model": "cnn"},
    "cnn-oblong": {"observation_space": Box(0, 255, (40, 9, 3), np.uint8), "model": "cnn"},
    "cnn-two-axes": {"observation_space": Box(0, 255, (14, 9), np.uint8), "model": "cnn"},
    "cnn-floats": {"observation_space": Box(-3.0, 5.0, (2, 8, 8), np.float32), "model": "cnn"},
    "mlp-images": {"observation_space": Box(0, 255, (7, 7, 3), np.uint8)},
    "lstm": {"memory": "lstm", "memory_size": 16},
    "lstm-continuous": {"memory": "lstm", "memory_size": 16, "action_space": TORQUES},
    "lstm-images": {"observation_space": IMAGE, "model": "lstm", "memory_size": 16},
    "gru": {"memory": "gru", "memory_size": 16},
    "gru-dueling": {"memory": "gru", "memory_size": 16, "head": "q", "dueling": True},
}


def policy(name: str = "mlp", **options: Any) -> Trained:
    given = {"observation_space": VECTOR, "action_space": Discrete(3), **SPECS[name], **options}
    if given.get("model") in ("cnn", "lstm"):
        given["image_features"] = 32
    spec = PolicySpec(**given)
    weights = first_weights(spec, 3)
    for key in weights:  # so that biases count, and actions differ
        noise = np.random.default_rng(len(key)).normal(0, 0.1, weights[key].shape)
        weights[key] = (weights[key] + noise).astype(np.float32)
    if spec.normalize_observations:
        shape = spec.observation_shape
        noise = np.random.default_rng(1).uniform(0.5, 2.0, shape)
        weights |= as_buffers(Moments(3 * noise - 4, noise, 100.0))
    return Trained(ppo.Config(), spec, weights, [])


@pytest.mark.parametrize("name", SPECS)
def test_an_exported_network_acts_as_the_policy_does(name: str, tmp_path: Path) -> None:
    """On observations that the export itself has not tried, step after step."""
    trained = policy(name)
    spec = trained.spec
    session = onnxruntime.InferenceSession(export_onnx(trained, tmp_path / "p.onnx"))
    actor: Any = make_actor(spec)
    actor.set_weights(trained.weights)
    rng = np.random.default_rng(99)
    state = None if spec.state_shape is None else np.zeros((17, *spec.state_shape), np.float32)
    seen = set()
    for step in range(4):
        obs = generated(spec, 17, rng)
        start = np.full(17, step == 2)
        feeds = {"observation": obs}
        if state is None:
            expected = actor.greedy(obs)
        else:
            expected, after = actor.greedy_recurrent(obs, state, start)
            feeds |= {"state": state, "start": start}
        action, outputs, *more = session.run(None, feeds)
        if spec.actions.kind == "continuous":
            expected = np.clip(expected, spec.action_space.low, spec.action_space.high)
            assert np.allclose(action, expected, atol=1e-5)
        elif spec.actions.kind == "mixed":
            expected = np.clip(expected, spec.action_space.low, spec.action_space.high)
            assert np.array_equal(action[:, :2], expected[:, :2])
            assert np.allclose(action, expected, atol=1e-5)
        else:
            assert np.array_equal(action, expected)
        assert action.dtype == spec.actions.dtype
        if state is not None:
            (state,) = more
            assert np.allclose(state, after, atol=1e-5)
        seen |= {row.tobytes() for row in outputs}
    assert len(seen) > 17, "it would be no test if all outputs were the same"


def test_a_trained_policy_keeps_its_pole_up_with_onnxruntime_alone(
    cartpole: Trained, tmp_path: Path
) -> None:
    import gymnasium

    session = onnxruntime.InferenceSession(export_onnx(cartpole, tmp_path / "pole.onnx"))
    env = gymnasium.make("CartPole-v1")
    (obs, _), total = env.reset(seed=0), 0.0
    for _ in range(500):
        action, _ = session.run(None, {"observation": obs[None]})
        assert action[0] == cartpole.act(obs)
        obs, reward, terminated, truncated, _ = env.step(action[0])
        total += float(reward)
        if terminated or truncated:
            break
    assert total > 30


def test_the_file_says_what_it_is(remembering: Trained, tmp_path: Path) -> None:
    path = export_onnx(remembering, tmp_path / "pole.onnx")
    session = onnxruntime.InferenceSession(path)
    facts = session.get_modelmeta().custom_metadata_map
    assert (facts["algorithm"], facts["env"]) == ("impala", "CartPole-hidden-velocity")
    assert json.loads(facts["action_space"]) == {"kind": "discrete", "n": 2}
    shown = json.loads(facts["observation_space"], parse_constant=lambda c: pytest.fail(c))
    assert (shown["shape"], shown["dtype"]) == ([2], "float32")
    assert json.loads(facts["recurrent"]) is True
    assert json.loads(facts["preprocessing"])["frame_stack"] == 1
    assert session.get_modelmeta().producer_name == "rillflow"
    inputs = {i.name: (i.shape, i.type) for i in session.get_inputs()}
    assert inputs == {
        "observation": (["batch", 2], "tensor(float)"),
        "state": (["batch", 2, 16], "tensor(float)"),
        "start": (["batch"], "tensor(bool)"),
    }
    assert [o.name for o in session.get_outputs()] == ["action", "logits", "next_state"]


@pytest.mark.parametrize("name", ["mlp", "dueling", "continuous", "cnn", "lstm", "gru"])
def test_one_flipped_weight_is_found_wherever_it_is(name: str, tmp_path: Path) -> None:
    trained = policy(name)
    path = export_onnx(trained, tmp_path / "p.onnx")
    assert check_parity(path, trained.spec, trained.weights) == "onnxruntime"
    model = onnx.load(path)
    flipped = 0
    for constant in model.graph.initializer:
        if constant.data_type != onnx.TensorProto.FLOAT or len(constant.dims) < 1:
            continue
        whole = onnx.numpy_helper.to_array(constant)
        damaged = whole.copy().reshape(-1)
        place = np.abs(damaged).argmax()
        damaged[place] = -damaged[place]
        constant.CopyFrom(onnx.numpy_helper.from_array(damaged.reshape(whole.shape), constant.name))
        onnx.save(model, tmp_path / "damaged.onnx")
        with pytest.raises(rf.RunError, match="does not do what the policy does"):
            check_parity(tmp_path / "damaged.onnx", trained.spec, trained.weights)
        constant.CopyFrom(onnx.numpy_helper.from_array(whole, constant.name))
        flipped += 1
    assert flipped >= 5


def test_an_export_that_acts_differently_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = onnx_builtin_networks.build

    def wrong(spec: PolicySpec, weights: Any) -> Any:
        return build(spec, {**weights, "trunk.1.bias": weights["trunk.1.bias"] + 0.1})

    monkeypatch.setattr(onnx_builtin_networks, "build", wrong)
    path = tmp_path / "p.onnx"
    with pytest.raises(rf.RunError, match=r"does not do what the policy does .* not written"):
        export_onnx(policy(), path)
    assert not list(tmp_path.iterdir())
    path.write_text("the one from yesterday")
    with pytest.raises(rf.RunError):
        export_onnx(policy(), path)
    assert path.read_text() == "the one from yesterday"


@pytest.mark.parametrize("name", ["multidiscrete", "cnn", "lstm", "gru"])
def test_without_onnxruntime_the_reference_of_onnx_checks_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    trained = policy(name)
    path = export_onnx(trained, tmp_path / "p.onnx")
    assert check_parity(path, trained.spec, trained.weights) == "onnx"
    other = policy(name).weights
    other["action_head.bias"][0] += 1
    with pytest.raises(rf.RunError):
        check_parity(path, trained.spec, other)


def test_mistakes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rf.BuildError, match=r"written as \.onnx"):
        export_onnx(policy(), tmp_path / "p.pt")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(rf.BuildError, match=r"needs onnx: pip install 'rillflow\[onnx\]'"):
        export_onnx(policy(), tmp_path / "p.onnx")


class Own(nn.Module):
    """A network that rillflow does not know."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU())
        self.actor, self.critic = nn.Linear(8, spec.actions.width), nn.Linear(8, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.layers(obs)
        return self.actor(x), self.critic(x).squeeze(-1)


class Branching(Own):
    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(obs if obs.sum() > 0 else -obs)


class OwnMemory(nn.Module):
    """A recurrent one, with a loop over time."""

    state_shape = (6,)

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 6)
        self.actor, self.critic = nn.Linear(6, spec.actions.width), nn.Linear(6, 1)

    def forward(self, obs: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, ...]:
        rows = []
        for x, start in zip(obs, starts, strict=True):
            state = self.cell(x, state.masked_fill(start.unsqueeze(-1), 0))
            rows.append(state)
        x = torch.stack(rows)
        return self.actor(x), self.critic(x).squeeze(-1), state


def test_a_network_of_your_own_is_exported_too(tmp_path: Path, capfd: Any) -> None:
    """With what stands before it, if it sees observations normalised."""
    trained = policy(model=Own, normalize_observations=True)
    path = export_onnx(trained, tmp_path / "own.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["own.onnx"], "weights are inside"
    session = onnxruntime.InferenceSession(path)
    obs = generated(trained.spec, 9, np.random.default_rng(5))
    action, logits = session.run(None, {"observation": obs})
    assert np.array_equal(action, trained.act(obs))
    assert logits.shape == (9, 3)
    assert session.get_modelmeta().custom_metadata_map["model"] == "Own"
    with pytest.raises(rf.BuildError, match=r"model=Branching: torch cannot export it .*branch"):
        export_onnx(policy(model=Branching), tmp_path / "branching.onnx")
    assert not (tmp_path / "branching.onnx").exists()
    assert capfd.readouterr() == ("", ""), "the exporter keeps its progress to itself"


@pytest.mark.slow
@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([2, 3]), TORQUES])
@pytest.mark.parametrize("model", [Own, OwnMemory])
def test_networks_of_your_own_with_any_actions(model: Any, space: Any, tmp_path: Path) -> None:
    export_onnx(policy(model=model, action_space=space), tmp_path / "own.onnx")
