"""`rillflow compare`: the difference between runs, with its uncertainty."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillflow.cli.flags.parser import Parser, whole
from rillflow.cli.flags.runs_named import add_runs, named_runs
from rillflow.cli.flags.trust import add_trust_flag, take_named
from rillflow.cli.output.error_messages import Usage
from rillflow.cli.output.fitted_lines import columns, fitted

if TYPE_CHECKING:
    from rillflow.results.comparison import Comparison, Figure
    from rillflow.results.learning_curves import Group

_DESCRIPTION = """\
Say how much better the second of two groups of runs is than the first, and how sure that is: with a
95% bootstrap interval over their seeds. Groups are runs that differ in their seed alone; of three
or more groups each is compared with the first."""
_EPISODES = 30
_SETTINGS = 12


def main(arguments: Sequence[str]) -> int:
    """Compare."""
    parser = Parser("compare", _DESCRIPTION)
    add_runs(parser)
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="TEXT",
        help="name of its group, once for each RUN; runs of one name are one group",
    )
    parser.add_argument(
        "--group-by", metavar="NAMES", help="settings: runs that agree in these are one group"
    )
    parser.add_argument(
        "--episodes",
        type=whole(0),
        metavar="N",
        help="play N episodes with the policy of each run, too (default 30 where a group has one "
        "run, else none)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    add_trust_flag(parser)
    options = parser.parse(arguments)
    take_named(options.trust)
    runs, labels = named_runs(options.runs, options.label)
    group_by = [name for name in (options.group_by or "").replace("-", "_").split(",") if name]

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.results.comparison import compare

    with notes_as_lines():
        pairs = _pairs(_groups(options.runs, runs, labels, group_by))
    found = []
    for a, b in pairs:
        comparison = compare(a, b)
        comparison.figures.extend(_played(comparison, options))
        found.append(comparison)
    if options.json:
        from rillflow.files import to_json

        print(to_json([_as_data(one) for one in found], indent=2))
    else:
        print("\n\n".join("\n".join(_lines(one, columns())) for one in found))
    return 0


def _groups(
    given: Sequence[str], runs: Sequence[Path], labels: Sequence[str], group_by: Sequence[str]
) -> list[Group]:
    """By settings; where those are all the same, each argument is a group: code may differ, too."""
    from rillflow.results.learning_curves import read_groups

    groups = read_groups(runs, "steps", "return", labels=labels, group_by=group_by)
    if len(groups) == 1 and not labels and len(given) > 1:
        names = [text.rstrip("/") for text in given]
        runs, labels = named_runs(given, names)
        groups = read_groups(runs, "steps", "return", labels=labels)
    return groups


def _pairs(groups: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Of each environment the first group with each other one."""
    by_env: dict[str, list[Group]] = {}
    for group in groups:
        by_env.setdefault(group.env, []).append(group)
    pairs = [(own[0], other) for own in by_env.values() for other in own[1:]]
    if pairs:
        return pairs
    if len(by_env) > 1:
        raise Usage(
            f"these are runs of {' and of '.join(by_env)}, and returns of different environments "
            "say nothing of each other: give runs of one environment"
        )
    count = len(groups[0].runs)
    raise Usage(
        f"there is one group, {groups[0].name!r} with {count} run{'s' if count > 1 else ''}, and "
        "nothing to compare it with: give runs that differ, or a --label for each"
    )


def _played(comparison: Comparison, options: Any) -> Iterator[Figure]:
    """Episodes of the policies, where they are wanted or are all that can be said."""
    from rillflow.errors import RillflowError
    from rillflow.results.comparison import of_episodes

    episodes = options.episodes
    if episodes is None:
        episodes = _EPISODES if min(comparison.seeds) == 1 else 0
    if not episodes:
        return
    try:
        sides = [
            [_returns(run.path, episodes, options.trust) for run in side.runs]
            for side in (comparison.a, comparison.b)
        ]
    except (RillflowError, OSError) as error:
        print(f"note: no episodes could be played: {error}", file=sys.stderr)
        return
    yield of_episodes(*sides)


