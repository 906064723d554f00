"""`rillflow tune`: search for good settings with Optuna."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.cli.flags.parser import Parser, whole
from rillflow.cli.flags.search_space import can_vary, varied
from rillflow.cli.flags.trust import program
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.output.fitted_lines import fitted
from rillflow.cli.request import Request, add_request_flags, command_line, parse_request

if TYPE_CHECKING:
    from rillflow.cli.search import Search
    from rillflow.cli.side_by_side import Member

_DESCRIPTION = """\
Try settings, each for a number of steps, and keep what gives the highest return: a search with
Optuna that stops trials which do worse than the others. The first trial has the settings as they
are. Each trial is a run with a directory of its own. Settings given as flags stay as they are."""
_PRUNERS = ("median", "hyperband", "none")
_OURS = {"--trials": 1, "--steps": 1, "--pruner": 1, "--storage": 1, "--study": 1, "--seed": 1,
         "--jobs": 1, "--run-dir": 1, "--plain": 0}  # fmt: skip
"""flags that say how to search; all others are those of each run"""


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
    names = [
        name
        for name in varied(request.module.Config)
        if name not in given and can_vary(name, getattr(request.config, name))
    ]
    if not names:
        raise Usage(f"every setting of {request.algorithm} that could be varied was given")
    from rillflow.cli.run_flags import chosen_engine

    chosen_engine(options)  # a mistake is told before the first trial
    optuna = _optuna()

    from rillflow.cli.output.warnings_as_notes import notes_as_lines

    with notes_as_lines():
        return _search(optuna, request, names, given, arguments)


def _add_search_flags(parser: Parser) -> None:
    from rillflow.cli.run_flags import add_engine_flags, add_jobs_flag

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
    add_jobs_flag(own, "trials")
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
        "go on or be shared (default: trials.log in the search's directory)",
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
    own.add_argument(
        "--run-dir",
        default="runs",
        metavar="DIR",
        help="where the search's directory is made, in which each trial has its own (default runs)",
    )
    own.add_argument(
        "--plain", action="store_true", help="lines alone, as when the output is a file"
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
    """Settings that the user has chosen, and those that follow from them."""
    import dataclasses

    usual = request.module.Config.make(env=request.config.env)
    found = {}
    for field in dataclasses.fields(request.config):
        value = getattr(request.config, field.name)
        named = field.name in request.given
        if field.name != "env" and (named or value != getattr(usual, field.name)):
            found[field.name] = value
    return found


def _search(
    optuna: Any,
    request: Request,
    names: Sequence[str],
    given: dict[str, Any],
    arguments: Sequence[str],
) -> int:
    from rillflow.cli.output.trial_lines import trials_shown
    from rillflow.cli.search import Search
    from rillflow.cli.side_by_side import SideBySide, room_for, without

    options = request.options
    engine = "ray" if options.address else options.engine or "local"
    workers = int(getattr(request.config, "num_workers", 1))
    at_once = min(options.trials, options.jobs or room_for(engine, workers))
    directory = _new_directory(Path(options.run_dir), request)
    study = _study(optuna, options, request, directory)
    how = f", {at_once} at a time" if at_once > 1 else ""
    shown = trials_shown(
        options,
        f"{request.algorithm} on {request.env}: {options.trials} trials of "
        f"{options.steps:,.0f} steps{how}, into {directory}, varying {', '.join(names)}",
    )
    search = Search(study, request, names, without(arguments, _OURS), directory, shown.ended)
    search.enqueue_defaults()

    def hear(member: Member, event: Mapping[str, Any]) -> None:
        search.hear(member, event)
        shown.hear(member, event)

    shown.search = search
    with SideBySide(at_once, hear, shown.tick) as runs, shown:
        search.stopping = lambda: runs.wishes > 0
        runs.run(search.members(options.trials))
    code = _conclude(search, given, directory, stopped=bool(runs.wishes))
    return 128 + runs.signal if runs.wishes else code


def _new_directory(root: Path, request: Request) -> Path:
    import re

    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"tune-{request.algorithm}-{request.env}").strip("-.")
    number = 1
    try:
        root.mkdir(parents=True, exist_ok=True)
        while True:
            with contextlib.suppress(FileExistsError):
                (root / f"{plain}-{number}").mkdir()
                return root / f"{plain}-{number}"
            number += 1
    except OSError as error:
        raise Usage(f"--run-dir {root}: {error.strerror or error}") from None


def _study(optuna: Any, options: Any, request: Request, directory: Path) -> Any:
    pruner = {
        "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=3),
        "hyperband": lambda: optuna.pruners.HyperbandPruner(),
        "none": lambda: optuna.pruners.NopPruner(),
    }[options.pruner]()
    return optuna.create_study(
        direction="maximize",
        # trials that run count as bad ones: those side by side are not all the same
        sampler=optuna.samplers.TPESampler(
            seed=options.seed, n_startup_trials=5, constant_liar=True
        ),
        pruner=pruner,
        storage=_storage(optuna, options.storage or str(directory / "trials.log")),
        study_name=options.study or f"{request.algorithm}-{request.env}",
        load_if_exists=True,
    )


def _storage(optuna: Any, given: str) -> Any:
    if "://" in given:
        return given
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        return JournalStorage(JournalFileBackend(given))
    except OSError as error:
        raise Usage(f"--storage {given}: {error.strerror or error}") from None


def _conclude(search: Search, given: dict[str, Any], directory: Path, *, stopped: bool) -> int:
    """What was found; the exit code."""
    if stopped:
        print("stopped; trials that were running are not counted")
    best = search.best
    if best is None:
        said = "before a trial came to a return" if stopped else "no trial came to a return"
        print(said if stopped else f"{said}: give more --steps")
        return 1
    found = search.importances()
    print(f"\nbest of {len(search.counted)} trials: return {best.value:.1f}")
    print("\n".join(fitted(_more(search, best, found, directory))))
    # in one piece, however long: it is there to be copied
    print(command_line(search.request, {**given, **search.settings_of(best)}))
    return 0


def _more(search: Search, best: Any, found: Mapping[str, float], where: Path) -> Iterator[str]:
    """Beside the best: the defaults, the settings that mattered, the picture, where it all is."""
    usual = [trial for trial in search.counted if trial.user_attrs.get("defaults")]
    if usual and usual[0].number == best.number:
        yield "  these are the settings as they were"
    elif usual and usual[0].state.name == "COMPLETE":
        yield f"  the settings as they were gave {usual[0].value:.1f}"
    for name, share in list(found.items())[:8]:
        yield f"  {name:<26} {'█' * round(20 * share) or '▏'} {100 * share:.0f}%"
    picture = _drawn(search, found, where)
    if picture is not None:
        yield f"  picture {picture}"
    yield f"  runs    {program()} view {where}"
    if best.user_attrs.get("run"):
        yield f"  policy  {best.user_attrs['run']}"


def _drawn(search: Search, importances: Mapping[str, float], where: Path) -> Path | None:
    """History and importance; no reason to fail if they cannot be drawn."""
    from rillflow.errors import RillflowError
    from rillflow.results.search_plot import Tried, plot_search

    trials = [
        Tried(one.number, value, one.state.name == "PRUNED", bool(one.user_attrs.get("defaults")))
        for one in search.counted
        if (value := _value(one)) is not None
    ]
    try:
        title = f"{search.request.algorithm} on {search.request.env}"
        return plot_search(trials, importances, where / "search.png", title)
    except (RillflowError, OSError) as error:
        print(f"note: no picture: {error}", file=sys.stderr)
        return None


def _value(trial: Any) -> float | None:
    value = trial.value
    if trial.state.name == "PRUNED":
        value = trial.intermediate_values.get(max(trial.intermediate_values, default=0))
    return float(value) if value is not None and math.isfinite(value) else None
