"""`rillflow tune`: search for good settings with Optuna."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from rillflow.cli.flags.parser import Parser, whole
from rillflow.cli.flags.search_space import suggest, varied
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.request import Request, add_request_flags, command_line, parse_request

_DESCRIPTION = """\
Try settings, each for a number of steps, and keep what gives the highest return: a search with
Optuna that stops trials which do worse than the others. Settings given as flags
stay as they are."""
_PRUNERS = ("median", "hyperband", "none")


def main(arguments: Sequence[str]) -> int:
    """Search."""
    parser = Parser(
        "tune", _DESCRIPTION, "ALGORITHM [ENV] [--trials N] [--steps N] [--FLAG VALUE ...]"
    )
    add_request_flags(parser)
    _add_search_flags(parser)
    request = parse_request(parser, arguments)
    options = request.options
    if options.pruner not in _PRUNERS:
        raise Usage(f"--pruner is one of {', '.join(_PRUNERS)}; got {options.pruner!r}")
    given = _given(request)
    names = [name for name in varied(request.module.Config) if name not in given]
    if not names:
        raise Usage(f"every setting of {request.algorithm} that could be varied was given")
    from rillflow.cli.run_flags import chosen_engine

    chosen_engine(options)  # a mistake is told before the first trial
    optuna = _optuna()

    from rillflow.cli.output.warnings_as_notes import notes_as_lines

    with notes_as_lines():
        study = _study(optuna, options, request)
        print(
            f"{request.algorithm} on {request.env}: {options.trials} trials of "
            f"{options.steps:,.0f} steps, varying {', '.join(names)}",
            flush=True,
        )
        try:
            study.optimize(
                lambda trial: _trial(trial, request, names, optuna),
                n_trials=options.trials,
                catch=(ArithmeticError, ValueError, RuntimeError),
                callbacks=[_told],
            )
        except KeyboardInterrupt:
            print("stopped; the trials so far count")
            _conclude(study, request, given)
            return 130
        return _conclude(study, request, given)


def _add_search_flags(parser: Parser) -> None:
    from rillflow.cli.run_flags import add_engine_flags

    own = parser.add_argument_group("the search")
    own.add_argument(
        "--trials", type=whole(1), default=20, metavar="N", help="settings to try (default 20)"
    )
    own.add_argument(
        "--steps",
        type=whole(1),
        default=50_000,
        metavar="N",
        help="environment steps of each trial (default 50000)",
    )
    own.add_argument(
        "--pruner",
        default="median",
        metavar="NAME",
        help="median, hyperband or none: when to give a trial up (default median)",
    )
    own.add_argument(
        "--storage",
        metavar="FILE",
        help="a .log or sqlite:/// address that keeps the trials, so that a search can "
        "go on or be shared (default: only in memory)",
    )
    own.add_argument(
        "--study", metavar="NAME", help="of the search in its storage (default ALGORITHM-ENV)"
    )
    own.add_argument(
        "--seed",
        type=whole(0),
        default=0,
        metavar="N",
        help="of the search and of each trial (default 0)",
    )
    add_engine_flags(own)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise Usage("tuning needs Optuna: pip install 'rillflow[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _given(request: Request) -> dict[str, Any]:
    """Settings that differ from the defaults: the user has chosen them."""
    usual = request.module.Config()
    return {
        field.name: value
        for field in dataclasses.fields(request.config)
        if field.name != "env"
        and (value := getattr(request.config, field.name)) != getattr(usual, field.name)
    }


def _study(optuna: Any, options: Any, request: Request) -> Any:
    pruner = {
        "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=3),
        "hyperband": lambda: optuna.pruners.HyperbandPruner(),
        "none": lambda: optuna.pruners.NopPruner(),
    }[options.pruner]()
    return optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=options.seed, n_startup_trials=5),
        pruner=pruner,
        storage=_storage(optuna, options.storage),
        study_name=options.study or f"{request.algorithm}-{request.env}",
        load_if_exists=True,
    )


def _storage(optuna: Any, given: str | None) -> Any:
    if given is None or "://" in given:
        return given
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        return JournalStorage(JournalFileBackend(given))
    except OSError as error:
        raise Usage(f"--storage {given}: {error.strerror or error}") from None


def _trial(trial: Any, request: Request, names: Sequence[str], optuna: Any) -> float:
    """Train with some settings; the last mean return."""
    from rillflow.cli.run_flags import chosen_engine
    from rillflow.runs.job import Job, run_job
    from rillflow.runs.multi_agent import assigned

    values = {name: suggest(trial, name, getattr(request.config, name)) for name in names}
    config = dataclasses.replace(request.config, **values)
    config.validate()
    options = request.options
    job = Job(
        request.algorithm,
        request.module,
        config,
        {"steps": options.steps},
        options.seed,
        chosen_engine(options),
        assigned(config, None),
    )
    watch = Watch(options.steps, trial.report, trial.should_prune)
    outcome = run_job(job, stop=watch)
    if watch.pruned:
        raise optuna.TrialPruned
    watch(outcome.trained.history[-1])
    return watch.last


class Watch:
    """Reports a trial's return a few times, and says when to give it up."""

    def __init__(
        self, steps: float, report: Callable[[float, int], None], prune: Callable[[], bool]
    ) -> None:
        self.every = steps / 10
        self.pruned = False
        self.last = -math.inf
        """the newest return; there is none before 100 episodes"""
        self._report, self._prune, self._reported = report, prune, 0

    def __call__(self, row: Any) -> bool:
        """One row of the trial; True gives it up."""
        from rillflow.rl.metrics import WINDOW

        if math.isfinite(row["return"]) and row["episodes"] >= WINDOW:
            self.last = float(row["return"])
        tenth = int(row["steps"] / self.every)
        if tenth <= self._reported or not math.isfinite(self.last):
            return False
        self._reported = tenth
        self._report(self.last, tenth)
        self.pruned = bool(self._prune())
        return self.pruned


def _told(study: Any, trial: Any) -> None:
    """One line for each trial."""
    settings = "  ".join(f"{name}={_short(value)}" for name, value in trial.params.items())
    state = trial.state.name
    seconds = trial.duration.total_seconds() if trial.duration else 0.0
    result = f"{trial.value:8.1f}" if state == "COMPLETE" else f"{state.lower():>8}"
    if state == "COMPLETE" and not math.isfinite(trial.value):
        result = "too few episodes"
    best = (
        "  best so far" if state == "COMPLETE" and study.best_trial.number == trial.number else ""
    )
    print(f"{trial.number:>4}  {result}  {seconds:6.1f} s  {settings}{best}", flush=True)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _conclude(study: Any, request: Request, given: dict[str, Any]) -> int:
    done = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    if not done or not math.isfinite(study.best_value):
        print("no trial came to a return: give more --steps")
        return 1
    best = {name: _rounded(value) for name, value in _settings(study.best_params, request).items()}
    print(f"\nbest of {len(study.trials)} trials: return {study.best_value:.1f}")
    print(command_line(request, {**given, **best}))
    return 0


def _settings(parameters: dict[str, Any], request: Request) -> dict[str, Any]:
    """What a trial chose, as settings."""
    from optuna.trial import FixedTrial

    fixed = FixedTrial(parameters)
    return {
        name: suggest(fixed, name, getattr(request.config, name))
        for name in varied(request.module.Config)
        if name in parameters
    }


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
