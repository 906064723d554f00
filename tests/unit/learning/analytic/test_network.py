"""The network in NumPy against the one in torch: results, and gradients of all parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rillflow.errors import RunError
from rillflow.learning.analytic.network import Network
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy

ROWS = 37
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "multidiscrete": spaces.MultiDiscrete([2, 4]),
    "continuous": spaces.Box(-1, 1, (2,), np.float32),
}


def both(**options: Any) -> tuple[Network, TorchPolicy]:
    """The two networks of one spec, with the same weights, none of them zero."""
    spec = PolicySpec(observation_space=spaces.Box(-9, 9, (5,), np.float32), **options)
    network, policy = Network(spec, 3), TorchPolicy(spec, 3)
    rng = np.random.default_rng(0)
    weights = {
        name: array + 0.1 * rng.standard_normal(array.shape).astype(np.float32)
        for name, array in policy.get_weights().items()
    }
    network.set_weights(weights)
    policy.set_weights(weights)
    return network, policy


def rows(actions: spaces.Space[Any]) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    actions.seed(0)
    taken = np.stack([np.asarray(actions.sample()) for _ in range(ROWS)])
    return rng.standard_normal((ROWS, 5), np.float32), taken


def assert_same_gradients(network: Network, policy: TorchPolicy) -> None:
    own = network.named(network.gradient)
    for name, parameter in policy.named_parameters().items():
        theirs = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy()
        np.testing.assert_allclose(own[name], theirs, atol=2e-6, rtol=1e-4, err_msg=name)


def test_the_first_weights_are_the_same() -> None:
    spec = PolicySpec(
        observation_space=spaces.Box(-9, 9, (5,), np.float32), action_space=spaces.Discrete(3)
    )
    ours, theirs = Network(spec, 7).get_weights(), TorchPolicy(spec, 7).get_weights()
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)


@pytest.mark.parametrize("make", [Network, NumpyPolicy, TorchPolicy])
def test_weights_in_one_vector_are_taken_as_those_in_many_arrays(make: Any) -> None:
    network, torch_policy = both(action_space=ACTIONS["continuous"])
    new, again = make(network.spec, 5), make(network.spec, 6)
    new.set_weights(network.get_weights())
    again.set_weights(make(network.spec, 7).get_weights())  # others, of the same layout, before
    again.set_weights(network.get_weights())
    expected = torch_policy.get_weights()
    for found in (new.get_weights(), again.get_weights()):
        assert all((array == expected[name]).all() for name, array in found.items())
    if make is NumpyPolicy:
        obs = rows(ACTIONS["continuous"])[0]
        theirs = torch_policy.outputs(obs).detach().numpy()
        np.testing.assert_allclose(new.outputs(obs), theirs, atol=1e-5)
        assert (again.outputs(obs) == new.outputs(obs)).all()


@pytest.mark.parametrize("make", [Network, NumpyPolicy])
def test_a_vector_of_another_network_is_refused_every_time(make: Any) -> None:
    own, other = (
        both(action_space=ACTIONS["discrete"], hidden=(8,))[0],
        both(action_space=ACTIONS["discrete"], hidden=(9,))[0],
    )
    policy = make(own.spec, 5)
    for weights in (other.get_weights(), own.get_weights(), other.get_weights()):
        if weights.layout is own.layout:
            policy.set_weights(weights)
        else:
            with pytest.raises(RunError, match=r"expected \[8, 5\], found \[9, 5\]"):
                policy.set_weights(weights)


def test_snapshots_stay_as_they_are() -> None:
    network = both(action_space=ACTIONS["discrete"])[0]
    weights, gradient = network.get_weights(), network.get_gradient()
    before = weights.vector.copy(), gradient.vector.copy()
    network.parameters += 1
    network.gradient += 1
    assert (weights.vector == before[0]).all()
    assert (gradient.vector == before[1]).all()


def test_scaled_observations() -> None:
    network, policy = both(action_space=ACTIONS["discrete"], scale_observations=True)
    obs, taken = rows(ACTIONS["discrete"])
    logp, _, values = network.evaluate(9 * obs, taken)
    theirs = policy.evaluate(9 * obs, taken)
    np.testing.assert_allclose(logp, theirs[0].detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(values, theirs[2].detach().numpy(), atol=1e-5)
    plain = both(action_space=ACTIONS["discrete"])[0]
    np.testing.assert_allclose(plain.values(obs), network.values(9 * obs), atol=1e-5)


@pytest.mark.parametrize("hidden", [(), (8,), (8, 6), (7, 7, 7)])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ACTIONS)
def test_actor_critic(hidden: Any, activation: Any, shared: bool, kind: str) -> None:
    """Any slopes of log-probabilities, entropies and values go back as autograd's do."""
    network, policy = both(
        action_space=ACTIONS[kind], hidden=hidden, activation=activation, shared=shared
    )
    obs, taken = rows(ACTIONS[kind])
    logp, entropy, values = network.evaluate(obs, taken)
    theirs = policy.evaluate(obs, taken)
    for one, other in zip((logp, entropy, values), theirs, strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), atol=1e-5)
    d_logp, d_values = np.random.default_rng(2).standard_normal((2, ROWS), np.float32)
    network.backward(d_logp, 0.3, d_values)
    total = theirs[0] @ torch.from_numpy(d_logp) + theirs[2] @ torch.from_numpy(d_values)
    (total + 0.3 * theirs[1].sum()).backward()
    assert_same_gradients(network, policy)
    np.testing.assert_allclose(network.values(obs), values, atol=1e-6)


@pytest.mark.parametrize("hidden", [(), (8, 6)])
@pytest.mark.parametrize("dueling", [False, True])
def test_q_values(hidden: Any, dueling: bool) -> None:
    network, policy = both(
        action_space=spaces.Discrete(3),
        hidden=hidden,
        activation="relu",
        head="q",
        dueling=dueling,
    )
    obs, _ = rows(spaces.Discrete(3))
    q, theirs = network.q_values(obs, remember=True), policy.q_values(obs)
    np.testing.assert_allclose(q.T, theirs.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(network.q_values(obs), q, atol=1e-6)
    d_q = np.random.default_rng(2).standard_normal((3, ROWS)).astype(np.float32)
    network.backward_q(d_q)
    (theirs * torch.from_numpy(d_q.T.copy())).sum().backward()
    assert_same_gradients(network, policy)


def test_another_number_of_rows_leaves_nothing_of_the_last_one() -> None:
    network, policy = both(action_space=spaces.Discrete(3))
    obs, taken = rows(spaces.Discrete(3))
    for count in (ROWS, 5, ROWS - 1):
        logp, _, values = network.evaluate(obs[:count], taken[:count])
        network.backward(np.ones_like(logp), 0.0, np.ones_like(values))
        policy.model.zero_grad()
        theirs = policy.evaluate(obs[:count], taken[:count])
        (theirs[0].sum() + theirs[2].sum()).backward()
        assert_same_gradients(network, policy)
