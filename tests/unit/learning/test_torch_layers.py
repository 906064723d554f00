"""Passes in few operations give what torch's own passes give, gradients too."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rillflow.algorithms import ddpg, sac, td3
from rillflow.learning.torch_learner import TorchLearner
from rillflow.learning.torch_modules import TorchModules, resting

OBS = gym.spaces.Box(-1, 1, (5,), np.float32)
ACTIONS = gym.spaces.Box(np.array([-2, -1], np.float32), np.array([2, 3], np.float32))


def _modules(module: Any, hidden: tuple[int, ...], activation: str) -> TorchModules:
    config = module.Config(hidden=hidden, activation=activation)
    return TorchModules(config.modules(config.policy_spec(OBS, ACTIONS)), 0)


def _as_torch_makes_them(m: TorchModules) -> None:
    for _, net in m.all():
        net.layers = None


def _gradients(m: TorchModules, results: Any) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    loss = sum((torch.randn(r.shape, generator=rng) * r).sum() for r in results)
    parameters = [p for net in m.by_name.values() for p in net.network.parameters()]
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [*results, *(g for g in found if g is not None)]


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [(), (7,), (8, 6)])
@pytest.mark.parametrize("module", [sac, td3, ddpg], ids=["sac", "td3", "ddpg"])
def test_results_and_gradients_are_those_of_autograd(
    module: Any, hidden: tuple[int, ...], activation: str
) -> None:
    m = _modules(module, hidden, activation)
    obs = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))

    def found() -> list[torch.Tensor]:
        m.draw_from(np.random.default_rng(0))
        if module is not sac:
            return _gradients(m, [m.q(obs, m.actor(obs))])
        actions, logp = m.actor.sample(obs)
        return _gradients(m, [actions, logp, m.q(obs, actions)])

    ours = found()
    _as_torch_makes_them(m)
    theirs = found()

    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_without_a_gradient_the_sample_is_the_same() -> None:
    m = _modules(sac, (8, 6), "relu")
    obs = torch.randn(9, 5)
    m.draw_from(np.random.default_rng(0))
    learned = m.actor.sample(obs)
    m.draw_from(np.random.default_rng(0))
    frozen = m.frozen.actor.sample(obs)

    for one, other in zip(learned, frozen, strict=True):
        assert one.requires_grad
        assert not other.requires_grad
        torch.testing.assert_close(one.detach(), other)


def test_weights_that_changed_since_the_pass_are_an_error() -> None:
    m = _modules(sac, (8,), "relu")
    values = m.q(torch.randn(4, 5), torch.randn(4, 2))
    with torch.no_grad():
        next(m.q.network.parameters()).add_(1)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()


def test_what_rests_learns_again_afterwards() -> None:
    m = _modules(sac, (8,), "relu")
    obs = torch.randn(4, 5)
    parameters = list(m.q.network.parameters())

    with resting(m.others(("actor",))):
        m.q(obs, m.actor(obs)).sum().backward()
    assert all(p.grad is None for p in parameters)
    assert all(p.grad is not None for p in m.actor.parameters())

    m.q(obs, m.actor(obs)).sum().backward()
    assert all(p.grad is not None for p in parameters)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_steps_are_those_of_the_optimiser(amsgrad: bool) -> None:
    config = sac.Config(hidden=(8,), lr=0.01, amsgrad=amsgrad)
    learner = TorchLearner(config.policy_spec(OBS, ACTIONS), config, 0)
    (name, mine), *_ = learner.parameters.items()
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in mine.values()]
    adam = torch.optim.Adam(theirs, lr=0.01, eps=config.adam_epsilon, amsgrad=amsgrad)
    rng = torch.Generator().manual_seed(0)
    for _ in range(4):
        for p, q in zip(mine.values(), theirs, strict=True):
            p.grad = torch.randn(p.shape, generator=rng)
            q.grad = p.grad.clone()
        learner._step((name,), 0.0)
        adam.step()

    for p, q in zip(mine.values(), theirs, strict=True):
        torch.testing.assert_close(p.detach(), q.detach())
    slots = learner.optimiser_state(name)
    assert {int(slot["step"]) for slot in slots.values()} == {4}
