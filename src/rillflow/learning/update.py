"""What an algorithm learns by: steps, each a loss and the networks it trains.

    def update(m, rows, cfg):
        logp, entropy, values = m.policy.evaluate(rows.obs, rows.actions)
        ...
        total = surrogate + cfg.vf_loss_coef * value
        yield Step(total, trains="policy", stats={"value_loss": value})

The learner takes each step when it comes: what is computed after a `yield` sees the new weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any, TypeAlias

from rillflow.errors import RunError

Names: TypeAlias = str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the optimisers of some networks."""

    loss: Any
    """one number to make smaller, or a function without arguments that gives it: where `every` is
    above 1 it is called only when its turn has come"""
    trains: Names = None
    """the networks whose weights it changes; None: all of them"""
    every: int = 1
    """take it in one of so many updates"""
    stats: Mapping[str, Any] = field(default_factory=dict)
    """figures to report: one number each, or one for each row, such as errors and their keys"""


Steps: TypeAlias = Iterator[Step]


class Rows(dict[str, Any]):
    """Columns to learn from, also as attributes: `rows.obs` is `rows["obs"]`.

    >>> Rows(obs=1).obs
    1
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(sorted(self))
            raise AttributeError(f"the rows have no column {name!r}; there are {known}") from None


def steps_of(update: Callable[..., Any], *arguments: Any) -> Iterator[Step]:
    """The steps of an update, which yields or returns them; anything else is an error."""
    given = update(*arguments)
    if isinstance(given, Step):
        given = iter((given,))
    if type(given) is not GeneratorType and not isinstance(given, Iterator):
        raise wrong_update(update, given)
    for step in given:
        if not isinstance(step, Step):
            raise wrong_update(update, step)
        yield step


def lone_step(update: Callable[..., Any], *arguments: Any) -> Step:
    """The only step of an update, whose gradient travels; several are refused."""
    steps = steps_of(update, *arguments)
    first = next(steps)
    if next(steps, None) is not None:
        name = getattr(update, "__qualname__", repr(update))
        raise RunError(
            f"gradients that travel are those of one loss, but {name} yields several steps: add "
            "their losses up in one Step, or train with TrainOneStep or a LearnerThread."
        )
    return first


def wrong_update(update: Callable[..., Any], found: object) -> RunError:
    """The error for an update that gives something else than steps."""
    name = getattr(update, "__qualname__", repr(update))
    return RunError(
        f"an update yields rillflow.Step(loss, trains=..., stats={{...}}), found "
        f"{type(found).__name__} from {name}."
    )
