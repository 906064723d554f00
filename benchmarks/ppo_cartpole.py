"""How long does PPO need for CartPole-v1, beside the libraries people use?

Training seconds until the mean return of the last 100 training episodes is 475, by the same
definition on every side: from the call that trains, libraries imported, to the threshold. Ours
counts the start of its worker processes. `wall_s` counts the start of the process and the imports.

The bars speak of SB3, the fastest of them. Two are not here: PufferLib's package does not build
without downloads from elsewhere than PyPI, and CleanRL is no package but files to copy.

Memory is measured in runs of its own, since sampling it slows a run down.
"""

from __future__ import annotations

import sys

from _common import Report, ratio, script
from _drivers import OURS, Driver, peers_of, rounds

MINUTES = 18
PEERS = {
    "sb3": Driver("sb3", "sb3_ppo_cartpole.py", limit=150),
    "tianshou": Driver("tianshou", "tianshou_ppo_cartpole.py", limit=150),
    "torchrl": Driver("torchrl", "torchrl_ppo_cartpole.py", limit=150),
    "rllib": Driver("rllib", "rllib_ppo_cartpole.py", limit=150),
    "sample_factory": Driver("sample_factory", "sample_factory_ppo_cartpole.py", limit=150),
}
RATIOS = (
    # name, field, what is above, unit, bar
    ("training_time", "train_s", "peer", "peer's seconds / ours", ">= 8"),
    ("time_with_start", "wall_s", "peer", "peer's seconds / ours", ">= 4"),
    ("env_steps", "env_steps", "ours", "our steps / the peer's", "<= 1.5"),
    ("steps_per_second", "steps_per_s", "ours", "our rate / the peer's", ">= 10"),
)
PLATEAU = 12
"""seconds after which a peer's memory does not grow any more; cut short, it looks smaller"""


def ask(report: Report) -> None:
    peers = peers_of(report, tuple(PEERS), PEERS)
    budget = 10 if report.options.quick else 120
    report.settings.update(seeds=list(range(1, report.options.repeats + 1)), budget_s=budget)
    ours = Driver(OURS, "rillflow_ppo_cartpole.py", limit=150)
    drivers = {OURS: ours, **{peer: PEERS[peer] for peer in peers}}
    rounds(report, {case: _with(driver, budget=budget) for case, driver in drivers.items()})
    for peer in peers:
        _compare(report, peer)
    watched = {
        f"{case} memory": _with(driver, memory=True, budget=budget if case == OURS else PLATEAU)
        for case, driver in drivers.items()
        if case not in report.missing
    }
    rounds(report, watched)
    for peer in peers:
        pair = [report.values(f"{who} memory", "peak_mb") for who in (OURS, peer)]
        name = f"memory_vs_{peer}"
        bar = "< 1" if peer == "sb3" else None
        report.add(ratio(name, *pair, "our peak / the peer's", bar), otherwise=name)


def _with(driver: Driver, *, memory: bool = False, **more: object) -> Driver:
    return Driver(driver.who, driver.file, {**driver.arguments, **more}, driver.limit, memory)


def _compare(report: Report, peer: str) -> None:
    for name, field, above, unit, bar in RATIOS:
        ours = report.values(OURS, field)
        theirs, notes = report.values(peer, field), {}
        if field in ("train_s", "wall_s"):
            theirs, notes = _at_least(report, peer, field)
        if None in ours and len(ours) == len(theirs):
            notes["our_failures"] = f"{ours.count(None)} of {len(ours)} runs did not get there"
        pair = (theirs, ours) if above == "peer" else (ours, theirs)
        held = bar if peer == "sb3" else None  # the bars speak of SB3
        name = f"{name}_vs_{peer}"
        report.add(ratio(name, *pair, unit, held, **notes), otherwise=name)


def _at_least(report: Report, peer: str, field: str) -> tuple[list[float | None], dict[str, str]]:
    """A peer that did not get there in its time has needed at least that time."""
    rows = [row for row in report.measurements if row["case"] == peer]
    values = [row.get(field, row.get("run_s")) for row in rows]
    unsolved = sum(not row.get("solved", False) for row in rows)
    note = f"a lower bound: {unsolved} of {len(rows)} runs did not get there"
    return values, {"note": note} if unsolved else {}


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
