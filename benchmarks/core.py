"""Measure the dataflow core: one line of JSON per figure.

    python benchmarks/core.py [--only NAME] [--skip-ray] [--repeats N]

A full run writes results/core.json and the table in README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import a3c_local
import a3c_ray
import build
import driver_cost
import idle
import many_workers
import prediction
import sim_speed
import straggler
import transfer
from _common import Figure

HERE = Path(__file__).parent
Question = Callable[[int], Iterator[Figure]]


def questions(ray: bool) -> dict[str, Question]:
    """Every benchmark by its name, in the order in which they run."""
    found: dict[str, Question] = {
        "build": build.plan_for_256,
        "idle": idle.waiting_flow,
        "a3c_local": a3c_local.with_work,
        "own_cost": a3c_local.without_work,
        "driver_cost": driver_cost.per_result,
        "many_workers": many_workers.scaling,
        "straggler": straggler.others_keep_their_rate,
        "sim_speed": sim_speed.thousand_workers,
        "prediction": prediction.against_measured,
        "transfer": lambda repeats: transfer.items_per_second(repeats, ray),
    }
    if ray:  # last: Ray's own processes would disturb the others
        found["a3c_ray"] = a3c_ray.with_work
        found["driver_cost_ray"] = a3c_ray.driver_cost
    return found


def start_ray() -> None:
    """One Ray for the whole run, on two cores and without a dashboard."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", help="one benchmark")
    parser.add_argument("--skip-ray", action="store_true", help="leave out what needs Ray")
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each measurement")
    arguments = parser.parse_args()
    chosen = questions(ray=not arguments.skip_ray)
    if arguments.only is not None:
        if arguments.only not in chosen:
            parser.error(f"no benchmark {arguments.only!r}; there are {', '.join(chosen)}")
        chosen = {arguments.only: chosen[arguments.only]}
    figures = []
    for name, question in chosen.items():
        if name in ("transfer", "a3c_ray", "driver_cost_ray") and not arguments.skip_ray:
            _once(start_ray)
        for figure in question(max(1, arguments.repeats)):
            print(figure.line(), flush=True)
            figures.append(figure)
    if arguments.only is None and not arguments.skip_ray:
        save(figures)
    return 0


_done: set[Callable[[], None]] = set()


def _once(action: Callable[[], None]) -> None:
    if action not in _done:
        _done.add(action)
        action()


def save(figures: list[Figure]) -> None:
    """Keep the figures as data, and as the table in the README."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    results = {"machine": machine, "figures": [asdict(figure) for figure in figures]}
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    (folder / "core.json").write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    readme = HERE / "README.md"
    head, _, rest = readme.read_text().partition("<!-- table -->")
    _, _, tail = rest.partition("<!-- end -->")
    body = f"<!-- table -->\n{table(figures, machine)}\n<!-- end -->"
    readme.write_text(head + body + tail)


def table(figures: list[Figure], machine: str) -> str:
    """The figures as a Markdown table."""
    lines = [f"Measured on {machine}.", "", "| figure | value | bar | met |", "|---|---|---|---|"]
    for figure in figures:
        met = {None: "", True: "yes", False: "**no**"}[figure.ok]
        value = f"{figure.value:g} {figure.unit}"
        lines.append(f"| `{figure.benchmark}` | {value} | {figure.bar or ''} | {met} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
