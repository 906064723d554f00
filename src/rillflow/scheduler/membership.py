"""Actors that join while a flow runs."""

from __future__ import annotations

from dataclasses import replace

from rillflow.errors import BuildError
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.graph.node import Node
from rillflow.graph.program import Shard as ShardPlan
from rillflow.scheduler.actor import Actor
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.scheduler import Scheduler
from rillflow.scheduler.shard import Shard


def add(scheduler: Scheduler, count: int, group: Actors | None) -> list[str]:
    """Start `count` more actors of a source group and give each a shard in every gather over it."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BuildError(f"add_workers needs a count of at least 1; got {count!r}.")
    group = group or _only_source(scheduler)
    members = scheduler.fleet.group(group.uid)
    if not members:
        raise BuildError(f"add_workers: {group!r} is not part of this flow.")
    first = 1 + max(a.handle.index for a in members)
    return [_add_one(scheduler, ActorHandle(group, first + i)) for i in range(count)]


def _only_source(scheduler: Scheduler) -> Actors:
    sources: dict[str, Actors] = {
        node["actors"].uid: node["actors"]
        for node in scheduler.program.nodes
        if node.kind == "actors"
    }
    if len(sources) != 1:
        names = sorted(group.name for group in sources.values())
        raise BuildError(
            f"add_workers: this flow has several source groups, {names}; name one with group=."
        )
    return next(iter(sources.values()))


def _add_one(scheduler: Scheduler, handle: ActorHandle) -> str:
    actor = scheduler.add_actor(handle)
    for step in scheduler.steps.values():
        if isinstance(step, Gather) and step.route is None:
            for shard in give_shards(scheduler, step, actor):
                step.rearm(shard)
    return actor.name


def give_shards(scheduler: Scheduler, gather: Gather, actor: Actor) -> list[Shard]:
    """The shards of a newcomer in one gather: one for each that its siblings have there."""
    plans: dict[tuple[Node, tuple[Node, ...]], ShardPlan] = {}
    for plan in scheduler.program.shards(gather.node.inputs[0]):
        if plan.actor.group.uid == actor.group:
            plans.setdefault((plan.source, plan.chain), plan)
    return [
        gather.add_shard(own, actor, scheduler.pipeline_code(own))
        for own in (replace(plan, actor=actor.handle) for plan in plans.values())
    ]
