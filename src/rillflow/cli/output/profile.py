"""`rillflow bench --profile`: where the time of an algorithm goes, and what would save some."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rillflow.cli.flags.parser import Parser, positive, whole
from rillflow.cli.request import add_request_flags, parse_request
from rillflow.files import to_json
from rillflow.scheduler.stats import RunStats
from rillflow.scheduler.times import TimeShare

STAGES = {
    "device_copy_ms": "device: the batch is copied",
    "device_learn_ms": "device: it is learned from",
    "launch_ms": "processor: asks for all of that",
    "device_wait_ms": "processor: waits for the device",
}
"""figures of `learning/device_clock.py`, and what they are"""
_DESCRIPTION = """\
Train for a few seconds and say where the time of the driver and of the workers went, operator by
operator, and what to change to train faster."""


@dataclass(frozen=True)
class Profile:
    """What was measured after a warm-up."""

    seconds: float
    steps: float
    """of environments, per second"""
    updates: float
    """training results per second"""
    stats: RunStats
    device: dict[str, float] = field(default_factory=dict)
    """milliseconds of a batch on the learner's device and beside it; empty on the processor"""


def main(arguments: Sequence[str]) -> int:
    """Run, then tell."""
    usage = "--profile ALGORITHM [ENV] [--seconds N] [--FLAG VALUE ...]"
    parser = Parser("bench", _DESCRIPTION, usage)
    parser.command = "bench --profile"
    add_request_flags(parser)
    own = parser.add_argument_group("the profile")
    own.add_argument(
        "--seconds", type=positive, default=5.0, metavar="N",
        help="how long, after the first results (default 5)",
    )  # fmt: skip
    own.add_argument("--seed", type=whole(0), default=0, metavar="N", help="(default 0)")
    own.add_argument("--json", action="store_true", help="print JSON, for machines")
    request = parse_request(parser, arguments)
    options = request.options

    from rillflow.cli.output.advice import advise
    from rillflow.cli.output.warnings_as_notes import notes_as_lines

    with notes_as_lines():
        if not options.json:
            print(f"profiling {request.algorithm} on {request.env} for {options.seconds:g} s ...\n")
        profile = measure(request.module, request.config, options.seconds, options.seed)
    advice = advise(profile.stats, request.config)
    if options.json:
        stats = profile.stats
        told = {
            "seconds": profile.seconds,
            "steps_per_second": profile.steps,
            "updates_per_second": profile.updates,
            "attributed": stats.attributed,
            "times": [asdict(line) for line in stats.times],
            **({"device": profile.device} if profile.device else {}),
            "advice": advice.to_json(),
        }
        print(to_json(told))
        return 0
    workers = request.config.num_workers
    print(
        f"{profile.seconds:.1f} s with {workers} worker{'s'[: workers != 1]}: "
        f"{profile.steps:,.0f} steps/s, {profile.updates:,.4g} updates/s\n"
    )
    print("\n".join([*table(profile.stats), *device_table(profile)]))
    print(f"\n{advice}")
    return 0


def measure(module: Any, config: Any, seconds: float, seed: int = 0) -> Profile:
    """Train on `local` for so long after the second result, which has paid for first calls.

    Args:
        module: of the algorithm.
        config: its settings.
        seconds: how long.
        seed: of the run.
    """
    from rillflow.rl.metrics import Progress
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import Workers

    workers = Workers(config)
    flow = module.plan(ParallelRollouts(workers), workers)
    progress = Progress()
    with flow.run("local", seed=seed) as run:
        run.on_metrics(progress.record)
        for _ in range(2):
            next(run)
        run.count_from_now()
        began, before, updates = time.monotonic(), progress.steps, 0
        looks: dict[str, list[float]] = {}
        while (passed := time.monotonic() - began) < seconds:
            told = getattr(next(run), "stats", {})
            for name in STAGES.keys() & told.keys():
                looks.setdefault(name, []).append(told[name])
            updates += 1
        stats = run.stats()
    steps = (progress.steps - before) / passed
    device = {name: sum(looks[name]) / len(looks[name]) for name in STAGES if name in looks}
    return Profile(stats.seconds, steps, updates / passed, stats, device)


def device_table(profile: Profile) -> list[str]:
    """Where the time of a batch goes on the learner's device; nothing of a learner without one."""
    if not profile.device:
        return []
    lines = ["", f"{'the learner and its device':<34}  ms a batch   share"]
    for name, called in STAGES.items():
        spent = profile.device[name]
        share = min(1.0, spent / 1000 * profile.updates)
        lines.append(f"  {called:<32}  {spent:>10.2f}  {share:>6.1%}")
    return lines


def table(stats: RunStats) -> list[str]:
    """Lines of text: the driver, with its sum and what is left; then each group of actors."""
    rows = list(_rows(stats))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = []
    for name, *numbers in rows:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
    return lines


def _rows(stats: RunStats) -> Iterator[tuple[str, str, str, str]]:
    places = list(dict.fromkeys(line.where for line in stats.times))
    for place in places:
        own = [line for line in stats.times if line.where == place]
        if place == "driver":
            yield "driver", "calls", "seconds", "share"
        else:
            yield "", "", "", ""
            yield place, "", "", ""
        yield from _place(own, place == "driver")


def _place(lines: list[TimeShare], driver: bool) -> Iterator[tuple[str, str, str, str]]:
    parts = [line for line in lines if line.part_of is not None]
    whole_lines = [line for line in lines if line.part_of is None and line.kind != "rest"]
    for line in sorted(whole_lines, key=lambda one: -one.seconds):
        yield _row(f"  {line.name}", line.calls, line.seconds, line.share)
        inside = [part for part in parts if part.part_of == line.name]
        for part in sorted(inside, key=lambda one: -one.seconds):
            yield _row(f"    {part.name}", 0, part.seconds, part.share)
        rest = line.seconds - sum(part.seconds for part in inside)
        if inside and rest > 0:
            share = line.share * rest / line.seconds
            yield _row("    the rest of it", 0, rest, share)
    if driver:
        seconds, share = sum(x.seconds for x in whole_lines), sum(x.share for x in whole_lines)
        yield _row("  sum", 0, seconds, share)
    for line in (line for line in lines if line.kind == "rest"):
        name = f"not attributed ({line.name})" if driver else line.name
        yield _row(f"  {name}", 0, line.seconds, line.share)


def _row(name: str, calls: int, seconds: float, share: float) -> tuple[str, str, str, str]:
    return name, f"{calls:,}" if calls else "", f"{seconds:.3f}", f"{share:.1%}"
