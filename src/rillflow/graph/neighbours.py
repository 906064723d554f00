"""Two neighbouring operators: what is refused between them, and what the message suggests."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rillflow.errors import BuildError, TypeMismatch
from rillflow.graph.agreement import UNKNOWN, Filtered, agrees
from rillflow.graph.annotations import (
    guarded_type,
    input_type,
    output_type,
    signature_of,
    wants_context,
)
from rillflow.graph.generics import arguments_as, options_of, united
from rillflow.graph.handles import ActorHandle
from rillflow.graph.type_names import has_actor, name_of
from rillflow.types import Ref

_RULE = "the types of two neighbours must agree"


def wanted_by(fn: Callable[..., Any]) -> Any:
    """What a callable takes; an operator that takes items unread says nothing with `Ref`."""
    wanted = input_type(fn)
    unread = getattr(fn, "takes_ref", False) and any(o is Ref for o in options_of(wanted))
    return UNKNOWN if unread else wanted


def disagreement(given: Any, fn: Callable[..., Any], producer: str, consumer: str) -> str | None:
    """Why what `producer` gives cannot be what `consumer` takes, with the way out; None: it can."""
    wanted = wanted_by(fn)
    if _readable(given) is UNKNOWN or agrees(given, wanted):
        return None
    gives, takes = name_of(given), name_of(wanted)
    ways = [_way_out(given, wanted), getattr(fn, "way_in", None)]
    said = " ".join(way for way in ways if way) or (
        "Put a conversion between them, or correct the annotation that is wrong."
    )
    return f"{_RULE}: {producer!r} gives {gives}, but {consumer!r} takes {takes}. {said}"


def require_agreement(given: Any, fn: Callable[..., Any], producer: str, consumer: str) -> None:
    """Raise TypeMismatch if what `producer` makes is known not to be what `consumer` takes."""
    problem = disagreement(given, fn, producer, consumer)
    if problem is not None:
        raise TypeMismatch(problem)


def require_one_item(fn: Callable[..., Any], consumer: str) -> None:
    """Refuse a callable that cannot be called with an item, and the context if it asks for it."""
    signature = None if hasattr(fn, "__signature__") else signature_of(fn, follow=False)
    context = wants_context(fn)
    if signature is None:
        return
    try:
        signature.bind("item", *(["ctx"] if context else []))
    except TypeError as error:
        needed = "(item, ctx)" if context else "(item), or (item, ctx) with that name,"
        raise BuildError(
            f"an operator is called with one item: {needed} but {consumer!r} has the parameters "
            f"{signature}: {error}. Fix the others with functools.partial or a lambda, or take "
            "them from the item."
        ) from None


def require_no_arguments(cls: Any, method: str) -> None:
    """Refuse a method as a source that cannot be called with nothing but its actor."""
    function = inspect.getattr_static(cls, method, None)
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        return
    signature = inspect.signature(function)
    try:
        signature.bind("self")
    except TypeError as error:
        raise BuildError(
            f"a source's method is called without arguments, but {cls.__name__}.{method} has the "
            f"parameters {signature}: {error}. Give them to the constructor of the actor."
        ) from None


def require_truth(fn: Callable[..., Any], consumer: str) -> None:
    """Refuse a filter's function whose result says nothing of whether to keep an item."""
    gives = output_type(fn)
    options = [typing.get_origin(option) or option for option in options_of(gives)]
    if any(not isinstance(option, type) or _truthful(option) for option in options):
        return
    raise TypeMismatch(
        f"a filter keeps the items for which its function is true, but the function of "
        f"{consumer!r} gives {name_of(gives)}. Return a bool."
    )


def _truthful(cls: type) -> bool:
    unclear = cls in (UNKNOWN, object) or getattr(cls, "_is_protocol", False)
    return unclear or (cls is not types.NoneType and hasattr(cls, "__bool__"))


def require_elements(given: Any, producer: str, consumer: str) -> Any:
    """The type of the elements of what is taken apart; TypeMismatch if that is known to have none.

    Text and mappings have elements, and a list of letters or names is never what was meant.
    """
    found = [_elements(option) for option in options_of(_readable(given))]
    if None not in found:
        known = all(one is not UNKNOWN for one in found)
        return _rewrapped(given, united(found)) if known else UNKNOWN
    if isinstance(given, Filtered) and any(one is not None for one in found):
        return UNKNOWN
    raise TypeMismatch(
        f"{_RULE}: {producer!r} gives {name_of(given)}, but {consumer!r} takes lists apart. "
        "Leave it out where items come one by one; .batch(n) and .gather_sync() make lists."
    )


