"""Items on their way to a second group of actors, unread: repartition and concurrent maps."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from rillflow.graph.node import Node
from rillflow.scheduler.envelope import Blocked, Envelope
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.shard import Shard
from rillflow.scheduler.step import Puller
from rillflow.types import Ref

if TYPE_CHECKING:
    from rillflow.scheduler.saving import Loader, Saver
    from rillflow.scheduler.scheduler import Scheduler


class Route:
    """Deals the items of one gather to the helper actors of another."""

    def __init__(
        self, scheduler: Scheduler, node: Node, source: Gather, pull: Puller, target: Gather
    ) -> None:
        self.scheduler = scheduler
        self.source = source
        self.upstream = pull
        self.target = target
        self.per_shard: int = node["per_shard"]
        self.partitions = len(node["actors"])
        self.buffers: list[deque[Envelope]] = [deque() for _ in range(self.partitions)]
        self.dealt: dict[str, int] = {}
        self.ended = False

    @property
    def bound(self) -> int:
        """Items that may wait for partitions. They are dealt in turn per source shard, so no buffer
        can be more than one item per shard ahead of another: a partition that needs an item always
        gets it."""
        return self.partitions * max(1, len(self.source.shards))

    def take(self, shard: Shard) -> Envelope | None:
        """An item for one partition; without one the shard waits until `pump` finds it."""
        buffer = self.buffers[shard.index]
        if not buffer:
            shard.hungry = not self.ended
            shard.ended = self.ended
            return None
        envelope = buffer.popleft()
        envelope.release()  # with helpers of its own, a source goes on when one of them does
        return envelope

    def payload(self, envelope: Envelope) -> Ref:
        """The item as it came, unread; an item of a checkpoint has been read already."""
        value = envelope.value
        return value if isinstance(value, Ref) else self.scheduler.fleet.engine.put(value)

    def pump(self) -> None:
        """Take what the source has and feed the partitions that wait."""
        while not self.ended and (self.per_shard or sum(map(len, self.buffers)) < self.bound):
            pulled = self.upstream()
            if type(pulled) is not Envelope:
                if pulled is Blocked.ENDED:
                    self._end()
                elif pulled is Blocked.PROGRESSED:
                    continue
                break
            self._deal(pulled)
            if not self.per_shard:
                pulled.release()  # absorbed: the source may make the next
        if self.per_shard:
            self._end_helpers()

    def forget(self, shard: Shard) -> None:
        """A helper is gone: what waited for it goes to the others."""
        shard.hungry = False
        waiting = list(self.buffers[shard.index])
        self.buffers[shard.index].clear()
        for envelope in waiting:
            self._deal(envelope)

    def _deal(self, envelope: Envelope) -> None:
        active = [s.index for s in self.target.shards if not s.removed]
        if not active:
            envelope.finish("no helper left")
            return
        partition = self._partition(envelope, active)
        self.buffers[partition].append(envelope)
        shard = self.target.shards[partition]
        if shard.hungry or shard.ended:
            shard.hungry = shard.ended = False
            self.target.rearm(shard)

    def _partition(self, envelope: Envelope, active: list[int]) -> int:
        actor = envelope.tickets[0].actor
        if self.per_shard:
            first = next((s.index for s in self.source.shards if s.actor.name == actor), 0)
            first *= self.per_shard
            own = [i for i in active if first <= i < first + self.per_shard]
            shards = self.target.shards
            return min(own or active, key=lambda i: (not shards[i].hungry, len(self.buffers[i]), i))
        count = self.dealt.get(actor, 0)
        self.dealt[actor] = count + 1
        wanted = count % self.partitions
        return wanted if wanted in active else active[count % len(active)]

    def _end(self) -> None:
        self.ended = True
        for shard in self.target.shards:
            if shard.hungry:
                shard.hungry = False
                shard.ended = True

    def _end_helpers(self) -> None:
        """Helpers of a source shard that gives nothing more have nothing to wait for."""
        for source in self.source.shards:
            if source.active or source.open_requests:
                continue
            first = source.index * self.per_shard
            for shard in self.target.shards[first : first + self.per_shard]:
                if shard.hungry and not self.buffers[shard.index]:
                    shard.hungry = False
                    shard.ended = True

    def status(self) -> Blocked:
        """Why the partitions have nothing."""
        return Blocked.WAITING if self.source.in_flight else Blocked.STARVED

    # -- state ---------------------------------------------------------------------------------

    def held(self) -> list[tuple[Ticket, ...]]:
        """Tickets of the items that wait for a partition."""
        return [envelope.tickets for buffer in self.buffers for envelope in buffer]

    def cut(self) -> None:
        """Items that wait no longer keep their source waiting."""
        for buffer in self.buffers:
            for envelope in buffer:
                envelope.release()

    def release(self) -> None:
        """The run is over: let go of every item."""
        for buffer in self.buffers:
            buffer.clear()

    def get_state(self, save: Saver) -> dict[str, Any]:
        """What waits for whom, and who is next."""
        return {
            "buffers": [[save.envelope(e) for e in buffer] for buffer in self.buffers],
            "dealt": dict(self.dealt),
            "ended": self.ended,
        }

    def set_state(self, state: dict[str, Any], load: Loader) -> None:
        """Go on from what `get_state` gave; items for a partition that is gone go to the others."""
        self.dealt, self.ended = dict(state["dealt"]), state["ended"]
        for index, rows in enumerate(state["buffers"]):
            for row in rows:
                if index < len(self.buffers) and not self.target.shards[index].removed:
                    self.buffers[index].append(load.envelope(row))
                else:
                    self._deal(load.envelope(row))
