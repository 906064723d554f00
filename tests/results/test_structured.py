"""Policies that see several parts are saved, asked, evaluated and exported like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn

import rillflow as rf
from rillflow.algorithms import dqn, get_algorithm, ppo
from rillflow.envs import make_envs
from rillflow.errors import BuildError
from rillflow.learning.overview import overview
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.try_policy import exercise
from rillflow.results import evaluate, export_onnx
from rillflow.results.onnx_parity import feeds
from rillflow.results.trained import Trained
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import create_rollout_workers
from rillflow.types import ActorInfo
from tests.masked import Beside, Gate
from tests.results.policies import untrained

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is an optional extra")


class Room(gymnasium.Env[Any, Any]):
    """A picture that is black or white, an arm, and a mode; the picture says what pays."""

    def __init__(self, camera: bool = True, masked: bool = False, pair: bool = False) -> None:
        parts: dict[str, Any] = {
            "arm": Box(-1, 1, (2,), np.float64),
            "deep": Dict({"mode": Discrete(3, start=1)}),
        }
        if camera:
            parts["camera"] = Box(0, 255, (40, 36, 3), np.uint8)
        if masked:
            parts["action_mask"] = MultiBinary(2)
        self.parts, self.pair = sorted(parts), pair
        self.observation_space: Any = Tuple([parts[k] for k in self.parts]) if pair else Dict(parts)
        self.action_space = Discrete(2)

    def _look(self) -> Any:
        self.bit = int(self.np_random.integers(2))
        known: dict[str, Any] = {
            "arm": self.np_random.uniform(-1, 1, 2) if "camera" in self.parts else
            np.array([2.0 * self.bit - 1, 0]),
            "deep": {"mode": int(self.np_random.integers(1, 4))},
            "camera": np.full((40, 36, 3), 255 * self.bit, np.uint8),
            "action_mask": np.array([1, 1], np.int8),
        }  # fmt: skip
        seen = {key: known[key] for key in self.parts}
        return tuple(seen.values()) if self.pair else seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        reward = float(action == self.bit)
        return self._look(), reward, self.time == 5, False, {}


def masked_room() -> Room:
    return Room(masked=True)


def pair_room() -> Room:
    return Room(pair=True)


def blind_masked_room() -> Room:
    return Room(camera=False, masked=True)


def blind_room() -> Room:
    return Room(camera=False)


class Net(nn.Module):
    """Reads its parts by the environment's keys."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        space: Any = spec.observations
        camera, arm = space["camera"].shape, space["arm"].shape[0]
        self.eye = nn.Linear(int(np.prod(camera)), 4)
        self.body = nn.Linear(4 + arm + space["deep"]["mode"].shape[0], 16)
        self.out, self.value = nn.Linear(16, spec.actions.width), nn.Linear(16, 1)

    def forward(self, obs: Any) -> Any:
        eye = self.eye(obs["camera"].float().flatten(1) / 255)
        x = torch.cat([eye, obs["arm"], obs["deep"]["mode"]], 1)
        x = torch.tanh(self.body(x))
        return self.out(x), self.value(x).squeeze(-1)


