"""Does APPO make as many environment steps per second on Pong as IMPALA, while they train?

Nature CNN, two workers, fragments of 50 steps, batches of 500, as in `pong.py`; APPO has a second
network besides, its target, and learns from each batch once. In turn, the first part of each run
left out. Ours alone: the price of one algorithm beside the other. Where the machine is shared,
steps for each second of the processor, of all processes together, tell more.
"""

from __future__ import annotations

import sys

from _common import Report, ratio, script
from _drivers import OURS, Driver, rounds

MINUTES = 8
CASES = ("impala", "appo")


def ask(report: Report) -> None:
    """Steps per second of each, round by round."""
    budget = 8 if report.options.quick else 60  # a busy machine makes an update in three seconds
    report.settings.update(budget_s=budget, seeds=list(range(1, report.options.repeats + 1)))
    cases = {
        algorithm: Driver(
            OURS, "rillflow_pong.py", {"budget": budget, "algo": algorithm}, limit=5 * budget + 60
        )
        for algorithm in CASES
    }
    rounds(report, cases)
    for name, unit, bar in (
        ("steps_per_s", "steps/s", ">= 0.9"),
        ("steps_per_cpu_s", "steps/s of the processor", None),
    ):
        impala, appo = (report.values(case, name) for case in CASES)
        figure = "appo_vs_impala" if bar else "appo_vs_impala_processor"
        report.add(ratio(figure, appo, impala, f"APPO's {unit} / IMPALA's", bar), otherwise=figure)


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
