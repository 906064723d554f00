"""What is wrong with a flow, found before anything starts. One function and one message each.

A flow is refused only for what is certain: it cannot be built by the scheduler, an item of it must
get stuck, or a promise of an operator cannot be kept. Every message says the rule, the offender
and the way out.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from rillflow.graph.handles import Actors, CallableActor, Queue
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.graph.shippable import is_shippable, why_unshippable
from rillflow.graph.types_behind_queues import types_behind_queues


def problems(root: Node) -> list[str]:
    """Everything in the graph behind `root` that would make it fail; nothing is started."""
    return problems_of(Program(root))


def problems_of(program: Program) -> list[str]:
    """Everything in its graph that would make a program fail; nothing is started."""
    return [problem for find in CHECKS for problem in find(program)]


# -- the shape of the graph ------------------------------------------------------------------------


def output_is_parallel(program: Program) -> Iterator[str]:
    """A run has one output sequence."""
    root = program.root
    if root.parallel:
        yield (
            f"the output of a flow is one sequence, but {program.names[root]!r} is parallel. "
            "Gather it, with .gather_sync() or .gather_async()."
        )


def duplicate_names(program: Program) -> Iterator[str]:
    """State and statistics are kept by name."""
    given = Counter(node.name for node in program.nodes if node.name is not None)
    for name, count in given.items():
        if count > 1:
            labels = [node.label for node in program.nodes if node.name == name]
            yield (
                f"names are unique in a flow, but {name!r} is given to {count} operators: "
                f"{_listed(labels)}. Give each its own name=, or leave it out."
            )


def two_readers(program: Program) -> Iterator[str]:
    """A stream is consumed by reading it, so a second reader takes items away from the first."""
    for node, readers in program.consumers.items():
        if len(readers) < 2 or node.kind == "split" or _different_shards(readers):
            continue
        names = _listed(list(dict.fromkeys(program.names[reader] for reader in readers)))
        yield (
            f"a stream has one reader, but {program.names[node]!r} is read {len(readers)} times, "
            f"by {names}. Use .split({len(readers)}) to give every item to each of them."
        )


def _different_shards(readers: list[Node]) -> bool:
    """`flow.shards()` reads one parallel flow many times, each shard once."""
    if any(reader.kind != "shards" or reader["keep"] is None for reader in readers):
        return False
    kept = [shard for reader in readers for shard in reader["keep"]]
    return len(set(kept)) == len(kept)


def split_child_without_reader(program: Program) -> Iterator[str]:
    """The other children wait for the one that lags, and nobody reads it."""
    for node, ports in program.consumers.items():
        if node.kind != "split":
            continue
        idle = sorted(set(range(node["n"])) - {port["index"] for port in ports})
        if idle:
            which = f"child {idle[0]} of" if len(idle) == 1 else f"children {idle} of"
            yield (
                "every child of a split must be read, or the others wait for it for ever, but "
                f"nothing reads {which} {program.names[node]!r}. Merge it into the output with "
                "Concurrently(..., output_indexes=...), or split into fewer."
            )


def partial_route(program: Program) -> Iterator[str]:
    """Items are dealt to all the shards of a route, by position, and one gather takes them up."""
    for node in program.nodes:
        if node.kind != "gather":
            continue
        plans = program.shards(node.inputs[0])
        routes = list(dict.fromkeys(p.source for p in plans if p.source.kind == "route"))
        if not routes:
            continue
        whole = [(routes[0], i) for i in range(len(routes[0]["actors"]))]
        if [(plan.source, plan.actor.index) for plan in plans] != whole:
            yield (
                f"the new shards made by {_listed([program.names[r] for r in routes])} must be "
                f"gathered all together and without others, but {program.names[node]!r} gathers a "
                "selection or a union. Select or unite shards before that operator, or gather "
                "each flow by itself and merge them with Union(...)."
            )


def weights_on_shared_split(program: Program) -> Iterator[str]:
    """Children of one split take every item each: they are served equally often, or not at all."""
    paced: dict[Node, frozenset[Node]] = {}
    for node in program.nodes:
        inherited = [paced[input_] for input_ in node.inputs]
        every = frozenset.intersection(*inherited) if inherited else frozenset[Node]()
        paced[node] = every | {node} if node.kind == "split" else every
        if node.kind != "union" or not node["weighted"]:
            continue
        for one, other in combinations(range(len(node.inputs)), 2):
            shared = inherited[one] & inherited[other]
            unequal = node["weights"][one] != node["weights"][other]
            if shared and (unequal or node["units"] is not None):
                yield _uneven(program, node, (one, other), shared)
                break


def _uneven(program: Program, union: Node, pair: tuple[int, int], shared: frozenset[Node]) -> str:
    names = program.names
    split = next(node for node in reversed(program.nodes) if node in shared)
    children = _listed([names[union.inputs[i]] for i in pair])
    what = "`units`" if union["units"] is not None else f"weights {_plain(union, pair)}"
    return (
        f"every child of a split takes every item, so {what} cannot hold in {names[union]!r}: its "
        f"inputs {children} both come from {names[split]!r} with no queue between. Give them equal "
        "weights, or put an Enqueue(queue) and a Dequeue(queue) into one of them."
    )


def _plain(union: Node, pair: tuple[int, int]) -> str:
    return " to ".join(f"{union['weights'][i]:g}" for i in pair)


# -- queues ----------------------------------------------------------------------------------------


@dataclass
class _Ends:
    """Who fills and who empties one queue, by name."""

    queue: Queue[Any]
    enqueues: list[Node] = field(default_factory=list)
    dequeues: list[Node] = field(default_factory=list)
    filled_by: list[str] = field(default_factory=list)
    """background operators with this out-queue"""
    filled_from: set[str] = field(default_factory=set)
    """uids of their in-queues"""
    emptied_by: list[str] = field(default_factory=list)
    """background operators with this in-queue"""


def _ends(program: Program) -> dict[str, _Ends]:
    ends = {queue.uid: _Ends(queue) for queue in program.queues}
    for node in program.nodes:
        if node.kind == "enqueue":
            ends[node["queue"].uid].enqueues.append(node)
        elif node.kind == "dequeue":
            ends[node["queue"].uid].dequeues.append(node)
    for background in program.backgrounds:
        name = program.group_names[background.actors.uid]
        ends[background.inqueue.uid].emptied_by.append(name)
        ends[background.outqueue.uid].filled_by.append(name)
        ends[background.outqueue.uid].filled_from.add(background.inqueue.uid)
    return ends


def queue_never_emptied(program: Program) -> Iterator[str]:
    """A queue that nobody empties is full some day, and then its producer waits for ever."""
    for end in _ends(program).values():
        if end.dequeues or end.emptied_by:
            continue
        name = end.queue.name
        if end.filled_by:
            yield (
                f"the results of a background operator must be taken, or it stops when its "
                f"out-queue is full, but nothing empties {name!r} of {end.filled_by[0]!r}. "
                "Merge Dequeue(background.outqueue) into the output with Concurrently(...)."
            )
        elif end.queue.when_full == "wait":
            fillers = _listed([program.names[node] for node in end.enqueues])
            yield (
                f"a queue that is filled must be emptied, or its producer waits for ever, but "
                f"nothing empties {name!r}, which {fillers} fills. Merge Dequeue(queue) into the "
                "output with Concurrently(...), or let it drop with when_full='drop_oldest'."
            )


def queue_never_filled(program: Program) -> Iterator[str]:
    """Nothing ever comes from a queue that nobody fills."""
    for end in _ends(program).values():
        if end.enqueues or end.filled_by:
            continue
        name = end.queue.name
        if end.emptied_by:
            yield (
                f"a background operator works on what is put on its in-queue, but nothing fills "
                f"{name!r} of {end.emptied_by[0]!r}. Add "
                ".for_each(Enqueue(background.inqueue)) to a flow that is part of the output."
            )
        else:
            readers = _listed([program.names[node] for node in end.dequeues])
            yield (
                f"a queue that is emptied must be filled, but nothing fills {name!r}, which "
                f"{readers} reads. Add .for_each(Enqueue(queue)) to a flow that is part of the "
                "output (the queues of a background operator are .inqueue and .outqueue)."
            )


def loop_without_beginning(program: Program) -> Iterator[str]:
    """Queues that are filled only from each other stay empty."""
    ends = _ends(program)
    dead = set(ends) - _can_fill(program, ends)
    sources = {uid: _filled_from(ends[uid]) & dead for uid in dead}
    told: set[str] = set()
    for uid in ends:  # in the order of the program
        behind = _reachable(uid, sources) if uid in dead else set()
        if uid not in behind or uid in told:
            continue
        loop = [u for u in ends if u in behind and uid in _reachable(u, sources)]
        told.update(loop)
        names = _listed([ends[u].queue.name for u in loop])
        fillers = [program.names[node] for u in loop for node in ends[u].enqueues]
        fillers += [name for u in loop for name in ends[u].filled_by]
        one = len(loop) == 1
        yield (
            f"a loop through queues needs a first item from outside, but {names} "
            f"{'is' if one else 'are'} filled only from {'itself' if one else 'each other'}, by "
            f"{_listed(fillers)}. Enqueue something from a source as well, or cut the loop."
        )


def _can_fill(program: Program, ends: dict[str, _Ends]) -> set[str]:
    """Queues that an item can reach, starting from the sources."""
    filled: set[str] = set()
    while True:
        gives: dict[Node, bool] = {}
        for node in program.nodes:
            if node.kind == "dequeue":
                gives[node] = node["queue"].uid in filled
            elif node.kind == "union":
                gives[node] = any(gives[input_] for input_ in _givers(node))
            else:
                gives[node] = all(gives[input_] for input_ in node.inputs)
        reached = {
            uid
            for uid, end in ends.items()
            if any(gives[node] for node in end.enqueues) or end.filled_from & filled
        }
        if reached == filled:
            return filled
        filled = reached


def _filled_from(end: _Ends) -> set[str]:
    """The queues that what is put on this one was taken from."""
    found = set(end.filled_from)
    seen: set[Node] = set()
    stack: list[Node] = list(end.enqueues)
    while stack:
        node = stack.pop()
        if node.kind == "dequeue":
            found.add(node["queue"].uid)
        elif node not in seen:
            seen.add(node)
            stack.extend(_givers(node))
    return found


def _givers(node: Node) -> Sequence[Node]:
    """The inputs whose items come out of a node."""
    return [node.inputs[i] for i in node["outputs"]] if node.kind == "union" else node.inputs


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Everything behind `start`; `start` itself only if there is a way back."""
    found: set[str] = set()
    stack = [start]
    while stack:
        for uid in edges[stack.pop()] - found:
            found.add(uid)
            stack.append(uid)
    return found


