"""`rillflow train`: train an algorithm on an environment, into a run directory."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.cli.parser import Parser, whole
from rillflow.cli.problems import Usage
from rillflow.cli.request import Request, add_request_flags, parse_request
from rillflow.cli.until import LIMITS, parse_until

if TYPE_CHECKING:
    from rillflow.runs.directory import RunDirectory
    from rillflow.runs.interrupts import Interrupts
    from rillflow.runs.job import Job, Outcome
    from rillflow.runs.keeper import Keeper
    from rillflow.runs.listeners import Listener

_DESCRIPTION = """\
Train an algorithm on an environment until one of the limits is reached. What comes of it is written
into a new directory under runs/: metrics, the dataflow, the policy. Ctrl-C once finishes the
update, saves and stops (exit code 130); twice stops now."""


def main(arguments: Sequence[str]) -> int:
    """Train."""
    parser = Parser("train", _DESCRIPTION, "ALGORITHM [ENV] [--until LIMIT=N] [--FLAG VALUE ...]")
    add_request_flags(parser)
    add_run_flags(parser)
    request = parse_request(parser, arguments)
    options = request.options
    until = parse_until(options.until)
    engine = chosen_engine(options)

    from rillflow.cli.notes import notes_as_lines
    from rillflow.cli.summaries import last_row
    from rillflow.runs.directory import RunDirectory
    from rillflow.runs.facts import settings_of
    from rillflow.runs.job import Job

    with notes_as_lines():
        job = Job(request.algorithm, request.module, request.config, until, options.seed, engine)
        built = job.build()  # a mistake is told before anything is written
        directory = RunDirectory.create(
            options.run_dir,
            options.name,
            algorithm=request.algorithm,
            env=request.env,
            engine=job.engine_name,
            seed=options.seed,
            config=settings_of(request.config),
            until=until,
        )
        with directory:
            try:
                directory.write_graph(built[1])
                return Training(request, job, directory).run(built)
            finally:
                if not last_row(directory.metrics):  # it never began: nothing to keep
                    shutil.rmtree(directory.path, ignore_errors=True)


def add_run_flags(parser: Parser) -> None:
    """How to run, where to write, what to show."""
    run = parser.add_argument_group("the run")
    limits = ", ".join(f"{name} ({text})" for name, text in LIMITS.items())
    run.add_argument(
        "--until",
        action="append",
        default=[],
        metavar="LIMIT=N",
        help=f"stop at any of these: {limits}; may be repeated (default steps=100000)",
    )
    run.add_argument(
        "--seed",
        type=whole(0),
        default=0,
        metavar="N",
        help="on the sim engine, the same seed gives the same run (default 0)",
    )
    add_engine_flags(run)
    run.add_argument(
        "--run-dir",
        default="runs",
        metavar="DIR",
        help="where the run's directory is made (default runs)",
    )
    run.add_argument(
        "--name", metavar="NAME", help="of the run's directory (default ALGORITHM-ENV-NUMBER)"
    )
    add_checkpoint_flags(parser)
    add_output_flags(parser)


def add_checkpoint_flags(parser: Parser) -> None:
    """How often the run is saved; at its end it always is."""
    save = parser.add_argument_group("checkpoints")
    save.add_argument(
        "--checkpoint-seconds",
        type=whole(0),
        default=60,
        metavar="N",
        help="save every N seconds; 0: not by time (default 60)",
    )
    save.add_argument(
        "--checkpoint-steps",
        type=whole(0),
        default=0,
        metavar="N",
        help="save every N steps of the environments; 0: not by steps (default 0)",
    )
    save.add_argument(
        "--keep", type=whole(1), default=3, metavar="N", help="checkpoints to keep (default 3)"
    )


def add_engine_flags(group: Any, usual: str = "local") -> None:
    """Where it runs."""
    group.add_argument(
        "--engine",
        metavar="NAME",
        help="sim: one thread, repeatable; local: processes of this machine; "
        f"ray: a cluster (default {usual})",
    )
    group.add_argument(
        "--address",
        "--redis-address",
        metavar="HOST:PORT",
        help="of a Ray cluster; the engine is then ray",
    )


def add_output_flags(parser: Parser) -> None:
    """What to show, and who else is told."""
    show = parser.add_argument_group("what to show")
    show.add_argument(
        "--view", action="store_true", help="show the run in the browser while it goes on"
    )
    show.add_argument(
        "--view-port",
        type=whole(0),
        default=0,
        metavar="PORT",
        help="of the view; 0 is any that is free (default 0)",
    )
    show.add_argument(
        "--tensorboard",
        action="store_true",
        help="write events for TensorBoard into the run's directory",
    )
    show.add_argument(
        "--wandb",
        nargs="?",
        const="rillflow",
        metavar="PROJECT",
        help="report to Weights & Biases, in this project (default rillflow)",
    )
    show.add_argument(
        "--plain",
        action="store_true",
        help="lines instead of the live display, as when the output is a file",
    )
    show.add_argument(
        "--quiet", action="store_true", help="print only the run's directory, at the end"
    )
    show.add_argument("--json", action="store_true", help="print JSON lines, for machines")


def chosen_engine(options: Any) -> Any:
    """An engine, or its name; an address means Ray."""
    from rillflow.engines.registry import NAMES, make_engine

    if options.address is not None:
        if options.engine not in (None, "ray"):
            raise Usage(f"--address is that of a Ray cluster; the engine is {options.engine!r}")
        _require_answer(options.address)
        from rillflow.engines.ray import RayEngine

        return RayEngine(options.address)
    name = options.engine or "local"
    if name not in NAMES or name == "ray":
        make_engine(name)  # what is missing or misspelt is told now
    return name


def _require_answer(address: str) -> None:
    """Ray itself would try for minutes to reach a cluster that is not there."""
    import socket

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return  # "auto", or another form that Ray judges
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise Usage(
            f"nothing answers at --address {address} ({error}); `ray start --head` starts a "
            "cluster and prints its address"
        ) from None


class Training:
    """One run from here to its end, with whoever listens."""

    def __init__(self, request: Request, job: Job, directory: RunDirectory) -> None:
        self.options, self.job, self.directory = request.options, job, directory
        self.title = (
            f"{request.algorithm} on {request.env}, engine {job.engine_name}, seed {job.seed}, "
            f"into {directory}"
        )

    def run(self, built: Any) -> int:
        """Train, save, say what came of it; the exit code."""
        from rillflow.cli.summaries import last_row
        from rillflow.runs.interrupts import Interrupts
        from rillflow.runs.job import run_job

        with ExitStack() as stack:
            url = opened_view(self.options, self.directory, stack)
            show = display_for(self.options, self.title, self.job.until, self._facts(url), url)
            listeners = [*loggers_for(self.options, self.directory), *show]
            interrupts = stack.enter_context(Interrupts(heard(show)))
            try:
                outcome = run_job(
                    self.job,
                    listeners=listeners,
                    interrupts=interrupts,
                    built=built,
                    keeper=stack.enter_context(keeper_for(self.options, self.directory)),
                )
            except KeyboardInterrupt:
                began = bool(last_row(self.directory.metrics))
                kept = f"what was written is in {self.directory}" if began else "nothing was kept"
                print(f"stopped; {kept}", file=sys.stderr)
                return interrupts.exit_code
            outcome.trained.save(self.directory.policy)
            draw_curve(self.directory)
            finish(self.options, self.job.until, self.directory, outcome)
            return exit_code(outcome, interrupts)

    def _facts(self, url: str | None) -> dict[str, Any]:
        facts = {"run": str(self.directory), "until": dict(self.job.until), "view": url}
        names = ("algorithm", "env", "engine", "seed", "config")
        return {**{name: self.directory.about.get(name) for name in names}, **facts}


def keeper_for(options: Any, directory: RunDirectory) -> Keeper:
    """Who saves the run, as often as the flags say."""
    from rillflow.runs.keeper import Keeper

    return Keeper(
        directory,
        seconds=options.checkpoint_seconds or None,
        steps=options.checkpoint_steps or None,
        keep=options.keep,
    )


def opened_view(options: Any, directory: RunDirectory, stack: ExitStack) -> str | None:
    """The address of the view, if one was asked for; it closes with the stack."""
    if not options.view:
        return None
    from rillflow.web.server import serve

    return stack.enter_context(serve(directory.path, port=options.view_port)).url


def loggers_for(options: Any, directory: RunDirectory) -> list[Listener]:
    """Who writes: metrics and status always, TensorBoard and Weights & Biases if asked."""
    from rillflow.runs.listeners import JsonlLogger, StatusWriter

    found: list[Listener] = [
        JsonlLogger(directory.metrics),
        StatusWriter(directory.path / "status.json"),
    ]
    if options.tensorboard:
        from rillflow.runs.tensorboard import TensorBoard

        found.append(TensorBoard(directory.path / "tensorboard"))
    if options.wandb is not None:
        from rillflow.runs.wandb import WandbLogger

        about = directory.about
        found.append(
            WandbLogger(options.wandb, directory.path.name, directory.path, about.get("config"))
        )
    return found


def display_for(
    options: Any, title: str, until: Any, facts: dict[str, Any], url: str | None
) -> list[Listener]:
    """What shows the run on this terminal; nothing if it is to be quiet."""
    from rillflow.cli.lines import JsonLines, Lines

    if options.json:
        return [JsonLines(facts)]
    if options.quiet:
        return []
    notes = [f"view it at {url}"] if url else []
    if not options.plain and sys.stdout.isatty():
        from rillflow.cli.display import Display

        return [Display(title, until, notes)]
    return [Lines("\n".join([title, *notes]), until)]


def heard(show: list[Listener]) -> Any:
    """What to do when Ctrl-C comes for the first time: say that it was heard."""

    def say() -> None:
        for listener in show:
            if hasattr(listener, "stopping"):
                listener.stopping = True
                return
        print("stopping after this update; Ctrl-C again stops now", file=sys.stderr, flush=True)

    return say


def exit_code(outcome: Outcome, interrupts: Interrupts) -> int:
    """0, or that of the signal that ended it."""
    return interrupts.exit_code if outcome.state == "stopped" else 0


def draw_curve(directory: RunDirectory) -> None:
    """The learning curve as a picture, where it can be drawn; it is no reason to fail."""
    from rillflow.errors import RillflowError
    from rillflow.results import plot_runs

    with contextlib.suppress(RillflowError, OSError):
        plot_runs([directory.path], directory.curve)


def finish(
    options: Any, until: Mapping[str, float], directory: RunDirectory, outcome: Outcome
) -> None:
    """Say how it ended, and what to do next."""
    from rillflow.cli.lines import JsonLines

    last = outcome.trained.history[-1]
    if options.json:
        JsonLines({}).say(
            "end", state=outcome.state, run=str(directory), policy=str(directory.policy), row=last
        )
        return
    if options.quiet:
        print(directory)
        return
    print("\n".join(["", *summary(until, directory, outcome)]))


def summary(until: Mapping[str, float], directory: RunDirectory, outcome: Outcome) -> list[str]:
    """The last lines of a run."""
    from rillflow.cli.forecast import duration

    last = outcome.trained.history[-1]
    reached = [name for name, limit in until.items() if last[name] >= limit]
    why = f"the limit of {reached[0]} is reached" if reached else "stopped by you"
    why = "the goal is reached" if "return" in reached else why
    known = last["return"] == last["return"]
    got = f"return {last['return']:.1f}" if known else "fewer than 100 episodes"
    rate = last["steps"] / max(last["seconds"], 1e-9)
    # as it was called: in a virtual environment that is not active, by its path
    program = sys.argv[0] if Path(sys.argv[0]).name == "rillflow" else "rillflow"
    took = f"{last['steps']:,.0f} steps in {duration(last['seconds'])} ({rate:,.0f} steps/s)"
    return [
        f"{why}: {got} after {took}",
        f"  policy  {directory.policy}",
        f"  flow    {directory.path / 'graph.svg'}",
        *([f"  curve   {directory.curve}"] if directory.curve.exists() else []),
        f"  next    {program} evaluate {directory}",
        f"          {program} record {directory}",
        f"          {program} resume {directory} --until ...",
    ]
