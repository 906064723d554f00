"""From shards to one sequence: rounds behind a barrier, or items as they are ready.

A request is *open* from when it is issued until everything downstream is done with its items.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rillflow.graph.node import Node
from rillflow.graph.program import Shard as ShardPlan
from rillflow.scheduler.actor import Actor, Request
from rillflow.scheduler.envelope import Blocked, Envelope, Hold, Pulled
from rillflow.scheduler.ledger import Ticket
from rillflow.scheduler.stats import NodeStats
from rillflow.types import Header, Ref

if TYPE_CHECKING:
    from rillflow.scheduler.route import Route
    from rillflow.scheduler.scheduler import Scheduler


class ItemRef(Ref):
    """One item of a payload that holds several."""

    __slots__ = ("index", "whole")

    def __init__(self, whole: Ref, index: int) -> None:
        self.whole = whole
        self.index = index

    def get(self) -> object:
        return self.whole.get()[self.index]


class Shard:
    """One source actor as one gather sees it."""

    def __init__(self, gather: Gather, plan: ShardPlan, actor: Actor, index: int) -> None:
        self.gather = gather
        self.operator = gather.path
        self.plan = plan
        self.actor = actor
        self.index = index
        self.pipeline = f"{gather.name}/{index}"
        self.account = gather.scheduler.ledger.account(gather.source_name(plan))
        names = gather.scheduler.program.names
        self.op_stats = [gather.scheduler.stats_of(names[n]) for n in (plan.source, *plan.chain)]
        self.open = 0
        self.in_flight = 0
        self.ended = False
        self.removed = False
        self.warming = False
        self.hungry = False
        """waits for an item from a route"""
        self.metrics: list[tuple[int, Mapping[str, Any]]] = []
        """came with answers whose items nobody has pulled yet"""

    @property
    def active(self) -> bool:
        """Whether items may still come from it."""
        return not (self.ended or self.removed)

    def issue(self) -> bool:
        """Make one request, if the actor can take it."""
        gather, actor = self.gather, self.actor
        if gather.fleet.paused or actor.status != "live" or self.ended or self.removed:
            return False
        if self.warming or self.hungry:
            return False
        payload: Ref | None = None
        if gather.route is None:
            account = self.account
            account.produced += 1
            account.in_flight += 1
            own = Ticket(actor.name, actor.incarnation, actor.seq, 0, account, actor.versions_sent)
            tickets: tuple[Ticket, ...] = (own,)
        else:
            envelope = gather.route.take(self)
            if envelope is None:
                return False
            payload, tickets = gather.route.payload(envelope), envelope.tickets
        self.open += 1
        self.in_flight += 1
        gather.in_flight += 1
        gather.fleet.request(actor, self, self.pipeline, tickets, payload)
        return True

    def _answered(self) -> None:
        self.in_flight -= 1
        self.gather.in_flight -= 1

    def done(self) -> None:
        """Everything downstream is done with the items of one answer."""
        self.open -= 1
        self.gather.rearm(self)

    # -- what the fleet says -------------------------------------------------------------------

    def completed(self, request: Request, header: Header, payload: Ref | None) -> None:
        """Take in an answer: tickets for its items, then whatever the gather does with them."""
        self._answered()
        self._record(request, header)
        items, dropped, _, ended, not_ready, version, *_ = header
        if request.own and items == ((request.seq,),) and not (dropped or ended or not_ready):
            # the usual case: one item, made by this request alone
            own = request.tickets[0]
            own.account.in_flight -= 1
            own.account.held += 1
            own.version = version
            self.gather.arrived(self, [Envelope(payload, request.tickets, None, True)])
            return
        envelopes = self._envelopes(request, header, payload)
        if header.ended:
            self.ended = True
        if header.not_ready and self.actor.messages == request.messages:
            self.warming = True  # else a message has crossed this answer: ask again at once
            self.actor.parked.append(self._ask_again)
        self.gather.arrived(self, envelopes)

    def _record(self, request: Request, header: Header) -> None:
        """Statistics of one answer, for the gather and for each operator inside the actor."""
        gather = self.gather
        lag = self.actor.versions_sent - request.tickets[0].sent if request.own else 0
        gather.stats.answered(request.took, header.wall, lag)
        for stats, seconds in zip(self.op_stats, header.op_times, strict=False):
            stats.items += 1
            stats.busy += seconds
        if header.metrics is not None:
            # times are statistics; what is kept to be told later is part of a run's state, and
            # a run that is repeated comes to the same one
            metrics = dict(header.metrics)
            times = metrics.pop("seconds", None)
            self.metrics.append((request.seq, metrics))
            if times is not None:
                inside = self.op_stats[0].inside
                for part, seconds in times.items():
                    inside[part] = inside.get(part, 0.0) + seconds

    def deliver_metrics(self) -> None:
        """What came with the answers is told when their items are delivered, in the same order."""
        if self.metrics:
            metrics, self.metrics = self.metrics, []
            for seq, one in metrics:
                self.gather.scheduler.record_metrics(self.gather.stats, self.actor.name, seq, one)

    def _envelopes(self, request: Request, header: Header, payload: Ref | None) -> list[Envelope]:
        if request.own:
            tickets = self._settle(request, header)
        else:
            tickets = [request.tickets] * len(header.items)
            for ticket in request.tickets:
                if not header.items:
                    ticket.finish("filtered")
                else:
                    ticket.add_pieces(len(header.items) - 1)
        if len(tickets) == 1:
            return [Envelope(payload, tickets[0], None, True)]
        assert payload is not None or not tickets
        return [
            Envelope(ItemRef(payload, i), group, None, True)  # type: ignore[arg-type]
            for i, group in enumerate(tickets)
        ]

    def _settle(self, request: Request, header: Header) -> list[tuple[Ticket, ...]]:
        """Move this request's ticket out of flight, and group the tickets by item."""
        own = request.tickets[0]
        own.account.in_flight -= 1
        if header.not_ready or (header.ended and not header.items and not header.dropped):
            own.account.produced -= 1  # the answer was: nothing; there is no item to account for
            return []
        own.account.held += 1
        own.version = header.version
        held = self.actor.held
        held[request.seq] = own
        drops = Counter(seq for seq, _ in header.dropped)
        uses = Counter(seq for seqs in header.items for seq in seqs)
        for seq in uses | drops:
            # one piece per use, per drop, and one for what stays inside the actor
            held[seq].add_pieces(uses[seq] + drops[seq] + (seq in header.kept) - 1)
        groups = [tuple(held[seq] for seq in seqs) for seqs in header.items]
        for seq, operator in header.dropped:
            held[seq].finish(f"filtered by {operator}" if operator else "filtered")
        for seq in uses | drops:
            if seq not in header.kept:
                del held[seq]
        if header.ended and request.seq in held:
            del held[request.seq]  # this request only brought what was left from earlier ones
            own.account.held -= 1
            own.account.produced -= 1
        return groups

    def _ask_again(self) -> None:
        self.warming = False
        self.gather.rearm(self)

    def abandoned(self, request: Request) -> None:
        self._answered()
        self.done()

    def actor_back(self) -> None:
        self.warming = False
        self.gather.rearm(self)

    def actor_gone(self) -> None:
        self.removed = True
        self.gather.shard_removed(self)


