"""Settings that suit an environment: taken where nothing else is said."""

from __future__ import annotations

import dataclasses

import pytest

import rillflow as rf
from rillflow.algorithms import NAMES, get_algorithm, ppo
from rillflow.learning.suited_settings import tuned


@pytest.mark.parametrize("env", ["ALE/Pong-v5", "Pong-v0", "BreakoutNoFrameskip-v4"])
def test_an_atari_game_gets_the_settings_of_its_family(env: str) -> None:
    config = ppo.Config.make(env=env)
    for name, value in ppo.TUNED["atari"].items():
        assert getattr(config, name) == value


@pytest.mark.parametrize("name", ["impala", "appo", "ppo", "apex", "dqn", "rainbow"])
def test_a_gpu_gets_settings_of_its_own_in_atari_games_alone(name: str) -> None:
    algorithm = get_algorithm(name)
    both = algorithm.tuned["atari"] | algorithm.tuned["atari-gpu"]
    on_a_gpu = algorithm.Config(env="PongNoFrameskip-v4", num_gpus=1)
    assert {key: getattr(on_a_gpu, key) for key in both} == both
    here = algorithm.Config(env="ALE/Pong-v5")
    assert here.env_config == {}
    assert here == algorithm.Config(env="ALE/Pong-v5", num_gpus=0)
    elsewhere = algorithm.Config(env="CartPole-v1", num_gpus=1)
    assert dataclasses.replace(elsewhere, num_gpus=0) == algorithm.Config(env="CartPole-v1")


def test_options_of_games_that_are_not_said_stay_what_suits() -> None:
    said = {"sticky_actions": 0.0}
    config = ppo.Config(env="ALE/Pong-v5", num_gpus=1, env_config=said)
    assert config.env_config == {"resumable": False, "sticky_actions": 0.0}
    assert said == {"sticky_actions": 0.0}
    exact = ppo.Config(env="ALE/Pong-v5", num_gpus=1, env_config={"resumable": True})
    assert exact.env_config == {"resumable": True}
    assert ppo.Config(env="ALE/Pong-v5", env_config=said).env_config == said


def test_what_is_said_wins() -> None:
    config = ppo.Config.make(env="Pendulum-v1", lr=0.5, gamma=0.99)
    assert (config.lr, config.gamma, config.activation) == (0.5, 0.99, "relu")


def test_other_environments_get_the_defaults() -> None:
    assert ppo.Config.make(env="CartPole-v1") == ppo.Config(env="CartPole-v1")
    assert ppo.Config.make() == ppo.Config()
    assert tuned(ppo.Config, lambda: None) == {}


@pytest.mark.parametrize("name", NAMES)
def test_tables_name_settings_that_there_are_and_that_differ(name: str) -> None:
    algorithm = get_algorithm(name)
    defaults = {field.name: field.default for field in dataclasses.fields(algorithm.Config)}
    for family, settings in algorithm.tuned.items():
        assert settings.keys() <= defaults.keys()
        below = defaults | algorithm.tuned["atari"] if family == "atari-gpu" else defaults
        assert all(value != below[key] for key, value in settings.items())


def test_an_environment_that_nobody_names_gets_its_settings_too() -> None:
    """`train("ppo")` is `train("ppo", "CartPole-v1")`."""
    found = [
        rf.train("ppo", *env, until=1, engine="sim", num_workers=0).config
        for env in ((), ("CartPole-v1",))
    ]
    assert found[0] == found[1]
    assert found[0].num_envs_per_worker == ppo.MANY["num_envs_per_worker"]
