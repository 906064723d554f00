"""Actors that join while a flow runs."""

from __future__ import annotations

from rillflow.errors import BuildError
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.graph.program import Shard as ShardPlan
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.scheduler import Scheduler


def add(scheduler: Scheduler, count: int, group: Actors | None) -> list[str]:
    """Start `count` more actors of a source group and give each a shard in every gather over it."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BuildError(f"add_workers needs a count of at least 1; got {count!r}.")
    group = group or _only_source(scheduler)
    members = [a for a in scheduler.fleet.actors.values() if a.handle.group.uid == group.uid]
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
    for sibling in scheduler.fleet.actors.values():
        if sibling.handle.group.uid == handle.group.uid and sibling is not actor:
            for key, (method, payload, spread, version) in sibling.sticky.items():
                scheduler.fleet.tell(actor, method, payload, spread, version, key)
            break
    for step in scheduler.steps.values():
        if not isinstance(step, Gather) or step.route is not None:
            continue
        twin = next((s for s in step.shards if s.actor.handle.group.uid == handle.group.uid), None)
        if twin is not None:
            plan = ShardPlan(handle, twin.plan.method, twin.plan.source, twin.plan.chain)
            step.rearm(step.add_shard(plan, actor, scheduler.pipeline_code(plan)))
    return actor.name