def _returns(run: Path, episodes: int, trust: Sequence[str]) -> Any:
    import numpy as np

    from rillflow.errors import BuildError
    from rillflow.results import evaluate
    from rillflow.results.trained import load

    path = run / "policy.npz"
    if not path.exists():
        raise BuildError(f"{str(run)!r} has no single saved policy.")
    return np.asarray(evaluate(load(path, trust=trust), episodes).returns)


def _lines(found: Comparison, width: int | None) -> Iterator[str]:
    """One comparison as text; as a table if there is room for one."""
    yield from fitted(_sides(found), width)
    yield ""
    table = list(_table(found.figures))
    narrow = width is not None and max(map(len, table)) > width
    yield from fitted(_one_by_one(found.figures), width) if narrow else table
    yield from fitted(_caveats(found), width)


def _sides(found: Comparison) -> Iterator[str]:
    """What is compared, and the settings that differ."""
    yield f"{found.a.env or 'an environment without a name'}"
    for letter, side in (("A", found.a), ("B", found.b)):
        count = len(side.runs)
        what = "one run" if count == 1 else f"{count} {'seeds' if len(side.kinds) == 1 else 'runs'}"
        yield f"  {letter}  {side.name}, {what}"
    if found.settings:
        yield ""
    width = max((len(name) for name, _, _ in found.settings), default=0)
    for name, ours, theirs in found.settings[:_SETTINGS]:
        yield f"  {name:<{width}}  {ours} -> {theirs}"
    if len(found.settings) > _SETTINGS:
        yield f"  and {len(found.settings) - _SETTINGS} more settings differ"


def _one_by_one(figures: Sequence[Figure]) -> Iterator[str]:
    """The figures below each other, for a narrow terminal."""
    for one in figures:
        yield f"  {one.name}"
        yield f"    A {_figure(one.a)}, B {_figure(one.b)}, B - A {_signed(one.difference)}"
        if not math.isnan(one.low):
            yield f"    95% in [{_signed(one.low)}, {_signed(one.high)}]"
            yield f"    {one.verdict}"


def _table(figures: Sequence[Figure]) -> Iterator[str]:
    rows = [
        (
            one.name,
            _figure(one.a),
            _figure(one.b),
            _signed(one.difference),
            "" if math.isnan(one.low) else f"[{_signed(one.low)}, {_signed(one.high)}]",
            "" if math.isnan(one.low) else one.verdict,
        )
        for one in figures
    ]
    head = ("", "A", "B", "B - A", "95% interval", "")
    wide = [max(len(row[place]) for row in (head, *rows)) for place in range(6)]
    for row in (head, *rows):
        first, *rest, last = (
            text.ljust(wide[i]) if i in (0, 4, 5) else text.rjust(wide[i])
            for i, text in enumerate(row)
        )
        yield f"  {first}  {'  '.join(rest)}  {last}".rstrip()


def _caveats(found: Comparison) -> Iterator[str]:
    """What the figures do not say."""
    from rillflow.results.comparison import FEW

    least = min(found.seeds)
    played = any("episodes" in one.name for one in found.figures)
    if least == 1:
        yield ""
        yield "  One run says nothing of other seeds, so its curve has no interval."
        if played:
            yield "  The episodes tell these policies apart, not the settings that made them."
        yield "  More seeds come from `rillflow train ... --seeds 0-4`."
    elif least < FEW:
        yield ""
        yield f"  Intervals of {least} seeds are mostly too narrow; take {FEW} or more to be sure."
    if not found.figures:
        yield "  There is no step that all of these runs have a return at."


def _as_data(found: Comparison) -> dict[str, Any]:
    def side(group: Group) -> dict[str, Any]:
        return {"name": group.name, "runs": [str(run.path) for run in group.runs]}

    return {
        "env": found.a.env,
        "a": side(found.a),
        "b": side(found.b),
        "settings": {name: [ours, theirs] for name, ours, theirs in found.settings},
        "figures": [
            {
                "name": one.name,
                "a": one.a,
                "b": one.b,
                "difference": one.difference,
                "interval": None if math.isnan(one.low) else [one.low, one.high],
                "verdict": one.verdict,
            }
            for one in found.figures
        ],
    }


def _figure(value: float) -> str:
    return f"{value:,.1f}" if abs(value) < 10_000 else f"{value:,.0f}"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{_figure(abs(value))}"
