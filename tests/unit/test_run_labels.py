"""What runs are called beside each other."""

from __future__ import annotations

from typing import Any

import pytest

from rillflow.run_labels import differences, places, settings_of_run, shown, text


def about(seed: int = 0, algorithm: str = "ppo", env: str = "CartPole-v1", **config: Any) -> Any:
    return {
        "algorithm": algorithm,
        "env": env,
        "seed": seed,
        "engine": "sim",
        "config": {"env": env, "lr": 1e-3, "hidden": [64, 64], **config},
    }


def names(*abouts: Any, **how: Any) -> list[str]:
    return [place.name for place in places(abouts, **how)]


def test_two_learning_rates_are_two_lines() -> None:
    assert names(about(), about(lr=1e-4)) == ["ppo lr=0.001", "ppo lr=0.0001"]
    assert names(about(), about(1), about(1, lr=1e-4)) == ["ppo lr=0.001"] * 2 + ["ppo lr=0.0001"]


def test_seeds_alone_are_one_line() -> None:
    assert names(about(0), about(1), about(2)) == ["ppo"] * 3
    assert len({place.settings for place in places([about(0), about(1)])}) == 1


def test_algorithms_are_told_by_their_names_alone() -> None:
    dqn = about(algorithm="dqn", double_q=True)
    assert names(about(), dqn) == ["ppo", "dqn"]


def test_what_differs_in_one_environment_is_not_said_of_another() -> None:
    other = about(env="Pong", lr=5.0)
    assert names(about(), other) == ["ppo", "ppo"]


def test_a_label_stands_first_and_what_still_differs_after_it() -> None:
    wide = {**about(), "label": "wide"}
    assert names(wide, about(lr=2.0)) == ["ppo, wide", "ppo"]
    assert names(wide, {**about(lr=2.0), "label": "wide"}) == [
        "ppo, wide lr=0.001", "ppo, wide lr=2",
    ]  # fmt: skip


def test_of_many_differences_few_are_told_and_the_rest_counted() -> None:
    many = [about(**{f"s{i}": i + k for i in range(9)}) for k in range(2)]
    assert names(*many) == ["ppo s0=0 (+8 more)", "ppo s0=1 (+8 more)"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (["lr"], ["ppo lr=0.001", "ppo lr=0.001", "ppo lr=5"]),
        (["algorithm"], ["ppo"] * 3),
        (["run"], ["a", "b", "c"]),
        (["seed"], ["ppo seed=0", "ppo seed=1", "ppo seed=0"]),
    ],
)
def test_the_user_says_what_makes_a_group(by: list[str], expected: list[str]) -> None:
    runs = about(), about(1, gamma=0.5), about(lr=5.0)
    assert names(*runs, group_by=by, alone=["a", "b", "c"]) == expected


def test_settings_inside_settings_and_those_that_only_watch() -> None:
    settings = settings_of_run(about(env_config={"size": 3}, lambda_=0.9, eval_every=100))
    assert settings["env_config.size"] == 3
    assert settings["lambda"] == 0.9
    assert not {"eval_every", "env", "seed"} & settings.keys()
    assert differences([{"a": 1, "b": (1, 2)}, {"a": 1.0, "b": [1, 2], "c": 0}]) == ["c"]


@pytest.mark.parametrize(
    "hostile",
    [
        {"algorithm": ["x"] * 10_000, "config": 3, "env": {"a": 1}},
        {"algorithm": "\x1b[2J\n<script>", "label": "\u202e" + "x" * 100_000, "config": []},
        {"config": {str(i): i for i in range(100_000)}},
        {"config": {"deep": {"er": {"est": {}}}, "nan": float("nan")}},
        {},
    ],
)
def test_what_is_no_run_has_a_short_harmless_name(hostile: Any) -> None:
    (one, other) = places([hostile, about()])
    assert one.name.isprintable()
    assert len(one.name) < 250
    assert other.name.startswith("ppo")


def test_values_are_short() -> None:
    assert shown({"a": "b" * 1000}) == text(repr({"a": "b" * 1000}))
    assert len(shown(["x" * 50] * 1000)) <= 60
    assert shown(float("nan")) == "nan"
