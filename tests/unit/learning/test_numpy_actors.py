"""Actors and critics of continuous actions in NumPy against those in torch: results, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rillflow.learning import losses, numpy_modules, torch_modules
from rillflow.policies.modules import (
    Modules,
    deterministic,
    q_of_action,
    scalar,
    squashed_gaussian,
)
from rillflow.policies.spec import PolicySpec

ROWS = 23
SPACES = {
    "one": spaces.Box(-2, 2, (1,), np.float32),
    "uneven": spaces.Box(np.float32([-1, -3, 0]), np.float32([2, -1, 10]), (3,), np.float32),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float32),
    "float64": spaces.Box(-1, 1, (2,), np.float64),
}


def both(
    space: Any, head: Any = squashed_gaussian, copies: int = 2, **options: Any
) -> tuple[numpy_modules.NumpyModules, torch_modules.TorchModules]:
    """The same networks in both frameworks; each draws the same noise."""
    spec = PolicySpec(
        observation_space=spaces.Box(-4, 12, (5,), np.float32), action_space=space, **options
    )
    modules = Modules(actor=head(spec), q=q_of_action(spec, copies), k=scalar(0.5), acts="actor")
    fast, slow = numpy_modules.NumpyModules(modules, 3), torch_modules.TorchModules(modules, 3)
    rng = np.random.default_rng(0)
    for name, net in fast.by_name.items():
        weights = {
            key: (array + 0.3 * rng.standard_normal(array.shape)).astype(np.float32)
            for key, array in net.get_weights().items()
        }
        net.set_weights(weights)
        slow.by_name[name].set_weights(weights)
    for m in (fast, slow):
        m.draw_from(np.random.default_rng(7))
    return fast, slow


def observations() -> Any:
    return np.random.default_rng(1).standard_normal((ROWS, 5), np.float32)


def actions(space: Any) -> Any:
    space.seed(0)
    return np.stack([space.sample() for _ in range(ROWS)]).astype(np.float32)


def went_back(fast: Any, slow: Any, ours: Any, theirs: Any, *names: str) -> None:
    """The gradients of two losses are the same in these networks."""
    np.testing.assert_allclose(ours.value, theirs.detach().numpy(), atol=1e-4, rtol=1e-4)
    for name, net in fast.by_name.items():
        net.begin(name in names)
    fast.tape.backward(ours)
    for name in names:
        fast.by_name[name].end()
    parameters = {
        (name, key): p for name in names for key, p in slow.by_name[name].network.named_parameters()
    }
    gradients = torch.autograd.grad(
        theirs, list(parameters.values()), retain_graph=True, allow_unused=True
    )
    for (name, key), gradient in zip(parameters, gradients, strict=True):
        expected = 0.0 if gradient is None else gradient.numpy()
        found = fast.by_name[name].gradients[key]
        np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-3, err_msg=f"{name} {key}")


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 6)])
@pytest.mark.parametrize("kind", SPACES)
def test_a_squashed_gaussian(kind: str, hidden: Any, activation: Any) -> None:
    """Actions and log-probabilities, with slopes of their own; two draws before going back."""
    space = SPACES[kind]
    fast, slow = both(space, hidden=hidden, activation=activation, scale_observations=True)
    obs = observations()
    slopes = np.random.default_rng(2).standard_normal((ROWS, *space.shape)).astype(np.float32)
    fast.record()
    totals: list[Any] = []
    for m, seen, d in ((fast, obs, slopes), (slow, torch.tensor(obs), torch.tensor(slopes))):
        one, logp = m.actor.sample(seen)
        two, again = m.actor.sample(seen[:9])
        assert one.shape == (ROWS, *space.shape)
        totals.append((one * d).sum() + 0.3 * logp.sum() + two.square().sum() + again.mean())
        inside = one.value if m is fast else one.detach().numpy()
        assert ((inside >= space.low - 1e-5) & (inside <= space.high + 1e-5)).all()
    went_back(fast, slow, *totals, "actor")


@pytest.mark.parametrize("kind", SPACES)
def test_log_probabilities_are_those_of_the_change_of_variables(kind: str) -> None:
    """log N(u) - sum log(1 - tanh(u)^2), with u found back from the action."""
    space = SPACES[kind]
    fast, _ = both(space, hidden=(8,))
    obs = observations()
    drawn, logp = fast.actor.sample(obs)
    outputs = fast.actor._outputs(obs)[0].astype(np.float64)
    width = outputs.shape[0] // 2
    mean, log_std = outputs[:width].T, np.clip(outputs[width:].T, -20, 2)
    middle, half = (space.low + space.high) / 2, (space.high - space.low) / 2
    squeezed = ((drawn - middle) / half).reshape(ROWS, -1).astype(np.float64)
    safe = (np.abs(squeezed) < 0.999).all(1)
    assert safe.sum() > 3
    u = np.arctanh(squeezed[safe])
    normal = -0.5 * ((u - mean[safe]) / np.exp(log_std[safe])) ** 2 - log_std[safe]
    normal -= 0.5 * np.log(2 * np.pi)
    expected = (normal - np.log(1 - np.tanh(u) ** 2)).sum(1)
    np.testing.assert_allclose(logp[safe], expected, atol=2e-2, rtol=1e-2)


def test_beyond_its_bounds_a_width_is_not_learned() -> None:
    """Where the logarithm is cut off its gradient is 0, in both frameworks."""
    fast, slow = both(SPACES["one"], hidden=())
    for m in (fast, slow):
        weights = {key: np.array(array) for key, array in m.actor.get_weights().items()}
        weights["action_head.bias"][1] = 9.0
        m.actor.set_weights(weights)
    fast.record()
    results = [
        m.actor.sample(x)[1].mean()
        for m, x in ((fast, observations()), (slow, torch.tensor(observations())))
    ]
    went_back(fast, slow, *results, "actor")
    assert (fast.actor.gradients["action_head.weight"][1] == 0).all()


@pytest.mark.parametrize("head", [deterministic, squashed_gaussian])
@pytest.mark.parametrize("kind", SPACES)
def test_the_middle_action(kind: str, head: Any) -> None:
    space = SPACES[kind]
    fast, slow = both(space, head, hidden=(8,))
    slopes = np.random.default_rng(2).standard_normal((ROWS, *space.shape)).astype(np.float32)
    fast.record()
    ours = (fast.actor(observations()) * slopes).sum()
    theirs = (slow.actor(torch.tensor(observations())) * torch.tensor(slopes)).sum()
    went_back(fast, slow, ours, theirs, "actor")


@pytest.mark.parametrize("kind", SPACES)
def test_smoothed_actions_stay_within_bounds_and_are_the_same(kind: str) -> None:
    """Noise beyond the clip is cut off, and so are actions beyond their bounds."""
    space = SPACES[kind]
    fast, slow = both(space, deterministic, hidden=(8,))
    ours = fast.actor.smoothed(observations(), 0.7, 0.5)
    theirs = slow.actor.smoothed(torch.tensor(observations()), 0.7, 0.5)
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)
    assert ((ours >= space.low - 1e-5) & (ours <= space.high + 1e-5)).all()
    half = (space.high - space.low) / 2
    assert (np.abs(ours - fast.actor(observations())) <= 0.5 * half + 1e-5).all()


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("hidden", [(), (8, 6)])
@pytest.mark.parametrize("kind", SPACES)
def test_critics(kind: str, hidden: Any, copies: int) -> None:
    """Of rows, in two passes; each copy has weights of its own."""
    space = SPACES[kind]
    fast, slow = both(space, copies=copies, hidden=hidden, scale_observations=True)
    obs, taken = observations(), actions(space)
    lead = () if copies == 1 else (copies,)
    slopes = np.random.default_rng(2).standard_normal((*lead, ROWS)).astype(np.float32)
    fast.record()
    totals = []
    for m, convert in ((fast, np.asarray), (slow, torch.tensor)):
        q = m.q(convert(obs), convert(taken))
        assert q.shape == (*lead, ROWS)
        totals.append(
            (q * convert(slopes)).sum() + m.q(convert(obs[:4]), convert(taken[:4])).mean()
        )
    went_back(fast, slow, *totals, "q")


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("kind", SPACES)
def test_gradients_go_through_critics_to_the_actor(kind: str, copies: int) -> None:
    """A loss that trains the actor alone, or both."""
    fast, slow = both(SPACES[kind], copies=copies, hidden=(8, 6), activation="relu")
    fast.record()
    totals: list[Any] = []
    for m, obs in ((fast, observations()), (slow, torch.tensor(observations()))):
        drawn, logp = m.actor.sample(obs)
        q = m.q(obs, drawn)
        totals.append(losses.mean(0.2 * logp - (losses.lowest(q) if copies > 1 else q)))
    went_back(fast, slow, *totals, "actor")
    went_back(fast, slow, *totals, "actor", "q")


def test_one_number() -> None:
    fast, slow = both(SPACES["one"])
    fast.record()
    went_back(fast, slow, *(m.k().exp() * 3.0 + m.k() for m in (fast, slow)), "k")
    fast.stop()
    assert float(fast.k()) == pytest.approx(float(slow.k().detach()))


def test_frozen_networks_and_targets_carry_no_gradient() -> None:
    """In torch as in NumPy, where their results are plain arrays while others are recorded."""
    fast, slow = both(SPACES["one"])
    fast.record()
    assert isinstance(fast.frozen.q(observations(), actions(SPACES["one"])), np.ndarray)
    assert not slow.frozen.q(
        torch.tensor(observations()), torch.tensor(actions(SPACES["one"]))
    ).requires_grad


def test_a_network_that_is_not_there_is_told() -> None:
    for m in both(SPACES["one"]):
        with pytest.raises(
            AttributeError, match="no network is called 'critic' here; there are: actor, q, k"
        ):
            m.critic  # noqa: B018
        with pytest.raises(AttributeError, match="no network is called 'q' here; there are: none"):
            m.target.q  # noqa: B018
