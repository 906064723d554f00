"""How many steps per second does sampling make, beside the bare loop and beside the peers?

CartPole-v1 with a 2 x 64 policy, and with the paper's dummy policy, which is one number; and three
environments that have no native vector form, as a `SyncVectorEnv`: `_walk:Walk-v0`, which is ours
and does next to nothing, MountainCar-v0 and Acrobot-v1. Two workers, unless said so; SB3 has none,
it samples in the one process that there is. Everybody gets the best of 8, 64 and 512 copies of
CartPole, of 64 and 512 of Walk, and 64 of the others; peers get the native vector environment if
their wrapper takes one, and ours is compared on the backend on which the peer is fastest. The first
round tries all sizes, the others repeat the best. "Default" is what a newcomer gets: nothing is set
but the environment.

Of single environments no library makes more steps than they do themselves: that is the limit,
measured as two processes that step one copy, with random actions, no policy and no wrappers.
"Of the limit" is our share of it, and "limit vs" how often the closest peer fits into it: no
library could be further ahead of that peer. The bar is three times the closest peer where an
environment leaves room for that; for it the two are measured once more, in turns, because the speed
of a shared machine changes from minute to minute. A step of MountainCar takes about ten
microseconds and one of Acrobot forty or more: process by process, nobody could make more than about
2 and 1.4 times the steps of SB3. What is beyond that is the second process, and not the library, so
they have no bar; their figures stand beside what was possible. A step of Walk takes about one
microsecond: there the library is what is measured, and there is the bar. CartPole has one as well,
on the peer's backend, but as single environments it is between the two: about 2.5 times SB3 in one
process, so the bar needs both.
"""

from __future__ import annotations

import sys
from typing import Any

from _common import Report, ratio, script
from _drivers import OURS, Driver, measure, peers_of

MINUTES = 10
PEERS = ("torchrl", "rllib", "sb3")
CARTPOLE, WALK = "CartPole-v1", "_walk:Walk-v0"
MOUNTAINCAR, ACROBOT = "MountainCar-v0", "Acrobot-v1"
LABELS = {CARTPOLE: "cartpole", WALK: "walk", MOUNTAINCAR: "mountaincar", ACROBOT: "acrobot"}
HELD = (CARTPOLE, WALK)
"""where the closest peer is to be left behind"""
TURNS = 7
"""of ours and that peer"""
SIZES = {CARTPOLE: (8, 64, 512), WALK: (64, 512), MOUNTAINCAR: (64,), ACROBOT: (64,)}
"""copies a worker"""
QUICK = 64
"""the most of them with `--quick`"""
DEFAULT = f"default:0:{CARTPOLE}"
BARE, LIMIT = "bare", "limit"
LIMITS = [f"single:1:{env}" for env in LABELS]
"""what the environments can do by themselves"""
BACKENDS = dict.fromkeys((OURS, "rllib", "torchrl"), ("native", "sync"))
"""of CartPole; all else is `sync`, as are those who are not here. A wrapper that refuses says so"""
LARGE = f"native:512:{CARTPOLE}"


def ask(report: Report) -> None:
    peers = peers_of(report, PEERS, PEERS)
    quick = report.options.quick
    seconds = 0.5 if quick else 2.0
    most = QUICK if quick else max(SIZES[CARTPOLE])
    sizes = {env: [n for n in of if n <= most] for env, of in SIZES.items()}
    report.settings.update(seconds=seconds, sizes=sizes, policy="2 x 64, tanh")
    everybody = (OURS, *peers)
    wanted = {who: _all_cases(who, sizes) for who in everybody}
    for round_ in range(report.options.repeats):
        for who in everybody if round_ % 2 == 0 else reversed(everybody):
            if who not in report.missing:
                _sample(report, who, round_, ",".join(wanted[who]), seconds)
        limits = {"cases": ",".join(LIMITS), "secs": seconds}
        measure(report, LIMIT, Driver(OURS, "bare_sample.py", limits, limit=60), round_)
        _scaling(report, round_, seconds)
        if round_ == 0:
            wanted = {who: _best_cases(report, who) for who in everybody}
    for env, label in LABELS.items():
        closest = _against_peers(report, peers, env, label)
        if env in HELD and closest is not None:
            _in_turns(report, closest, env, label, seconds)
    _by_default(report, peers)
    _against_the_loop(report)


def _all_cases(who: str, sizes: dict[str, list[int]]) -> list[str]:
    def backends(env: str) -> tuple[str, ...]:
        return BACKENDS.get(who, ("sync",)) if env == CARTPOLE else ("sync",)

    cases = [f"{b}:{n}:{env}" for env, of in sizes.items() for b in backends(env) for n in of]
    return [*cases, DEFAULT]


def _best_cases(report: Report, who: str) -> list[str]:
    """The best case of each environment and backend, and the default; of peers, one a place."""
    rates = _rates(report, who)[0] if _rates(report, who) else {}
    found = []
    for env in LABELS:
        for backends in (("native",), ("sync",)) if who == OURS else (("native", "sync"),):
            known = {case: rate for case, rate in rates.items() if _is(case, env, backends)}
            found += [max(known, key=lambda case: known[case])] if known else []
    return [*found, DEFAULT]


def _is(case: str, env: str, backends: tuple[str, ...]) -> bool:
    return case.endswith(env) and case.split(":")[0] in backends


