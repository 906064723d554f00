"""Actions come as often as they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.errors import RunError
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.sampling import Sampler
from tests.unit.policies.parts import CONTINUOUS, SEVERAL, TWO, make_spec, vectors

DRAWS = 40_000


def columns(*outputs: float, count: int = DRAWS) -> np.ndarray[Any, Any]:
    return np.repeat(np.array(outputs, np.float32)[:, None], count, 1)


def draw(space: Any, *outputs: float, log_std: Any = None, **more: Any) -> tuple[Any, Any]:
    head = "q" if more.pop("q", False) else "actor_critic"
    sampler = Sampler(make_spec(actions=space, head=head))
    return sampler.sample(columns(*outputs), log_std, np.random.default_rng(0), **more)


def frequencies(actions: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    return np.bincount(actions, minlength=n) / len(actions)


def test_discrete_actions_come_with_their_probability() -> None:
    p = np.array([0.5, 0.2, 0.3])
    actions, logp = draw(spaces.Discrete(3), *(np.log(p) + 7))
    assert frequencies(actions, 3) == pytest.approx(p, abs=0.01)
    np.testing.assert_allclose(logp, np.log(p)[actions], atol=1e-5)


def test_parts_of_an_action_are_independent() -> None:
    p, q = np.array([0.7, 0.3]), np.array([0.1, 0.6, 0.3])
    actions, logp = draw(spaces.MultiDiscrete([2, 3]), *np.log(p), *np.log(q))
    joint = frequencies(actions[:, 0] * 3 + actions[:, 1], 6)
    assert joint == pytest.approx(np.outer(p, q).ravel(), abs=0.01)
    np.testing.assert_allclose(logp, np.log(p[actions[:, 0]] * q[actions[:, 1]]), atol=1e-5)


def test_gaussians_have_their_mean_and_width() -> None:
    log_std = np.log(np.array([0.5, 2.0], np.float32))
    actions, _ = draw(spaces.Box(-1, 1, (2,)), 3.0, -1.0, log_std=log_std)
    assert actions.dtype == np.float32
    assert actions.mean(0) == pytest.approx([3, -1], abs=0.03)
    assert actions.std(0) == pytest.approx([0.5, 2], rel=0.02)


def test_an_action_ruled_out_is_never_taken() -> None:
    for outputs in ([-np.inf, 0, 0], [0, -np.inf, 0], [0, 0, -np.inf]):
        actions, logp = draw(spaces.Discrete(3), *outputs)
        assert frequencies(actions, 3)[np.argmin(outputs)] == 0
        np.testing.assert_allclose(logp, np.log(0.5), atol=1e-5)


class Fixed:
    """The extremes of a random number generator."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
        return np.full(shape, self.number, dtype)


def test_the_luckiest_number_does_not_take_an_action_ruled_out() -> None:
    sampler = Sampler(make_spec(actions=spaces.Discrete(5)))
    outputs = np.random.default_rng(0).uniform(-3, 3, (5, DRAWS)).astype(np.float32)
    outputs[0] = outputs[4] = -np.inf
    generators: list[Any] = [Fixed(0.0), Fixed(1 - 2**-24)]
    first, last = (sampler.sample(outputs.copy(), None, rng)[0] for rng in generators)
    assert set(first) == {1}
    assert set(last) == {3}


def test_the_luckiest_number_does_not_explore_beyond_the_last_action() -> None:
    rng: Any = Fixed(1 - 2**-24)
    for count in range(1, 600):
        sampler = Sampler(make_spec(actions=spaces.Discrete(count), head="q"))
        actions, _ = sampler.sample(columns(*[0.0] * count, count=1), None, rng, epsilon=1.0)
        assert actions[0] == count - 1


def test_epsilon_is_how_often_any_action_is_taken() -> None:
    actions, logp = draw(spaces.Discrete(4), 0, 5, 1, 1, q=True, epsilon=0.4)
    assert frequencies(actions, 4) == pytest.approx([0.1, 0.7, 0.1, 0.1], abs=0.01)
    np.testing.assert_allclose(logp, np.log(np.where(actions == 1, 0.7, 0.1)), atol=1e-5)


