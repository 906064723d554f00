"""One primitive on a tape: its result, and the gradient of each argument that is a `Var`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rillflow.learning.tape import Var, custom


def node(value: Any, argument: Any, pull: Callable[[Any], Any]) -> Any:
    """A result that is differentiated by one argument, if that is a `Var`; else the value alone.

    `pull` makes the gradient of the argument from that of the result.
    """
    if type(argument) is not Var:
        return value
    out = Var(value, argument.tape)

    def back() -> None:
        gradient, out.grad = out.grad, None
        if gradient is not None:
            argument.take(pull(gradient))

    argument.tape.backs.append(back)
    return out


def nodes(value: Any, *parents: tuple[Any, Callable[[Any], Any]]) -> Any:
    """As `node`, of several arguments; the value alone if none of them is a `Var`."""
    return custom(value, *parents) if any(type(p) is Var for p, _ in parents) else value
