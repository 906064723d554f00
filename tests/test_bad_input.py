"""Bad input gets one clear message, soon, and nothing is left running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import dqn, ppo
from rillflow.envs.checks import EnvError
from rillflow.rl.multi_agent import MultiAgentConfig, Select
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers, create_rollout_workers
from tests.engines.processes import children, gone


class Raises:
    def next(self) -> int:
        raise ZeroDivisionError("the environment divided by zero")


class Fails:
    def __init__(self) -> None:
        raise LookupError("unknown environment 'CartPole-v9'")

    def next(self) -> int:
        return 0


def numbers() -> rf.ParallelFlow[int]:
    return rf.from_range(4)


def bad_map(x: int) -> int:
    return 1 // (x - x)


BUILD: dict[str, tuple[Callable[[], Any], str]] = {
    "engine": (lambda: numbers().gather_async().run("locl"), r"unknown engine 'locl'.*'local'\?"),  # type: ignore[arg-type]
    "count": (lambda: rf.Actors.of(Raises, 0), "at least 1"),
    "num_async": (lambda: numbers().gather_async(num_async=0), "num_async must be"),
    "batch": (lambda: numbers().batch(-1), "batch: n must be"),
    "capacity": (lambda: rf.Queue(capacity=0), "at least one item"),
    "callable": (lambda: numbers().for_each(3), "takes a callable"),  # type: ignore[call-overload]
    "method": (lambda: rf.from_actors(rf.Actors.of(Raises, 1), "sample"), "no method 'sample'"),
    "weights": (
        lambda: rf.Union(numbers().gather_async(), numbers().gather_async(), weights=[1]),
        "one weight per flow",
    ),
    "gather twice": (lambda: numbers().gather_async().gather_sync(), "sequential already"),
    "par after gather": (
        lambda: numbers().gather_async().par_for_each(bad_map),
        "before gathering",
    ),
    "seed": (lambda: numbers().gather_async().run("sim", seed="one"), "a seed is a whole number"),  # type: ignore[arg-type]
    "split": (lambda: numbers().gather_async().split(1), "at least 2 children"),
    "parallel union": (lambda: rf.Union(numbers(), numbers()), "parallel"),  # type: ignore[arg-type]
    "take": (lambda: numbers().gather_async().take(-1), "0 or more"),
}


@pytest.mark.parametrize("case", BUILD)
def test_a_wrong_argument_is_refused_while_the_flow_is_written(case: str) -> None:
    """The rule, the offender and the way out, before anything starts."""
    mistake, message = BUILD[case]
    before = time.process_time()
    with pytest.raises(rf.BuildError, match=message):
        mistake()
    assert time.process_time() - before < 0.5


def test_mis_wired_annotations_are_found_at_build_time() -> None:
    """Both neighbours are named."""

    def words(x: int) -> str:
        return str(x)

    def half(x: float) -> float:
        return x / 2

    with pytest.raises(
        rf.TypeMismatch, match=r"'for_each\(words\)' gives str.*'for_each\(half\)' takes float"
    ):
        numbers().for_each(words).for_each(half)  # type: ignore[arg-type]


def test_iterating_a_parallel_flow_says_how_to_gather_it() -> None:
    """A parallel flow has no single order."""
    with pytest.raises(TypeError, match="gathered first"):
        iter(numbers())


def unpicklable() -> rf.Flow[Any]:
    lock = threading.Lock()
    return numbers().for_each(lambda x: (lock, x)).gather_async()


RUN: dict[str, tuple[Callable[[], rf.Flow[Any]], type[Exception], list[str]]] = {
    "an actor's method raises": (
        lambda: rf.from_actors(rf.Actors.of(Raises, 2)).gather_async(),
        ZeroDivisionError,
        ["the environment divided by zero", "in next", "from_actors(Raises.next) > gather_async"],
    ),
    "a constructor raises": (
        lambda: rf.from_actors(rf.Actors.of(Fails, 2)).gather_sync(),
        rf.ActorStartError,
        ["unknown environment 'CartPole-v9'", "in __init__", "fails-"],
    ),
    "an operator in an actor raises": (
        lambda: numbers().for_each(bad_map).gather_async(),
        ZeroDivisionError,
        ["in bad_map", "return 1 // (x - x)", "for_each(bad_map)"],
    ),
    "an operator in the driver raises": (
        lambda: numbers().gather_async().for_each(bad_map),
        ZeroDivisionError,
        ["in bad_map", "return 1 // (x - x)", "gather_async > for_each(bad_map)"],
    ),
    "a closure cannot be shipped": (unpicklable, rf.CheckError, ["lock", "for_each(lambda)"]),
}


@pytest.mark.proc
@pytest.mark.parametrize("case", RUN)
def test_a_failing_flow_is_one_clear_error_and_leaves_nothing(case: str) -> None:
    """The user's own line comes before anything else."""
    build, kind, phrases = RUN[case]
    before = children()
    with pytest.raises(kind) as caught:
        build().take(1, engine="local")
    message = str(caught.value)
    assert all(phrase in message for phrase in phrases), message
    if kind is not rf.CheckError:
        assert "your code: " in message.splitlines()[1]
        assert "test_bad_input.py" in message.splitlines()[1]
    assert gone(list(children() - before))


