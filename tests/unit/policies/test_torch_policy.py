"""What losses and workers ask of a policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rillflow.errors import RunError
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.torch_policy import TorchPolicy
from tests.unit.policies.parts import CONTINUOUS, IMAGE, SEVERAL, TWO, make_spec, shaken, vectors


@pytest.mark.parametrize("actions", [TWO, SEVERAL, CONTINUOUS])
@pytest.mark.parametrize("shared", [False, True])
def test_leading_axes_are_kept(actions: Any, shared: bool) -> None:
    policy = TorchPolicy(make_spec(actions=actions, shared=shared))
    obs = vectors(policy.spec, 3, 2)
    taken = np.stack([policy.act(row)[0] for row in obs])
    whole = (*policy.evaluate(obs, taken), policy.values(obs))
    for result in whole:
        assert result.shape == (3, 2)
    for t in range(3):
        row = (*policy.evaluate(obs[t], taken[t]), policy.values(obs[t]))
        torch.testing.assert_close(tuple(result[t] for result in whole), row)
    torch.testing.assert_close(whole[2], whole[3])


def test_q_values_have_one_more_axis() -> None:
    policy = TorchPolicy(make_spec(head="q", dueling=True))
    assert policy.q_values(vectors(policy.spec, 3, 2)).shape == (3, 2, 2)
    with pytest.raises(RunError, match="values needs head='actor_critic'; this policy has 'q'"):
        policy.values(vectors(policy.spec, 3))


def test_another_head_is_an_error() -> None:
    policy = TorchPolicy(make_spec())
    with pytest.raises(RunError, match="q_values needs head='q'"):
        policy.q_values(vectors(policy.spec, 3))


def test_images_stay_bytes_until_they_are_inside() -> None:
    policy = TorchPolicy(make_spec(IMAGE, model="cnn"))
    images = np.random.default_rng(0).integers(0, 256, (2, 3, *IMAGE.shape), np.uint8)
    images.flags.writeable = False
    actions, logp = policy.act(images[0])
    assert actions.shape == logp.shape == (3,)
    assert policy.values(images).shape == (2, 3)


def test_an_rng_of_ones_own() -> None:
    policy = TorchPolicy(make_spec())
    obs = vectors(policy.spec, 50)
    first = policy.act(obs, rng=np.random.default_rng(7))[0]
    assert np.array_equal(first, policy.act(obs, rng=np.random.default_rng(7))[0])
    assert not np.array_equal(first, policy.act(obs)[0])


@pytest.mark.parametrize(
    "spec", [make_spec(), make_spec(model="lstm"), make_spec(IMAGE, model="cnn")]
)
def test_weights_are_a_snapshot_and_go_around(spec: Any) -> None:
    policy, other = TorchPolicy(spec, 0), TorchPolicy(spec, 1)
    weights = policy.get_weights()
    parameters = list(other.parameters())
    for array in weights.values():
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        array.flags.writeable = False  # as it is after crossing an actor edge
    other.set_weights(weights)
    assert all(a is b for a, b in zip(parameters, other.parameters(), strict=True))
    found = other.get_weights()
    assert all(np.array_equal(found[name], weights[name]) for name in weights)
    with torch.no_grad():
        next(policy.parameters()).add_(1)
    assert all(np.array_equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize("kind", [NumpyPolicy, TorchPolicy])
def test_weights_of_another_network_are_refused_with_the_differences(kind: Any) -> None:
    policy = kind(make_spec(hidden=(8,)))
    before = policy.get_weights()
    weights = TorchPolicy(make_spec(hidden=(9, 9))).get_weights()
    with pytest.raises(RunError) as caught:
        policy.set_weights(weights)
    message = str(caught.value)
    assert "trunk.0.weight: expected [8, 4], found [9, 4]" in message
    assert "unknown trunk.1.weight [9, 9]" in message
    assert "build both sides from equal specs" in message
    del weights["trunk.0.weight"]
    with pytest.raises(RunError, match=r"missing trunk\.0\.weight \[8, 4\]"):
        policy.set_weights(weights)
    after = policy.get_weights()
    assert all(np.array_equal(after[name], before[name]) for name in before)


def test_state_makes_the_next_actions_the_same() -> None:
    policy, other = TorchPolicy(make_spec(), 1), TorchPolicy(make_spec(), 2)
    policy.set_weights(shaken(policy.get_weights()))
    obs = vectors(policy.spec, 50)
    policy.act(obs)
    other.set_state(policy.get_state())
    assert np.array_equal(policy.act(obs)[0], other.act(obs)[0])


def test_a_step_at_a_time_or_all_at_once_is_the_same_memory() -> None:
    """What a worker did row by row is what the learner sees in one pass."""
    policy = TorchPolicy(make_spec(model="lstm", memory_size=5))
    policy.set_weights(shaken(policy.get_weights()))
    obs, state = vectors(policy.spec, 6, 3), policy.initial_state(3)
    starts = np.zeros((6, 3), bool)
    starts[0] = starts[2, 1] = starts[4, 0] = starts[4, 2] = True
    rows, first = [], state
    for t in range(6):
        actions, logp, state = policy.act_recurrent(obs[t], state, starts[t])
        rows.append((actions, logp))
    taken, logps = (np.stack(column) for column in zip(*rows, strict=True))
    logp, entropy, values, after = policy.evaluate_recurrent(obs, taken, first, starts)
    np.testing.assert_allclose(logps, logp.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(state, after.detach().numpy(), atol=1e-5)
    assert entropy.shape == values.shape == (6, 3)
    torch.testing.assert_close(policy.values_recurrent(obs, first, starts)[0], values)
    greedy, _ = policy.greedy_recurrent(obs[0], first, starts[0])
    assert greedy.shape == (3,)


def test_recurrent_q_values() -> None:
    policy = TorchPolicy(make_spec(model="lstm", head="q", dueling=True))
    q, state = policy.q_values_recurrent(
        vectors(policy.spec, 3, 2), policy.initial_state(2), np.zeros((3, 2), bool)
    )
    assert q.shape == (3, 2, 2)
    assert state.shape == (2, 2, 128)


def test_memory_is_asked_for_where_there_is_one() -> None:
    with_memory, without = TorchPolicy(make_spec(model="lstm")), TorchPolicy(make_spec())
    obs, none = vectors(without.spec, 1, 3), np.zeros((1, 3), bool)
    state = with_memory.initial_state(3)
    with pytest.raises(RunError, match="ends in _recurrent"):
        with_memory.act(obs[0])
    with pytest.raises(RunError, match="does not remember: call"):
        without.values_recurrent(obs, state, none)
    with pytest.raises(RunError, match="it has no state"):
        without.initial_state(3)
    with pytest.raises(RunError, match=r"starts must be \[1, 3\], found \[3\]"):
        with_memory.values_recurrent(obs, state, none[0])
    with pytest.raises(RunError, match=r"must be \[\.\.\., 4\] with at least one leading axis"):
        without.values(obs[0, 0])


@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_gradients_flow_through_a_step_of_adaptation(model: str) -> None:
    """The inner step of MAML, checked against a policy that has really taken the step."""
    policy = TorchPolicy(make_spec(actions=CONTINUOUS, model=model, memory_size=5))
    obs, taken = vectors(policy.spec, 4, 3), np.zeros((4, 3, 3), np.float32)
    memory = () if model == "mlp" else (np.zeros((3, 2, 5), np.float32), np.zeros((4, 3), bool))

    def loss(of: TorchPolicy) -> torch.Tensor:
        if memory:
            logp, _, values, _ = of.evaluate_recurrent(obs, taken, *memory)
            return logp.mean() + values.square().mean()
        logp, _, values = of.evaluate(obs, taken)
        torch.testing.assert_close(of.values(obs), values)
        return logp.mean() + values.square().mean()

    own = policy.named_parameters()
    gradients = torch.autograd.grad(loss(policy), list(own.values()), create_graph=True)
    stepped = {n: p - 0.1 * g for (n, p), g in zip(own.items(), gradients, strict=True)}
    with policy.using(stepped):
        inside = loss(policy)
    moved = TorchPolicy(policy.spec)
    moved.set_weights({name: tensor.detach().numpy() for name, tensor in stepped.items()})
    torch.testing.assert_close(inside, loss(moved))
    inside.backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())
    assert not torch.equal(loss(policy), inside), "outside, the policy is as it was"
