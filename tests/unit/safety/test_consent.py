"""What counts as code that a file names."""

from __future__ import annotations

from typing import Any

import pytest

from rillflow.safety.consent import named_code, refusal, untrusted


@pytest.mark.parametrize(
    "env",
    [
        "subprocess:check_output",
        "my_envs:Maze",
        "evil:CartPole-v1",  # Gymnasium imports what stands before the colon
        ":x",
        "pettingzoo.classic.rps_v2",
        "antigravity.x",
    ],
)
def test_an_environment_that_would_be_imported_is_code(env: str) -> None:
    assert list(named_code({"env": env})) == [env]


@pytest.mark.parametrize(
    "env",
    [
        "CartPole-v1", "ALE/Pong-v5", "PongNoFrameskip-v4", "HalfCheetah-v2", "Bandit",
        "MultiAgentCartPole", "CartPole-hidden-velocity", "nobody-knows-it", None, 3,
    ],
)  # fmt: skip
def test_an_environment_that_is_looked_up_is_not(env: Any) -> None:
    assert named_code({"env": env, "env_config": {"map": "8x8", "file": "ant.xml"}}) == {}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"loss": "m:a", "postprocess": "m:b", "model": "m:C"}, ["m:a", "m:b", "m:C"]),
        ({"model": "mlp", "hidden": [64, 64], "lr": 1e-3, "activation": "tanh"}, []),
        ({"model": "two words:x"}, ["two words:x"]),
        ({"env": "CartPole-v1", "env_config": {"id": "evil:Env-v0"}}, ["evil:Env-v0"]),
        ({"env_config": {"deep": [{"class": "os.system"}]}}, ["os.system"]),
        ({"env_config": {"deep": [{"os.system": 1}]}}, ["os.system"]),
        ({"env_config": {"file": "no_such_module.xml", "url": "http://a.b/c", "at": "12:30"}}, []),
        ({"anything": "os:system"}, ["os:system"]),
        ("not even a dict", []),
        (None, []),
    ],
)  # fmt: skip
def test_settings_that_would_be_imported_are_code(settings: Any, expected: list[str]) -> None:
    """Also where it is not we who would, but an environment that imports what it is given."""
    assert sorted(named_code(settings)) == sorted(expected)


def test_an_algorithm_of_ones_own_is_code() -> None:
    assert named_code({}, "my_algorithm:plan") == {"my_algorithm:plan": "its algorithm"}
    assert named_code({}, "ppo") == {}


def test_settings_may_be_as_deep_as_they_like() -> None:
    deep: Any = "os:system"
    for _ in range(100_000):
        deep = [deep]
    named = named_code({"env": "m:Env", "env_config": {"deep": deep}})
    assert list(named) == ["m:Env", "os:system"]
    assert len(named["m:Env"]) < 300


def test_what_is_trusted_is_trusted_by_its_whole_name() -> None:
    named = {"m:a": "its environment", "m:ab": "its loss"}
    assert list(untrusted(named, ["m:a", "m"])) == ["m:ab"]
    assert list(untrusted(named, "m:ab")) == ["m:a"]


def test_the_refusal_names_the_code_and_the_way() -> None:
    named = named_code({"env": "os:system", "env_config": {"command": "rm"}})
    told = refusal("p.npz", named, "load it with trust=['os:system'].")
    assert "'os:system', its environment, called with {'command': 'rm'}" in told
    assert told.endswith("if you know it, load it with trust=['os:system'].")


def test_a_refusal_shows_no_escapes_of_a_terminal() -> None:
    """What a file says reaches the terminal as text, whatever is in it."""
    named = named_code({"env": "a:\x1b[2Jrm", "env_config": {"b": "\x1b[2J"}})
    told = refusal("p.npz", named, "never shown")
    assert "\x1b" not in told
    assert "never shown" not in told
