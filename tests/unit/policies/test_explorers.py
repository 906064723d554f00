"""Explorers: what each does to a policy's actions, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.algorithms import apex, apex_ddpg, ddpg, dqn, sac, td3
from rillflow.policies.exploration_schedules import Place, falling
from rillflow.policies.explorers import (
    EpsilonGreedy,
    Gaussian,
    OrnsteinUhlenbeck,
    Sampled,
    random_actions,
    within,
)
from rillflow.policies.spec import PolicySpec

BOUNDS = spaces.Box(np.float32([-1, 0]), np.float32([1, 10]), (2,), np.float32)
SPEC = PolicySpec(
    observation_space=spaces.Box(-9, 9, (3,), np.float32),
    action_space=BOUNDS,
    head="deterministic",
)
MIDDLE = np.float32([[0, 5]])


class Ones:
    """A generator whose every draw is 1."""

    def standard_normal(self, shape: Any, dtype: Any = None) -> Any:
        return np.ones(shape, np.float32)


class Policy:
    """Always the middle action; draws are -0.5 and 2.5."""

    def __init__(self, rng: Any = None) -> None:
        self.rng = rng or np.random.default_rng(0)
        self.asked: list[Any] = []

    def greedy(self, obs: Any) -> Any:
        return np.repeat(MIDDLE, len(obs), 0)

    def act(self, obs: Any, epsilon: float = 0.0) -> Any:
        self.asked.append(epsilon)
        return np.repeat(np.float32([[-0.5, 2.5]]), len(obs), 0), np.full(len(obs), -1.0)


OBS = np.zeros((4, 3), np.float32)
NO = np.zeros(4, bool)


def test_sampled_actions_are_the_policys_own() -> None:
    exploring = Sampled().begin(SPEC, Place())
    exploring.start(0)
    actions, logp, more = exploring.act(Policy(), OBS, NO)
    assert actions.tolist() == [[-0.5, 2.5]] * 4
    assert (logp.tolist(), more) == ([-1.0] * 4, {})


@pytest.mark.parametrize("explorer", [Sampled, Gaussian, OrnsteinUhlenbeck])
def test_the_first_steps_of_all_workers_together_are_random(explorer: Any) -> None:
    """100 of two workers are 50 of each; random actions fill the bounds."""
    exploring = explorer(random_first=100).begin(SPEC, Place(1, 2))
    found = []
    for steps in (0, 49, 50, 51):
        exploring.start(steps)
        found.append(exploring.at_random)
    assert found == [True, True, False, False]
    exploring.start(0)
    actions, logp, _ = exploring.act(
        Policy(), np.zeros((2000, 3), np.float32), np.zeros(2000, bool)
    )
    assert (actions.min(0) < [-0.98, 0.1]).all()
    assert (actions.max(0) > [0.98, 9.9]).all()
    assert actions.mean(0) == pytest.approx([0, 5], abs=0.25)
    assert logp.shape == (2000,)


@pytest.mark.parametrize(("algorithm", "steps"), [(sac, 700), (td3, 700), (ddpg, 700)])
def test_continuous_algorithms_begin_at_random(algorithm: Any, steps: int) -> None:
    assert algorithm.Config(learning_starts=steps).explorer().random_first == steps


def test_epsilon_is_the_rate_of_the_fragment() -> None:
    exploring = EpsilonGreedy(falling(1.0, 0.2, 100)).begin(SPEC, Place(0, 2))
    policy = Policy()
    for steps in (0, 25, 50, 10**6):
        exploring.start(steps)
        exploring.act(policy, OBS, NO)
    assert policy.asked == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_workers_of_apex_have_rates_of_their_own() -> None:
    """0.4 to the power of 1, 4.5 and 8, whatever the steps; one alone has the first."""
    rate = apex.Config().explorer().rate  # type: ignore[attr-defined]
    found = [rate(Place(i, 3), steps) for i in range(3) for steps in (0, 10**6)]
    assert found == pytest.approx([0.4, 0.4, 0.4**4.5, 0.4**4.5, 0.4**8, 0.4**8])
    assert rate(Place(), 0) == 0.4


def test_workers_of_apex_ddpg_have_noise_of_their_own() -> None:
    """0.4 to the power of 1, 4.5 and 8, counted from the first worker, of either kind of noise."""
    for noise in ("gaussian", "ornstein_uhlenbeck"):
        explorer = apex_ddpg.Config(noise=noise).explorer()
        moved = []
        for worker in range(3):
            exploring = explorer.begin(SPEC, Place(worker, 3))
            exploring.start(10**6)
            actions, _, _ = exploring.act(Policy(Ones()), OBS, ~NO)
            moved.append(float(actions[0, 0]))
        assert moved == pytest.approx([0.4, 0.4**4.5, 0.4**8], rel=1e-5)
        exploring = explorer.begin(SPEC, Place())
        exploring.start(10**6)
        assert exploring.act(Policy(Ones()), OBS, ~NO)[0][0, 0] == pytest.approx(0.4)


def test_rates_of_dqn_fall_by_the_steps_of_all_workers() -> None:
    rate = dqn.Config(initial_epsilon=1.0, final_epsilon=0.5, epsilon_timesteps=100).explorer().rate  # type: ignore[attr-defined]
    assert [rate(Place(0, 4), n) for n in (0, 5, 25, 99)] == pytest.approx([1.0, 0.9, 0.5, 0.5])


def test_gaussian_noise_is_counted_where_bounds_are_one() -> None:
    """A draw of 1 at scale 0.1 moves by 0.1 of half the way between the bounds: 0.1 and 0.5."""
    exploring = Gaussian(0.1).begin(SPEC, Place())
    actions, logp, more = exploring.act(Policy(Ones()), OBS, NO)
    np.testing.assert_allclose(actions, [[0.1, 5.5]] * 4, rtol=1e-6)
    assert (logp.tolist(), more) == ([0.0] * 4, {})


def test_gaussian_noise_stays_in_bounds() -> None:
    exploring = Gaussian(5.0).begin(SPEC, Place())
    actions, _, _ = exploring.act(Policy(), np.zeros((500, 3), np.float32), np.zeros(500, bool))
    assert actions.dtype == np.float32
    assert all(BOUNDS.contains(action) for action in actions)
    assert (actions == BOUNDS.low).any()
    assert (actions == BOUNDS.high).any()


def test_noise_drifts_and_begins_anew_with_an_episode() -> None:
    """Pushes of 0.2, of which 0.25 is taken back: 0.2, 0.35, then 0.2 again where one begins."""
    exploring = OrnsteinUhlenbeck(scale=0.2, theta=0.25).begin(SPEC, Place())
    policy = Policy(Ones())
    moved = []
    for starts in ([True] * 4, [False] * 4, [False, False, True, True]):
        actions, _, _ = exploring.act(policy, OBS, np.array(starts))
        moved.append(actions[:, 0].tolist())
    assert moved[0] == pytest.approx([0.2] * 4)
    assert moved[1] == pytest.approx([0.35] * 4)
    assert moved[2] == pytest.approx([0.4625, 0.4625, 0.2, 0.2])


def test_what_noise_has_come_to_is_saved() -> None:
    explorer = OrnsteinUhlenbeck(scale=0.2, theta=0.25)
    one, other = (explorer.begin(SPEC, Place()) for _ in range(2))
    one.act(Policy(), OBS, NO)
    other.set_state(one.get_state())
    results = [each.act(Policy(), OBS, NO)[0] for each in (one, other)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.Discrete(3), np.integer),
        (spaces.MultiDiscrete([2, 4]), np.integer),
        (spaces.Box(-2, 1, (2, 3), np.float32), np.floating),
    ],
)
def test_random_actions_are_those_of_the_space(space: Any, kind: Any) -> None:
    spec = PolicySpec(observation_space=SPEC.observation_space, action_space=space)
    actions = random_actions(spec, 200, np.random.default_rng(0))
    assert actions.shape == (200, *space.shape)
    assert np.issubdtype(actions.dtype, kind)
    assert all(space.contains(action) for action in actions.astype(space.dtype))


def test_actions_of_two_axes_get_noise_of_their_own() -> None:
    space = spaces.Box(-1, 1, (2, 3), np.float32)
    spec = PolicySpec(
        observation_space=SPEC.observation_space, action_space=space, head="deterministic"
    )
    noise = np.arange(6, dtype=np.float32)[None] / 10
    moved = within(spec, np.zeros((1, 2, 3), np.float32), noise)
    np.testing.assert_allclose(moved, noise.reshape(1, 2, 3))
