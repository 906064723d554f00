"""The network in NumPy against the one in torch: results, and gradients of all parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rillflow.envs.mixed_box import MixedBox
from rillflow.errors import RunError
from rillflow.learning.numpy_module import NumpyModule
from rillflow.learning.numpy_network import Network
from rillflow.learning.tape import Tape
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy

ROWS = 37
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "multidiscrete": spaces.MultiDiscrete([2, 4]),
    "continuous": spaces.Box(-1, 1, (2,), np.float32),
    "mixed": MixedBox([2, 3], [-1, -1], [1, 1]),
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


def gone_back(network: NumpyModule, *pieces: tuple[Any, Any]) -> None:
    """The gradient of a sum of results, each times its slopes, in the network."""
    assert network.tape is not None
    total: Any = 0.0
    for result, slopes in pieces:
        total = total + (result * slopes).sum()
    network.begin(True)
    network.tape.backward(total)
    network.end()


def rows(actions: spaces.Space[Any]) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    actions.seed(0)
    taken = np.stack([np.asarray(actions.sample()) for _ in range(ROWS)])
    return rng.standard_normal((ROWS, 5), np.float32), taken


def assert_same_gradients(network: NumpyModule, policy: TorchPolicy) -> None:
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
    plain = network.evaluate(obs, taken)
    network.tape = Tape()
    results = network.evaluate(obs, taken)
    theirs = policy.evaluate(obs, taken)
    for one, other, without in zip(results, theirs, plain, strict=True):
        np.testing.assert_allclose(one.value, other.detach().numpy(), atol=1e-5)
        np.testing.assert_array_equal(one.value, without)
    slopes = np.random.default_rng(2).standard_normal((3, ROWS), np.float32)
    gone_back(network, *zip(results, slopes, strict=True))
    sum(part @ torch.from_numpy(d) for part, d in zip(theirs, slopes, strict=True)).backward()
    assert_same_gradients(network, policy)
    network.tape = None
    np.testing.assert_allclose(network.values(obs), plain[2], atol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "actions",
    [
        spaces.Box(300, 500, (1,), np.float32),
        spaces.Box(np.float32([-1, 0, -0.4]), np.float32([1, 100, 0.4])),
        MixedBox([2, 3], [300, -1], [500, 1]),
    ],
)
def test_means_in_the_units_of_their_bounds(actions: Any, shared: bool) -> None:
    """Log-probabilities and gradients are as in torch, of numbers that are hundreds, too."""
    network, policy = both(action_space=actions, hidden=(8, 6), shared=shared, scale_actions=True)
    obs, taken = rows(actions)
    plain = network.evaluate(obs, taken)
    network.tape = Tape()
    results, theirs = network.evaluate(obs, taken), policy.evaluate(obs, taken)
    for one, other, without in zip(results, theirs, plain, strict=True):
        np.testing.assert_allclose(one.value, other.detach().numpy(), atol=1e-5, rtol=1e-5)
        np.testing.assert_array_equal(one.value, without)
    gone_back(network, (results[0], 0.5), (results[1], -0.2), (results[2], 0.3))
    parts = zip(theirs, (0.5, -0.2, 0.3), strict=True)
    sum(slope * part.sum() for part, slope in parts).backward()
    for name, parameter in policy.named_parameters().items():
        own = network.named(network.gradient)[name]
        np.testing.assert_allclose(own, parameter.grad, atol=1e-4, rtol=1e-3, err_msg=name)
        assert np.abs(own).max() > 0, name


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("kind", ACTIONS)
def test_what_no_gradient_reaches_has_none(kind: str, which: int, shared: bool) -> None:
    """A loss of log-probabilities alone, of entropies alone, of values alone."""
    network, policy = both(action_space=ACTIONS[kind], hidden=(8,), shared=shared)
    network.gradient[:] = 7  # of an earlier loss
    obs, taken = rows(ACTIONS[kind])
    network.tape = Tape()
    gone_back(network, (network.evaluate(obs, taken)[which], 1.0))
    policy.evaluate(obs, taken)[which].sum().backward()
    assert_same_gradients(network, policy)


def test_a_number_for_all_rows_and_one_for_each_are_the_same() -> None:
    """Means send one number back; products with an array send an array."""
    network, _ = both(action_space=ACTIONS["continuous"])
    obs, taken = rows(ACTIONS["continuous"])
    found = []
    for slopes in (0.3, np.full(ROWS, 0.3, np.float32)):
        network.tape = Tape()
        gone_back(network, *((part, slopes) for part in network.evaluate(obs, taken)))
        found.append(network.gradient.copy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("shared", [False, True])
def test_several_passes_before_going_back(kind: str, shared: bool) -> None:
    """Gradients of passes over different rows, and of values alone, are added up."""
    network, policy = both(action_space=ACTIONS[kind], hidden=(8, 6), shared=shared)
    obs, taken = rows(ACTIONS[kind])
    halves = (slice(0, 20), slice(20, ROWS))
    network.tape = Tape()
    pieces = [(part, 0.5) for h in halves for part in network.evaluate(obs[h], taken[h])]
    gone_back(network, *pieces, (network.values(obs), -0.7))
    total = sum(0.5 * part.sum() for h in halves for part in policy.evaluate(obs[h], taken[h]))
    (total - 0.7 * policy.values(obs).sum()).backward()
    assert_same_gradients(network, policy)


def test_a_second_loss_on_the_same_tape_begins_with_nothing() -> None:
    """Its gradient is its own, although it goes back over the same pass."""
    network, policy = both(action_space=ACTIONS["discrete"], shared=True)
    obs, taken = rows(ACTIONS["discrete"])
    network.tape = Tape()
    ours, theirs = network.evaluate(obs, taken), policy.evaluate(obs, taken)
    for which in (0, 2, 1):
        gone_back(network, (ours[which], 1.0))
        policy.model.zero_grad()
        theirs[which].sum().backward(retain_graph=True)
        assert_same_gradients(network, policy)


def test_what_is_not_trained_keeps_its_gradient() -> None:
    """A loss that goes through a network for another's sake leaves nothing behind."""
    network, _ = both(action_space=ACTIONS["discrete"])
    obs, taken = rows(ACTIONS["discrete"])
    network.tape = Tape()
    logp, _, _ = network.evaluate(obs, taken)
    network.gradient[:] = 7
    network.begin(False)
    network.tape.backward(logp.sum())
    network.end()
    assert (network.gradient == 7).all()


