"""Flags become settings; every form of the same request is the same request."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from rillflow.cli.flags.parser import Parser
from rillflow.cli.flags.settings import from_json, parse_value, settings_of, shown
from rillflow.cli.flags.until import parse_until
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.request import (
    Request,
    add_request_flags,
    chosen_algorithm,
    command_line,
    parse_request,
)
from rillflow.errors import BuildError

OWN = '''
"""An algorithm of a user."""
from dataclasses import dataclass
from rillflow.algorithms import a2c
from rillflow.learning.algorithm import Algorithm
import gymnasium

@dataclass(frozen=True, kw_only=True)
class Config(a2c.Config):
    """Settings of mine."""

    knob: float = 0.5
    """a knob"""

def plan(rollouts, workers, cfg=None):
    return a2c.plan(rollouts, workers, cfg)

def make_env(**more):
    return gymnasium.make("CartPole-v1", **more)

MINE = Algorithm("mine", Config, a2c.modules, a2c.update, plan, prepare=a2c.prepare)
'''


def parse(*arguments: str) -> Request:
    parser = Parser("train", "")
    add_request_flags(parser)
    return parse_request(parser, arguments)


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "4", 4),
        (int, "400_000", 400_000),
        (int, "4e5", 400_000),
        (int, "4.0", "4.0"),
        (int, "four", "four"),
        (float, "3e-4", 3e-4),
        (float | None, "none", None),
        (float | None, "None", None),
        (float | None, "0.5", 0.5),
        (str, "tanh", "tanh"),
        (bool, "true", True),
        (tuple[int, ...], "64,64", (64, 64)),
        (tuple[int, ...], "(64, 32)", (64, 32)),
        (tuple[int, ...], "64", (64,)),
        (tuple[int, ...], "", ()),
        (dict[str, Any], '{"size": 3}', {"size": 3}),
        (Any, "mlp", "mlp"),
        (Any, "none", None),
        (Any, "math:sqrt", math.sqrt),
    ],
)
def test_text_becomes_a_value_of_the_type_or_stays_text(hint: Any, text: str, value: Any) -> None:
    assert parse_value(hint, text) == value


@pytest.mark.parametrize("value", [None, True, 3, 0.25, (64, 64), "tanh"])
def test_a_shown_value_can_be_typed_in_again(value: Any) -> None:
    hint = type(value) if not isinstance(value, tuple) else tuple[int, ...]
    assert parse_value(hint | None, shown(value)) == value  # type: ignore[operator]


def test_lists_of_json_are_tuples() -> None:
    assert from_json(tuple[int, ...], [64, 64]) == (64, 64)
    assert from_json(Any, "math:sqrt") is math.sqrt
    assert from_json(str, "a:b") == "a:b"


@pytest.mark.parametrize(
    "arguments",
    [
        ["ppo", "Bandit", "--num-workers", "4", "--lambda", "0.9"],
        ["--num-workers", "4", "ppo", "Bandit", "--lambda=0.9"],
        ["--num_workers=4", "--lambda", "0.9", "PPO", "Bandit"],
        ["--run=PPO", "--env=Bandit", '--config={"num_workers": 4, "lambda_": 0.9}'],
        ["--run", "PPO", "Bandit", "--config", '{"num_workers": 4, "lambda": 0.9}'],
        ["ppo", "--env", "Bandit", "--config", '{"num_workers": 9}', "--num-workers", "4",
         "--lambda", "0.9"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_form_means_the_same(arguments: list[str]) -> None:
    request = parse(*arguments)
    assert request.algorithm == "ppo"
    assert request.config == request.module.Config(env="Bandit", num_workers=4, lambda_=0.9)


def test_the_form_of_the_seed_documents_is_understood() -> None:
    arguments = ["--run=PPO", "--env=Pong-v0", '--config={"num_workers": 4, "num_gpus": 1}']
    request = parse(*arguments)
    assert (request.algorithm, request.env) == ("ppo", "Pong-v0")
    assert (request.config.num_workers, request.config.num_gpus) == (4, 1)


@pytest.mark.parametrize("arguments", [[], ["--run"], ["--help"], ["--lr", "3"]])
def test_no_algorithm_is_found_where_none_is_named(arguments: list[str]) -> None:
    assert chosen_algorithm(arguments) is None


def test_switches_go_both_ways() -> None:
    assert parse("dqn", "--no-double-q").config.double_q is False
    assert parse("dqn", "--double-q").config.double_q is True
    assert parse("dqn", "--double_q").config.double_q is True


def test_settings_can_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"hidden": [32], "lr": 0.01}')
    config = parse("ppo", "--config", str(path)).config
    assert (config.hidden, config.lr) == ((32,), 0.01)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_algorithm.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_algorithm", raising=False)  # another test's, of that name
    return "own_algorithm"


@pytest.mark.parametrize("name", ["plan", "MINE", "Config"])
def test_an_algorithm_of_ones_own_has_its_flags_too(own: str, name: str) -> None:
    request = parse(f"{own}:{name}", f"{own}:make_env", "--knob", "3")
    assert request.config.knob == 3.0
    assert request.env == f"{own}:make_env"
    (knob,) = [s for s in settings_of(request.module.Config) if s.name == "knob"]
    assert (knob.help, knob.group) == ("a knob", "Settings of mine")


def test_a_command_line_reproduces_its_settings() -> None:
    request = parse("dqn", "CartPole-v1")
    changed = {"lr": 3e-4, "hidden": (32, 32), "double_q": False, "grad_clip": None}
    words = command_line(request, changed).split()
    assert words[:4] == ["rillflow", "train", "dqn", "CartPole-v1"]
    config = parse(*words[2:]).config
    assert {name: getattr(config, name) for name in changed} == changed


def test_limits_may_be_repeated_or_listed() -> None:
    assert parse_until(["return=475", "steps=4e5"]) == {"return": 475, "steps": 400_000}
    assert parse_until(["return=-110,seconds=0.5"]) == {"return": -110, "seconds": 0.5}
    assert parse_until(["steps=2M"]) == {"steps": 2_000_000}
    assert parse_until([]) == {"steps": 100_000}


def test_every_wrong_limit_is_told_at_once() -> None:
    with pytest.raises(Usage, match=r"no limit 'rewards', did you mean 'return'.*steps must be"):
        parse_until(["rewards=3", "steps=-1"])


def test_a_schedule_is_a_value_of_any_number(tmp_path: Path) -> None:
    """On the command line, in JSON, and in the words that are shown for it."""
    from rillflow.learning.schedules import Linear, Piecewise

    given = ("--lr", "3e-4:0", "--clip-param", "0=0.3,0.5=0.1,1=0.1@1e4")
    config = parse("ppo", "CartPole-v1", *given).config
    assert config.lr == Linear(3e-4, 0.0)
    assert config.clip_param == Piecewise((0, 0.3), (0.5, 0.1), (1, 0.1), steps=10_000)
    same = parse("ppo", "--env", "CartPole-v1", "--config", '{"lr": "3e-4:0"}').config
    assert same.lr == config.lr
    assert parse("ppo", "CartPole-v1", "--lr", shown(config.lr)).config.lr == config.lr
    with pytest.raises(BuildError, match=r"lr: a schedule is written FIRST:LAST.*got '3e-4:zero'"):
        parse("ppo", "CartPole-v1", "--lr", "3e-4:zero")