# -- environments, through rf.train ----------------------------------------------------------------


class Good(gymnasium.Env[Any, Any]):
    """Keeps its promises; each of those below breaks one."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 1.0, False, False, {}


class OwnError(Exception):
    """An exception that only this file knows, with a constructor of its own."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(what, code)


class RaisesInStep(Good):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("my divisor")


class RaisesItsOwn(Good):
    def step(self, action: Any) -> Any:
        raise OwnError("mine", 3)


class RaisesInReset(Good):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        raise LookupError("my level file")


class RaisesInConstructor(Good):
    def __init__(self) -> None:
        raise PermissionError("my licence")


def returning(obs: Any = None, reward: Any = 1.0, flag: Any = False) -> type[Good]:
    class Odd(Good):
        def step(self, action: Any) -> Any:
            return np.zeros(3, np.float32) if obs is None else obs, reward, flag, False, {}

    return Odd


class FourValues(Good):
    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 1.0, False, {}


class NoInfo(Good):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32)


nan = np.array([0, np.nan, 0], np.float32)
ENVS: dict[str, tuple[type[Good], type[Exception], list[str]]] = {
    "step raises": (RaisesInStep, ZeroDivisionError, ["RaisesInStep", "step 1", "my divisor"]),
    "step raises its own": (RaisesItsOwn, OwnError, ["RaisesItsOwn", "raised OwnError in step"]),
    "reset raises": (RaisesInReset, LookupError, ["RaisesInReset", "in reset", "my level file"]),
    "constructor raises": (RaisesInConstructor, PermissionError, ["constructor", "my licence"]),
    "shape": (returning(np.zeros(4, np.float32)), EnvError, ["shape (3,)", "found shape (4,)"]),
    "dtype": (returning(np.zeros(3)), EnvError, ["dtype float32", "found float64"]),
    "no array": (returning([0.0, 0.0, 0.0]), EnvError, ["observation", "a list of 3 elements"]),
    "nan": (returning(nan), EnvError, ["step 1", "observation[1]", "finite", "found nan"]),
    "nan reward": (returning(reward=float("nan")), EnvError, ["reward", "finite", "found nan"]),
    "no reward": (returning(reward=None), EnvError, ["reward", "a number", "found None"]),
    "flag": (returning(flag=0), EnvError, ["terminated", "a bool", "found int 0"]),
    "four values": (FourValues, EnvError, ["5 values", "found 4", "the old Gym API"]),
    "no info": (NoInfo, EnvError, ["reset() must return (observation, info)", "shape (3,)"]),
}