class Gather:
    """What both gathers share: shards, arrivals, statistics."""

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        self.scheduler = scheduler
        self.fleet = scheduler.fleet
        self.node = node
        self.name = name
        self.path = scheduler.path_of(node)
        self.stats: NodeStats = scheduler.stats_of(name)
        self.route: Route | None = None
        self.in_flight = 0
        """requests on their way"""
        self.shards: list[Shard] = []

    def source_name(self, plan: ShardPlan) -> str:
        """The account in the ledger: the source node's name."""
        return self.scheduler.program.names[plan.source]

    def add_shard(self, plan: ShardPlan, actor: Actor, code: bytes) -> Shard:
        """A further shard; asked for items from now on."""
        shard = Shard(self, plan, actor, len(self.shards))
        self.shards.append(shard)
        self.fleet.install(actor, shard.pipeline, code, shard)
        return shard

    def start(self) -> None:
        """Called once, when the run begins."""

    def idle_status(self) -> Blocked:
        """Why nothing is ready."""
        if self.in_flight or any(s.active and s.actor.status == "waiting" for s in self.shards):
            return Blocked.WAITING
        if any(s.warming and s.active for s in self.shards):
            return Blocked.WARMING
        if not any(shard.active for shard in self.shards):
            return Blocked.ENDED
        if self.route is not None:
            return self.route.status()
        return Blocked.STARVED

    # -- what the kinds of gather define -------------------------------------------------------

    def pull(self) -> Pulled:
        raise NotImplementedError

    def arrived(self, shard: Shard, envelopes: list[Envelope]) -> None:
        """Items of one answer (none, if an operator in the actor kept or rejected it)."""
        raise NotImplementedError

    def rearm(self, shard: Shard) -> None:
        """The shard may be asked again."""
        raise NotImplementedError

    def shard_removed(self, shard: Shard) -> None:
        """The shard's actor will not come back."""
        if self.route is not None:
            self.route.forget(shard)

    def waiting(self) -> list[Envelope]:
        """Items that have arrived and wait to be pulled, in order."""
        raise NotImplementedError

    def held(self) -> list[tuple[Ticket, ...]]:
        """Tickets of the items that wait, for the audit."""
        return [envelope.tickets for envelope in self.waiting()]

    def cut(self) -> None:
        """Forget who waits for what; after the cut every shard is asked anew."""
        for shard in self.shards:
            shard.warming = shard.hungry = False
            shard.actor.parked.clear()

    def adopt(self, envelopes: list[tuple[int, Envelope]]) -> None:
        """Take over items of a checkpoint, with the index of their shard."""
        raise NotImplementedError


