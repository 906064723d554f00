"""The page of benchmarks says what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docs.generate import bench_pictures, benchmarks, curve_panels


def document(question: str = "speed", **more: Any) -> dict[str, Any]:
    """What a question saves."""
    figure = {"benchmark": "speed_vs_peer", "value": 3.0, "unit": "x", "bar": ">= 4", "ok": False}
    return {
        "question": question,
        "asks": "How fast?",
        "quick": False,
        "date": "2026-01-01",
        "seconds": 12.0,
        "machine": {"cores": 2, "cpu": "a processor", "memory_gb": 8.0, "load_before": 0.1},
        "versions": {"torch": "2"},
        "settings": {"repeats": 3},
        "figures": [{**figure, "details": {"pairs": [2.0, 3.0, 4.0]}}],
        "missing": {"other": "exit code 1:\n  <module> | broken"},
        "measurements": [
            {"case": "rillflow", "round": 0, "train_s": 2.0, "run_s": 2.0, "steps_per_s": 1e5},
            {"case": "peer", "round": 0, "run_s": 60.0, "steps_per_s": 1e3},
        ],
        **more,
    }


def test_a_section_has_figures_pairs_medians_and_what_is_missing() -> None:
    text = benchmarks.section(document())
    assert "| `speed_vs_peer` | 3 x | >= 4 | **no** | 2, 3, 4 |" in text
    assert "| rillflow | 2 | 100,000 |" in text
    assert "- `other`: exit code 1: (module) / broken" in text


def test_documents_come_in_the_order_of_the_page(tmp_path: Path) -> None:
    for name in ("pong", "growth", "ppo_cartpole"):
        (tmp_path / f"{name}.json").write_text(json.dumps(document(name)))
    (tmp_path / "core.json").write_text('{"machine": "", "figures": []}')
    found = [saved["question"] for saved in benchmarks.documents(tmp_path)]
    assert found == ["ppo_cartpole", "pong", "growth"]


QUESTIONS = (
    *("speed", "ppo_cartpole", "dqn_cartpole", "pong", "sampling"),
    *("generality", "mujoco_million", "simple_spread"),
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_a_picture(question: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = document()["measurements"]
    if question == "sampling":
        rows = [{"case": "rillflow", "rates": {"sync:8:CartPole-v1": 5.0}}]
    if question == "pong":
        rows = [{"case": "rillflow ppo", "steps_per_s": 500.0}]
    if question == "generality":
        run = {"score": 3.0, "steps": 2000}
        training = [[1000, 0.0], [2000, 2.5]]
        rows = [
            {"case": "rillflow ppo Hopper-v5", "training": training, **run},
            {"case": "sb3 ppo Hopper-v5", **run},
        ]
    if question == "mujoco_million":
        rows = [
            {"case": env, "score": 3.0, "steps": 2000, "training": [[1000, 0.0], [2000, 2.5]]}
            for env in ("Hopper-v5", "Ant-v5", "Walker2d-v5", "HalfCheetah-v5")
        ]
    if question == "simple_spread":
        rows = [{"case": "shared weights", "score": 3.0, "steps": 2000, "training": [[1000, 0.0]]}]
    path = tmp_path / f"{question}.svg"
    assert bench_pictures.draw(document(question, measurements=rows), path)
    assert path.read_text().startswith("<?xml")


def test_the_page_opens_with_answers_in_words() -> None:
    """Ours and whoever else reached the goal in most rounds, the best first."""
    from docs.generate import benchmarks_in_short

    def case(who: str, *values: float | None) -> list[dict[str, object]]:
        return [{"case": who, "train_s": value} for value in values]

    measured = [
        *case("rillflow", 1.9, 2.0, 1.8),
        *case("tianshou", 33.0, 32.0, 31.0),
        *case("sb3", 23.0, None, 24.0),
        *case("rllib", None, None, 35.0),
    ]
    table = benchmarks_in_short.table([{"question": "ppo_cartpole", "measurements": measured}])
    (row,) = table.splitlines()[2:]
    assert row.endswith("| **1.9 s** | Stable-Baselines3 24 s, Tianshou 32 s |")


def test_what_is_published_is_a_line_in_the_panel_of_its_environment() -> None:
    pytest.importorskip("matplotlib")
    run = {"score": 3.0, "steps": 2000, "training": [[1000, 0.0], [2000, 2.5]]}
    rows = [{"case": env, **run} for env in ("Hopper-v5", "Ant-v5")]
    details = {"published_zoo": [2410.4, 10.0], "published_cleanrl": [2382.86, 271.74]}
    figures = [
        {"benchmark": "Hopper-v5", "details": details},
        {"benchmark": "Ant-v5", "details": {}},
    ]
    drawn = curve_panels.mujoco_million({"measurements": rows, "figures": figures})
    levels = [
        [line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1]
        for ax in drawn.axes[:2]
    ]
    assert levels == [[3.0, 2410.4, 2382.86], [3.0]]  # the dot of the last policy comes first