# -- code that travels to actors -------------------------------------------------------------------


def unshippable_transform(program: Program) -> Iterator[str]:
    """A parallel operator runs inside its source actors, so its callable travels there."""
    known: dict[int, str | None] = {}
    for node in program.nodes:
        fn = node.options.get("fn")
        if not node.parallel or fn is None:
            continue
        if id(fn) not in known:
            known[id(fn)] = why_unshippable(fn)
        why = known[id(fn)]
        if why is not None:
            yield _cannot_travel(f"operator {program.names[node]!r}", why)


def unshippable_actors(program: Program) -> Iterator[str]:
    """An actor is built where it lives, on every engine: its class and arguments travel there."""
    helpers = {node["actors"].uid: node for node in program.nodes if node.kind == "route"}
    background = {background.actors.uid for background in program.backgrounds}
    for group in program.groups:
        if is_shippable((group.factory, group.each, group.args, dict(group.kwargs))):
            continue  # one trial for the whole group, however many actors it has
        name = program.group_names[group.uid]
        subject = f"group of actors {name!r}"
        if group.uid in helpers:
            subject = f"operator {program.names[helpers[group.uid]]!r}"
        elif group.uid in background:
            subject = f"background operator {name!r}"
        reasons = (
            why + whose
            for value, called, whose in _pieces(group)
            if (why := why_unshippable(value, called)) is not None
        )
        yield _cannot_travel(subject, next(reasons, "its arguments refuse"))