def test_rows_in_two_axes() -> None:
    """Fragments [T, B] are evaluated as they are."""
    network, policy = both(action_space=ACTIONS["multidiscrete"])
    obs, taken = rows(ACTIONS["multidiscrete"])
    obs, taken = obs[:36].reshape(9, 4, 5), taken[:36].reshape(9, 4, 2)
    network.tape = Tape()
    ours, theirs = network.evaluate(obs, taken), policy.evaluate(obs, taken)
    assert [part.shape for part in ours] == [(9, 4)] * 3
    slopes = np.random.default_rng(2).standard_normal((3, 9, 4)).astype(np.float32)
    gone_back(network, *zip(ours, slopes, strict=True))
    sum((p * torch.from_numpy(d)).sum() for p, d in zip(theirs, slopes, strict=True)).backward()
    assert_same_gradients(network, policy)


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
    plain = network.q_values(obs)
    network.tape = Tape()
    theirs = policy.q_values(obs)
    d_q = np.random.default_rng(2).standard_normal((2, ROWS, 3)).astype(np.float32)
    pieces = [(network.q_values(obs), slopes) for slopes in d_q]  # two passes
    np.testing.assert_allclose(pieces[0][0].value, theirs.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(plain, pieces[0][0].value, atol=1e-6)
    gone_back(network, *pieces)
    (theirs * torch.from_numpy(d_q.sum(0))).sum().backward()
    assert_same_gradients(network, policy)


def test_another_number_of_rows_leaves_nothing_of_the_last_one() -> None:
    network, policy = both(action_space=spaces.Discrete(3))
    obs, taken = rows(spaces.Discrete(3))
    for count in (ROWS, 5, ROWS - 1):
        network.tape = Tape()
        logp, _, values = network.evaluate(obs[:count], taken[:count])
        gone_back(network, (logp, 1.0), (values, 1.0))
        network.forget()
        policy.model.zero_grad()
        theirs = policy.evaluate(obs[:count], taken[:count])
        (theirs[0].sum() + theirs[2].sum()).backward()
        assert_same_gradients(network, policy)
