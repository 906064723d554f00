"""Several sequential flows as one: `Union` and `Concurrently`, as they are written and checked.

Whose turn it is while a flow runs, by weights and credits, is decided in `scheduler/union.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from rillflow.callables import label_of
from rillflow.errors import BuildError
from rillflow.flows.flow import Flow
from rillflow.flows.parallel import ParallelFlow
from rillflow.flows.stream import gives_of
from rillflow.graph.neighbours import either_of, require_agreement
from rillflow.graph.node import Node

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
def Union(
    one: Flow[A],
    two: Flow[B],
    /,
    *,
    weights: Sequence[float] | None = None,
    units: Callable[[Any], float] | None = None,
    name: str | None = None,
) -> Flow[A | B]: ...
@overload
def Union(
    one: Flow[A],
    two: Flow[B],
    three: Flow[C],
    /,
    *,
    weights: Sequence[float] | None = None,
    units: Callable[[Any], float] | None = None,
    name: str | None = None,
) -> Flow[A | B | C]: ...
@overload
def Union(
    *flows: Flow[T],
    weights: Sequence[float] | None = None,
    units: Callable[[Any], float] | None = None,
    name: str | None = None,
) -> Flow[T]: ...
def Union(  # noqa: N802 - an operator, under the paper's name
    *flows: Flow[Any],
    weights: Sequence[float] | None = None,
    units: Callable[[Any], float] | None = None,
    name: str | None = None,
) -> Flow[Any]:
    """Merge flows: whichever is ready, least recently served first; or by exact weights.

    >>> import rillflow as rf
    >>> few, many = (rf.from_items(list(text), 1).gather_async() for text in ("ab", "123456"))
    >>> "".join(Union(few, many, weights=[1, 2]).take(6, engine="sim"))
    'a12b34'

    With `weights`, turns are given out by credits, exactly and deterministically: [1, 2] serves
    the second twice as often. A turn is one activation, whether or not it yields an item. With
    `units`, what an item costs is `units(item)`, so that weights can be stated in steps.
    Round-robin waits for a slow child, but passes over a child that waits for room in a queue or in
    an actor's mailbox (its credit is kept) or that is still warming up (no credit accrues).
    """
    mode: Literal["async", "round_robin"] = "async" if weights is None else "round_robin"
    return _merge(list(flows), mode, None, weights, units, name, "Union")


def Concurrently(  # noqa: N802 - an operator, under the paper's name
    ops: Sequence[Flow[Any]],
    *,
    mode: Literal["round_robin", "async"] = "round_robin",
    output_indexes: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    units: Callable[[Any], float] | None = None,
    name: str | None = None,
) -> Flow[Any]:
    """Run flows together; those outside `output_indexes` run for their effects only.

    >>> import rillflow as rf
    >>> letters, digits = (rf.from_items(list(text), 1).gather_async() for text in ("abc", "123"))
    >>> Concurrently([letters, digits], output_indexes=[1]).take(3, engine="sim")
    ['1', '2', '3']

    The flow ends when every flow that gives items has ended.
    """
    if mode not in ("round_robin", "async"):
        raise BuildError(f"Concurrently: unknown mode {mode!r}; choose 'round_robin' or 'async'.")
    if mode == "async" and weights is not None:
        raise BuildError(
            "Concurrently: weights need mode='round_robin'; in 'async' whichever is ready goes."
        )
    return _merge(list(ops), mode, output_indexes, weights, units, name, "Concurrently")


def _merge(
    flows: list[Flow[Any]],
    mode: Literal["async", "round_robin"],
    output_indexes: Sequence[int] | None,
    weights: Sequence[float] | None,
    units: Callable[[Any], float] | None,
    name: str | None,
    what: str,
) -> Flow[Any]:
    for flow in flows:
        if isinstance(flow, ParallelFlow):
            raise BuildError(
                f"{what} merges sequential flows, but {flow.node.label!r} is parallel. "
                "Gather it first, with .gather_sync() or .gather_async()."
            )
        if not isinstance(flow, Flow):
            raise BuildError(f"{what} merges flows; got {flow!r}.")
    if len(flows) < 2:
        raise BuildError(f"{what} merges at least 2 flows; got {len(flows)}.")
    outputs = tuple(range(len(flows)) if output_indexes is None else output_indexes)
    if not outputs or any(not 0 <= i < len(flows) for i in outputs):
        raise BuildError(
            f"{what}: output_indexes must name some of the {len(flows)} flows "
            f"(0 to {len(flows) - 1}); got {list(outputs)}."
        )
    shares = _weights(weights, len(flows), what)
    if units is not None and weights is None:
        raise BuildError(f"{what}: `units` says what a turn costs, so it needs `weights`.")
    if units is not None:
        for node in (flow.node for flow in flows):
            require_agreement(gives_of(node), units, node.name or node.label, label_of(units))
    label = "union" if mode == "async" else "union(round_robin)"
    if weights is not None:
        label = f"union(weights={[_plain(w) for w in weights]})"
    node = Node(
        kind="union",
        label=label,
        inputs=tuple(flow.node for flow in flows),
        name=name,
        options={
            "mode": mode,
            "outputs": outputs,
            "weights": shares,
            "units": units,
            "weighted": weights is not None,
            "gives": either_of(gives_of(flows[i].node) for i in outputs),
        },
    )
    return Flow(node)


def _weights(weights: Sequence[float] | None, count: int, what: str) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * count
    if len(weights) != count:
        raise BuildError(
            f"{what}: one weight per flow; got {len(weights)} weights for {count} flows."
        )
    if any(isinstance(w, bool) or not isinstance(w, int | float) for w in weights) or any(
        not 0 < w < math.inf for w in weights
    ):
        raise BuildError(f"{what}: weights are finite numbers above 0; got {list(weights)}.")
    return tuple(float(w) for w in weights)


def _plain(weight: float) -> float | int:
    return int(weight) if float(weight).is_integer() else weight
