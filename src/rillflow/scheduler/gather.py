"""From shards to one sequence: rounds behind a barrier, or items as they are ready.

What one shard does is in `shard.py`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from rillflow.graph.node import Node
from rillflow.graph.program import Shard as ShardPlan
from rillflow.scheduler.actor import Actor
from rillflow.scheduler.envelope import Blocked, Envelope, Hold, Pulled
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.shard import Gate, Shard, Slot
from rillflow.scheduler.step import Step

if TYPE_CHECKING:
    from rillflow.scheduler.route import Route
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler


class Gather(Step):
    """What both gathers share: shards, arrivals, statistics."""

    kind = "gather"

    def __new__(cls, scheduler: Scheduler, node: Node, name: str) -> Gather:
        return object.__new__(SyncGather if node["mode"] == "sync" else AsyncGather)

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.fleet = scheduler.fleet
        self.path = scheduler.path_of(node)
        self.route: Route | None = None
        self.gate: Gate | None = None
        self.in_flight = 0
        """requests on their way"""
        self.detached = False
        """nobody reads this gather any more"""
        self.shards: list[Shard] = []

    def connect(self) -> None:
        """Install the shards in their actors."""
        scheduler = self.scheduler
        for plan in scheduler.program.shards(self.node.inputs[0]):
            actor = self.fleet.by_uid[plan.actor.uid]
            self.add_shard(plan, actor, scheduler.pipeline_code(plan))

    def add_shard(self, plan: ShardPlan, actor: Actor, code: bytes) -> Shard:
        """A further shard; asked for items from now on."""
        shard = Shard(self, plan, actor, len(self.shards))
        self.shards.append(shard)
        self.fleet.install(actor, shard.pipeline, code, shard)
        return shard

    def rearm_all(self) -> None:
        """Ask every shard that may be asked."""
        for shard in self.shards:
            self.rearm(shard)

    def idle_status(self) -> Blocked:
        """Why nothing is ready."""
        if self.in_flight or any(s.active and s.actor.status == "waiting" for s in self.shards):
            return Blocked.WAITING
        if any(s.warming and s.active for s in self.shards):
            return Blocked.WARMING
        if self.detached or not any(shard.active for shard in self.shards):
            return Blocked.ENDED
        if self.route is not None:
            return self.route.status()
        return Blocked.STARVED

    # -- what the kinds of gather define -------------------------------------------------------

    def arrived(self, shard: Shard, slot: Slot, envelopes: list[Envelope]) -> None:
        """Items of one answer (none, if an operator in the actor kept or rejected the item)."""
        raise NotImplementedError

    def rearm(self, shard: Shard) -> None:
        """The shard may be asked again."""
        raise NotImplementedError

    def shard_removed(self, shard: Shard) -> None:
        """The shard's actor will not come back."""
        if self.route is not None:
            self.route.forget(shard)

    def waiting(self) -> list[tuple[Shard, Envelope]]:
        """Items that have arrived and wait to be pulled, in order."""
        raise NotImplementedError

    def adopt(self, deliveries: list[tuple[Shard, list[Envelope]]]) -> None:
        """Take over items of a checkpoint, those of one answer together."""
        raise NotImplementedError

    # -- a step --------------------------------------------------------------------------------

    def detach(self) -> None:
        """The shards are not asked any more, and what they still answer ends here."""
        self.detached = True
        for _, envelope in self.waiting():
            envelope.finish("reader ended")
        self.release()

    def held(self) -> list[tuple[Ticket, ...]]:
        held = [envelope.tickets for _, envelope in self.waiting()]
        return held if self.route is None else held + self.route.held()

    @property
    def depth(self) -> int:
        return len(self.waiting())

    def why(self) -> str:
        warming = sum(shard.warming for shard in self.shards)
        told = f", {warming} waiting for a message" if warming else ""
        return f"{self.name!r}: {self.in_flight} in flight, {self.depth} ready{told}"

    def cut(self) -> None:
        """Forget who waits for what; after the cut every shard is asked anew."""
        for shard in self.shards:
            shard.warming = shard.hungry = False
            shard.actor.parked.clear()
        if self.route is not None:
            self.route.cut()

    def get_state(self, save: Saver) -> Any:
        holds: dict[int, int] = {}
        items = []
        for shard, envelope in self.waiting():
            delivery = holds.setdefault(id(envelope.hold or envelope), len(holds))
            items.append({"shard": shard.key, "delivery": delivery, **save.envelope(envelope)})
        return {
            "detached": self.detached,
            "ended": [shard.key for shard in self.shards if shard.ended],
            "failures": {shard.key: shard.failures for shard in self.shards if shard.failures},
            "items": items,
            "metrics": {
                shard.key: [[seq, dict(one)] for seq, one in shard.metrics]
                for shard in self.shards
                if shard.metrics
            },
            "route": None if self.route is None else self.route.get_state(save),
        }

    def set_state(self, state: Any, load: Loader) -> None:
        self.detached = state["detached"]
        shards = {shard.key: shard for shard in self.shards}
        for key in state["ended"]:
            if key in shards:
                shards[key].ended = True
        for key, failures in state["failures"].items():
            if key in shards:
                shards[key].failures = failures
        for key, metrics in state["metrics"].items():
            if key in shards:
                shards[key].metrics = [(seq, one) for seq, one in metrics]
        deliveries: dict[int, tuple[Shard, list[Envelope]]] = {}
        for row in state["items"]:
            envelope, owner = load.envelope(row), shards.get(row["shard"])
            if owner is None:  # a shard of another program
                envelope.finish("removed")
            else:
                deliveries.setdefault(row["delivery"], (owner, []))[1].append(envelope)
        self.adopt(list(deliveries.values()))
        if self.route is not None:
            self.route.set_state(state["route"], load)


