"""What both kinds of stream share: pictures, and the checks of an operator's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from rillflow.callables import label_of
from rillflow.errors import BuildError
from rillflow.graph import annotations as types
from rillflow.graph.node import Node

T = TypeVar("T")
EngineName = Literal["sim", "local", "ray"]


class Stream(Generic[T]):
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node.name or self.node.label})"

    def _transform(
        self,
        op: str,
        fn: Callable[..., Any] | None = None,
        *,
        label: str | None = None,
        name: str | None = None,
        gives: Any = types.UNKNOWN,
        **options: Any,
    ) -> Node:
        """A transform node behind this one, with the types of the two neighbours compared."""
        if fn is not None and not callable(fn):
            raise BuildError(f"{op} takes a callable; got {fn!r}.")
        if label is None:
            label = op if fn is None else f"{op}({label_of(fn)})"
        here = self.node.options.get("gives", types.UNKNOWN)
        if fn is not None:
            options["ctx"] = types.wants_context(fn)
            if not getattr(fn, "takes_ref", False):  # an item unread is a Ref, whatever is in it
                types.require_agreement(here, fn, self.node.label, label)
        return Node(
            kind="transform",
            label=label,
            inputs=(self.node,),
            parallel=self.node.parallel,
            name=name,
            options={"op": op, "fn": fn, "gives": gives, **options},
        )

    def _element(self) -> Any:
        return types.element_type(self.node.options.get("gives", types.UNKNOWN))


def gives_of(node: Node) -> Any:
    """The annotated type of a node's items, or UNKNOWN."""
    return node.options.get("gives", types.UNKNOWN)


def require_positive(operator: str, argument: str, value: object) -> None:
    """Refuse a count below one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BuildError(
            f"{operator}: {argument} must be a whole number of at least 1; got {value!r}."
        )
