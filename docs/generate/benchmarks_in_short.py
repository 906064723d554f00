"""What a reader of the benchmarks wants to know first: a few questions, everybody's medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

OURS = "rillflow"
NAMES = {
    "sb3": "Stable-Baselines3",
    "tianshou": "Tianshou",
    "torchrl": "TorchRL",
    "rllib": "RLlib",
    "sample_factory": "Sample Factory",
}


def seconds(value: float) -> str:
    """As one says them."""
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def rate(value: float) -> str:
    """So many a second."""
    return f"{value:,.0f} a second"


def megabytes(value: float) -> str:
    """So much memory."""
    return f"{value:,.0f} MB"


QUESTIONS: tuple[tuple[str, str, str, str, Callable[[float], str]], ...] = (
    ("How long until PPO plays CartPole-v1?", "ppo_cartpole", "{}", "train_s", seconds),
    ("And with the start of the process?", "ppo_cartpole", "{}", "wall_s", seconds),
    ("How much memory does that take?", "ppo_cartpole", "{} memory", "peak_mb", megabytes),
    ("How long until DQN plays CartPole-v1?", "dqn_cartpole", "{}", "train_s", seconds),
    ("How many updates does DQN make?", "dqn_cartpole", "{} updates", "updates_per_s", rate),
    ("How many steps of Pong does IMPALA learn from?", "pong", "{} impala", "steps_per_s", rate),
    ("How many steps of Pong does PPO learn from?", "pong", "{} ppo", "steps_per_s", rate),
)
"""the words, the benchmark, how its cases are called, the number, and how that is said"""


def table(found: list[dict[str, Any]]) -> str:
    """A row for each question that was measured, ours first."""
    known = {document["question"]: document for document in found}
    rows = ["| | rillflow | others, the best first |", "|---|---|---|"]
    for words, benchmark, case, number, said in QUESTIONS:
        if benchmark not in known:
            continue
        measured = known[benchmark]["measurements"]
        medians = {who: _median(measured, case.format(who), number) for who in (OURS, *NAMES)}
        ours = medians.pop(OURS)
        if ours is None:
            continue
        best = sorted(
            ((value, who) for who, value in medians.items() if value is not None),
            reverse=said is rate,
        )
        others = ", ".join(f"{NAMES[who]} {said(value)}" for value, who in best)
        where = f"[{words}](#{benchmark})"
        rows.append(f"| {where} | **{said(ours)}** | {others or 'none was measured'} |")
    return "\n".join(rows)


def _median(measured: list[dict[str, Any]], case: str, number: str) -> float | None:
    """Of the rounds that reached the goal; None if most did not."""
    rounds = [row for row in measured if row["case"] == case]
    values = [row[number] for row in rounds if row.get(number) is not None]
    return statistics.median(values) if len(values) > len(rounds) / 2 else None