class AsyncGather(Gather):
    """Items in order of arrival; at most `num_async` requests of a shard are open."""

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.num_async: int = node["num_async"]
        self.ready: deque[tuple[Shard, Envelope]] = deque()

    def start(self) -> None:
        self.rearm_all()

    def rearm(self, shard: Shard) -> None:
        while shard.open_requests < self.num_async and shard.issue():
            pass

    def arrived(self, shard: Shard, slot: Slot, envelopes: list[Envelope]) -> None:
        if self.detached:
            for envelope in envelopes:
                envelope.finish("reader ended")
            envelopes = []
        if not envelopes:
            shard.deliver_metrics()
            shard.done(slot)
            return
        slot.pieces = len(envelopes)
        for envelope in envelopes:
            envelope.hold = slot
            self.ready.append((shard, envelope))

    def pull(self) -> Pulled:
        if self.ready:
            self.stats.items += 1
            shard, envelope = self.ready.popleft()
            if shard.metrics:
                shard.deliver_metrics()
            return envelope
        return self.idle_status()

    def waiting(self) -> list[tuple[Shard, Envelope]]:
        return list(self.ready)

    def adopt(self, deliveries: list[tuple[Shard, list[Envelope]]]) -> None:
        for shard, envelopes in deliveries:
            slot = Slot(shard.actor, shard)
            slot.pieces = len(envelopes)
            shard.open_requests += 1
            for envelope in envelopes:
                envelope.hold = slot
                self.ready.append((shard, envelope))

    def release(self) -> None:
        self.ready.clear()


class SyncGather(Gather):
    """One item of each shard per round; the next round begins when this one is done with."""

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.buffers: list[deque[Envelope]] = []
        self.requested = False
        self.round_open = False

    def add_shard(self, plan: ShardPlan, actor: Actor, code: bytes) -> Shard:
        self.buffers.append(deque())
        return super().add_shard(plan, actor, code)

    def rearm(self, shard: Shard) -> None:
        if self.requested and not self.buffers[shard.index] and shard.open_requests == 0:
            shard.issue()

    def arrived(self, shard: Shard, slot: Slot, envelopes: list[Envelope]) -> None:
        if self.detached:
            for envelope in envelopes:
                envelope.finish("reader ended")
        else:
            self.buffers[shard.index].extend(envelopes)
        shard.done(slot)

    def pull(self) -> Pulled:
        if self.round_open:
            return Blocked.STARVED
        if not self.requested:
            self.requested = True
            self.rearm_all()
        for shard, buffer in zip(self.shards, self.buffers, strict=True):
            if not buffer and (shard.in_flight or not (shard.ended or shard.removed)):
                return self.idle_status()
        for shard in self.shards:
            if shard.metrics:
                shard.deliver_metrics()
        parts = [buffer.popleft() for buffer in self.buffers if buffer]
        if not parts:
            return Blocked.ENDED
        self.requested = False
        self.round_open = True
        self.stats.items += 1
        tickets = tuple([ticket for part in parts for ticket in part.tickets])
        return Envelope([part.value for part in parts], tickets, Hold(self._done), True)

    def _done(self) -> None:
        self.round_open = False

    def cut(self) -> None:
        super().cut()
        self.requested = False

    def waiting(self) -> list[tuple[Shard, Envelope]]:
        pairs = zip(self.shards, self.buffers, strict=True)
        return [(shard, envelope) for shard, buffer in pairs for envelope in buffer]

    def adopt(self, deliveries: list[tuple[Shard, list[Envelope]]]) -> None:
        for shard, envelopes in deliveries:
            self.buffers[shard.index].extend(envelopes)

    def release(self) -> None:
        for buffer in self.buffers:
            buffer.clear()
