"""What both kinds of stream share: pictures, and the checks of an operator's arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Set
from typing import Any, Generic, Literal, TypeVar

from rillflow.callables import label_of
from rillflow.errors import BuildError
from rillflow.graph.annotations import UNKNOWN, wants_context
from rillflow.graph.neighbours import passed_on
from rillflow.graph.node import Node

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
Elements = list[U] | tuple[U, ...] | Set[U] | deque[U] | Iterator[U]
"""what `flatten` takes apart: neither text nor mappings, whose elements nobody means"""
EngineName = Literal["sim", "local", "ray"]


class Stream(Generic[T_co]):
    """A handle on a node of the graph."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def explain(self) -> str:
        """The flow as a text tree: operators, where each runs, shards, barriers, queue bounds."""
        from rillflow.pictures.text import to_text

        return to_text(self.node)

    def to_mermaid(self) -> str:
        """The flow as a Mermaid flowchart."""
        from rillflow.pictures.mermaid import to_mermaid

        return to_mermaid(self.node)

    def to_svg(self) -> str:
        """The flow as a self-contained SVG picture."""
        from rillflow.pictures.svg import to_svg

        return to_svg(self.node)

    def to_json(self) -> dict[str, Any]:
        """The flow as plain data: the one schema every picture is made from."""
        from rillflow.pictures.graph_json import to_json

        return to_json(self.node)

    def _repr_svg_(self) -> str:  # a notebook draws the flow
        return self.to_svg()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node.name or self.node.label})"

    def _transform(
        self,
        op: str,
        fn: Callable[..., Any] | None = None,
        *,
        label: str | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Node:
        """A transform node behind this one, with the types of the two neighbours compared."""
        if fn is not None and not callable(fn):
            raise BuildError(f"{op} takes a callable; got {fn!r}.")
        if label is None:
            label = op if fn is None else f"{op}({label_of(fn)})"
        if fn is not None:
            options["ctx"] = wants_context(fn)
        gives = passed_on(op, fn, gives_of(self.node), self.node.name or self.node.label, label)
        return Node(
            kind="transform",
            label=label,
            inputs=(self.node,),
            parallel=self.node.parallel,
            name=name,
            options={"op": op, "fn": fn, "gives": gives, **options},
        )


def gives_of(node: Node) -> Any:
    """The type of a node's items, as far as annotations tell, or UNKNOWN."""
    return node.options.get("gives", UNKNOWN)


def require_positive(operator: str, argument: str, value: object) -> None:
    """Refuse a count below one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BuildError(
            f"{operator}: {argument} must be a whole number of at least 1; got {value!r}."
        )
