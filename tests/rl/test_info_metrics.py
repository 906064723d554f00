"""Figures from infos travel from the workers into the history, and into evaluations."""

from __future__ import annotations

from typing import Any

import pytest

import rillflow as rf
from rillflow.rl.metrics import Progress
from tests.runs.test_evaluate_while_training import SMALL
from tests.unit.envs.test_final_info import Counting, TwoAgents


def test_they_are_means_of_the_last_hundred_episodes() -> None:
    progress = Progress()
    for value in range(150):
        progress.record(
            "w", 0, {"steps": 1, "episodes": [(1.0, 1)], "infos": [{"x": float(value)}]}
        )
    assert progress.row()["info/x"] == sum(range(50, 150)) / 100
    again = Progress()
    again.set_state(progress.get_state())
    assert again.row()["info/x"] == progress.row()["info/x"]
    old = {name: value for name, value in progress.get_state().items() if name != "infos"}
    again.set_state(old)
    assert "info/x" not in again.row()


@pytest.mark.parametrize("env", [Counting, lambda num_envs: _native(num_envs)])
def test_they_are_in_the_history_and_in_evaluations(env: Any) -> None:
    with pytest.warns(UserWarning, match="ended without info\\['nobody'\\]"):
        trained = rf.train(
            "ppo",
            env,
            until=600,
            engine="sim",
            info_metrics=("is_success", "nobody"),
            eval_every=300,
            eval_episodes=2,
            **SMALL,
        )
    last = trained.history[-1]
    assert last["info/is_success"] == last["eval_info/is_success"] == 1.0
    assert "info/nobody" not in last


def _native(num_envs: int) -> Any:
    import gymnasium as gym

    same = gym.vector.AutoresetMode.SAME_STEP
    return gym.vector.SyncVectorEnv([Counting] * num_envs, autoreset_mode=same)


def test_of_several_agents_each_policy_has_its_own() -> None:
    how: dict[str, Any] = {"policies": "each", "info_metrics": ("moves",)}
    trained = rf.train("ppo", TwoAgents, until=600, engine="sim", **how, **SMALL)
    last = trained.history[-1]
    assert (last["a/info/moves"], last["b/info/moves"]) == (2.0, 3.0)


def test_callbacks_see_them_with_each_episode() -> None:
    seen: list[Any] = []
    rf.train(
        "ppo",
        Counting,
        until=600,
        engine="sim",
        info_metrics=("moves",),
        on_episode=lambda run, episode: seen.append((episode["length"], episode["info"])),
        **SMALL,
    )
    assert seen
    assert all(info == {"moves": float(length)} for length, info in seen)


def test_through_aggregators_they_come_too() -> None:
    trained = rf.train(
        "impala",
        Counting,
        until=600,
        engine="sim",
        num_workers=2,
        num_envs_per_worker=4,
        num_aggregation_workers=1,
        info_metrics=("moves",),
    )
    assert trained.history[-1]["info/moves"] > 0