def test_epsilon_may_differ_between_environments() -> None:
    epsilon = np.zeros(DRAWS, np.float32)
    epsilon[::2] = 1
    actions, logp = draw(spaces.Discrete(4), 0, 5, 1, 1, q=True, epsilon=epsilon)
    assert set(actions[1::2]) == {1}
    assert logp[1] == 0
    assert frequencies(actions[::2], 4) == pytest.approx([0.25] * 4, abs=0.015)


@pytest.mark.parametrize("actions", [TWO, SEVERAL, CONTINUOUS, spaces.Box(-1, 1, (2, 2))])
def test_actions_have_the_shape_and_dtype_of_their_space(actions: Any) -> None:
    policy = NumpyPolicy(make_spec(actions=actions))
    for batch in (1, 5, 3):
        obs = vectors(policy.spec, batch)
        for found in (policy.act(obs)[0], policy.greedy(obs)):
            assert found.shape == (batch, *policy.spec.actions.shape)
            assert found.dtype == policy.spec.actions.dtype
            if not isinstance(actions, spaces.Box):
                assert all(actions.contains(action) for action in found)


def test_state_makes_the_next_actions_the_same() -> None:
    policy, other = NumpyPolicy(make_spec(), 1), NumpyPolicy(make_spec(), 2)
    obs = vectors(policy.spec, 50)
    policy.act(obs)
    other.set_state(policy.get_state())
    assert np.array_equal(policy.act(obs)[0], other.act(obs)[0])


def test_results_are_not_overwritten_by_the_next_step() -> None:
    policy = NumpyPolicy(make_spec(actions=CONTINUOUS))
    obs = vectors(policy.spec, 4)
    results = [*policy.act(obs), policy.greedy(obs), policy.outputs(obs)]
    before = [result.copy() for result in results]
    policy.act(obs + 1)
    assert all(np.array_equal(a, b) for a, b in zip(results, before, strict=True))


@pytest.mark.parametrize("choices", [{}, {"head": "q"}, {"actions": CONTINUOUS}])
def test_nan_observations_are_an_error(choices: dict[str, Any]) -> None:
    policy = NumpyPolicy(make_spec(**choices))
    obs = vectors(policy.spec, 3)
    obs[1, 2] = np.nan
    with pytest.raises(RunError, match="not finite: there is NaN or infinity in the observations"):
        policy.act(obs)


def test_observations_of_another_shape_are_an_error() -> None:
    with pytest.raises(RunError, match=r"must be \[B, 4\], one per environment; found \[4\]"):
        NumpyPolicy(make_spec()).act(np.zeros(4, np.float32))


@pytest.mark.parametrize("count", [1, 2, 3, 18, 40])
def test_actions_are_those_of_the_plain_formula(count: int) -> None:
    """The shortcuts for few actions change neither an action nor the last bit of a probability."""
    rng = np.random.default_rng(count)
    logits = rng.standard_normal((count, 50), np.float32)
    logits[rng.random(logits.shape) < 0.2] = -np.inf
    logits[0] = 0.5
    shifted = logits - logits.max(0)
    cumulative = np.cumsum(np.exp(shifted), 0)
    uniform = np.random.default_rng(1).random(50, np.float32) * cumulative[-1]
    actions = (cumulative[:-1] <= uniform).sum(0)
    logp = shifted[actions, np.arange(50)] - np.log(cumulative[-1])
    sampler = Sampler(make_spec(actions=spaces.Discrete(count)))
    found, found_logp = sampler.sample(logits, None, np.random.default_rng(1))
    assert np.array_equal(found, actions)
    assert found.dtype == np.int64
    assert np.array_equal(found_logp, logp)
    assert found_logp.dtype == np.float32


def test_the_order_of_observations_in_memory_changes_no_bit() -> None:
    """A run that is resumed has them in another order than the environment left them in."""
    policy = NumpyPolicy(make_spec())
    obs = np.random.default_rng(0).standard_normal((37, *policy.spec.observation_shape), np.float32)
    assert np.array_equal(policy.outputs(obs), policy.outputs(np.asfortranarray(obs)))
