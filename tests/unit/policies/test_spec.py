"""A spec is checked where it is written."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rillflow.errors import BuildError
from rillflow.policies.make import make_actor
from rillflow.policies.numpy_policy import NumpyPolicy
from rillflow.policies.torch_policy import TorchPolicy
from tests.unit.policies.parts import CONTINUOUS, IMAGE, SEVERAL, VECTOR, make_spec

SMALL = spaces.Box(0, 255, (3, 20, 40), np.uint8)

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"model": "mpl"}, "model must be one of mlp, cnn, lstm, got 'mpl'; did you mean 'mlp'?"),
    ({"model": 3}, "or a function that takes the spec and returns a torch.nn.Module"),
    ({"activation": "Relu"}, "did you mean 'relu'?"),
    ({"head": "critic"}, "did you mean 'actor_critic'?"),
    ({"hidden": 64}, "hidden must be a tuple of positive whole numbers"),
    ({"hidden": (64, 0)}, "got (64, 0)"),
    ({"lstm_size": 0}, "lstm_size must be a positive number, got 0"),
    ({"head": "q", "actions": CONTINUOUS}, "use an actor-critic method (PPO, A2C, A3C, IMPALA)"),
    ({"head": "q", "actions": SEVERAL}, "number all combinations: Discrete(24)"),
    ({"dueling": True}, "dueling=True splits q values and needs head='q'"),
    ({"actions": spaces.MultiBinary(3)}, "write it as MultiDiscrete([2] * 3)"),
    ({"actions": spaces.Text(3)}, "Discrete, MultiDiscrete and floating-point Box action spaces"),
    ({"observations": spaces.Discrete(3)}, "encode them as one vector first"),
    ({"observations": spaces.Box(0, 9, (3,), np.int64)}, "convert them to float32 first"),
    ({"observations": IMAGE}, "use model='cnn'"),
    ({"observations": VECTOR, "model": "cnn"}, "use model='mlp', or keep the pixels as uint8"),
    ({"observations": SMALL, "model": "cnn"}, "at least 36x36 pixels"),
]


@pytest.mark.parametrize(("choices", "message"), MISTAKES, ids=lambda x: str(x)[:40])
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
