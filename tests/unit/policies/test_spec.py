"""A spec is checked where it is written."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rillflow.errors import BuildError
from rillflow.policies.make import make_actor
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.torch_policy import TorchPolicy
from tests.unit.policies.parts import CONTINUOUS, IMAGE, SEVERAL, VECTOR, make_spec

SMALL = spaces.Box(0, 255, (3, 20, 40), np.uint8)
UNIT = spaces.Box(-1, 1, (2,), np.float32)
_FINITE = np.array([-1.2, -np.inf, -0.07, 0.0, 3.0], np.float32)
HALF_BOUNDED = spaces.Box(_FINITE, np.array([0.6, 1, 0.07, 3e38, 3.0], np.float32))

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"model": "mpl"}, "model must be one of mlp, cnn, lstm, got 'mpl'; did you mean 'mlp'?"),
    ({"model": 3}, "or a function that takes the spec and returns a torch.nn.Module"),
    ({"activation": "Relu"}, "did you mean 'relu'?"),
    ({"head": "critic"}, "did you mean 'actor_critic'?"),
    ({"hidden": 64}, "hidden must be a tuple of positive whole numbers"),
    ({"hidden": (64, 0)}, "got (64, 0)"),
    ({"memory": "ltsm"}, "memory must be one of lstm, gru, or None, got 'ltsm'; did you mean"),
    ({"model": "lstm", "memory": "gru"}, "model='lstm' is an older way to write memory='lstm'"),
    ({"model": lambda spec: None, "memory": "gru"}, "found a network of your own"),
    ({"memory_size": 0}, "memory_size must be a positive number, got 0"),
    ({"head": "q", "actions": CONTINUOUS}, "use an actor-critic method (PPO, SAC, TD3, "),
    ({"head": "q", "actions": SEVERAL}, "number all combinations: Discrete(24)"),
    ({"dueling": True}, "dueling=True splits q values and needs head='q'"),
    ({"actions": spaces.MultiBinary(3)}, "write it as MultiDiscrete([2] * 3)"),
    ({"actions": spaces.Text(3)}, "Discrete, MultiDiscrete and floating-point Box action spaces"),
    ({"observations": spaces.Discrete(3)}, "encode them as one vector first"),
    ({"observations": spaces.Box(0, 9, (3,), np.int64)}, "convert them to float32"),
    ({"observations": VECTOR, "model": "cnn"}, "two or three axes (pixels are scaled inside)"),
    ({"channels": "middle"}, "channels must be one of auto, first, last"),
    ({"scale_observations": True}, "scales what has bounds, and Box(-inf, inf, (4,), float32)"),
    ({"scale_observations": True, "observations": UNIT}, "has none beside -1 and 1"),
    (
        {"scale_observations": True, "observations": IMAGE, "model": "cnn"},
        "is for vectors, not for images, whose pixels are always scaled",
    ),
    (
        {"scale_observations": True, "observations": HALF_BOUNDED, "model": lambda spec: None},
        "is for vectors, not for a network of your own",
    ),
]


@pytest.mark.parametrize(
    ("choices", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES]
)
def test_a_mistake_is_named_with_the_way_out(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError, match=re.escape(message)):
        make_spec(**choices)


def test_names_and_shapes_follow_from_the_spec() -> None:
    spec = make_spec(actions=CONTINUOUS, hidden=(8,), shared=True)
    assert spec.parameter_shapes == {
        "trunk.0.weight": (8, 4),
        "trunk.0.bias": (8,),
        "action_head.weight": (3, 8),
        "action_head.bias": (3,),
        "value_head.weight": (1, 8),
        "value_head.bias": (1,),
        "log_std": (3,),
    }
    with pytest.raises(BuildError, match="build it: TorchPolicy"):
        _ = make_spec(model="lstm").parameter_shapes


def test_what_is_bounded_is_scaled_and_the_rest_is_not() -> None:
    """A bound on one side, one that stands for none, and a number that never changes."""
    scale = make_spec(HALF_BOUNDED, scale_observations=True).observation_scale
    assert scale is not None
    np.testing.assert_allclose(scale[0], [-0.3, 0, 0, 0, 0], atol=1e-7)
    np.testing.assert_allclose(scale[1], [1 / 0.9, 1, 1 / 0.07, 1, 1], rtol=1e-6)
    assert make_spec(HALF_BOUNDED).observation_scale is None


@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_a_network_that_scales_is_one_that_sees_what_was_scaled(model: Any) -> None:
    """Nothing is added to the weights."""
    scaling = TorchPolicy(make_spec(HALF_BOUNDED, model=model, scale_observations=True), 1)
    plain = TorchPolicy(make_spec(HALF_BOUNDED, model=model), 1)
    assert scaling.get_weights().keys() == plain.get_weights().keys()
    middle, factor = scaling.spec.observation_scale or (0, 0)
    obs = np.random.default_rng(0).standard_normal((3, 2, 5)).astype(np.float32)
    starts, results = np.zeros((3, 2), bool), []
    for policy, seen in ((scaling, obs), (plain, (obs - middle) * factor)):
        state = np.zeros((2, *(policy.spec.state_shape or ())), np.float32)
        recurrent = policy.spec.recurrent
        with torch.no_grad():
            values = (
                policy.values_recurrent(seen, state, starts)[0]
                if recurrent
                else policy.values(seen)
            )
        results.append(values.numpy())
    np.testing.assert_allclose(results[0], results[1], atol=1e-6)
    assert np.abs(results[0]).max() > 1e-3


def test_a_scale_that_has_travelled_is_read_only_and_nobody_minds() -> None:
    """Arrays that cross an actor edge are; torch would warn of sharing their memory."""
    spec = make_spec(HALF_BOUNDED, scale_observations=True)
    for part in spec.observation_scale or ():
        part.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TorchPolicy(spec)


def test_a_spec_travels() -> None:
    spec = make_spec(actions=SEVERAL)
    assert spec.parameter_shapes  # cached, and shipped along
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_an_actor_uses_torch_only_where_it_must() -> None:
    assert isinstance(make_actor(make_spec()), NumpyPolicy)
    assert isinstance(make_actor(make_spec(model="lstm")), TorchPolicy)
    with pytest.raises(BuildError, match="make_actor"):
        NumpyPolicy(make_spec(model="lstm"))


def test_acting_with_an_mlp_never_imports_torch() -> None:
    program = """
import sys
import numpy as np
from gymnasium import spaces
from rillflow.policies.make import make_actor
from rillflow.policies.spec import PolicySpec
box = spaces.Box(-1, 1, (4,), np.float32)
actor = make_actor(PolicySpec(observation_space=box, action_space=spaces.Discrete(2)))
actor.set_weights(actor.get_weights())
actor.act(np.zeros((3, 4), np.float32))
actor.set_state(actor.get_state())
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
