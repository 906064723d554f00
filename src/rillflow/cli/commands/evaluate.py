"""`rillflow evaluate`: play episodes with a trained policy."""

from __future__ import annotations

from collections.abc import Sequence

from rillflow.cli.flags.parser import Parser, whole
from rillflow.cli.flags.policy_to_load import Asked, add_policy_flags
from rillflow.cli.output.fitted_lines import fitted

_DESCRIPTION = """\
Play whole episodes with a trained policy, in environments of their own, and report the returns with
their 95% intervals. The same seed gives the same figures."""


def main(arguments: Sequence[str]) -> int:
    """Evaluate."""
    parser = Parser("evaluate", _DESCRIPTION)
    add_policy_flags(parser)
    parser.add_argument(
        "--episodes",
        type=whole(1),
        default=100,
        metavar="N",
        help="whole episodes to play (default 100)",
    )
    parser.add_argument(
        "--seed", type=whole(0), default=1, metavar="N", help="of the environments (default 1)"
    )
    parser.add_argument(
        "--sampled", action="store_true", help="draw actions instead of taking the most likely"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    asked = Asked(parser, arguments)
    options = asked.options

    from rillflow.cli.output.warnings_as_notes import notes_as_lines
    from rillflow.files import to_json
    from rillflow.results import evaluate, evaluate_agents
    from rillflow.results.trained import TrainedAgents

    how = {"seed": options.seed, "greedy": not options.sampled}
    with notes_as_lines():
        trained = asked.all()
        if not isinstance(trained, TrainedAgents):
            found = evaluate(trained, options.episodes, **how)
            print(found.to_json() if options.json else _fitted(found))
            return 0
        by_policy = evaluate_agents(trained, options.episodes, **how)
    if options.json:
        print(to_json({name: own.to_data() for name, own in by_policy.items()}, indent=2))
    else:
        print("\n\n".join(_fitted(own) for own in by_policy.values()))
    return 0


def _fitted(found: object) -> str:
    return "\n".join(fitted(str(found).splitlines()))
