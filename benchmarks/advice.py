"""Does what `rillflow bench --profile` advises make training faster?"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

from _common import Report, figure, interleaved, load, script

from rillflow.algorithms import get_algorithm
from rillflow.cli.output.advice import advise
from rillflow.cli.output.profile import measure
from rillflow.learning.config import replaced

MINUTES = 6
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {}),
    "a2c, wide network": ("a2c", {"hidden": (256, 256)}),
    "dqn": ("dqn", {}),
    "impala": ("impala", {}),
    "a3c, wide network, few rows": (
        "a3c",
        {
            "hidden": (512, 512),
            "num_workers": 4,
            "num_envs_per_worker": 1,
            "rollout_fragment_length": 8,
        },
    ),
    "pg, one worker": ("pg", {"num_workers": 1}),
    "a3c": ("a3c", {}),
    "a3c, wide network, one environment": (
        "a3c",
        {"hidden": (256, 256), "num_envs_per_worker": 1},
    ),
}
"""an algorithm and settings; what they are bound by is what the profile finds"""


def ask(report: Report) -> None:
    """Profile, follow the advice, compare: with and without it in turn."""
    seconds = 0.5 if report.options.quick else 3.0
    report.settings |= {"seconds": seconds, "env": "CartPole-v1"}
    for name, (algorithm, settings) in CASES.items():
        module = get_algorithm(algorithm)
        config = module.Config.make(**settings)
        first = measure(module, config, seconds)
        advice = advise(first.stats, config)
        changed = replaced(config, advice.settings)

        def steps(config: Any, module: Any = module) -> Callable[[], float]:
            return lambda: measure(module, config, seconds).steps

        before, after = interleaved([steps(config), steps(changed)], report.options.repeats)
        for case, values in (("as it was", before), ("as advised", after)):
            for value in values:
                report.measured(f"{name}, {case}", steps_per_s=round(value))
        faster = statistics.median(a / b for a, b in zip(after, before, strict=True))
        report.add(
            figure(
                f"advice ({name})",
                faster,
                "times the steps/s",
                ">= 1.05",
                said=str(advice).splitlines(),
                bound=advice.bound,
                settings=advice.settings,
                attributed=round(first.stats.attributed, 3),
                load=load(),
            )
        )


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
