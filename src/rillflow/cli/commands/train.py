"""`rillflow train`: train an algorithm on an environment, into a run directory."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from rillflow.cli.flags.callbacks import callbacks_from
from rillflow.cli.flags.parser import Parser
from rillflow.cli.flags.trust import flags, program
from rillflow.cli.flags.until import parse_until
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.output.fitted_lines import fitted
from rillflow.cli.request import (
    add_request_flags,
    agents_for,
    parse_request,
)
from rillflow.cli.run_flags import add_run_flags, chosen_engine
from rillflow.cli.side_by_side import end_with_parent

if TYPE_CHECKING:
    from rillflow.runs.callbacks import Callbacks
    from rillflow.runs.directory import RunDirectory
    from rillflow.runs.interrupts import Interrupts
    from rillflow.runs.job import Built, Job, Outcome
    from rillflow.runs.listeners import Listener

_DESCRIPTION = """\
Train an algorithm on an environment until one of the limits is reached. What comes of it is written
into a new directory under runs/: metrics, the dataflow, the policy. Ctrl-C once finishes the
update, saves and stops (exit code 130); twice stops now."""


def main(arguments: Sequence[str]) -> int:
    """Train."""
    end_with_parent()
    parser = Parser("train", _DESCRIPTION, "ALGORITHM [ENV] [--until LIMIT=N] [--FLAG VALUE ...]")
    add_request_flags(parser)
    add_run_flags(parser)
    request = parse_request(parser, arguments)
    options = request.options
    until = parse_until(options.until)
    engine = chosen_engine(options)
    callbacks = callbacks_from(options.callback)
    if options.seeds is not None:
        from rillflow.cli.several_seeds import train_seeds

        return train_seeds(request, arguments, until)
    if options.jobs is not None:
        raise Usage("--jobs is about the runs of --seeds, as in --seeds 0-4 --jobs 2")

    from rillflow.cli.output.run_summaries import last_row
    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.learning.evaluation_settings import for_limits
    from rillflow.results.config_as_json import settings_of
    from rillflow.runs.directory import RunDirectory
    from rillflow.runs.job import Job
    from rillflow.runs.multi_agent import with_copies
    from rillflow.runs.resume_exactness import MEANING, exactness
    from rillflow.runs.warm_start import begin_with

    with notes_as_lines():
        agents = agents_for(request)
        job = Job(
            request.algorithm,
            request.module,
            for_limits(with_copies(request.config, agents, request.given), until),
            until,
            options.seed,
            engine,
            agents,
        )
        built = job.build()  # a mistake is told before anything is written
        begin_with(built[0], options.init_from)
        level = exactness(job, built[1])
        directory = RunDirectory.create(
            options.run_dir,
            options.name,
            algorithm=request.algorithm,
            env=request.env,
            engine=job.engine_name,
            seed=options.seed,
            config=settings_of(job.config),
            until=until,
            agents=job.agents,
            exactness=level,
            **{n: v for n in ("label", "init_from") if (v := getattr(options, n)) is not None},
        )
        with directory:
            try:
                directory.write_graph(built[1])
                title = (
                    f"{request.algorithm} on {request.env}, engine {job.engine_name}, "
                    f"seed {job.seed}, into {directory}"
                )
                notes = (*request.tuned, *job.config.notes, *built[0].notes)
                lines = title, *notes, f"if resumed: {MEANING[level]}"
                return Training(options, job, directory, lines, level, callbacks).run(built)
            finally:
                if not last_row(directory.metrics):  # it never began: nothing to keep
                    shutil.rmtree(directory.path, ignore_errors=True)


class Training:
    """One run from here to its end, with whoever listens.

    Args:
        options: of the command line.
        job: what to do.
        directory: of the run, locked.
        lines: to begin with: what is done, and what there is to know of it.
        exactness: the same in a word, for machines.
        callbacks: of the user.
    """

    def __init__(
        self,
        options: Any,
        job: Job,
        directory: RunDirectory,
        lines: tuple[str, ...],
        exactness: str,
        callbacks: Callbacks,
    ) -> None:
        self.callbacks = callbacks
        self.options, self.job, self.directory = options, job, directory
        self.title, *self.notes = lines
        self.exactness = exactness

    def run(self, built: Built, *, resumed: bool = False) -> int:
        """Train, save, say what came of it; the exit code."""
        from rillflow.cli.output.run_summaries import last_row
        from rillflow.runs.interrupts import Interrupts
        from rillflow.runs.job import run_job
        from rillflow.runs.start_run import (
            checkpointer_for,
            draw_curve,
            loggers_for,
            opened_view,
        )

        with ExitStack() as stack:
            url = opened_view(self.options, self.directory, stack)
            notes = [*self.notes, *([f"view it at {url}"] if url else [])]
            show = display_for(self.options, self.title, notes, self.job.until, self._facts(url))
            interrupts = stack.enter_context(Interrupts(heard(show)))
            checkpointer = stack.enter_context(checkpointer_for(self.options, self.directory))
            try:
                outcome = run_job(
                    self.job,
                    listeners=[*loggers_for(self.options, self.directory), *show],
                    interrupts=interrupts,
                    built=built,
                    checkpointer=checkpointer,
                    checkpoint=checkpointer.newest() if resumed else None,
                    callbacks=self.callbacks,
                    record_every=self.options.record_every,
                )
            except KeyboardInterrupt:
                began = bool(last_row(self.directory.metrics))
                kept = f"what was written is in {self.directory}" if began else "nothing was kept"
                print(f"stopped; {kept}", file=sys.stderr)
                return interrupts.exit_code
            except Exception as error:
                if self.directory.policy.exists():
                    error.add_note(f"its policy so far: {self.directory.policy}")
                raise
            draw_curve(self.directory)
            finish(self.options, self.directory, outcome)
            return exit_code(outcome, interrupts)

    def _facts(self, url: str | None) -> dict[str, Any]:
        about = self.directory.about
        return {
            **{name: about.get(name) for name in ("algorithm", "env", "seed", "config", "agents")},
            "engine": self.job.engine_name,
            "exactness": self.exactness,
            "run": str(self.directory),
            "until": dict(self.job.until),
            "view": url,
        }


def display_for(
    options: Any,
    title: str,
    notes: list[str],
    until: Mapping[str, float],
    facts: Mapping[str, Any],
) -> list[Listener]:
    """What shows the run on this terminal; nothing if it is to be quiet."""
    from rillflow.runs.progress.progress_lines import JsonLines, Lines

    if options.json:
        return [JsonLines(facts)]
    if options.quiet:
        return []
    if not options.plain and sys.stdout.isatty():
        from rillflow.runs.progress.display import Display

        return [Display(title, until, notes)]
    from rillflow.runs.listener_thread import Aside

    return [Aside(Lines("\n".join([title, *notes]), until))]  # a terminal may stand still


def heard(show: list[Listener]) -> Any:
    """What to do when Ctrl-C comes for the first time: say that it was heard."""

    def say() -> None:
        for listener in show:
            if hasattr(listener, "stopping"):
                listener.stopping = True
                return
        with suppress(OSError):  # nobody may be there any more to read it
            print("stopping after this update; Ctrl-C again stops now", file=sys.stderr, flush=True)

    return say


def exit_code(outcome: Outcome, interrupts: Interrupts) -> int:
    """0, or that of the signal that ended it."""
    return interrupts.exit_code if outcome.state == "stopped" else 0


def finish(options: Any, directory: RunDirectory, outcome: Outcome) -> None:
    """Say how it ended, and what to do next."""
    from rillflow.runs.progress.progress_lines import JsonLines

    last = outcome.trained.history[-1]
    if options.json:
        JsonLines({}).say(
            "end",
            state=outcome.state,
            why=outcome.why,
            run=str(directory),
            policy=str(directory.policy),
            best=_best(outcome),
            row=last,
        )
        return
    if options.quiet:
        print(directory)
        return
    print("\n".join(["", *fitted(summary(directory, outcome))]))


def summary(directory: RunDirectory, outcome: Outcome) -> list[str]:
    """The last lines of a run."""
    from rillflow.runs.progress.progress_lines import got_so_far
    from rillflow.runs.progress.time_left import duration

    last = outcome.trained.history[-1]
    why, got = outcome.why or "stopped by you", got_so_far(last)
    rate = last["steps"] / max(last["seconds"], 1e-9)
    about = directory.about
    play, go_on = _what_to_trust(about)
    again = f"{program()} evaluate {directory}{play}"
    took = f"{last['steps']:,.0f} steps in {duration(last['seconds'])} ({rate:,.0f} steps/s)"
    return [
        f"{why}: {got} after {took}",
        f"  policy  {directory.policy}",
        *_best_line(directory, outcome),
        f"  flow    {directory.path / 'graph.svg'}",
        *([f"  curve   {directory.curve}"] if directory.curve.exists() else []),
        *([f"  films   {films}"] if (films := directory.path / "films").is_dir() else []),
        f"  next    {again}",
        *([] if about.get("agents") else [f"          {program()} record {directory}{play}"]),
        f"          {program()} resume {directory} --until ...{go_on}",
    ]


def _best(outcome: Outcome) -> Any:
    """By what the best policy was judged, its score, and after how many steps."""
    best = outcome.trained.best
    one = next(iter(best.policies.values())) if hasattr(best, "policies") else best
    return None if one is None else one.judged


def _best_line(directory: RunDirectory, outcome: Outcome) -> list[str]:
    """The best policy, if an evaluation has found one; that of training is mostly the last."""
    judged = _best(outcome)
    if judged is None or judged["by"] != "evaluation":
        return []
    found = f"evaluation {judged['score']:.1f} after {judged['steps']:,} steps"
    return [f"  best    {directory.best_policy}: {found}"]


def _what_to_trust(about: dict[str, Any]) -> tuple[str, str]:
    """Flags that let code of the user's own be imported again: to play, and to go on."""
    from rillflow.safety.consent import named_code

    if about.get("consent"):
        return "", ""  # what the user has named is remembered
    settings = about.get("config", {})
    to_play = named_code({name: settings.get(name) for name in ("env", "env_config")})
    to_go_on = named_code(settings, about.get("algorithm"))
    play, go_on = (f" {shlex.join(flags(names))}".rstrip() for names in (to_play, to_go_on))
    return play, go_on