class Blind(nn.Module):
    """Without a camera."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.out, self.value = nn.Linear(5, spec.actions.width), nn.Linear(5, 1)

    def forward(self, obs: Any) -> Any:
        x = torch.cat([obs["arm"], obs["deep"]["mode"]], 1)
        return self.out(x), self.value(x).squeeze(-1)


class Remembers(Net):
    """The same, one step after the other."""

    state_shape = (1,)

    def forward(self, obs: Any, state: Any, starts: Any) -> Any:
        time, batch = starts.shape
        flat = {key: obs[key].flatten(0, 1) for key in ("camera", "arm")}
        flat["deep"] = {"mode": obs["deep"]["mode"].flatten(0, 1)}
        out, value = super().forward(flat)
        return out.unflatten(0, (time, batch)), value.unflatten(0, (time, batch)), state * 1.0


POLICIES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "vector": (blind_room, "ppo", {}),
    "vector dqn": (blind_room, "dqn", {"hidden": (8,)}),
    "vector lstm": (blind_room, "impala", {"model": "lstm", "lstm_size": 4, "hidden": (8,)}),
    "image": (masked_room, "ppo", {"hidden": (8,)}),
    "image pair": (pair_room, "dqn", {"hidden": (8,)}),
    "image lstm": (masked_room, "ppo", {"memory": "lstm", "memory_size": 4, "hidden": (8,)}),
    "image gru": (pair_room, "dqn", {"memory": "gru", "memory_size": 4, "hidden": (8,)}),
    "own": (masked_room, "ppo", {"model": Net}),
    "own with a memory": (Room, "impala", {"model": Remembers}),
    "mask inside": (Gate, "dqn", {"hidden": (8,)}),
    "mask beside": (Beside, "ppo", {"hidden": (8,)}),
    "normalised": (blind_room, "ppo", {"normalize_observations": True, "hidden": (8,)}),
    "normalised mask": (Gate, "dqn", {"normalize_observations": True, "hidden": (8,)}),
    "normalised own": (blind_room, "ppo", {"normalize_observations": True, "model": Blind}),
    "mask and memory": (Gate, "impala", {"model": "lstm", "lstm_size": 4, "hidden": (8,)}),
}


def policy_of(name: str) -> Any:
    env, algorithm, settings = POLICIES[name]
    if callable(settings.get("model")):
        config = get_algorithm(algorithm).Config.make(env=env, **settings)
        envs = make_envs(env, 1)
        spec = config.policy_spec(envs.observation_space, envs.action_space)
        weights = TorchPolicy(spec, 1).get_weights()
        return Trained(config, spec, weights, [])
    return untrained(env, algorithm, **settings)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "image pair"])
def test_what_is_exported_acts_as_the_policy_does(name: str, tmp_path: Path) -> None:
    """Each part is an input by its name, and the mask is another."""
    trained = policy_of(name)
    session = ort.InferenceSession(str(export_onnx(trained, tmp_path / "x.onnx")))
    spec = trained.spec
    obs = spec.layout.invented((16,), np.random.default_rng(1))
    given = feeds(spec, obs)
    assert {one.name for one in session.get_inputs()} >= set(given)
    assert ("action_mask" in given) == spec.masked
    if spec.recurrent:
        given["state"] = np.zeros((16, *spec.state_shape), np.float32)
        given["start"] = np.ones(16, bool)
    action = session.run(["action"], given)[0]
    own = trained.act(obs, np.ones(16, bool))
    assert (action == own).mean() > 0.9  # ties apart, which rounding decides
    if spec.masked:
        assert spec.layout.mask(obs)[np.arange(16), action].all()


@pytest.mark.parametrize("name", POLICIES)
def test_a_saved_policy_plays_the_same_episodes(name: str, tmp_path: Path) -> None:
    trained = policy_of(name)
    trained.save(tmp_path / "p.npz")
    env, _, settings = POLICIES[name]
    own = {"model": settings["model"]} if callable(settings.get("model")) else {}
    again = rf.load(tmp_path / "p.npz", env=env, **own)
    assert again.spec.layout == trained.spec.layout
    assert evaluate(again, episodes=3).returns == evaluate(trained, episodes=3).returns


@pytest.mark.parametrize("name", POLICIES)
def test_it_is_asked_with_the_environments_own_observation(name: str) -> None:
    """One, or a batch in the same structure; a mask from an info is given beside it."""
    trained = policy_of(name)
    env = POLICIES[name][0]()
    obs, info = env.reset(seed=3)
    mask = info.get("action_mask")
    one = trained.act(obs, True, action_mask=mask)
    batch = _stacked([obs, obs])
    many = trained.act(batch, True, action_mask=None if mask is None else np.stack([mask, mask]))
    assert one.shape == ()
    assert many.tolist() == [one, one]
    allowed = mask if mask is not None else getattr(env, "mask", np.ones(2))
    assert allowed[one]


def _stacked(raw: list[Any]) -> Any:
    if isinstance(raw[0], dict):
        return {key: _stacked([one[key] for one in raw]) for key in raw[0]}
    if isinstance(raw[0], tuple):
        return tuple(_stacked(list(column)) for column in zip(*raw, strict=True))
    return np.stack(raw)


def test_a_picture_among_other_parts_is_seen() -> None:
    """The answer is in the picture alone, and the combined network learns it."""
    trained = rf.train(
        "ppo", masked_room, until={"steps": 1200}, engine="sim", seed=1, num_workers=1,
        num_envs_per_worker=8, train_batch_size=256, sgd_minibatch_size=64, hidden=(16,),
    )  # fmt: skip
    assert trained.spec.model == "cnn"
    assert evaluate(trained, episodes=10).mean > 4


def test_a_network_of_ones_own_is_given_the_environments_dict() -> None:
    trained = rf.train(
        "ppo", masked_room, until={"steps": 600}, engine="sim", seed=1, num_workers=1,
        num_envs_per_worker=8, train_batch_size=256, model=Net,
    )  # fmt: skip
    exercise(trained.spec)
    space: Any = trained.spec.observations
    assert sorted(space) == ["arm", "camera", "deep"]
    assert space["deep"]["mode"].shape == (3,)


def test_an_overview_shows_the_parts() -> None:
    text = str(overview(policy_of("vector").spec, ppo.Config(env=blind_room)))
    assert "It sees observation.arm numbers 2, observation.deep.mode one-hot 3." in text
    assert "a mask of 5 choices" in str(overview(policy_of("mask beside").spec, ppo.Config()))


@pytest.mark.parametrize("settings", [{}, {"model": Blind}, {"framework": "torch"}], ids=str)
def test_only_what_is_measured_is_normalised(settings: Any) -> None:
    """Not indices as zeros and a one, and not masks."""
    trained = rf.train(
        "ppo", blind_masked_room, until={"steps": 1500}, engine="sim", seed=1, num_workers=1,
        num_envs_per_worker=8, train_batch_size=256, normalize_observations=True, **settings,
    )  # fmt: skip
    mean, variance = (trained.weights[f"normalizer.{name}"] for name in ("mean", "variance"))
    assert (variance[:1] > 0.9).all()  # of the arm's first number, which is 1 or -1
    assert (variance[1:2] == 0).all()
    assert (mean[2:] == 0).all()
    assert (variance[2:] == 1).all()
    assert trained.spec.masked
    exercise(trained.spec)


def test_networks_that_do_not_fit_the_parts_are_refused() -> None:
    for model, env, match in (
        ("mlp", masked_room, "images in .*use model='cnn'"),
        ("cnn", blind_room, "there are none in .*use model='mlp'"),
    ):
        spaces = spaces_of(env)
        with pytest.raises(BuildError, match=match):
            ppo.Config(env=env, model=model).policy_spec(*spaces)
    with pytest.raises(BuildError, match="normalize_observations=True is for vectors"):
        ppo.Config(env=Room, normalize_observations=True).policy_spec(*spaces_of(Room))


def spaces_of(env: Any) -> tuple[Any, Any]:
    envs = make_envs(env, 1)
    return envs.observation_space, envs.action_space


class Tiles(Room):
    """A small picture, a bitmap, a table that is too small for a picture, and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Dict(
            {
                "bits": Box(0, 1, (9, 8), bool),
                "number": Box(-1, 1, (1,), np.float32),
                "picture": Box(0, 255, (7, 7, 3), np.uint8),
                "table": Box(0, 9, (3, 3), np.uint8),
            }
        )


