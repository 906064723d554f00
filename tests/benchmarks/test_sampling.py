"""What the question about sampling concludes from what was measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
for folder in (BENCHMARKS, BENCHMARKS / "peers"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # they are scripts: they find each other by their folder

import _common  # noqa: E402
import _driver  # noqa: E402
import _drivers  # noqa: E402
import sampling  # noqa: E402

SPEED = {"rillflow": 300.0, "limit": 400.0, "torchrl": 100.0, "sb3": 50.0, "bare": 500.0}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> _common.Report:
    """Asked with drivers that answer at once: more copies are faster, workers add up."""

    def measure(
        report: _common.Report, case: str, driver: _drivers.Driver, round_: int, **more: Any
    ) -> dict[str, Any]:
        speed = SPEED[case.split()[0]] * driver.arguments.get("workers", 1)
        cases = driver.arguments["cases"].split(",")
        rates = {name: speed * int(name.split(":")[1] or 1) for name in cases}
        if case == "limit":
            copies = {name: max(sampling.SIZES[name.split(":", 2)[2]]) for name in cases}
            rates = {name: speed * n for name, n in copies.items()}
        return report.measured(case, round=round_, rates=rates)

    monkeypatch.setattr(sampling, "measure", measure)
    report = _common.Report("sampling", "How fast?", _common.Options(peers=("torchrl", "sb3")))
    sampling.ask(report)
    return report


def test_the_closest_peer_is_the_bar_where_environments_are_cheap(report: _common.Report) -> None:
    """Not for MountainCar and Acrobot: there everybody is nearly as fast as they are."""
    found = {figure.benchmark: (figure.value, figure.bar) for figure in report.figures}
    assert found["cartpole_native_beside_torchrl"] == (3.0, ">= 3")
    assert found["walk_sync_beside_torchrl"] == (3.0, ">= 3")
    assert found["walk_sync_vs_torchrl"] == (3.0, None)
    assert found["walk_sync_vs_sb3"] == (6.0, None)
    assert found["mountaincar_sync_vs_torchrl"] == (3.0, None)
    assert found["mlp_x2_vs_x1"] == (2.0, ">= 1.7")
    beside = [name.rsplit("_beside_")[0] for name in found if "_beside_" in name]
    assert beside == ["cartpole_native", "walk_sync"]


def test_the_environment_is_the_limit(report: _common.Report) -> None:
    """Our share of it, and how far ahead of the closest peer anybody could be."""
    found = {figure.benchmark: figure.value for figure in report.figures}
    for label in sampling.LABELS.values():
        assert found[f"{label}_sync_of_limit"] == 0.75
        assert found[f"{label}_limit_vs_torchrl"] == 4.0


def test_later_rounds_repeat_the_best_sizes_only(report: _common.Report) -> None:
    first, *later = (row["rates"] for row in report.measurements if row["case"] == "torchrl")
    assert len(first) == 11
    assert [len(rates) for rates in later] == [5, 5]
    assert "sync:512:_walk:Walk-v0" in later[0]
    assert "sync:512:Acrobot-v1" not in first


def test_a_walk_ends_when_its_seed_says_so() -> None:
    """With an observation of its own at each step, as its space promises."""
    env = gymnasium.make("_walk:Walk-v0")
    check_env(env.unwrapped, skip_render_check=True)

    def walk(seed: int) -> list[Any]:
        seen, over = [env.reset(seed=seed)[0]], False
        while not over:
            obs, reward, over, truncated, _ = env.step(len(seen) % 2)
            assert obs is not seen[-1]
            assert (reward, truncated) == (1.0, False)
            seen.append(obs)
        return seen

    lengths = {seed: len(walk(seed)) - 1 for seed in range(20)}
    assert all(50 <= n <= 200 for n in lengths.values())
    assert len(set(lengths.values())) > 1
    np.testing.assert_array_equal(walk(3), walk(3))


def test_a_case_names_an_environment_with_its_module() -> None:
    assert _driver.cases_of("sync:64:_walk:Walk-v0,default:0:CartPole-v1") == [
        ("sync:64:_walk:Walk-v0", "sync", 64, "_walk:Walk-v0"),
        ("default:0:CartPole-v1", "default", 0, "CartPole-v1"),
    ]