class AsyncGather(Gather):
    """Items in order of arrival; at most `num_async` requests of a shard are open."""

    def __init__(self, scheduler: Scheduler, node: Node, name: str) -> None:
        super().__init__(scheduler, node, name)
        self.num_async: int = node["num_async"]
        self.ready: deque[tuple[Shard, Envelope]] = deque()

    def start(self) -> None:
        for shard in self.shards:
            self.rearm(shard)

    def rearm(self, shard: Shard) -> None:
        while shard.open < self.num_async and shard.issue():
            pass

    def arrived(self, shard: Shard, envelopes: list[Envelope]) -> None:
        if not envelopes:
            shard.deliver_metrics()
            shard.done()
            return
        hold = Hold(shard.done)
        if len(envelopes) > 1:
            hold.retain(len(envelopes) - 1)
        for envelope in envelopes:
            envelope.hold = hold
            self.ready.append((shard, envelope))

    def pull(self) -> Pulled:
        if self.ready:
            self.stats.items += 1
            shard, envelope = self.ready.popleft()
            if shard.metrics:
                shard.deliver_metrics()
            return envelope
        return self.idle_status()

    def waiting(self) -> list[Envelope]:
        return [envelope for _, envelope in self.ready]

    def adopt(self, envelopes: list[tuple[int, Envelope]]) -> None:
        for index, envelope in envelopes:
            shard = self.shards[index]
            shard.open += 1
            envelope.hold = Hold(shard.done)
            self.ready.append((shard, envelope))


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
        if self.requested and not self.buffers[shard.index] and shard.open == 0:
            shard.issue()

    def arrived(self, shard: Shard, envelopes: list[Envelope]) -> None:
        shard.open -= 1
        self.buffers[shard.index].extend(envelopes)
        self.rearm(shard)

    def pull(self) -> Pulled:
        if self.round_open:
            return Blocked.STARVED
        if not self.requested:
            self.requested = True
            for shard in self.shards:
                self.rearm(shard)
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
        tickets = tuple(ticket for part in parts for ticket in part.tickets)
        return Envelope([part.value for part in parts], tickets, Hold(self._done), True)

    def _done(self) -> None:
        self.round_open = False

    def cut(self) -> None:
        super().cut()
        self.requested = False

    def waiting(self) -> list[Envelope]:
        return [envelope for buffer in self.buffers for envelope in buffer]

    def adopt(self, envelopes: list[tuple[int, Envelope]]) -> None:
        for index, envelope in envelopes:
            self.buffers[index].append(envelope)
