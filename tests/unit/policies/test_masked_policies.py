"""A mask of actions in a policy: what is forbidden has no chance, in NumPy and in torch alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rillflow.envs.layout import Structured
from rillflow.envs.mixed_box import MixedBox
from rillflow.envs.spaces import choices_of, observations_of
from rillflow.learning.numpy_network import Network
from rillflow.learning.tape import Tape
from rillflow.policies.action_masks import RULED_OUT
from rillflow.policies.exploration_schedules import Place
from rillflow.policies.explorers import EpsilonGreedy, Sampled, random_actions
from rillflow.policies.make import make_actor
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.try_policy import exercise

MASK = np.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 1]], bool)
SEEN = np.array([[0.5, -1], [2, 0], [0, 1]], np.float32)
OBS = np.concatenate([SEEN, MASK.astype(np.float32)], 1)
LOGITS = np.array([0.3, 9.0, -0.2, 1.1], np.float32)


def space(choices: int) -> Structured:
    raw = Dict({"seen": Box(-9, 9, (2,), np.float32), "action_mask": MultiBinary(choices)})
    found = observations_of(raw, "x", choices).space
    assert isinstance(found, Structured)
    return found


def spec(actions: Any = None, **choices: Any) -> PolicySpec:
    actions = Discrete(4) if actions is None else actions
    known = {
        "observation_space": space(sum(choices_of(actions))),
        "action_space": actions,
        "hidden": (3,),
    }
    return PolicySpec(**{**known, **choices})


def with_logits(policy: Any, logits: Any = LOGITS) -> Any:
    """The same policy, whose outputs are these for every observation."""
    weights = dict(policy.get_weights())
    weights["action_head.weight"] = 0 * weights["action_head.weight"]
    weights["action_head.bias"] = np.array(logits, np.float32)
    policy.set_weights(weights)
    return policy


def true_p(mask: Any, logits: Any = LOGITS) -> Any:
    """The probabilities, by hand: those of what is allowed, divided by their sum."""
    e = [math.exp(x) if fine else 0.0 for x, fine in zip(logits, mask, strict=True)]
    return np.array(e) / sum(e)


def evaluated(kind: Any, spec: PolicySpec, obs: Any, taken: Any, logits: Any = LOGITS) -> Any:
    found = with_logits(kind(spec), logits).evaluate(
        *(map(torch.tensor, (obs, taken)) if kind is TorchPolicy else (obs, taken))
    )
    return [np.asarray(x.detach() if isinstance(x, torch.Tensor) else x) for x in found]


@pytest.mark.parametrize("kind", [TorchPolicy, Network])
def test_log_probabilities_and_entropies_are_those_among_what_is_allowed(kind: Any) -> None:
    logp, entropy, _ = evaluated(kind, spec(), OBS, np.array([3, 2, 1]))
    for i, action in enumerate((3, 2, 1)):
        p = true_p(MASK[i])
        np.testing.assert_allclose(logp[i], math.log(p[action]), atol=1e-6)
        np.testing.assert_allclose(entropy[i], -sum(q * math.log(q) for q in p if q), atol=1e-6)
    assert entropy[1] == 0
    assert logp[1] == 0


@pytest.mark.parametrize("kind", [TorchPolicy, Network])
def test_of_several_choices_each_has_its_own_part_of_the_mask(kind: Any) -> None:
    actions, mask = MultiDiscrete([2, 3]), np.array([[0, 1, 1, 0, 1]], bool)
    logits = np.array([5.0, -1.0, 0.4, 7.0, 0.1], np.float32)
    obs = np.concatenate([SEEN[:1], mask], 1, dtype=np.float32)
    logp, entropy, _ = evaluated(kind, spec(actions), obs, np.array([[1, 2]]), logits)
    p = true_p(mask[0, 2:], logits[2:])
    np.testing.assert_allclose(logp, [math.log(p[2])], atol=1e-6)
    np.testing.assert_allclose(entropy, [-sum(q * math.log(q) for q in p if q)], atol=1e-6)


def test_gradients_are_finite_alike_and_none_where_it_is_forbidden() -> None:
    """Also of a row in which nothing is allowed, as behind the last step of an episode."""
    one = spec(hidden=(4, 4))
    mine, theirs = Network(one, 1), TorchPolicy(one, 1)
    obs, taken = np.vstack([OBS, [1, 1, 0, 0, 0, 0]]).astype(np.float32), np.array([3, 2, 1, 0])
    mine.tape = Tape()
    logp, entropy, values = mine.evaluate(obs, taken)
    mine.begin(True)
    mine.tape.backward((logp + 0.3 * entropy + values).sum())
    mine.end()
    found = theirs.evaluate(torch.tensor(obs), torch.tensor(taken))
    (found[0] + 0.3 * found[1] + found[2]).sum().backward()
    for name, parameter in theirs.model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        np.testing.assert_allclose(mine.gradients[name], parameter.grad.numpy(), atol=1e-5)


def test_gradients_of_q_values_are_alike_and_none_where_it_is_forbidden() -> None:
    for dueling in (False, True):
        one = spec(head="q", dueling=dueling)
        mine, theirs = Network(one, 1), TorchPolicy(one, 1)
        mine.tape = Tape()
        q = mine.q_values(OBS)
        mine.begin(True)
        mine.tape.backward(q.square().mean())
        mine.end()
        found = theirs.q_values(torch.tensor(OBS))
        np.testing.assert_allclose(q.value, found.detach().numpy(), atol=1e-5)
        assert (q.value[~MASK] == RULED_OUT).all()
        found.square().mean().backward()
        for name, parameter in theirs.model.named_parameters():
            assert parameter.grad is not None
            np.testing.assert_allclose(mine.gradients[name], parameter.grad.numpy(), atol=1e-5)


@pytest.mark.parametrize("make", [NumpyPolicy, TorchPolicy])
def test_what_is_drawn_is_allowed_and_as_likely_as_it_should_be(make: Any) -> None:
    policy = with_logits(make(spec(), 1))
    obs = np.repeat(OBS, 4000, 0)
    actions, logp = policy.act(obs)
    rows = np.repeat(np.arange(3), 4000)
    assert MASK[rows, actions].all()
    for i in range(3):
        share = np.bincount(actions[rows == i], minlength=4) / 4000
        np.testing.assert_allclose(share, true_p(MASK[i]), atol=0.03)
    p = np.stack([true_p(mask) for mask in MASK])
    np.testing.assert_allclose(logp, np.log(p[rows, actions]), atol=1e-5)
    assert policy.greedy(OBS).tolist() == [3, 2, 1]


@pytest.mark.parametrize("make", [NumpyPolicy, TorchPolicy])
def test_exploring_takes_any_of_what_is_allowed_alike(make: Any) -> None:
    policy = with_logits(make(spec(head="q"), 1))
    rows = np.repeat(np.arange(3), 4000)
    actions, logp = policy.act(OBS[rows], 0.5)
    for i, best in enumerate((3, 2, 1)):
        true = 0.5 * MASK[i] / MASK[i].sum() + 0.5 * (np.arange(4) == best)
        share = np.bincount(actions[rows == i], minlength=4) / 4000
        np.testing.assert_allclose(share, true, atol=0.03)
        np.testing.assert_allclose(logp[rows == i], np.log(true[actions[rows == i]]), atol=1e-5)


def test_random_steps_are_allowed_ones() -> None:
    for actions, mask in (
        (Discrete(4), np.repeat(MASK, 3000, 0)),
        (MultiDiscrete([2, 3]), np.repeat([[1, 0, 0, 1, 1]], 3000, 0) > 0),
    ):
        one = spec(actions)
        drawn = random_actions(one, len(mask), np.random.default_rng(0), mask)
        ends = np.cumsum([0, *one.actions.sizes[:-1]])
        parts = drawn.reshape(len(mask), -1) + ends
        assert np.take_along_axis(mask, parts, 1).all()
        for column in parts.T:
            share = np.bincount(column, minlength=mask.shape[1]) / len(mask)
            fine = share[share > 0]
            assert fine.min() > 0.07


def test_explorers_keep_to_the_mask() -> None:
    for explorer in (Sampled(random_first=100), EpsilonGreedy(lambda place, steps: 1.0)):
        one = spec(head="q" if isinstance(explorer, EpsilonGreedy) else "actor_critic")
        exploring = explorer.begin(one, Place())
        exploring.start(0)
        obs = np.repeat(OBS, 200, 0)
        actions, _, _ = exploring.act(NumpyPolicy(one), obs, np.zeros(len(obs), bool))
        assert np.repeat(MASK, 200, 0)[np.arange(len(obs)), actions].all()


@pytest.mark.parametrize("head", ["actor_critic", "q"])
def test_nothing_allowed_is_no_number_nowhere(head: Any) -> None:
    """The observation behind the last step is acted on by nobody, and valued."""
    obs = np.zeros((5, 6), np.float32)
    for policy in (NumpyPolicy(spec(head=head)), TorchPolicy(spec(head=head))):
        actions, logp = policy.act(obs, 0.3) if head == "q" else policy.act(obs)
        assert np.isfinite(logp).all()
        assert ((actions >= 0) & (actions < 4)).all()
        assert np.isfinite(np.asarray(policy.greedy(obs))).all()


def test_a_mask_is_no_feature() -> None:
    """Weights are those of a policy that sees the rest alone, and values do not change with it."""
    masked = TorchPolicy(spec(), 1)
    plain = TorchPolicy(
        PolicySpec(
            observation_space=Box(-9, 9, (2,), np.float32), action_space=Discrete(4), hidden=(3,)
        ),
        1,
    )
    for name, weight in plain.get_weights().items():
        np.testing.assert_array_equal(masked.get_weights()[name], weight)
    values = masked.values(torch.tensor(OBS))
    np.testing.assert_array_equal(values.detach(), plain.values(torch.tensor(SEEN)).detach())


def test_a_users_update_can_ask_for_the_mask() -> None:
    for policy in (NumpyPolicy(spec()), Network(spec())):
        np.testing.assert_array_equal(policy.action_mask(OBS), MASK)
    for obs in (OBS, OBS.reshape(3, 1, 6)):
        mask = TorchPolicy(spec()).action_mask(torch.tensor(obs))
        assert mask is not None
        np.testing.assert_array_equal(mask.reshape(3, 4), MASK)
    plain = PolicySpec(observation_space=Box(-1, 1, (2,)), action_space=Discrete(2))
    assert TorchPolicy(plain).action_mask(SEEN) is None


@pytest.mark.parametrize(
    "choices",
    [{}, {"head": "q", "dueling": True}, {"model": "lstm", "memory_size": 4}, {"shared": True},
     {"actions": MultiDiscrete([2, 3])}, {"scale_observations": True}],
    ids=str,
)  # fmt: skip
def test_policies_with_masks_do_what_is_promised(choices: dict[str, Any]) -> None:
    exercise(spec(**choices))
    assert make_actor(spec(**choices)).spec.masked


def test_numbers_beside_choices_are_never_forbidden() -> None:
    """A mask of mixed actions is one of their choices: drawn, greedy and evaluated alike."""
    actions = MixedBox([2, 2], [-1.0], [1.0])
    known = spec(actions)
    numpy, torch_ = NumpyPolicy(known), TorchPolicy(known)
    torch_.set_weights(numpy.get_weights() | torch_.get_weights())
    numpy.set_weights(torch_.get_weights())
    mask = np.tile(np.array([0, 1, 1, 0], np.float32), (50, 1))
    obs = np.concatenate([np.ones((50, 2), np.float32), mask], 1)
    for policy in (numpy, torch_):
        drawn, logp = policy.act(obs)
        assert drawn[:, :2].tolist() == [[1, 0]] * 50
        assert len(np.unique(drawn[:, 2])) == 50
        evaluated = torch_.evaluate(obs, drawn)[0].detach().numpy()
        np.testing.assert_allclose(logp, evaluated, rtol=1e-5, atol=1e-5)
        assert policy.greedy(obs)[:, :2].tolist() == [[1, 0]] * 50
    chosen = random_actions(known, 50, np.random.default_rng(0), numpy.action_mask(obs))
    assert chosen[:, :2].tolist() == [[1, 0]] * 50
    assert np.abs(chosen[:, 2]).max() <= 1


def test_a_mask_reaches_gradients_of_mixed_actions_in_both_frameworks() -> None:
    known = spec(MixedBox([2, 2], [-1.0], [1.0]))
    network, policy = Network(known), TorchPolicy(known)
    network.set_weights(policy.get_weights())
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.float32)
    obs = np.concatenate([SEEN[:2], mask], 1)
    taken = np.array([[0, 1, 0.4], [1, 0, -0.9]], np.float32)
    network.tape = Tape()
    logp, entropy, _ = network.evaluate(obs, taken)
    network.begin(True)
    network.tape.backward((logp + entropy * 0.5).sum())
    network.end()
    in_torch = policy.evaluate(obs, taken)
    (in_torch[0] + 0.5 * in_torch[1]).sum().backward()
    for name, parameter in policy.model.named_parameters():
        found = network.gradients[name]
        expected = np.zeros_like(found) if parameter.grad is None else parameter.grad.numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=name)
