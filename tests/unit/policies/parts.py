"""Specs by hand and at random, and observations for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from hypothesis import settings
from hypothesis import strategies as st

from rillflow.envs.mixed_box import MixedBox
from rillflow.policies.spec import PolicySpec

few = settings(max_examples=40, deadline=None)

VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (4, 36, 40), np.uint8)
TWO = spaces.Discrete(2)
SEVERAL = spaces.MultiDiscrete([2, 3, 4])
CONTINUOUS = spaces.Box(-2, 2, (3,), np.float32)
MIXED = MixedBox([2, 3], [-1.0, -2.0], [1.0, 2.0])


def make_spec(observations: Any = VECTOR, actions: Any = TWO, **choices: Any) -> PolicySpec:
    return PolicySpec(observation_space=observations, action_space=actions, **choices)


def vectors(spec: PolicySpec, *leading: int, seed: int = 0) -> np.ndarray[Any, Any]:
    shape = (*leading, *spec.observation_shape)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@st.composite
def mlp_specs(draw: st.DrawFn, head: str | None = None) -> PolicySpec:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    head = head or draw(st.sampled_from(["actor_critic", "q"]))
    discrete = st.integers(1, 7).map(spaces.Discrete)
    several = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(spaces.MultiDiscrete)
    atoms = head == "q" and draw(st.booleans())
    boxes = st.integers(1, 4).map(lambda n: spaces.Box(-1, 1, (n,), np.float32))
    mixed = several.flatmap(
        lambda choices: boxes.map(
            lambda box: MixedBox([int(n) for n in choices.nvec], box.low, box.high)
        )
    )
    return make_spec(
        spaces.Box(-4, 12, shape, np.float32),
        draw(discrete if head == "q" else discrete | several | boxes | mixed),
        hidden=tuple(draw(st.lists(st.integers(1, 33), max_size=3))),
        activation=draw(st.sampled_from(["tanh", "relu"])),
        head=head,
        shared=draw(st.booleans()),
        dueling=head == "q" and draw(st.booleans()),
        num_atoms=draw(st.integers(2, 9)) if atoms else 1,
        v_min=-3.0 if atoms else None,
        v_max=5.0 if atoms else None,
        noisy=draw(st.sampled_from([0.0, 0.5])) if head == "q" else 0.0,
        scale_observations=draw(st.booleans()),
    )


def shaken(weights: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Weights in which nothing is small or zero, so that a forgotten bias shows."""
    rng = np.random.default_rng(seed)
    return {
        name: array + 0.3 * rng.standard_normal(array.shape).astype(np.float32)
        for name, array in weights.items()
    }
