"""`--callback`: functions of the user's that hear of a run, named on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rillflow.cli.flags.current_directory import look_here
from rillflow.cli.output.error_messages import Usage

if TYPE_CHECKING:
    from rillflow.runs.callbacks import Callbacks

_EVENTS = "on_result, on_episode, on_evaluation or on_checkpoint"


def add_callback_flag(group: Any) -> None:
    """The flag, which may be repeated."""
    group.add_argument(
        "--callback",
        action="append",
        default=[],
        metavar="[EVENT=]module:name",
        help=f"a function of yours that is called with the run and what happened: {_EVENTS}, by "
        'its own name or by EVENT; one that returns "stop" ends the run (may be repeated)',
    )


def callbacks_from(given: Sequence[str]) -> Callbacks:
    """The functions that were named; naming them here is the consent to import them."""
    from rillflow.runs.callbacks import EVENTS, Callbacks
    from rillflow.runs.code_by_name import pointed_at

    functions: list[Any] = []
    for text in given:
        event, _, name = text.rpartition("=")
        if ":" not in name:
            raise Usage(
                f"--callback {text}: a callback is named as module:name, such as "
                "my_callbacks:on_result for that function in my_callbacks.py"
            )
        look_here(name)
        function = pointed_at(name)
        if not event and getattr(function, "__name__", "") not in EVENTS:
            raise Usage(
                f"--callback {text}: when is it to be called? It is named after none of "
                f"{', '.join(EVENTS)}, so say it: --callback on_result={name}"
            )
        functions.append((event, function) if event else function)
    return Callbacks(functions)
