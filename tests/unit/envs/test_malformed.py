"""Every promise an environment can break, and the sentence that says which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector import SyncVectorEnv

from rillflow.envs import EnvError, make_envs
from rillflow.errors import BuildError
from tests.unit.envs.parts import OK_OBS, Counting, Scripted

F32 = np.float32
NAN = np.array([0, np.nan], F32)


def boom(*_: Any) -> Any:
    raise KeyError("lost")


def after(t: int, bad: Any, good: Any = (OK_OBS, 1.0, False, False, {})) -> Callable[[int], Any]:
    return lambda now: bad if now == t else good


DICT = Dict({"a": Box(-1, 1, (2,), F32), "b": Discrete(3)})
RESETS: dict[str, tuple[Any, str, Any]] = {
    "reset_none": (None, r"reset\(\) must return \(observation, info\), found None", None),
    "reset_old": (OK_OBS, r"reset\(\) must return \(observation, info\), found an array", None),
    "reset_3_tuple": ((OK_OBS, {}, 1), "must return 2 values .* found 3", None),
    "reset_info": ((OK_OBS, None), "info as a dict, found None", None),
    "obs_none": ((None, {}), r"observation: expected a numpy array .* found None", None),
    "obs_list": (([0.0, 0.0], {}), "expected a numpy array .* found a list of 2", None),
    "obs_shape": ((np.zeros(3, F32), {}), r"expected shape \(2,\) .* found shape \(3,\)", None),
    "obs_dtype": ((np.zeros(2), {}), "expected dtype float32 .* found float64", None),
    "obs_string": ((np.array(["a", "b"]), {}), "expected dtype float32 .* found <U1", None),
    "obs_nan": ((NAN, {}), r"observation\[1\]: expected a finite number, found nan", None),
    "discrete_float": ((1.0, {}), r"an integer of Discrete\(3\), found float 1.0", Discrete(3)),
    "discrete_range": ((3, {}), "an integer from 0 to 2, found 3", Discrete(3)),
    "discrete_bool": ((True, {}), "an integer of Discrete", Discrete(3)),
    "multi_range": ((np.array([0, 9]), {}), r"integers of MultiDiscrete", MultiDiscrete([2, 2])),
    "multi_type": ((np.zeros(2), {}), "expected an integer array", MultiDiscrete([2, 2])),
    "multi_shape": ((np.zeros(3, int), {}), r"found shape \(3,\)", MultiDiscrete([2, 2])),
    "bits": ((np.array([0, 2], np.int8), {}), "expected only 0 and 1", MultiBinary(2)),
    "bits_shape": ((np.zeros(3, np.int8), {}), r"found shape \(3,\)", MultiBinary(2)),
    "bits_type": ((np.zeros(2), {}), "an array of 0 and 1", MultiBinary(2)),
    "dict_type": ((OK_OBS, {}), r"expected a dict with the keys \['a', 'b'\]", DICT),
    "dict_keys": (({"a": OK_OBS}, {}), r"expected the keys \['a', 'b'\], found \['a'\]", DICT),
    "dict_leaf": (({"a": np.zeros(1, F32), "b": 0}, {}), r"observation\['a'\]: .*shape", DICT),
    "dict_nan": (({"a": NAN, "b": 0}, {}), r"observation\['a'\]\[1\]: .* found nan", DICT),
    "tuple_len": (((1,), {}), "a tuple of 2 elements", Tuple((Discrete(2), Discrete(2)))),
    "tuple_leaf": (((1, 7), {}), r"observation\[1\]: .*", Tuple((Discrete(2), Discrete(2)))),
}
STEPS: dict[str, tuple[Any, str]] = {
    "4_tuple": ((OK_OBS, 1.0, False, {}), "must return 5 values .* found 4 .*old Gym API"),
    "none": (None, r"step\(\) must return .*, found None"),
    "reward_none": ((OK_OBS, None, False, False, {}), "reward: expected a number, found None"),
    "reward_text": ((OK_OBS, "1", False, False, {}), "reward: expected a number, found str '1'"),
    "reward_array": ((OK_OBS, np.ones(1), False, False, {}), r"reward: .* shape \(1,\)"),
    "reward_inf": ((OK_OBS, np.inf, False, False, {}), "reward: expected a finite number"),
    "reward_nan": ((OK_OBS, np.nan, False, False, {}), "reward: .* found nan"),
    "done_text": ((OK_OBS, 1.0, "no", False, {}), "terminated: expected a bool, found str 'no'"),
    "done_int": ((OK_OBS, 1.0, False, 0, {}), "truncated: expected a bool, found int 0"),
    "info": ((OK_OBS, 1.0, False, False, []), "info as a dict, found a list"),
    "shape": ((np.zeros(5, F32), 1.0, False, False, {}), r"found shape \(5,\)"),
    "dtype": ((np.zeros(2, int), 1.0, False, False, {}), "found int64"),
    "nan": ((NAN, 1.0, False, False, {}), r"observation\[1\]: .* found nan"),
}


@pytest.mark.parametrize("case", RESETS)
def test_a_wrong_reset_is_one_clear_error(case: str) -> None:
    result, message, space = RESETS[case]
    envs = make_envs(lambda: Scripted(reset=lambda: result, space=space), 2)
    with pytest.raises(EnvError, match=message) as info:
        envs.reset()
    assert "(index 0) at its first reset" in str(info.value)


@pytest.mark.parametrize("when", [1, 100])
@pytest.mark.parametrize("case", STEPS)
def test_a_wrong_step_is_one_clear_error_also_late(case: str, when: int) -> None:
    """Drift is caught at the step where it happens, in the copy where it happens."""
    result, message = STEPS[case]
    made = iter([Scripted(), Scripted(step=after(when, result))])
    envs = make_envs(lambda: next(made), 2)
    envs.reset()
    for _ in range(when - 1):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(EnvError, match=message) as info:
        envs.step(np.zeros(2, np.int64))
    assert f"(index 1) at step {when}" in str(info.value)


@pytest.mark.parametrize("where", ["reset", "step"])
def test_an_environment_that_raises_is_named_with_its_index_and_line(where: str) -> None:
    bad = Scripted(reset=boom) if where == "reset" else Scripted(step=boom)
    made = iter([Scripted(), bad])
    envs = make_envs(lambda: next(made), 2)
    if where == "step":
        envs.reset()
    call = envs.reset if where == "reset" else lambda: envs.step(np.zeros(2, np.int64))
    with pytest.raises(EnvError, match=f"index 1.* raised KeyError in {where}: 'lost'") as info:
        call()
    assert 'raise KeyError("lost")' in str(info.value)
    assert isinstance(info.value.__cause__, KeyError)


def test_numpy_scalars_and_smaller_dtypes_are_fine() -> None:
    result = (np.zeros(2, np.float16), np.int32(1), np.bool_(False), np.array(False), {})
    envs = make_envs(lambda: Scripted(step=lambda t: result), 2)
    envs.reset()
    assert envs.step(np.zeros(2, np.int64)).rewards.tolist() == [1.0, 1.0]


class NoSpaces(gymnasium.Env[Any, Any]):
    action_space = Discrete(2)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (boom, "'boom' raised KeyError in its constructor"),
        (NoSpaces, "'NoSpaces': observation_space: expected a gymnasium space, found None"),
        (dict, "must return a gymnasium.Env or a gymnasium.vector.VectorEnv, found a dict"),
    ],
)
def test_a_factory_that_makes_no_environment(env: Any, message: str) -> None:
    with pytest.raises(EnvError, match=message):
        make_envs(env, 1)


ONE = Counting()


@pytest.mark.parametrize(
    ("env", "num_envs", "message"),
    [
        ("CartPoel-v1", 1, "unknown environment 'CartPoel-v1'; did you mean 'CartPole-v1'"),
        ("Bandti", 1, "did you mean 'Bandit'"),
        ("no_such_module:Env", 1, "no module named 'no_such_module'"),
        ("tests.unit.envs.parts:Missing-v0", 1, "unknown environment"),
        ("Pong-ram-v0", 1, "memory"),
        (Counting, 0, "num_envs must be a positive integer, found 0"),
        (3, 1, "an id, a factory or a vector environment; found int 3"),
        (ONE, 1, "pass a function that makes it"),
        (lambda: ONE, 2, "the same object twice"),
        (SyncVectorEnv([Counting]), 2, "made with 1 copies, but num_envs=2"),
        (lambda: Scripted(space=Text(3)), 1, "observation space is Text.* can use Box"),
        (lambda: Scripted(space=Graph(Discrete(2), None)), 1, "observation space is Graph"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_runs(
    env: Any, num_envs: int, message: str
) -> None:
    with pytest.raises(BuildError, match=message):
        make_envs(env, num_envs)


def test_a_config_key_the_environment_does_not_know_is_named() -> None:
    with pytest.raises(EnvError, match=r"constructor with env_config=.*speed"):
        make_envs("CartPole-v1", 2, env_config={"speed": 3})


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros(3, np.int64), r"expected integers of shape \(2,\) for Discrete\(2\)"),
        (np.zeros(2), "found an array of shape .* float64"),
    ],
)
def test_wrong_actions_are_the_callers_fault(actions: Any, message: str) -> None:
    envs = make_envs("CartPole-v1", 2)
    with pytest.raises(EnvError, match="call reset"):
        envs.step(actions)
    envs.reset()
    with pytest.raises(EnvError, match=message):
        envs.step(actions)


def test_a_policy_that_acts_nan_is_told_so() -> None:
    envs = make_envs("Pendulum-v1", 2)
    envs.reset()
    with pytest.raises(EnvError, match="finite numbers from the policy"):
        envs.step(np.full((2, 1), np.nan))


VECTOR_STEPS: dict[str, tuple[int, Any, str]] = {
    "obs_shape": (0, np.zeros((3, 2), F32), r"expected shape \(2, 2\) .* found shape \(3, 2\)"),
    "obs_nan": (0, np.array([[0, 0], [0, np.inf]], F32), r"index 1\).*observation\[1\]: .* inf"),
    "rewards_shape": (1, np.zeros(3), r"rewards: expected numbers of shape \(2,\)"),
    "rewards_none": (1, None, "rewards: .* found None"),
    "terminated": (2, np.zeros(2), r"terminated: expected a bool array of shape \(2,\)"),
    "truncated": (3, False, "truncated: expected a bool array"),
    "info": (4, None, "info as a dict"),
}


@pytest.mark.parametrize("case", VECTOR_STEPS)
def test_a_vector_environment_is_held_to_the_same_contract(case: str) -> None:
    place, value, message = VECTOR_STEPS[case]
    vector = SyncVectorEnv([Counting] * 2)
    step = vector.step

    def wrong(actions: Any) -> Any:
        result = list(step(actions))
        result[place] = value
        return tuple(result)

    vector.step = wrong  # type: ignore[method-assign]
    envs = make_envs(vector, 2)
    envs.reset()
    with pytest.raises(EnvError, match=message):
        envs.step(np.zeros(2, np.int64))


def test_a_vector_of_indices_out_of_range_is_caught() -> None:
    """One-hot encoding would wrap a negative index around without a word."""
    vector = SyncVectorEnv([lambda: Scripted(reset=lambda: (1, {}), space=Discrete(3))] * 2)
    vector.reset = lambda **_: (np.array([0, -1]), {})  # type: ignore[method-assign]
    with pytest.raises(EnvError, match=r"expected integers of MultiDiscrete.*found \[0, -1\]"):
        make_envs(vector, 2).reset()
