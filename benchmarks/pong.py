"""How many environment steps per second do PPO and IMPALA make on Pong while they train?

84 x 84 pixels, four frames, Nature CNN, two workers. PPO: 8 environments x 128 steps, four epochs
in minibatches of 256, on every side. IMPALA: fragments of 50 steps, batches of 500, on both sides.
The first part of each run is left out. `ray` is our PPO on Ray instead of on processes of our own.
"""

from __future__ import annotations

import sys

from _common import Report, ratio, script
from _drivers import OURS, Driver, peers_of, rounds

MINUTES = 10
DEFAULT_PEERS = ("rllib", "sb3")
OUR_CASES = {
    "rillflow impala": {"algo": "impala"},
    "rillflow ppo": {"algo": "ppo"},
    "rillflow ppo on ray": {"algo": "ppo", "engine": "ray"},
}
PEER_CASES = {
    "rllib impala": ("rllib", "rllib_pong.py", {"algo": "IMPALA"}),
    "rllib ppo": ("rllib", "rllib_pong.py", {"algo": "PPO", "threads": 2}),
    "sb3 ppo": ("sb3", "sb3_ppo_pong.py", {"threads": 2}),
}


def ask(report: Report) -> None:
    peers = peers_of(report, DEFAULT_PEERS, DEFAULT_PEERS)
    budget = 8 if report.options.quick else 24
    report.settings.update(budget_s=budget, seeds=list(range(1, report.options.repeats + 1)))
    ours = {
        case: Driver(OURS, "rillflow_pong.py", {"budget": budget, **more}, limit=5 * budget + 60)
        for case, more in OUR_CASES.items()
    }
    theirs = {
        case: Driver(peer, file, {"budget": budget, **more}, limit=5 * budget + 90)
        for case, (peer, file, more) in PEER_CASES.items()
        if peer in peers
    }
    order = ["rillflow impala", "rllib impala", "rllib ppo", "rillflow ppo", "sb3 ppo"]
    both = {**ours, **theirs}
    both = {case: both[case] for case in [*order, "rillflow ppo on ray"] if case in both}
    rounds(report, both)
    _compare(report, "rillflow impala", "rllib impala", "impala_vs_rllib", ">= 2.5")
    best = _best(report, [case for case in theirs if case.endswith("ppo")])
    for case in (case for case in theirs if case.endswith("ppo")):
        name = f"ppo_vs_{case.split()[0]}"
        _compare(report, "rillflow ppo", case, name, ">= 1.3" if case == best else None)
    name, cases = "ppo_ray_vs_local", ("rillflow ppo", "rillflow ppo on ray")
    local, ray = (report.values(case, "steps_per_s") for case in cases)
    report.add(ratio(name, local, ray, "time on ray / on local", "<= 1.3"), otherwise=name)


def _best(report: Report, cases: list[str]) -> str | None:
    """The fastest of some peers, by its best round."""
    rates = {
        case: max([value or 0.0 for value in report.values(case, "steps_per_s")], default=0.0)
        for case in cases
    }
    return max(rates, key=lambda case: rates[case], default=None)


def _compare(report: Report, ours: str, theirs: str, name: str, bar: str | None) -> None:
    pair = report.values(ours, "steps_per_s"), report.values(theirs, "steps_per_s")
    report.add(ratio(name, *pair, "our steps/s / the peer's", bar), otherwise=name)


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
