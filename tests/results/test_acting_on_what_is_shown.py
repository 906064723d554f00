"""A policy acts on what the environment shows, not on what its network sees of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rillflow as rf
from rillflow.envs.make import make_envs
from rillflow.policies.saved_spaces import space_from_data, space_to_data
from rillflow.serving.observations import Encoder

SHOWN: dict[str, spaces.Space[Any]] = {
    "an index": spaces.Discrete(5, start=-2),
    "several indices": spaces.MultiDiscrete([3, 5, 2]),
    "bits": spaces.MultiBinary((2, 3)),
    "a number": spaces.Box(-1.0, 1.0, (), np.float32),
    "whole numbers": spaces.Box(-9, 9, (4,), np.int16),
    "a tall image": spaces.Box(0, 255, (300, 9, 3), np.uint8),
    "bits as an image": spaces.Box(0, 1, (150, 12), np.bool_),
    "a camera among parts": spaces.Dict(
        camera=spaces.Box(0, 255, (3, 160, 150), np.uint8), speed=spaces.Discrete(3)
    ),
}


class Shows(gym.Env[Any, Any]):
    """Random observations of a space, three steps long."""

    action_space = spaces.Box(0.0, 0.01, (2,), np.float32)

    def __init__(self, space: str) -> None:
        self.observation_space = SHOWN[space]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        assert self.action_space.contains(action)
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 3, False, {}


def trained(name: str, **settings: Any) -> rf.TrainingRun:
    small = {"num_workers": 1, "num_envs_per_worker": 2, "rollout_fragment_length": 4}
    less = {"train_batch_size": 8, "sgd_minibatch_size": 4, "num_sgd_iter": 1, "hidden": (4,)}
    return rf.train(
        "ppo",
        Shows,
        env_config={"space": name},
        engine="sim",
        seed=1,
        until=8,
        **small | less | settings,
    )


@pytest.mark.filterwarnings("ignore:environment 'Shows'. images of:UserWarning")  # shrunk
@pytest.mark.parametrize("name", SHOWN)
def test_a_policy_and_its_file_act_on_what_the_environment_shows(name: str, tmp_path: Path) -> None:
    """One observation, several, those that the network sees, and one from JSON: the same action."""
    run = trained(name)
    run.save(tmp_path / "policy.npz")
    policy = rf.load(tmp_path / "policy.npz")
    how = run.config.preprocessing
    seen = make_envs(Shows, 1, env_config={"space": name}, seed=3, preprocessing=how).reset()
    env = Shows(name)
    obs, _ = env.reset(seed=3)
    two = {k: np.stack([v, v]) for k, v in obs.items()} if isinstance(obs, dict) else [obs, obs]
    json: Any = {k: v.tolist() for k, v in obs.items()} if isinstance(obs, dict) else obs.tolist()
    assert np.array_equal(Encoder(policy.spec).row(json), seen[0])
    expected = run.policy.act(seen)
    for one in (run, policy):
        assert np.array_equal(one.act(obs), expected[0])
        np.testing.assert_allclose(one.act(two), np.repeat(expected, 2, 0), atol=1e-6)
        env.step(one.act(obs))  # which insists on its bounds


def test_observations_that_a_policy_stacks_are_asked_for_in_words() -> None:
    """One observation says nothing of those before it."""
    run = trained("whole numbers", frame_stack=3)
    with pytest.raises(
        rf.RunError, match=r"sees the last 3 observations .* given \[4\]: .*make_envs"
    ):
        run.act(np.zeros(4, np.int16))
    assert run.act(np.zeros(12, np.float32)).shape == (2,)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"kind": "discrete", "n": 10**12}, "1,000,000,000,000 choices seen as 3 numbers"),
        ({"kind": "multidiscrete", "nvec": [2, 2]}, "4 choices seen as 3 numbers"),
        ({"kind": "structured"}, "shown as structured"),
    ],
)
def test_a_file_whose_observations_cannot_be_shown_so_is_refused(
    raw: dict[str, Any], said: str
) -> None:
    """A stranger's file must not make arrays larger than its policy sees."""
    seen = space_to_data(spaces.Box(0.0, 1.0, (3,), np.float32))
    with pytest.raises(ValueError, match=said):
        space_from_data({**seen, "raw": raw})
    part = {"part": "one_hot", "space": seen, "raw": raw}
    with pytest.raises(ValueError, match=said):
        space_from_data({"kind": "structured", "tree": part, "mask_size": 0, "mask_inside": False})