def _pieces(group: Actors) -> Iterator[tuple[object, str | None, str]]:
    """What an actor is made from: the value, the parameter it is given to, and for which actor."""
    if group.factory is CallableActor:  # only the callable is the user's
        yield group.args[0], None, ""
    else:
        yield group.factory, None, ""
        yield from _arguments(group)
        yield from ((value, called, "") for called, value in group.kwargs.items())


def _arguments(group: Actors) -> Iterator[tuple[object, str, str]]:
    names = _parameters(group.factory)
    for index in range(group.count if group.each is not None else 1):
        for i, value in enumerate(group.arguments(index)):
            called = names[i] if i < len(names) else f"args[{i}]"
            yield value, called, "" if group.each is None else f", for actor {index}"


def _parameters(factory: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some built-in classes have no signature
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def _cannot_travel(subject: str, why: str) -> str:
    return (
        f"what runs in an actor is copied into it, but {subject} cannot be: {why}. Send what is "
        "needed to make it, and make it there: in the constructor, or on first use."
    )


def _listed(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]


CHECKS: list[Callable[[Program], Iterator[str]]] = [
    output_is_parallel,
    duplicate_names,
    two_readers,
    split_child_without_reader,
    partial_route,
    weights_on_shared_split,
    queue_never_emptied,
    queue_never_filled,
    loop_without_beginning,
    types_behind_queues,
    unshippable_transform,
    unshippable_actors,
]
"""every check, in the order of the report"""
