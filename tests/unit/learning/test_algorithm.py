"""An algorithm is a value; its settings know it, however and wherever they are made."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.algorithms import NAMES, a2c, get_algorithm, ppo, sac
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.suited_settings import tuned

ELSEWHERE = """
from dataclasses import dataclass
from rillflow.algorithms import ppo
from rillflow.learning.algorithm import Algorithm

@dataclass(frozen=True, kw_only=True)
class Config(ppo.Config):
    knob: float = 0.5

@dataclass(frozen=True, kw_only=True)
class Further(Config):
    pass

OWN = Algorithm(
    "own", Config, ppo.modules, ppo.update, ppo.plan, prepare=ppo.prepare,
    tuned={"Pendulum-v1": {"knob": 0.75}},
)
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of a user's, with an algorithm derived from PPO."""
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    import elsewhere  # type: ignore[import-not-found]

    yield elsewhere
    sys.modules.pop("elsewhere", None)


@pytest.mark.parametrize("name", NAMES)
def test_settings_know_their_algorithm(name: str) -> None:
    algorithm = get_algorithm(name)
    assert algorithm.name == name
    assert algorithm.Config.algorithm is algorithm
    assert algorithm.Config().algorithm is algorithm
    assert repr(algorithm) == f"<algorithm {name}>"


@pytest.mark.parametrize("env", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "ALE/Pong-v5"])
@pytest.mark.parametrize("name", NAMES)
def test_calling_the_class_and_make_are_the_same(name: str, env: str) -> None:
    kind = get_algorithm(name).Config
    assert kind(env=env) == kind.make(env=env)
    assert kind(env=env, lr=0.5) == kind.make(env=env, lr=0.5)
    assert kind(env=env, lr=0.5).lr == 0.5


def test_what_suits_an_environment_is_inherited(elsewhere: Any) -> None:
    """By a class in another module, and by one that is derived from it."""
    for kind in (elsewhere.Config, elsewhere.Further):
        assert kind(env="Acrobot-v1").lr == ppo.Config(env="Acrobot-v1").lr == 1e-3
        assert kind().lr == ppo.Config().lr == 7e-4
        assert kind(env="ALE/Pong-v5").clip_param == 0.1
        assert kind.algorithm is elsewhere.OWN


def test_the_nearest_algorithm_that_knows_the_environment_counts(elsewhere: Any) -> None:
    assert tuned(elsewhere.Further, "Pendulum-v1") == {"knob": 0.75}
    assert elsewhere.Config(env="Pendulum-v1").gamma == AlgorithmConfig.gamma
    assert ppo.Config(env="Pendulum-v1").gamma == 0.9


def test_two_algorithms_do_not_share_a_class() -> None:
    with pytest.raises(
        rf.BuildError, match=r"'mine'.*a2c\.Config is the settings of 'a2c'; derive"
    ):
        Algorithm("mine", a2c.Config, a2c.modules, a2c.update, a2c.plan)
    assert a2c.Config.algorithm is a2c.A2C


def test_settings_of_no_algorithm_say_so() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Config(AlgorithmConfig):
        pass

    with pytest.raises(rf.BuildError, match=r"Config are the settings of no algorithm: make one"):
        Config().modules(None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="'Config' object has no attribute 'knob'"):
        Config().knob  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("how", [ppo.Config, ppo.Config.make])
def test_every_wrong_name_type_and_number_is_told_at_once(how: Any) -> None:
    with pytest.raises(rf.BuildError, match=r"'clip_parm', did you mean 'clip_param'.*'wings'"):
        how(clip_parm=1, wings=2)
    with pytest.raises(rf.BuildError, match=r"num_workers must be a whole.*lr must be a number"):
        how(num_workers="4", lr="fast")
    with pytest.raises(rf.BuildError, match=r"num_workers must.*gamma must.*lr must be above 0"):
        how(num_workers=-1, gamma=2.0, lr=0.0)


def test_numbers_of_several_classes_are_told_at_once() -> None:
    told = "buffer_size must.*tau must.*initial_alpha must be above 0, got 0.0; alpha_lr must"
    with pytest.raises(rf.BuildError, match=told):
        sac.Config(buffer_size=1, tau=0.0, initial_alpha=0.0, alpha_lr=-1.0)


@pytest.mark.parametrize(("old", "new"), [("loss", "update"), ("postprocess", "prepare")])
def test_settings_of_the_first_edition_say_what_they_are_now(old: str, new: str) -> None:
    with pytest.raises(rf.BuildError, match=f"unknown setting '{old}': it is '{new}' now"):
        ppo.Config(**{old: print})


def test_settings_travel() -> None:
    config = pickle.loads(pickle.dumps(ppo.Config(env="Acrobot-v1", hidden=(8,))))
    assert config == ppo.Config(env="Acrobot-v1", hidden=(8,))
    assert config.algorithm is ppo.PPO
