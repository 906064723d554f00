"""Gaussians that begin as the bounds of actions say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rillflow.envs.mixed_box import MixedBox
from rillflow.policies.action_units import action_units, in_other_units
from rillflow.policies.device_policy import DevicePolicy
from rillflow.policies.make import first_weights
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.saved import load_policy, save_policy
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.try_policy import exercise
from tests.unit.policies.parts import IMAGE, VECTOR, make_spec, shaken, vectors

FAR = spaces.Box(300, 500, (1,), np.float32)
UNEVEN = spaces.Box(np.float32([-1, 0, -0.4]), np.float32([1, 100, 0.4]))
MIXED = MixedBox([2, 3], [300, -1, -0.4], [500, 1, 0.4])
ALL: dict[str, Any] = {"far": FAR, "uneven": UNEVEN, "mixed": MIXED}


def units(low: Any, high: Any) -> list[Any] | None:
    low, high = np.atleast_1d(np.float32(low)), np.atleast_1d(np.float32(high))
    found = action_units(spaces.Box(low, high))
    return None if found is None else [part.tolist() for part in found]


@pytest.mark.parametrize(
    "bounds",
    [
        (-1, 1),
        (-2, 2),
        (-3, 3),
        (-4, 4),
        (-0.5, 0.5),
        (-1, 2),
        (-1, 3),
        (-np.inf, np.inf),
        (0, np.inf),
        (-np.inf, 300),
        (-3e38, 3e38),
        (7, 7),
    ],
)
def test_bounds_that_keep_0_and_1(bounds: tuple[float, float]) -> None:
    assert units(*bounds) is None


@pytest.mark.parametrize(
    ("bounds", "middle", "half"),
    [
        ((300, 500), 400, 100),
        ((0, 1), 0.5, 0.5),
        ((-0.25, 0.25), 0, 0.25),
        ((-5, 5), 0, 5),
        ((-1, 3.5), 1.25, 2.25),
        ((-3, 0.5), -1.25, 1.75),
        ((-1e6, 1e6), 0, 1e6),
    ],
)
def test_bounds_that_give_the_units(bounds: Any, middle: float, half: float) -> None:
    assert units(*bounds) == [[middle], [half]]


def test_each_number_has_its_own() -> None:
    assert units([-1, 0, 0, 300], [1, 100, np.inf, 500]) == [[0, 50, 0, 400], [1, 50, 1, 100]]
    spec = make_spec(actions=MIXED, scale_actions=True)
    assert spec.mean_units is not None
    middle, half = spec.mean_units
    assert middle.tolist() == [0] * 5 + [400, 0, 0]
    assert half.tolist() == [1] * 5 + [100, 1, np.float32(0.4)]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "network",
    [{}, {"shared": True}, {"memory": "gru", "memory_size": 8}, {"model": "cnn"}],
    ids=["mlp", "shared", "gru", "cnn"],
)
def test_a_policy_begins_in_the_middle_and_reaches_the_bounds(
    name: str, network: dict[str, Any]
) -> None:
    """Whatever the network: most numbers drawn at first are within the bounds, on both sides."""
    seen = IMAGE if "model" in network else VECTOR
    extra = {"image_features": 8} if "model" in network else {}
    spec = make_spec(seen, ALL[name], scale_actions=True, **network, **extra)
    policy = TorchPolicy(spec, 1)
    obs = np.zeros((4000, *spec.observation_shape), seen.dtype)
    if spec.recurrent:
        actions, *_ = policy.act_recurrent(obs, policy.initial_state(4000), np.ones(4000, bool))
    else:
        actions, _ = policy.act(obs)
    low, high = (side[-spec.actions.numbers :] for side in (ALL[name].low, ALL[name].high))
    numbers = actions[:, -spec.actions.numbers :]
    place = (numbers - low) / (high - low)
    np.testing.assert_allclose(place.mean(0), 0.5, atol=0.04)
    np.testing.assert_allclose(place.std(0), 0.5, atol=0.04)


@pytest.mark.parametrize("name", ALL)
def test_numpy_torch_and_device_agree(name: str) -> None:
    """Actions, their log-probabilities and means, with weights that are not those of the start."""
    spec = make_spec(actions=ALL[name], scale_actions=True)
    learner, actor, device = (
        TorchPolicy(spec, 3),
        NumpyPolicy(spec, 3),
        DevicePolicy(spec, 3, "cpu"),
    )
    assert all(np.array_equal(actor.get_weights()[k], learner.get_weights()[k]) for k in
               actor.get_weights())  # fmt: skip
    weights = shaken(learner.get_weights())
    for policy in (learner, actor, device):
        policy.set_weights(weights)
    obs = vectors(spec, 50)
    close = {"rtol": 1e-5, "atol": 1e-4}
    means = learner.outputs(obs).detach().numpy()
    np.testing.assert_allclose(actor.outputs(obs), means, **close)
    np.testing.assert_allclose(actor.greedy(obs), learner.greedy(obs), **close)
    drawn = actor.act(obs)
    for other in (learner.act(obs), device.act(obs)):
        np.testing.assert_allclose(drawn[0], other[0], **close)
        np.testing.assert_allclose(drawn[1], other[1], **close)
    evaluated = learner.evaluate(obs, drawn[0])[0].detach().numpy()
    np.testing.assert_allclose(drawn[1], evaluated, **close)
    assert drawn[0].dtype == np.float32


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("memory", [None, "lstm"])
def test_such_a_policy_is_whole(name: str, memory: Any) -> None:
    assert exercise(make_spec(actions=ALL[name], scale_actions=True, memory=memory)).checks


def test_where_0_and_1_suit_nothing_changes() -> None:
    """To the bit: weights, actions and log-probabilities."""
    asked, before = (
        make_spec(actions=spaces.Box(-2, 2, (3,), np.float32), scale_actions=asked)
        for asked in (True, False)
    )
    obs = vectors(asked, 20)
    for make in (NumpyPolicy, TorchPolicy):
        one, other = make(asked, 5), make(before, 5)
        ours, theirs = one.get_weights(), other.get_weights()
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)
        assert all(np.array_equal(*pair) for pair in zip(one.act(obs), other.act(obs), strict=True))


@pytest.mark.parametrize("head", ["squashed_gaussian", "deterministic"])
def test_policies_that_squeeze_have_the_bounds_already(head: Any) -> None:
    assert make_spec(actions=FAR, head=head, scale_actions=True).mean_units is None


class Own(nn.Module):
    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.actor = nn.Linear(spec.observation_size, spec.actions.width)
        self.critic = nn.Linear(spec.observation_size, 1)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.actor(obs) + 400, self.critic(obs).squeeze(-1)


def test_a_network_of_ones_own_gives_means_as_they_are() -> None:
    policy = TorchPolicy(make_spec(actions=FAR, model=Own, scale_actions=True), 1)
    obs = vectors(policy.spec, 9)
    means = policy.model(torch.from_numpy(obs))[0].detach().numpy()
    np.testing.assert_array_equal(policy.greedy(obs), means)
    assert policy.get_weights()["log_std"].tolist() == [0.0]


def test_a_saved_policy_speaks_in_the_same_units(tmp_path: Path) -> None:
    spec = make_spec(actions=FAR, scale_actions=True)
    save_policy(tmp_path / "p.npz", spec, first_weights(spec), {})
    found, weights, _ = load_policy(tmp_path / "p.npz")
    actor = NumpyPolicy(found)
    actor.set_weights(weights)
    assert abs(actor.greedy(vectors(spec, 1))[0, 0] - 400) < 10


def test_a_policy_saved_before_there_were_units_acts_as_it_did(tmp_path: Path) -> None:
    """Its spec does not say `scale_actions`: its means are in the environment's units."""
    spec = make_spec(actions=FAR)
    weights = shaken(first_weights(spec))
    path = tmp_path / "p.npz"
    save_policy(path, spec, weights, {})
    arrays = dict(np.load(path))
    head = json.loads(arrays["settings"].tobytes())
    assert head["spec"].pop("scale_actions") is False
    arrays["settings"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    np.savez(path, **arrays)
    found, loaded, _ = load_policy(path)
    actor = NumpyPolicy(found)
    actor.set_weights(loaded)
    obs = vectors(spec, 7)
    hidden = obs
    for layer in ("trunk.0", "trunk.1"):
        hidden = np.tanh(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    means = hidden @ weights["action_head.weight"].T + weights["action_head.bias"]
    np.testing.assert_allclose(actor.greedy(obs), means, rtol=1e-4, atol=1e-5)
    assert np.abs(means).max() < 20


@pytest.mark.parametrize("network", [{}, {"memory": "gru", "memory_size": 8}], ids=["mlp", "gru"])
@pytest.mark.parametrize(("there", "here"), [(False, True), (True, False), (True, True)])
def test_weights_in_other_units_give_the_same_means(
    there: bool, here: bool, network: dict[str, Any]
) -> None:
    """From a policy in other units, or for other bounds."""
    other = MixedBox([2, 3], [100, 0, -1], [700, 10, 1])
    theirs = make_spec(actions=MIXED, scale_actions=there, **network)
    ours = make_spec(actions=other, scale_actions=here, **network)
    policies = [TorchPolicy(spec, 1) for spec in (theirs, ours)]
    weights = shaken(policies[0].get_weights())
    policies[0].set_weights(weights)
    policies[1].set_weights(in_other_units(weights, theirs.mean_units, ours.mean_units))
    obs = vectors(theirs, 9)
    found = []
    for policy in policies:
        if policy.spec.recurrent:
            found.append(
                policy.outputs_recurrent(obs, policy.initial_state(9), np.ones(9, bool))[0]
            )
        else:
            found.append(policy.outputs(obs).detach().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(policies[1].get_weights()["log_std"], weights["log_std"])