def require_list(fn: Callable[..., Any], given: Any, consumer: str) -> Any:
    """The type of what `combine` passes on; TypeMismatch if its function is known to give none."""
    gives = output_type(fn, given)
    found = [_elements(option) for option in options_of(gives)]
    if None in found:
        raise TypeMismatch(
            f"the callable given to combine returns a list for each item, empty while it collects, "
            f"but that of {consumer!r} gives {name_of(gives)}. Return a list, or use for_each."
        )
    return UNKNOWN if any(one is UNKNOWN for one in found) else united(found)


def _elements(container: Any) -> Any:
    """The type of a container's elements, UNKNOWN, or None if it is known to be no container."""
    if isinstance(container, typing.NewType):
        return _elements(container.__supertype__)
    origin = typing.get_origin(container) or container
    if container is None or container is types.NoneType:
        return None
    if not isinstance(origin, type) or origin in (UNKNOWN, object):
        return UNKNOWN
    if getattr(origin, "_is_protocol", False):
        return UNKNOWN
    if issubclass(origin, str | bytes | Mapping):
        return None
    if not issubclass(origin, Iterable):
        return UNKNOWN if hasattr(origin, "__getitem__") else None
    return (arguments_as(container, Iterable) or (UNKNOWN,))[0]


def passed_on(op: str, fn: Any, given: Any, producer: str, consumer: str) -> Any:
    """The type of what a transform passes on; raises if it cannot take what it is given."""
    if fn is not None:
        require_one_item(fn, consumer)
        require_agreement(given, fn, producer, consumer)
    match op:
        case "for_each":
            return output_type(fn, given)
        case "combine":
            return require_list(fn, given, consumer)
        case "flatten":
            return require_elements(given, producer, consumer)
        case "filter":
            require_truth(fn, consumer)
            guarded = guarded_type(fn)
            return _filtered(given) if guarded is UNKNOWN else guarded
        case "batch":
            return list_of(given)
        case "zip_with_source_actor":
            return pair_of(given)
    return given


def list_of(given: Any) -> Any:
    """The type of a list of such items."""
    return _rewrapped(given, list[_readable(given)])  # type: ignore[misc]


def pair_of(given: Any) -> Any:
    """The type of an item with the actor that made it."""
    return _rewrapped(given, tuple[ActorHandle, _readable(given)])  # type: ignore[misc]


def either_of(given: Iterable[Any]) -> Any:
    """The type of items that come from any of several flows.

    A flow of unknown items adds nothing: those of the others come all the same.
    """
    known = [one for one in given if _readable(one) is not UNKNOWN]
    if not known:
        return UNKNOWN
    whole = united([_readable(one) for one in known])
    return Filtered(whole) if any(isinstance(one, Filtered) for one in known) else whole


def _filtered(given: Any) -> Any:
    """The type of items of which some were left out."""
    return given if isinstance(given, Filtered) or given is UNKNOWN else Filtered(given)


def _readable(given: Any) -> Any:
    """A type as Python has it; of an item that is passed on unread nothing is known."""
    whole = given.whole if isinstance(given, Filtered) else given
    return UNKNOWN if any(option is Ref for option in options_of(whole)) else whole


def _rewrapped(given: Any, made: Any) -> Any:
    return Filtered(made) if isinstance(given, Filtered) else made


def _way_out(given: Any, wanted: Any) -> str:
    given = _readable(given)
    options = options_of(given)
    if given in (None, types.NoneType):
        return "It returns nothing: let it return the item."
    if _elements(given) not in (None, UNKNOWN) and agrees(_elements(given), wanted):
        return "Put .flatten() between them to pass the elements on one by one."
    if agrees(list_of(given), wanted):
        return "Put .batch(n) between them, or gather with .gather_sync(), to pass on lists."
    rest = [option for option in options if option is not types.NoneType]
    if rest and len(rest) < len(options) and all(agrees(option, wanted) for option in rest):
        return "Filter None out between them: .filter(lambda item: item is not None)."
    if has_actor(given):
        if agrees(typing.get_args(given)[1], wanted):
            return "Leave .zip_with_source_actor() out, or take an (actor, item) pair."
    elif agrees(pair_of(given), wanted) and any(has_actor(option) for option in options_of(wanted)):
        return "Put .zip_with_source_actor() between them to pass on (actor, item) pairs."
    return ""
