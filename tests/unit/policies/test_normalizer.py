"""Statistics of observations: by hand, in any order, and in both frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import given
from hypothesis import strategies as st

from rillflow.errors import BuildError
from rillflow.policies.fitting import check_fit
from rillflow.policies.make import first_weights, make_actor
from rillflow.policies.normalizer import (
    LEAST,
    MOST,
    Moments,
    Normalizer,
    as_buffers,
    moments_in,
    seen_by,
)
from rillflow.policies.saved import load_policy, save_policy
from rillflow.policies.spec import PolicySpec
from rillflow.policies.torch_normalizer import TorchNormalizer
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.policies.try_policy import exercise
from tests.unit.policies.test_spec import HALF_BOUNDED, IMAGE, make_spec


def test_moments_by_hand() -> None:
    """Of 1, 3 and of 2, 4, 9: together a mean of 3.8 and a variance of 38.8 / 5."""
    one, other = (Moments.of(np.array(rows, np.float32)) for rows in ([1, 3], [2, 4, 9]))
    assert (one.mean, one.variance, one.count) == (2.0, 1.0, 2.0)
    both = one.joined(other)
    assert (both.mean, both.count) == (pytest.approx(3.8), 5.0)
    assert both.variance == pytest.approx(7.76)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_rows_may_come_in_any_pieces(seed: int, sizes: list[int]) -> None:
    """Joined piece by piece the moments are those of all rows, however far these are from 0."""
    rng = np.random.default_rng(seed)
    rows = (1e5 + rng.standard_normal((sum(sizes), 2, 3)) * [1e-2, 1, 1e3]).astype(np.float32)
    joined = Moments.none((2, 3))
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        joined = joined.joined(Moments.of(rows[end - size : end]))
    whole = Moments.of(rows)
    assert joined.count == whole.count == sum(sizes)
    np.testing.assert_allclose(joined.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(joined.variance, whole.variance, rtol=1e-8)


def test_rows_that_are_not_finite_do_not_count() -> None:
    rows = np.array([[1.0, 2.0], [np.nan, 7.0], [3.0, 4.0], [0.0, np.inf]])
    found = Moments.of(rows)
    assert (found.mean.tolist(), found.count) == ([2.0, 3.0], 2.0)
    assert Moments.of(rows[1:2]).count == Moments.of(rows[:0]).count == 0.0
    assert found.joined(Moments.of(rows[3:])) is found


def test_normalised_observations_by_hand() -> None:
    """(5 - 1) / 2, and nothing beyond 10; before anything was seen they stay as they are."""
    moments = Moments(np.array([1.0, 0.0]), np.array([4.0, 0.0]), 3.0)
    rows = np.array([[5, 1], [-99, 0]], np.float32)
    expected = [[2, 10], [-10, 0]]
    np.testing.assert_allclose(Normalizer(moments)(rows), expected, rtol=1e-6)
    in_torch = TorchNormalizer((2,))
    assert torch.equal(in_torch(torch.tensor([[3.0, -7.0]])), torch.tensor([[3.0, -7.0]]))
    in_torch.set(moments)
    np.testing.assert_allclose(in_torch(torch.from_numpy(rows)), expected, rtol=1e-6)
    assert in_torch.moments.count == 3.0


def test_loosely_only_what_is_far_from_ordinary_moves() -> None:
    """Ordinary, far from 0, wide, narrow, and constant: mean and deviation as they are seen."""
    mean = np.array([1.2, 1000.0, -40.0, 0.0, 7.0])
    deviation = np.array([0.4, 2.0, 30.0, 1e-2, 0.0])
    moments = Moments(mean, deviation**2, 50.0)
    in_numpy, in_torch = Normalizer(moments, loosely=True), TorchNormalizer((5,), loosely=True)
    in_torch.set(moments)
    rows = np.stack([mean, mean + deviation]).astype(np.float32)
    for found in (in_numpy(rows), in_torch(torch.from_numpy(rows)).numpy()):
        np.testing.assert_allclose(found[0], [1.2, 3.0, -3.0, 0.0, 3.0], rtol=1e-4, atol=1e-4)
        apart = found[1] - found[0]
        np.testing.assert_allclose(apart, [0.4, 2.0, 3.0, 0.3, 0.0], rtol=1e-3, atol=1e-4)
    ordinary = Normalizer(Moments(np.array([2.9, -1]), np.array([0.1, 8.0]), 5.0), loosely=True)
    assert (ordinary.middle.tolist(), ordinary.factor.tolist()) == ([0.0, 0.0], [1.0, 1.0])


@given(st.integers(0, 2**32))
def test_loosely_seen_numbers_are_of_ordinary_size(seed: int) -> None:
    """Whatever the mean and the deviation are, what is seen of them lies between the ends."""
    rng = np.random.default_rng(seed)
    mean, deviation = (
        rng.standard_normal(9) * 10.0 ** rng.integers(-6, 6, 9),
        10.0 ** rng.uniform(-2, 6, 9),
    )
    middle, factor = seen_by(Moments(mean, deviation**2, 3.0), loosely=True)
    assert (np.abs((mean - middle) * factor) <= MOST * (1 + 1e-6)).all()
    assert ((deviation * factor >= LEAST * (1 - 1e-3)) & (deviation * factor <= MOST * 1.001)).all()


def test_a_policy_that_normalises_loosely_is_saved_as_such(tmp_path: Path) -> None:
    spec = make_spec(HALF_BOUNDED, normalize_observations="loosely")
    save_policy(tmp_path / "p.npz", spec, seen(spec), {})
    found, weights, _ = load_policy(tmp_path / "p.npz")
    assert found == spec
    obs = 500 + 100 * np.random.default_rng(0).standard_normal((7, *spec.observation_shape))
    outputs = []
    for one, known in ((found, weights), (spec, seen(spec))):
        actor = make_actor(one)
        actor.set_weights(known)
        outputs.append(actor.outputs(obs))
    np.testing.assert_array_equal(*outputs)
    strictly = make_actor(make_spec(HALF_BOUNDED, normalize_observations=True))
    strictly.set_weights(weights)
    assert not np.allclose(strictly.outputs(obs), outputs[0])


def test_another_word_for_it_is_refused() -> None:
    with pytest.raises(BuildError, match="False, True, loosely, got 'loose'; did you mean 'loose"):
        make_spec(HALF_BOUNDED, normalize_observations="loose")


@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_statistics_are_among_the_weights_and_no_parameters(model: str) -> None:
    spec = make_spec(HALF_BOUNDED, normalize_observations=True, model=model)
    weights = first_weights(spec, 3)
    assert weights["normalizer.mean"].shape == spec.observation_shape
    assert weights["normalizer.count"] == 0.0
    policy = TorchPolicy(spec, 3)
    assert policy.get_weights().keys() == weights.keys()
    assert not any(name.startswith("normalizer") for name in policy.named_parameters())
    check_fit(spec, weights)
    del weights["normalizer.mean"]
    with pytest.raises(BuildError, match=r"missing normalizer\.mean"):
        check_fit(spec, weights)


def seen(spec: PolicySpec) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    moments = Moments(
        rng.normal(500, 100, spec.observation_shape),
        rng.uniform(0.1, 1e4, spec.observation_shape),
        7.0,
    )
    return first_weights(spec, 3) | as_buffers(moments)


def test_pixels_that_are_seen_flat_are_normalised_and_not_scaled() -> None:
    """In both frameworks; what an mlp does with bytes otherwise is to divide by 255."""
    space = Box(0, 255, (3, 3, 2), np.uint8)
    spec = make_spec(space, normalize_observations=True)
    moments = Moments(np.full(space.shape, 100.0), np.full(space.shape, 2500.0), 9.0)
    weights = first_weights(spec, 3) | as_buffers(moments)
    fast, slow = make_actor(spec), TorchPolicy(spec)
    fast.set_weights(weights)
    slow.set_weights(weights)
    obs = np.random.default_rng(0).integers(0, 256, (5, 3, 3, 2), np.uint8)
    np.testing.assert_allclose(fast.outputs(obs), slow.outputs(obs).detach(), atol=1e-6)
    plain = TorchPolicy(make_spec(Box(-np.inf, np.inf, (3, 3, 2), np.float32)))
    plain.set_weights({n: w for n, w in weights.items() if not n.startswith("normalizer")})
    by_hand = ((obs.astype(np.float32) - 100) / 50).astype(np.float32)
    np.testing.assert_allclose(fast.outputs(obs), plain.outputs(by_hand).detach(), atol=1e-6)


@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_a_normalised_network_can_be_exercised(model: str) -> None:
    """From its space alone: purity, weights, and NumPy beside torch."""
    assert "weights survive a round trip" in str(
        exercise(make_spec(normalize_observations=True, model=model))
    )


@pytest.mark.parametrize("how", [True, "loosely"])
@pytest.mark.parametrize("head", ["actor_critic", "q"])
def test_numpy_and_torch_see_the_same(head: str, how: Any) -> None:
    space = Box(-np.inf, np.inf, (2, 3), np.float64)
    spec = make_spec(space, head=head, normalize_observations=how)
    weights = seen(spec)
    fast, slow = make_actor(spec), TorchPolicy(spec)
    fast.set_weights(weights)
    slow.set_weights(weights)
    rng = np.random.default_rng(2)
    obs = weights["normalizer.mean"] + 300 * rng.standard_normal((9, 2, 3))
    np.testing.assert_allclose(fast.outputs(obs), slow.outputs(obs).detach(), atol=1e-5)
    plain = TorchPolicy(make_spec(space, head=head))
    plain.set_weights({n: w for n, w in weights.items() if not n.startswith("normalizer")})
    by_hand = Normalizer(moments_in(weights), how == "loosely")(obs.reshape(9, -1)).reshape(9, 2, 3)
    np.testing.assert_allclose(slow.outputs(obs).detach(), plain.outputs(by_hand).detach())
    if head == "actor_critic":
        np.testing.assert_allclose(slow.values(obs).detach(), plain.values(by_hand).detach())
    state = fast.get_state()["weights"]
    assert np.array_equal(state["normalizer.variance"], weights["normalizer.variance"])


def test_a_network_of_ones_own_is_called_with_normalised_observations() -> None:
    class Own(torch.nn.Module):
        def __init__(self, spec: PolicySpec) -> None:
            super().__init__()
            self.out = torch.nn.Linear(4, spec.actions.width)

        def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.out(obs), obs.sum(-1)

    spec = make_spec(model=Own, normalize_observations=True)
    policy = TorchPolicy(spec)
    moments = Moments(np.full(4, 100.0), np.full(4, 25.0), 1.0)
    policy.set_weights(policy.get_weights() | as_buffers(moments))
    found = policy.values(np.full((2, 4), 110, np.float32))
    np.testing.assert_allclose(found.detach(), [8.0, 8.0], rtol=1e-6)

    class Taken(Own):
        def __init__(self, spec: PolicySpec) -> None:
            super().__init__(spec)
            self.normalizer = torch.nn.Identity()

    with pytest.raises(BuildError, match="`normalizer` of its own"):
        TorchPolicy(make_spec(model=Taken, normalize_observations=True))


def test_what_cannot_be_normalised_is_refused() -> None:
    with pytest.raises(BuildError, match="set one of the two to False"):
        make_spec(HALF_BOUNDED, normalize_observations=True, scale_observations=True)
    with pytest.raises(BuildError, match="not for images"):
        PolicySpec(
            observation_space=IMAGE,
            action_space=Discrete(2),
            model="cnn",
            normalize_observations=True,
        )
