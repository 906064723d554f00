"""`rillflow train --seeds 0-4`: the same run once for each seed, each in its own directory."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rillflow.cli.flags.seeds import parse_seeds
from rillflow.cli.flags.trust import program
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.output.fitted_lines import fitted
from rillflow.cli.output.side_by_side_lines import Shown, display_of
from rillflow.cli.side_by_side import Member, SideBySide, room_for, without

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rillflow.cli.request import Request

_OURS = {"--seeds": 1, "--jobs": 1, "--seed": 1, "--name": 1, "--view-port": 1, "--plain": 0,
         "--quiet": 0, "--json": 0, "--view": 0}  # fmt: skip
"""flags that say what we do; all others are those of each run"""


def train_seeds(request: Request, arguments: Sequence[str], until: Mapping[str, float]) -> int:
    """Train; the exit code: 0 if all came to their end, 130 if the user stopped them."""
    options = request.options
    seeds = parse_seeds(options.seeds)
    if any(token.partition("=")[0] == "--seed" for token in arguments):
        raise Usage("--seed is the seed of one run and --seeds those of several: give one of them")
    workers = int(getattr(request.config, "num_workers", 1))
    engine = "ray" if options.address else options.engine or "local"
    at_once = min(len(seeds), options.jobs or room_for(engine, workers))
    _build_once(request, until)
    how = "side by side" if at_once >= len(seeds) else f"{at_once} at a time"
    if at_once == 1:
        how = "one after another"
    shown = display_of(
        options,
        f"{request.algorithm} on {request.env}, engine {engine}, {len(seeds)} seeds, {how}",
    )
    members = [_member(seed, options, arguments) for seed in seeds]
    with SideBySide(at_once, shown.hear, shown.tick) as runs, shown, _view(options, shown):
        shown.begin(members)
        runs.run(iter(members))
    _conclude(request, members, shown)
    if runs.wishes:
        return 128 + runs.signal
    return 1 if any(member.state == "failed" for member in members) else 0


def _member(seed: int, options: Any, arguments: Sequence[str]) -> Member:
    own = [*without(arguments, _OURS), "--seed", str(seed)]
    if options.name is not None:
        own += ["--name", f"{options.name}-{seed}"]
    return Member(f"seed {seed}", own)


def _build_once(request: Request, until: Mapping[str, float]) -> None:
    """A mistake is told once, before anything begins."""
    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.cli.request import agents_for
    from rillflow.cli.run_flags import chosen_engine
    from rillflow.learning.evaluation_settings import for_limits
    from rillflow.runs.job import Job
    from rillflow.runs.multi_agent import with_copies

    engine = chosen_engine(request.options)
    with notes_as_lines():
        agents = agents_for(request)
        config = for_limits(with_copies(request.config, agents, request.given), until)
        Job(request.algorithm, request.module, config, until, 0, engine, agents).build()


def _view(options: Any, shown: Shown) -> Any:
    """The view of the directory in which the runs are, if one was asked for."""
    from contextlib import nullcontext
    from pathlib import Path

    if not options.view:
        return nullcontext()
    from rillflow.web.server import serve

    Path(options.run_dir).mkdir(parents=True, exist_ok=True)
    view = serve(options.run_dir, port=options.view_port)
    shown.note(f"view them at {view.url}")
    return view


def _conclude(request: Request, members: Sequence[Member], shown: Shown) -> None:
    """How each ended, the mean over the seeds, and what to do next."""
    options = request.options
    if options.json:
        return
    runs = [member.run for member in members if member.run]
    if options.quiet:
        print("\n".join(runs))
        for line in _failures(members):
            print(line, file=sys.stderr)
        return
    lines = ["", *_summary(members), *_failures(members)]
    if runs:
        lines.append(f"  next    {program()} plot {shlex.join(runs)}")
        lines.append(f"          {program()} view {options.run_dir}")
    for member in members:
        if member.run and member.state != "finished":
            lines.append(f"          {program()} resume {member.run}")
    print("\n".join(fitted(lines)))


def _summary(members: Sequence[Member]) -> Iterator[str]:
    """The mean of the last returns, with its interval over seeds."""
    last = [m.row["return"] for m in members if isinstance(m.row.get("return"), int | float)]
    ended = sum(member.state == "finished" for member in members)
    yield f"{ended} of {len(members)} seeds came to their end"
    if not last:
        return
    import numpy as np

    from rillflow.results import statistics

    mean = sum(last) / len(last)
    low, high = statistics.interval(np.asarray(last, np.float64))
    over = f"95% in [{float(low):.1f}, {float(high):.1f}]" if len(last) > 1 else "one seed"
    yield f"  return  {mean:.1f} at the end of {len(last)}, {over}"


def _failures(members: Sequence[Member]) -> Iterator[str]:
    for member in members:
        if member.state == "failed":
            yield f"  {member.name} failed: {member.failure}"
            yield from (f"    {line}" for line in list(member.said)[:-1][-5:])