ON_PROCESSES = {"step raises its own", "constructor raises", "four values"}
"""a process adds the journey of an error: one of the user's, one at the start, one of ours"""


@pytest.mark.proc
@pytest.mark.parametrize(
    ("case", "engine"),
    [(case, "sim") for case in ENVS] + [(case, "local") for case in ENVS if case in ON_PROCESSES],
)
def test_an_environment_that_breaks_its_promises(case: str, engine: str) -> None:
    """One error at the first step, under the user's own type, and nothing is left running."""
    env, kind, phrases = ENVS[case]
    before = children()
    with pytest.raises(kind) as caught:
        rf.train("a2c", env, engine=engine, until={"steps": 1000}, num_workers=2,
                 num_envs_per_worker=2, hidden=(8,))  # fmt: skip
    message = str(caught.value)
    assert isinstance(caught.value, EnvError)
    assert f"{env.__name__}' " in message.splitlines()[0]
    assert all(phrase in message for phrase in phrases), message
    if "nan" not in case:  # found in the whole batch, where nobody's method is left to blame
        assert "your code: " in message.splitlines()[1], message
        assert "test_bad_input.py" in message.splitlines()[1]
    assert gone(list(children() - before))


# -- names and settings, through rf.train ----------------------------------------------------------

SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "environment": ({"env": "CartPol-v1"}, "unknown environment 'CartPol-v1'; .*'CartPole-v1'"),
    "algorithm": ({"algorithm": "pop"}, r"unknown algorithm 'pop'.* Did you mean 'ppo'\?"),
    "key": ({"num_wokers": 2}, r"ppo.Config: .*'num_wokers', did you mean 'num_workers'\?"),
    "three types": (
        {"num_workers": "two", "hidden": 64, "lr": "fast"},
        "num_workers must be a whole number, got 'two'; lr must be a number, got 'fast'; "
        "hidden must be a tuple of whole numbers, got 64",
    ),
    "a part of a type": ({"hidden": (64, "x")}, r"tuple of whole numbers, got \(64, 'x'\)"),
    "true": ({"num_workers": True}, "num_workers must be a whole number, got True"),
    "env_config": ({"env_config": [1]}, r"env_config must be a dict, got \[1\]"),
    "update": ({"update": 3}, "update must be a function or None, got 3"),
    "loss": ({"loss": print}, "unknown setting 'loss': it is 'update' now"),
    "numbers": (
        {"num_workers": -1, "gamma": 2, "lr": float("nan"), "grad_clip": 0.0},
        "num_workers must be at least 0.*; gamma .*; lr must be above 0, got nan; grad_clip",
    ),
    "no rows": ({"sgd_minibatch_size": 0}, "sgd_minibatch_size must be at least 1, got 0"),
    "activation": ({"activation": "rely"}, r"activation must be one of .* did you mean 'relu'\?"),
    "actions": (
        {"algorithm": "dqn", "env": "Pendulum-v1"},
        r"dqn.Config: environment 'Pendulum-v1': .* continuous actions of Box\(.*PPO",
    ),
    "devices": ({"num_gpus": 512}, "num_gpus=512, but this machine has .* set .*num_gpus=0"),
    "engine": ({"engine": "locl"}, r"unknown engine 'locl'.* Did you mean 'local'\?"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_wrong_settings_are_refused_before_anything_starts(case: str) -> None:
    """What is wrong, what was found, and what would be right."""
    settings, message = SETTINGS[case]
    before = children()
    with pytest.raises(rf.BuildError, match=message):
        rf.train(**{"algorithm": "ppo", **settings})
    assert children() == before


# -- several policies ------------------------------------------------------------------------------


def several(**settings: Any) -> Any:
    whole: dict[str, Any] = {
        "policies": {"PPO": ppo.Config(), "DQN": dqn.Config()},
        "policy_mapping": {"agent_0": "PPO", "agent_1": "DQN"},
        "env_config": {"agents": 2},
        **settings,
    }
    return create_rollout_workers(MultiAgentConfig(**whole))


def on(workers: Any) -> Any:
    return ParallelRollouts(workers), workers


def broken_mapping(agent: str) -> str:
    return {"agent_7": "PPO"}[agent]


POLICIES: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown in the mapping": (
        lambda: several(policy_mapping=lambda agent: "PPPO"),
        r"'MultiAgentCartPole': agent 'agent_0' .* unknown policy 'PPPO'.*did you mean 'PPO'\?",
    ),
    "missing in the mapping": (
        lambda: several(policy_mapping={"agent_0": "PPO"}),
        "name for each agent; for 'agent_1' it gave None",
    ),
    "nobody's": (lambda: several(policy_mapping=lambda a: "PPO"), r"no agent .* \['DQN'\]"),
    "no policies": (lambda: several(policies={}), "policies must be a dict of settings by name"),
    "no settings": (
        lambda: several(policies={"PPO": "ppo", "DQN": dqn.Config()}),
        r"policies\['PPO'\] must be the Config of an algorithm, got 'ppo'",
    ),
    "wrong settings": (
        lambda: several(policies={"PPO": ppo.Config(hidden=3), "DQN": dqn.Config()}),  # type: ignore[arg-type]
        "ppo.Config: hidden must be a tuple",
    ),
    "numbers": (
        lambda: several(num_workers="two", rollout_fragment_length=0),
        "num_workers must be a whole number, got 'two'; rollout_fragment_length must be at least 1",
    ),
    "unknown to a plan": (
        lambda: ppo.plan(Select(ParallelRollouts(w := several()), policy="PPPO"), w),
        r"there is no policy 'PPPO'; there are PPO, DQN. Did you mean 'PPO'\?",
    ),
    "no name": (lambda: Select(ParallelRollouts(several()), policy=3), "name of a policy, got 3"),  # type: ignore[call-overload]
    "none selected": (lambda: ppo.plan(*on(several())), r"plan\(Select\(stream, policy=\.\.\.\)"),
    "another algorithm's policy": (
        lambda: ppo.plan(Select(ParallelRollouts(w := several()), policy="DQN"), w),
        "needs the settings of rillflow.algorithms.ppo, but policy 'DQN' .*algorithms.dqn",
    ),
    "another algorithm's workers": (
        lambda: dqn.plan(*on(Workers(ppo.Config()))),
        "needs the settings of rillflow.algorithms.dqn, but .* rillflow.algorithms.ppo",
    ),
    "a setting of workers": (
        lambda: create_rollout_workers(ppo.Config(), num_worker=1),
        r"unknown setting 'num_worker', did you mean 'num_workers'\?",
    ),
}


@pytest.mark.parametrize("case", POLICIES)
def test_policies_that_do_not_fit_are_refused_while_the_flow_is_written(case: str) -> None:
    """The policy, what there is, and the nearest."""
    mistake, message = POLICIES[case]
    with pytest.raises(rf.BuildError, match=message):
        mistake()


def test_a_mapping_that_raises_is_told_with_its_own_line() -> None:
    """Under its own type."""
    with pytest.raises(KeyError, match=r"(?s)raised KeyError in the policy mapping for 'agent_0'.*"
                                       r"your code: .*in broken_mapping"):  # fmt: skip
        several(policy_mapping=broken_mapping)


@pytest.mark.proc
@pytest.mark.parametrize("engine", ["sim", "local"])
def test_experience_of_a_policy_that_is_not_there(engine: str) -> None:
    """Without a plan nobody knows before the first batch comes."""
    before = children()
    batches = Select(ParallelRollouts(several(), mode="bulk_sync"), policy="DQQN")
    with pytest.raises(rf.RunError, match=r"no policy 'DQQN'; .* Did you mean 'DQN'\?"):
        batches.take(1, engine=engine)
    assert gone(list(children() - before))
