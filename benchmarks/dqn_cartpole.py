"""How long does DQN need for CartPole-v1, and how many updates per second does it make?

Training seconds until twenty greedy episodes have a mean return of 475. Every side evaluates by the
same code at its first chance after each 1,000 environment steps, and the time of evaluations is
not counted. Updates per second: 256 x 256, batch 64, one update every second step, as SB3 has it.
"""

from __future__ import annotations

import statistics
import sys

from _common import Report, figure, ratio, script
from _drivers import OURS, Driver, measure, peers_of

MINUTES = 12
PEERS = ("sb3", "tianshou", "rllib")
ENOUGH, LEAST = 4.0, 20.0
"""a peer stops after so many times our seconds, but not before so many seconds"""
UPDATES = {OURS: "rillflow updates", "sb3": "sb3 updates"}


def ask(report: Report) -> None:
    peers = peers_of(report, PEERS, PEERS)
    budget, rate_budget = (6, 5) if report.options.quick else (80, 10)
    report.settings.update(
        budget_s=budget, evaluate_every_steps=1000, seeds=list(range(1, report.options.repeats + 1))
    )
    same = {"budget": rate_budget, "evaluate": 0}
    updates = {UPDATES[OURS]: Driver(OURS, "rillflow_dqn_cartpole.py", {**same, "variant": "same"})}
    if "sb3" in peers:
        updates[UPDATES["sb3"]] = Driver("sb3", "sb3_dqn_cartpole.py", same)
    for round_ in range(report.options.repeats):
        _round(report, round_, [OURS, *peers], budget)
        for case, driver in updates.items():
            if case not in report.missing:
                measure(report, case, driver, round_, seed=round_ + 1)
    _time(report, [peer for peer in peers if report.values(peer, "run_s") != [None]])
    pair = (report.values(case, "updates_per_s") for case in UPDATES.values())
    name = "updates_per_second_vs_sb3"
    report.add(ratio(name, *pair, "our rate / SB3's", ">= 2"), otherwise=name)


def _round(report: Report, round_: int, everybody: list[str], budget: float) -> None:
    """Ours, then the peers, who get so much of our time that the bar is decided."""
    for who in everybody:
        if who in report.missing:
            continue
        needed = [seconds for seconds in report.values(OURS, "train_s") if seconds is not None]
        own = budget
        if who != OURS and needed:
            own = min(budget, max(LEAST, ENOUGH * statistics.median(needed)))
        driver = Driver(who, f"{who}_dqn_cartpole.py", {"budget": own}, limit=2 * own + 60)
        measure(report, who, driver, round_, seed=round_ + 1)


def _time(report: Report, peers: list[str]) -> None:
    """Against each peer and the fastest: a run that did not get there took all its time."""
    ours = [row for row in report.measurements if row["case"] == OURS]
    unsolved = sum(not row.get("solved", False) for row in ours)
    if unsolved:
        report.lacks("some of our runs", f"{unsolved} of {len(ours)} did not reach 475")
    seconds = [row.get("train_s") for row in ours]
    medians = {}
    for peer in peers:
        rows = [row for row in report.measurements if row["case"] == peer]
        took = [row.get("train_s", row.get("run_s")) for row in rows]
        missed = sum(not row.get("solved", False) for row in rows)
        note = {"note": f"a lower bound: {missed} of {len(rows)} runs did not get there"}
        name = f"time_vs_{peer}"
        unit = "peer's seconds / ours"
        report.add(ratio(name, took, seconds, unit, **(note if missed else {})), otherwise=name)
        known = [value for value in took if value]
        if known:
            medians[peer] = statistics.median(known)
    if medians:
        best = min(medians, key=lambda peer: medians[peer])
        found = [f for f in report.figures if f.benchmark == f"time_vs_{best}"]
        value = 0.0 if unsolved > len(ours) / 2 or not found else found[0].value
        report.add(figure("time_vs_best_peer", value, "peer's seconds / ours", ">= 3", best=best))


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
