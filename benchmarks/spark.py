"""What does the PPO loop of the appendix's A.1 cost on Spark, and what on rillflow (Figure 15)?

CartPole, a sampling batch of 100,000 rows (and of 20,000) over two workers, minibatches of 128, the
same sampler and learner on both sides. Spark runs on `local[2]` in three forms; ours is compared
with the best of them. The time of an iteration is sampling (of the slowest worker), training,
initialisation (what has to be made anew), and the rest: files, detection, scheduling, transfer.
"""

from __future__ import annotations

import statistics
import sys

from _common import Report, figure, ratio, script
from _drivers import OURS, Driver, measure

MINUTES = 8
FORMS = ("dstream", "dstream-guarded", "rdd")
ITERATIONS = {100_000: 5, 20_000: 8}
"""by batch size; the first of a run is not counted"""
PAPER = 2.9
"""times that the paper's system was faster than Spark, at best, on several machines"""


def ask(report: Report) -> None:
    quick = report.options.quick
    batches = {20_000: 2} if quick else ITERATIONS
    report.settings |= {"minibatch": 128, "iterations": batches, "spark": "local[2]"}
    peers = report.options.peers
    forms = FORMS if peers is None or "spark" in peers else ()
    for round_ in range(report.options.repeats):
        for batch, iterations in batches.items():
            options = {"batch": batch, "iterations": iterations}
            ours = Driver(OURS, "rillflow_ppo_loop.py", options)
            measure(report, f"{OURS} {batch}", ours, round_, seed=round_ + 1)
            for form in forms:
                case = f"spark {form} {batch}"
                if case not in report.missing:
                    driver = Driver(
                        "spark", "spark_ppo_loop.py", {"form": form, **options}, limit=200.0
                    )
                    measure(report, case, driver, round_)
    for batch in batches:
        _conclude(report, batch, forms)


def _conclude(report: Report, batch: int, forms: tuple[str, ...]) -> None:
    ours = f"{OURS} {batch}"
    parts = ("total_s", "sampling_s", "training_s", "init_s", "io_s")
    breakdown = {part: _median(report, ours, part) for part in parts}
    totals = report.values(ours, "total_s")
    work = [
        None if sampling is None or training is None else sampling + training
        for sampling, training in zip(
            report.values(ours, "sampling_s"), report.values(ours, "training_s"), strict=True
        )
    ]
    unit = "total / (sampling + training)"
    report.add(ratio(f"ours_{batch}", totals, work, unit, "<= 1.03", **breakdown), f"ours_{batch}")
    found = {form: _median(report, f"spark {form} {batch}", "total_s") for form in forms}
    known = {form: total for form, total in found.items() if total is not None}
    for form in known:
        case = f"spark {form} {batch}"
        breakdown = {part: _median(report, case, part) for part in parts}
        name = f"{form}_{batch}"
        unit = f"Spark's seconds / ours (paper: {PAPER})"
        report.add(ratio(name, report.values(case, "total_s"), totals, unit, **breakdown))
    if not known:
        report.lacks(f"overhead_{batch}", "no form of Spark was measured")
        return
    best = min(known, key=lambda form: known[form])
    theirs = _median(report, f"spark {best} {batch}", "overhead_s")
    own = _median(report, ours, "overhead_s")
    if theirs and own is not None:
        details = {"best_form": best, "ours_s": own, "spark_s": theirs}
        unit = "our overhead / Spark's"
        report.add(figure(f"overhead_{batch}", own / theirs, unit, "<= 0.05", **details))


def _median(report: Report, case: str, name: str) -> float | None:
    values = [value for value in report.values(case, name) if value is not None]
    return round(statistics.median(values), 4) if values else None


if __name__ == "__main__":
    sys.exit(script(__file__, ask, repeats=2))
