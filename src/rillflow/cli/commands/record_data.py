"""`rillflow record-data`: episodes of a policy as a dataset to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rillflow.cli.flags.parser import Parser, part, whole
from rillflow.cli.flags.policy_to_load import Asked, add_policy_flags, beside
from rillflow.cli.output.error_messages import Usage

_DESCRIPTION = """\
Record whole episodes of a trained policy as a dataset in Minari's format, to learn from with
`rillflow train bc`, `marwil`, `cql` or `iql`. With --random, RUN may be an environment's id."""


def main(arguments: Sequence[str]) -> int:
    """Record."""
    parser = Parser("record-data", _DESCRIPTION)
    add_policy_flags(parser)
    parser.add_argument(
        "-o", "--out", metavar="DIR", help="the dataset's directory (default RUN/data)"
    )
    parser.add_argument("--episodes", type=whole(1), metavar="N", help="to record (default 100)")
    parser.add_argument(
        "--steps",
        type=whole(1),
        metavar="N",
        help="whole episodes until there are so many steps, instead of --episodes",
    )
    parser.add_argument(
        "--epsilon",
        type=part,
        default=0.0,
        metavar="P",
        help="how often an action is random instead, from 0 to 1 (default 0)",
    )
    parser.add_argument("--random", action="store_true", help="every action is random")
    parser.add_argument(
        "--sampled", action="store_true", help="draw actions instead of taking the most likely"
    )
    parser.add_argument(
        "--append", action="store_true", help="add to a dataset that is there: mixed data"
    )
    parser.add_argument(
        "--seed",
        type=whole(0),
        default=1,
        metavar="N",
        help="of the environment; the same seed gives the same episodes (default 1)",
    )
    asked = Asked(parser, arguments)
    options = asked.options
    if options.episodes is not None and options.steps is not None:
        raise Usage("--episodes and --steps are two ways to say how much: give one of them")
    if options.random and options.epsilon:
        raise Usage("--random is --epsilon 1: give one of them")
    id_alone = options.random and not Path(options.run).exists()
    if id_alone and options.out is None:
        raise Usage("where to? With an environment instead of a run, -o DIR says it")
    path = Path(options.out) if options.out else beside(options.run, "data")

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.results import record_data

    with notes_as_lines():
        trained = options.run if id_alone else asked.one("datasets are of one policy")
        found = record_data(
            trained,
            path,
            (options.episodes or 100) if options.steps is None else None,
            steps=options.steps,
            epsilon=1.0 if options.random else options.epsilon,
            greedy=not options.sampled,
            seed=options.seed,
            append=options.append,
        )
    print(f"{path}: {found}")
    return 0
