"""Numbers that follow the run: their values, their text, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from rillflow.algorithms import a2c, apex, async_dqn, dqn, ppo, sac
from rillflow.errors import BuildError
from rillflow.learning.schedules import Linear, Piecewise, Scheduled, at_first, over_run, parse
from rillflow.policies.exploration_schedules import Place
from rillflow.results.config_as_json import plain_settings, settings_of
from rillflow.rl.workers import Workers
from rillflow.runs.saved_job import settings_from


def test_values_by_hand() -> None:
    line = Linear(1.0, 0.2, steps=100)
    assert [line.at(steps) for steps in (-5, 0, 25, 100, 999)] == [1.0, 1.0, 0.8, 0.2, 0.2]
    bent = Piecewise((0, 4), (0.25, 0), (0.75, 0), (1, 8), steps=400)
    assert [bent.at(steps) for steps in (50, 100, 200, 350, 400)] == [2.0, 0.0, 0.0, 4.0, 8.0]
    assert line.times(3).at(75) == line.at(25)
    assert Linear(1, 0).over(10).at(5) == 0.5
    assert Linear(1, 0, steps=20).over(10).at(5) == 0.75


@pytest.mark.parametrize(
    "schedule",
    [
        Linear(3e-4, 0.0),
        Linear(0.1, 1e-9, steps=12345),
        Piecewise((0, 0.1), (1 / 3, -2.0), (1, 7e30), steps=3),
    ],
    ids=str,
)
def test_a_schedule_is_read_back_from_its_text(schedule: Any) -> None:
    assert parse(str(schedule)) == schedule
    assert f"{schedule:g}" == str(schedule)


@pytest.mark.parametrize(
    "text", ["1:", ":", "1:2:3", "1:2@", "1:2@x", "0=1", "0=1,1", "0=1,0.5=2", "0.2=1,1=2",
             "0=1,0.5=2,0.5=3,1=4", "nan:1", "1:inf", "1:2@0", "1:2@-5", "one:two"],
)  # fmt: skip
def test_what_is_no_schedule_is_told_with_the_setting(text: str) -> None:
    with pytest.raises(BuildError, match=r"ppo.*lr: a schedule|lr: the points|lr: Piecewise"):
        ppo.Config(lr=text)


def test_text_is_a_schedule_in_the_place_of_any_number_alone() -> None:
    config = ppo.Config(lr="3e-4:0", vf_clip_param="0=0.2,1=0.1@500")
    assert config.lr == Linear(3e-4, 0.0)
    assert config.vf_clip_param == Piecewise((0, 0.2), (1, 0.1), steps=500)
    with pytest.raises(BuildError, match="num_sgd_iter must be a whole number, got '1:2'"):
        ppo.Config(num_sgd_iter="1:2")
    with pytest.raises(BuildError, match="hidden must be a tuple"):
        ppo.Config(hidden=Linear(1, 2))


def test_every_point_of_a_schedule_has_to_be_a_number_that_could_stand_alone() -> None:
    with pytest.raises(BuildError, match=r"gamma must be between 0 and 1, got 1\.5"):
        a2c.Config(gamma=Piecewise((0, 0.9), (0.5, 1.5), (1, 0.9)))
    with pytest.raises(BuildError, match="lr must be above 0"):
        ppo.Config(lr=Linear(1e-3, -1e-3))
    with pytest.raises(BuildError, match=r"epsilon must be between 0 and 1, got 2\.0"):
        dqn.Config(epsilon=Linear(2.0, 0.1))
    ppo.Config(lr=Linear(1e-3, 0.0))  # of a rate that falls, 0 is the usual end


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [(ppo, "adam_epsilon"), (dqn, "gamma"), (dqn, "training_intensity"), (sac, "initial_alpha"),
     (sac, "env_timeout"), (apex, "prioritized_replay_alpha")],
)  # fmt: skip
def test_numbers_that_are_read_once_cannot_be_scheduled(algorithm: Any, name: str) -> None:
    with pytest.raises(BuildError, match=f"{name} is read once, when a run begins"):
        algorithm.Config(**{name: Linear(0.5, 0.9)})


def test_a_rate_falls_once() -> None:
    assert dqn.Config(env="CartPole-v1").final_lr is not None
    assert dqn.Config(env="CartPole-v1", lr=Linear(1e-3, 1e-4)).final_lr is None
    with pytest.raises(BuildError, match="final_lr is for an lr that is one number"):
        ppo.Config(lr=Linear(1e-3, 1e-4), final_lr=1e-5)


def test_a_schedule_over_a_run_needs_its_steps() -> None:
    config = ppo.Config(lr=Linear(1e-3, 0), entropy_coef=Linear(0.1, 0, steps=50))
    for refused in (
        lambda: Workers(config),
        lambda: over_run(config, {"return": 475}),
        lambda: config.lr.at(3),
    ):
        with pytest.raises(BuildError, match=r"train until steps=N, or say its own.*100_000"):
            refused()
    found = over_run(config, {"steps": 200, "return": 475})
    assert found.lr.at(100) == pytest.approx(5e-4)
    assert found.entropy_coef.steps == 50
    assert Workers(found).config is found
    assert over_run(ppo.Config(), {}) == ppo.Config()


def test_settings_of_the_moment_are_plain_and_cached() -> None:
    config = ppo.Config(clip_param=Linear(0.3, 0.1, steps=100))
    changing = Scheduled(config)
    assert changing
    assert changing.at(50).clip_param == pytest.approx(0.2)
    assert changing.at(50) is changing.at(50)
    assert changing.figures(changing.at(50)) == {"clip_param": pytest.approx(0.2)}
    assert at_first(config).clip_param == 0.3
    plain = ppo.Config()
    assert not Scheduled(plain)
    assert Scheduled(plain).at(7) is at_first(plain) is plain


def test_schedules_are_saved_as_text_and_read_back() -> None:
    config = ppo.Config(lr=Linear(3e-4, 0.0), clip_param=Piecewise((0, 0.3), (0.5, 0.2), (1, 0.1)))
    for saved in (settings_of(config), plain_settings(config)):
        saved = json.loads(json.dumps(saved))
        assert saved["lr"] == "0.0003:0.0"
        assert settings_from(ppo.Config, saved) == config
    assert dataclasses.replace(config, gamma=0.9).lr == config.lr


def test_replay_counts_its_steps_by_what_it_trains() -> None:
    config = dqn.Config(learning_starts=100, training_intensity=4.0)
    assert (config.steps_behind(0), config.steps_behind(400)) == (100, 200)
    assert a2c.Config().steps_behind(400) == 400


def test_epsilon_takes_the_place_of_the_line() -> None:
    config = dqn.Config(epsilon=Linear(1.0, 0.0, steps=100))
    rates = [Scheduled(config).at(s).explorer().rate(Place(), 0) for s in (0, 25, 100)]
    assert rates == [1.0, 0.75, 0.0]
    assert dqn.Config().explorer().rate(Place(), 0) == dqn.Config().initial_epsilon
    last = Place(worker=3, workers=4)
    assert apex.Config(epsilon=0.5).explorer().rate(last, 0) == 0.5**8
    assert apex.Config().explorer().rate(last, 0) == 0.4**8
    assert async_dqn.Config(epsilon=0.5).explorer().rate(last, 0) == 0.5**2
