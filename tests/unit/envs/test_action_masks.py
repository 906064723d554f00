"""Masks of actions, wherever an environment says them, are in the observations that act."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rillflow.envs import EnvError, Envs, make_envs
from rillflow.envs.layout import Layout, layout_of
from rillflow.errors import BuildError
from tests.masked import LENGTH, Beside, Gate, Pairs

KINDS = {"inside": Gate, "beside": Beside}
WAYS = ["ours", *AutoresetMode]


def envs_of(kind: Any, way: Any, num_envs: int = 3, seed: int = 0) -> Envs:
    if way == "ours":
        return make_envs(kind, num_envs, seed=seed)
    return make_envs(SyncVectorEnv([kind] * num_envs, autoreset_mode=way), num_envs, seed=seed)


def layout(envs: Envs) -> Layout:
    found = layout_of(envs.observation_space)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_mask_that_comes_is_that_of_the_next_action(kind: Any, way: Any) -> None:
    """An environment that raises at what is forbidden never does, and what is shown is right."""
    envs = envs_of(kind, way)
    parts, rng = layout(envs), np.random.default_rng(0)
    assert parts.mask_size == 5
    obs, finals = envs.reset(), 0
    for _ in range(60):
        masks = parts.mask(obs)
        assert all(masks[i, obs[i, :5].argmax()] or not masks[i].any() for i in range(3))
        actions = np.array([rng.choice(np.flatnonzero(m)) if m.any() else 0 for m in masks])
        step = envs.step(actions)
        if step.next_obs is not None:
            ended = step.terminated
            finals += int(ended.sum())
            unsaid = parts.mask(step.next_obs[ended])
            assert (unsaid == (kind is Beside)).all()  # none is allowed, or nobody says it
        obs = step.obs
    assert finals or way in ("ours", AutoresetMode.NEXT_STEP)
    assert {length for _, length in envs.pop_episodes()} == {LENGTH}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_first_reset_that_was_made_to_look_is_the_one_that_is_asked_for(kind: Any) -> None:
    """Who asks for the space first sees the same episodes as who does not."""
    asked, plain = envs_of(kind, "ours", seed=3), envs_of(kind, "ours", seed=3)
    shape = asked.observation_space.shape
    np.testing.assert_array_equal(asked.reset(), plain.reset())
    assert plain.observation_space.shape == shape == (10,)


def test_masks_can_be_switched_off() -> None:
    for kind, shape in ((Gate, (10,)), (Beside, (5,))):
        envs = make_envs(kind, 1, action_masks=False)
        found = layout_of(envs.observation_space)
        assert found is None or not found.mask_size
        assert envs.reset().shape[1:] == shape


def test_taxi_says_what_it_allows() -> None:
    envs = make_envs("Taxi-v4", 4)
    assert str(envs.observation_space) == "Structured(observation one-hot 500, a mask of 6 choices)"
    single: Any = envs.vector.envs[0].unwrapped
    masks = layout(envs).mask(envs.reset())
    np.testing.assert_array_equal(masks[0], single.action_mask(single.s).astype(bool))


def go(envs: Envs, steps: int) -> None:
    """The first allowed action of each copy, so many times."""
    for _ in range(steps):
        envs.step(layout(envs).mask(envs.obs).argmax(1))


class Stuck(Gate):
    """Allows nothing from its third observation on."""

    def _look(self, over: bool = False) -> Any:
        seen, info = super()._look(over)
        if getattr(self, "time", 0) >= 2:
            seen["action_mask"] = 0 * self.mask
        return seen, info


class StuckPart(Pairs):
    """Allows nothing for its second choice."""

    def _look(self) -> Any:
        seen = super()._look()
        seen["action_mask"][2:] = 0
        return seen


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_mask_that_allows_nothing_names_environment_and_step(way: Any) -> None:
    envs = envs_of(Stuck, way, 1)
    envs.reset()
    with pytest.raises(EnvError, match=r"'\w+' \(index 0\) at step 2: action_mask: .* found none"):
        go(envs, 4)


def test_each_choice_needs_an_allowed_one() -> None:
    with pytest.raises(EnvError, match=r"'StuckPart' \(index 0\) at its first reset: action_mask"):
        make_envs(StuckPart, 2).reset()


class Short(Beside):
    """A mask of three for five actions."""

    def _look(self, over: bool = False) -> Any:
        return super()._look(over)[0], {"action_mask": np.ones(3, np.int8)}


class Forgets(Beside):
    """Says no mask in the second step."""

    def _look(self, over: bool = False) -> Any:
        seen, info = super()._look(over)
        return seen, ({} if getattr(self, "time", 0) == 2 else info)


def test_masks_of_the_wrong_size_are_refused_before_the_start() -> None:
    with pytest.raises(EnvError, match=r"'Short'.*expected 5 numbers.*found 3.*action_masks=False"):
        make_envs(Short, 2).reset()

    class Wide(Gate):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space["action_mask"] = MultiBinary(4)  # type: ignore[index]

    with pytest.raises(BuildError, match=r"'\S*Wide'.*a Box or MultiBinary of 5 numbers"):
        make_envs(Wide, 2)


def test_a_mask_that_is_missing_later_is_an_error() -> None:
    envs = make_envs(Forgets, 2)
    envs.reset()
    with pytest.raises(
        EnvError, match=r"'Forgets' at step 2: .*action_mask.*\[0, 1\].* first reset"
    ):
        go(envs, 3)


class Fails(Beside):
    """Raises in every hundredth step."""

    made = 0

    def step(self, action: Any) -> Any:
        self.made += 1
        if self.made % 100 == 0:
            raise OSError("lost")
        return super().step(action)


def test_a_copy_that_began_anew_says_its_mask_too() -> None:
    envs = make_envs(Fails, 4)
    envs.mend()
    envs.reset()
    go(envs, 300)
    assert envs.pop_failures()[0] > 2


def test_states_hold_the_masks() -> None:
    class Box5(Beside):
        pass

    envs, again = make_envs(Box5, 2, seed=1), make_envs(Box5, 2, seed=1)
    envs.reset()
    again.reset()
    step = envs.step(layout(envs).mask(envs.obs).argmax(1))
    again.set_state(envs.get_state())
    assert again.obs is not None
    assert again.obs.shape == step.obs.shape == (2, 10)


def test_continuous_actions_have_no_masks() -> None:
    class Number(Gate):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = Box(-1, 1, (2,), np.float32)

    found = layout_of(make_envs(Number, 1).observation_space)
    assert found is not None
    assert found.mask_size == 0
    assert ("action_mask",) in found.parts


def test_a_discrete_space_without_masks_stays_as_it_was() -> None:
    plain = make_envs(partial(make_cartpole), 2)
    assert layout_of(plain.observation_space) is None
    assert isinstance(plain.action_space, Discrete)


def make_cartpole() -> Any:
    import gymnasium

    return gymnasium.make("CartPole-v1")
