"""Flags of the commands that train: how to run, where to write, what to show."""

from __future__ import annotations

from typing import Any

from rillflow.cli.flags.callbacks import add_callback_flag
from rillflow.cli.flags.parser import Parser, whole
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.request import add_policies_flag
from rillflow.runs.limits import LIMITS


def add_run_flags(parser: Parser) -> None:
    """Who acts, how to run, where to write, what to show."""
    add_policies_flag(parser)
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
    run.add_argument(
        "--seeds",
        metavar="LIST",
        help="train once for each seed, as in 0-4 or 1,5,7, each into its own directory",
    )
    add_jobs_flag(run, "runs of --seeds")
    add_engine_flags(run)
    run.add_argument(
        "--init-from",
        metavar="RUN",
        help="begin with the policy of another run: its directory, or the file of a policy",
    )
    run.add_argument(
        "--run-dir",
        default="runs",
        metavar="DIR",
        help="where the run's directory is made (default runs)",
    )
    run.add_argument(
        "--name", metavar="NAME", help="of the run's directory (default ALGORITHM-ENV-NUMBER)"
    )
    run.add_argument(
        "--label", metavar="TEXT", help="what to call the run beside others, in plots and views"
    )
    add_callback_flag(run)
    add_checkpoint_flags(parser)
    add_output_flags(parser)


def add_jobs_flag(group: Any, what: str) -> None:
    """How many at the same time."""
    group.add_argument(
        "--jobs",
        type=whole(1),
        metavar="N",
        help=f"{what} at the same time (default: as many as there are cores for)",
    )


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


_FAULTS = {
    "on_failure": ("WHAT", "of a worker: restart, retry, shrink, drop or raise"),
    "max_restarts": ("N", "of one worker in a row, before the run ends"),
    "worker_timeout": ("SECONDS", "for one answer; 0: for ever; none: by what was measured"),
    "env_timeout": ("SECONDS", "for one step of a worker's environments; none: no limit"),
    "worker_memory": ("SIZE", "at which a worker is replaced, such as 2GiB; none: no limit"),
}


def add_fault_flags(parser: Parser) -> None:
    """What a run that goes on does from now on when its parts fail."""
    group = parser.add_argument_group("faults (default: as the run was)")
    for name, (metavar, text) in _FAULTS.items():
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, dest=name, metavar=metavar, help=text)


_EVALUATION = {
    "eval_every": ("N", "steps between two evaluations, such as 20k; none: there are none"),
    "eval_episodes": ("N", "of each evaluation"),
    "eval_timeout": ("SECONDS", "for one evaluation; 0: for ever; none: by what was measured"),
    "max_eval_failures": ("N", "evaluations that fail in a row, before the run ends"),
}


def add_evaluation_flags(parser: Parser) -> None:
    """How a run that goes on is evaluated from now on."""
    group = parser.add_argument_group("evaluation (default: as the run was)")
    for name, (metavar, text) in _EVALUATION.items():
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, dest=name, metavar=metavar, help=text)


def changed_settings(options: Any) -> dict[str, Any]:
    """Settings of faults and of evaluation that were given."""
    from rillflow.cli.flags.settings import parse_value, settings_of
    from rillflow.learning.config import AlgorithmConfig

    hints = {setting.name: setting.hint for setting in settings_of(AlgorithmConfig)}
    given = {name: getattr(options, name) for name in (*_FAULTS, *_EVALUATION)}
    return {n: parse_value(hints[n], text) for n, text in given.items() if text is not None}


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
        "--record-every",
        type=whole(1),
        metavar="N",
        help="film an episode every N steps, such as 20k, into the run's films/",
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
    from rillflow.engines.ray_address import why_silent

    why = why_silent(address)
    if why is not None:
        raise Usage(
            f"no Ray cluster answers at --address {address} ({why}); `ray start --head` starts a "
            "cluster and prints its address"
        )