def test_images_of_any_size_are_seen_and_smaller_ones_are_numbers() -> None:
    spec = ppo.Config(env=Tiles).policy_spec(*spaces_of(Tiles))
    assert spec.model == "cnn"
    assert spec.layout is not None
    assert [path for (path,) in spec.layout.images] == ["bits", "picture"]
    assert [path for (path,) in spec.layout.vectors] == ["number", "table"]
    exercise(spec)


def test_what_is_done_to_whole_images_is_done_to_parts() -> None:
    """Also beside a mask that comes in infos, of which the newest one counts."""
    for settings in ({"resize": 20}, {"grayscale": True}, {"frame_stack": 2}):
        before, after = (ppo.Config(env=Room, **own) for own in ({}, settings))
        spaces = [create_rollout_workers(config).spec.observations for config in (before, after)]
        assert spaces[0] != spaces[1]
        exercise(create_rollout_workers(after).spec)
    config = ppo.Config(env=Beside, frame_stack=2, num_envs_per_worker=2)
    spec = create_rollout_workers(config).spec
    assert spec.masked
    assert RolloutWorker(config, spec, ActorInfo("worker", 0, 0, 1, 1)).sample()
    workers = create_rollout_workers(ppo.Config(env=blind_room, frame_stack=2))
    assert workers.spec.observation_shape == (10,)


def test_actions_of_several_parts_are_saved_and_played(tmp_path: Path) -> None:
    trained = rf.train(
        "ppo", Buttons, until={"steps": 4000}, engine="sim", seed=1, num_workers=1,
        on_failure="raise",
    )  # fmt: skip
    assert trained.spec.action_space == MultiDiscrete([3, 2, 2, 2])
    trained.save(tmp_path / "p.npz")
    assert evaluate(rf.load(tmp_path / "p.npz", env=Buttons), episodes=5).mean > 8
    export_onnx(trained, tmp_path / "x.onnx")


class Buttons(gymnasium.Env[Any, Any]):
    """Pays for each part of its action that is right."""

    observation_space = Box(0, 1, (1,), np.float32)
    action_space = Dict(
        {"grip": Discrete(3, start=-1), "keys": Tuple((MultiBinary(2), Discrete(2)))}
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.time += 1
        keys, last = action["keys"]
        reward = float(action["grip"] == -1) + float(keys.sum()) / 2 + float(last)
        return np.zeros(1, np.float32), reward, self.time == 4, False, {}


def test_dqn_counts_one_discrete_part_as_its_actions() -> None:
    class Lone(Buttons):
        action_space = Dict({"grip": Discrete(3, start=-1)})

        def step(self, action: Any) -> Any:
            assert self.action_space.contains(action), action
            return np.zeros(1, np.float32), 1.0, True, False, {}

    rf.train("dqn", Lone, until={"steps": 300}, engine="sim", num_workers=1, on_failure="raise")
    assert dqn.Config(env=Lone).env is Lone