def _sample(report: Report, who: str, round_: int, cases: str, seconds: float, **more: Any) -> None:
    limit = 60 + 25 * (1 + cases.count(","))
    driver = Driver(who, f"{who}_sample.py", {"cases": cases, "secs": seconds}, limit=limit)
    found = measure(report, who, driver, round_, **more)
    for case, reason in found.get("refused", {}).items():
        report.lacks(f"{who} {case}", reason)


def _scaling(report: Report, round_: int, seconds: float) -> None:
    """Ours over the number of workers, the loop without a library beside it.

    Twice, there and back: a machine that becomes slower meanwhile is in favour of neither.
    """
    for policy in ("mlp", "scalar"):
        for workers in (1, 2, 2, 1) if policy == "mlp" else (1, 2):
            more = {"cases": LARGE, "secs": seconds, "workers": workers, "policy": policy}
            for who, file in ((OURS, "rillflow_sample.py"), (BARE, "bare_sample.py")):
                case = f"{who} {policy} x{workers}"
                measure(report, case, Driver(OURS, file, more, limit=60), round_)


def _rates(report: Report, who: str) -> list[dict[str, float]]:
    return [row.get("rates", {}) for row in report.measurements if row["case"] == who]


def _best(report: Report, who: str, env: str, *backends: str) -> list[float | None]:
    """In each round, the best of what was measured."""
    return [
        max((rate for case, rate in rates.items() if _is(case, env, backends)), default=None)
        for rates in _rates(report, who)
    ]


def _backend(report: Report, who: str, env: str) -> str:
    """Where it is fastest."""
    best = [case for case in _best_cases(report, who) if case.endswith(env) and case != DEFAULT]
    return best[0].split(":")[0] if best else "sync"


def _against_peers(report: Report, peers: tuple[str, ...], env: str, label: str) -> str | None:
    """Each on the backend where the peer is fastest; of CartPole also the best of each side.

    Returns the peer that comes closest.
    """
    unit = "our steps/s / the peer's"
    both = ("native", "sync")
    theirs = {peer: _best(report, peer, env, *both) for peer in peers}
    found: dict[str, float] = {}
    for peer in peers:
        backend = _backend(report, peer, env)
        name = f"{label}_{backend}_vs_{peer}"
        one = ratio(name, _best(report, OURS, env, backend), theirs[peer], unit)
        report.add(one, otherwise=name)
        if one is not None:
            found[peer] = one.value
        if env == CARTPOLE:
            name = f"{label}_best_vs_{peer}"
            ours = _best(report, OURS, env, *both)
            report.add(ratio(name, ours, theirs[peer], unit), otherwise=name)
    limit = _best(report, LIMIT, env, "single")
    name = f"{label}_sync_of_limit"
    ours = _best(report, OURS, env, "sync")
    report.add(ratio(name, ours, limit, "our steps/s / the environment's own"), otherwise=name)
    closest = min(found, key=lambda peer: found[peer], default=None)
    if closest is not None:
        name = f"{label}_limit_vs_{closest}"
        unit = "the environment's own steps/s / the peer's"
        report.add(ratio(name, limit, theirs[closest], unit), otherwise=name)
    return closest


def _in_turns(report: Report, peer: str, env: str, label: str, seconds: float) -> None:
    """The closest peer and ours once more, one right after the other."""
    backend = _backend(report, peer, env)
    case = {who: _best_case(report, who, env, backend) for who in (OURS, peer)}
    for turn in range(1 if report.options.quick else TURNS):
        for who in (OURS, peer) if turn % 2 == 0 else (peer, OURS):
            given = {"cases": case[who], "secs": seconds}
            driver = Driver(who, f"{who}_sample.py", given, limit=60)
            measure(report, f"{who} {label} in turns", driver, turn)
    rates = {
        who: [found.get(case[who]) for found in _rates(report, f"{who} {label} in turns")]
        for who in (OURS, peer)
    }
    name, unit = f"{label}_{backend}_beside_{peer}", "our steps/s / the peer's, in turns"
    report.add(ratio(name, rates[OURS], rates[peer], unit, ">= 3"), otherwise=name)


def _best_case(report: Report, who: str, env: str, backend: str) -> str:
    return next(case for case in _best_cases(report, who) if _is(case, env, (backend,)))


def _by_default(report: Report, peers: tuple[str, ...]) -> None:
    ours = [rates.get(DEFAULT) for rates in _rates(report, OURS)]
    for peer in peers:
        name = f"default_vs_{peer}"
        rates = [found.get(DEFAULT) for found in _rates(report, peer)]
        report.add(ratio(name, ours, rates, "our steps/s / the peer's"), otherwise=name)


def _against_the_loop(report: Report) -> None:
    for policy in ("mlp", "scalar"):
        ours = {n: _case(report, f"{OURS} {policy} x{n}") for n in (1, 2)}
        bare = {n: _case(report, f"{BARE} {policy} x{n}") for n in (1, 2)}
        held = policy == "mlp"
        for n in (1, 2):
            name = f"{policy}_x{n}_vs_bare"
            bar = ">= 0.4" if held and n == 2 else None
            report.add(ratio(name, ours[n], bare[n], "ours / the bare loop", bar), otherwise=name)
        name = f"{policy}_x2_vs_x1"
        unit = "two workers / one"
        bar = ">= 1.7" if held else None
        report.add(ratio(name, ours[2], ours[1], unit, bar), otherwise=name)
        report.add(ratio(f"bare_{policy}_x2_vs_x1", bare[2], bare[1], unit))


def _case(report: Report, case: str) -> list[float | None]:
    return [rates.get(LARGE) for rates in _rates(report, case)]


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
