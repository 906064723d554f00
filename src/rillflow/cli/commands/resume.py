"""`rillflow resume`: go on with a run that was stopped or died."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rillflow.cli.flags.callbacks import add_callback_flag, callbacks_from
from rillflow.cli.flags.parser import Parser
from rillflow.cli.flags.trust import add_trust_flag, require_trust, take_named
from rillflow.cli.flags.until import parse_until
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.run_flags import (
    add_checkpoint_flags,
    add_engine_flags,
    add_evaluation_flags,
    add_fault_flags,
    add_output_flags,
    changed_settings,
)
from rillflow.runs.limits import LIMITS

_DESCRIPTION = """\
Go on with a run from its newest checkpoint, in its own directory and with its own settings:
weights, optimiser, replay, counters and random numbers are as they were."""


def main(arguments: Sequence[str]) -> int:
    """Resume."""
    parser = Parser("resume", _DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help="a run's directory")
    group = parser.add_argument_group("the run")
    group.add_argument(
        "--until",
        action="append",
        default=[],
        metavar="LIMIT=N",
        help=f"new limits: {', '.join(LIMITS)} (default: those it began with)",
    )
    group.add_argument(
        "--algorithm", metavar="NAME", help="the one the run must be of; a check for scripts"
    )
    group.add_argument(
        "--num-workers",
        type=int,
        metavar="N",
        help="another number of workers (default: that of the run)",
    )
    group.add_argument(
        "--adopt",
        action="store_true",
        help="take over a checkpoint of another run that was copied here",
    )
    add_trust_flag(group)
    add_engine_flags(group, "that of the run")
    add_callback_flag(group)
    add_evaluation_flags(parser)
    add_fault_flags(parser)
    add_checkpoint_flags(parser)
    add_output_flags(parser)
    options = parser.parse(arguments)

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.runs.directory import RunDirectory
    from rillflow.runs.own_names import OwnCode
    from rillflow.safety.consent import named_code

    take_named([*options.trust, options.algorithm])
    with notes_as_lines():
        directory = RunDirectory.open(options.run)
    about = directory.about
    _require_same(options, about)
    named = named_code(about.get("config", {}), about.get("algorithm"))
    options.trust = [*options.trust, *OwnCode(directory.path).names]
    require_trust(directory.path / "run.json", named, options.trust, "resume", arguments)
    until = parse_until(options.until) if options.until else dict(about.get("until", {}))
    if options.engine is None:
        options.engine = None if options.address else about.get("engine", "local")
    with directory:
        return _go_on(options, directory, about, until)


def _require_same(options: Any, about: dict[str, Any]) -> None:
    if options.algorithm is None:
        return
    from rillflow.cli.request import short_name
    from rillflow.runs.find_algorithm import find_algorithm

    wanted = short_name(options.algorithm, find_algorithm(options.algorithm))
    if wanted != about.get("algorithm"):
        raise Usage(
            f"{options.run!r} is a run of {about.get('algorithm')}, and goes on with that: leave "
            f"--algorithm out, or begin anew with `rillflow train {wanted} {about.get('env')}`"
        )


def _is_finished(options: Any, directory: Any, until: dict[str, float]) -> bool:
    """Whether there is nothing left to do; then it is said, and nothing is trained."""
    from rillflow.runs.finished import AGAIN, finished_already
    from rillflow.runs.progress.progress_lines import JsonLines
    from rillflow.runs.resume import OWN_AGAIN
    from rillflow.runs.saved_job import OWN_FLOW
    from rillflow.runs.start_run import checkpointer_for

    with checkpointer_for(options, directory) as checkpointer:
        own = directory.about.get("flow") == OWN_FLOW
        again = f"in Python, {OWN_AGAIN}" if own else AGAIN
        said = finished_already(directory, checkpointer.newest(), until, again)
    if said is None:
        return False
    if options.json:
        JsonLines({}).say("end", state="finished", why=said, run=str(directory))
    else:
        print(directory if options.quiet else said)
    return True


def _go_on(options: Any, directory: Any, about: dict[str, Any], until: dict[str, float]) -> int:
    from rillflow.cli.commands.train import Training
    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.cli.run_flags import chosen_engine
    from rillflow.runs.resume_exactness import MEANING, exactness
    from rillflow.runs.saved_job import job_of

    engine = chosen_engine(options)
    title = f"{about['algorithm']} on {about['env']}, going on in {directory}"
    with notes_as_lines():
        if _is_finished(options, directory, until):
            return 0
        callbacks = callbacks_from(options.callback)
        settings = changed_settings(options)
        if options.num_workers is not None:
            settings["num_workers"] = options.num_workers
        job = job_of(directory, until, engine, settings, options.trust)
        built = job.build()
        began_with = about["config"].get("num_workers")
        level = exactness(job, built[1], began_on=about["engine"], began_with=began_with)
        lines = title, f"resuming: {MEANING[level]}"
        training = Training(options, job, directory, lines, level, callbacks)
        directory.remember_limits(job.until)
        return training.run(built, resumed=True)
