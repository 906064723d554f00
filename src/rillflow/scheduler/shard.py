"""One source actor as one gather sees it: requests that are open, and what their answers bring.

A request is *open* from when it is issued until everything downstream is done with its items. Each
shard has one record (a slot) per request that may be open, used again and again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from rillflow.graph.program import Shard as ShardPlan
from rillflow.scheduler.actor import Actor, Fields, Request
from rillflow.scheduler.envelope import Envelope
from rillflow.scheduler.ledger import Ticket
from rillflow.types import Header, Ref

if TYPE_CHECKING:
    from rillflow.scheduler.gather import Gather


class Gate(Protocol):
    """Somebody who must allow each request of a gather: `admit`."""

    def may_issue(self) -> bool:
        """Whether one more request may be made now."""
        ...

    def issued(self, ticket: Ticket) -> None:
        """A request was made."""
        ...

    def refunded(self, ticket: Ticket) -> None:
        """A request brought nothing."""
        ...


class Several(Ref):
    """A payload of several items, read once for all of them."""

    __slots__ = ("_items", "_whole")

    def __init__(self, whole: Ref) -> None:
        self._whole: Ref | None = whole
        self._items: list[Any] = []

    def get(self) -> list[Any]:
        if self._whole is not None:
            self._items = self._whole.get()
            self._whole = None
        return self._items


class ItemRef(Ref):
    """One item of a payload that has several."""

    __slots__ = ("index", "whole")

    def __init__(self, whole: Several, index: int) -> None:
        self.whole = whole
        self.index = index

    def get(self) -> object:
        return self.whole.get()[self.index]


class Slot(Request):
    """A request of a shard and, once it is answered, the hold on what it brought."""

    __slots__ = ("pieces",)
    target: Shard

    def __init__(self, actor: Actor, shard: Shard) -> None:
        super().__init__(actor, shard)
        self.pieces = 1

    def retain(self, extra: int) -> None:
        """Further pieces came from this answer."""
        self.pieces += extra

    def release(self) -> None:
        """One piece is done with; after the last the shard may be asked again."""
        self.pieces -= 1
        if self.pieces == 0:  # as `Shard.done`, without the call
            shard = self.target
            self.tickets = ()
            shard.free.append(self)
            shard.open_requests -= 1
            shard.gather.rearm(shard)


class Shard:
    """One source actor as one gather sees it."""

    def __init__(self, gather: Gather, plan: ShardPlan, actor: Actor, index: int) -> None:
        self.gather = gather
        self.operator = gather.path
        self.plan = plan
        self.actor = actor
        self.index = index
        names = gather.scheduler.program.names
        self.source = names[plan.source]
        self.key = f"{self.source}/{actor.name}"
        """what the shard is called in a saved state: the same whoever else has joined or left"""
        self.pipeline = f"{gather.name}/{self.source}"
        self.account = gather.scheduler.ledger.account(self.source)
        self.op_stats = [gather.scheduler.stats_of(names[n]) for n in (plan.source, *plan.chain)]
        self.free: list[Slot] = []
        self.open_requests = 0
        self.in_flight = 0
        self.failures = 0
        self.ended = False
        self.removed = False
        self.warming = False
        self.hungry = False
        """the shard waits for an item from a route"""
        self.metrics: list[tuple[int, Mapping[str, Any]]] = []
        """metrics that came with answers whose items nobody has pulled yet"""

    @property
    def active(self) -> bool:
        """Whether items may still come from the shard."""
        return not (self.ended or self.removed)

    def issue(self) -> bool:
        """Make one request, if the actor can take it."""
        gather, actor = self.gather, self.actor
        fleet = gather.fleet
        if fleet.paused or actor.status != "live" or self.ended or self.removed:
            return False
        if self.warming or self.hungry or gather.detached:
            return False
        gate = gather.gate
        if gate is not None and not gate.may_issue():
            return False
        payload: Ref | None = None
        mail = actor.mail
        if mail.unsent:
            fleet.office.catch_up(actor)
        if gather.route is None:
            account = self.account
            account.produced += 1
            account.in_flight += 1
            ticket = Ticket(
                actor.name, actor.incarnation, actor.seq, mail.versions, account, mail.versions_sent
            )
            tickets: tuple[Ticket, ...] = (ticket,)
            if gate is not None:
                gate.issued(ticket)
        else:
            envelope = gather.route.take(self)
            if envelope is None:
                return False
            payload, tickets = gather.route.payload(envelope), envelope.tickets
        slot = self.free.pop() if self.free else Slot(actor, self)
        slot.pieces = 1
        slot.tickets = tickets
        slot.new_ticket = gather.route is None
        self.open_requests += 1
        self.in_flight += 1
        gather.in_flight += 1
        fleet.request(slot, self.pipeline, payload)
        return True

    def done(self, slot: Slot) -> None:
        """Everything downstream is done with the items of one answer."""
        slot.tickets = ()
        self.free.append(slot)
        self.open_requests -= 1
        self.gather.rearm(self)

    # -- what the fleet says -------------------------------------------------------------------

    def completed(self, request: Request, fields: Fields, payload: Ref | None) -> None:
        """Take in an answer: tickets for its items, then whatever the gather does with them."""
        gather, actor = self.gather, self.actor
        self.in_flight -= 1
        gather.in_flight -= 1
        self.failures = 0
        items, dropped, kept, ended, not_ready, _, _, _, op_times, metrics, _ = fields
        new, tickets, stats = request.new_ticket, request.tickets, gather.stats
        stats.answers += 1
        if new:
            lag = actor.mail.versions_sent - tickets[0].sent
            if lag:
                stats.lag_sum += lag
                stats.lag_max = max(stats.lag_max, lag)
        for stats, seconds in zip(self.op_stats, op_times):  # noqa: B905 - a keyword is not free
            stats.items += 1
            stats.busy += seconds
        if metrics is not None:
            self._keep_metrics(request.seq, metrics)
        if new and items == ((request.seq,),) and not (dropped or kept or ended):
            account = self.account  # the usual case: one item, made by this request alone
            account.in_flight -= 1
            account.held += 1
            gather.arrived(self, request, [Envelope(payload, tickets, None, True)])  # type: ignore[arg-type]
            return
        envelopes = self._envelopes(request, Header._make(fields), payload)
        if ended:
            self.ended = True
        if not_ready and actor.mail.told == request.told:
            self.warming = True  # else a message has crossed this answer: ask again at once
            actor.parked.append(self._ask_again)
        gather.arrived(self, request, envelopes)  # type: ignore[arg-type]

    def dropped(self, request: Request, header: Header | None, reason: str) -> None:
        """No item comes of a request: settle what it and the items lost with it stood for."""
        self.in_flight -= 1
        self.gather.in_flight -= 1
        if header is not None:
            self._settle(request, header, reason)
        tickets, request.tickets = request.tickets, ()
        for ticket in tickets if header is None else ():
            if request.new_ticket:
                ticket.account.in_flight -= 1
                ticket.account.held += 1
            ticket.finish(reason)
        if self.gather.gate is not None:
            for ticket in tickets:
                self.gather.gate.refunded(ticket)
        self.done(request)  # type: ignore[arg-type]

    def _keep_metrics(self, seq: int, metrics: Mapping[str, Any]) -> None:
        # times are statistics; what is kept to be told later is part of a run's state, and a run
        # that is repeated comes to the same state
        told = dict(metrics)
        times = told.pop("seconds", None)
        self.metrics.append((seq, told))
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
        groups = self._settle(request, header, "error")
        if len(groups) == 1:
            return [Envelope(payload, groups[0], None, True)]
        if not groups:
            return []
        assert payload is not None
        whole = Several(payload)
        return [Envelope(ItemRef(whole, i), group, None, True) for i, group in enumerate(groups)]

    def _settle(self, request: Request, header: Header, lost: str) -> list[tuple[Ticket, ...]]:
        """Move this request's tickets out of flight, and group the tickets by item."""
        gate = self.gather.gate
        if request.new_ticket:
            account = self.account
            account.in_flight -= 1
            nothing = header.ended and not header.items and not header.dropped
            if header.not_ready or nothing:
                account.produced -= 1  # the answer was: nothing; there is no item to account for
                if gate is not None:
                    gate.refunded(request.tickets[0])
                return []
            account.held += 1
        inside = self.actor.inside
        inside[request.seq] = request.tickets
        drops = Counter(seq for seq, _ in header.dropped)
        uses = Counter(seq for seqs in header.items for seq in seqs)
        touched = uses | drops
        for seq in touched:
            # one piece per use, per drop, and one for what stays inside the actor
            extra = uses[seq] + drops[seq] + (seq in header.kept) - 1
            for ticket in inside.get(seq, ()) if extra else ():
                ticket.add_pieces(extra)
        groups = [tuple([t for seq in seqs for t in inside[seq]]) for seqs in header.items]
        for seq, operator in header.dropped:
            reason = f"filtered by {operator}" if operator else lost
            for ticket in inside.get(seq, ()):
                ticket.finish(reason)
                if gate is not None and operator and seq not in uses:
                    gate.refunded(ticket)
        for seq in touched:
            if seq not in header.kept:
                inside.pop(seq, None)
        if request.seq in inside and request.seq not in touched:
            self._nothing_of_its_own(request, header, lost)
        return groups

    def _nothing_of_its_own(self, request: Request, header: Header, lost: str) -> None:
        """Nothing that left the actor is of this request: the request is kept inside, or failed, or
        only brought what was left of earlier requests."""
        if header.failure is not None and not header.dropped:  # a failure of the engine
            for ticket in self.actor.inside.pop(request.seq):
                ticket.finish(lost)
        elif header.ended:
            for ticket in self.actor.inside.pop(request.seq):
                ticket.account.held -= 1
                ticket.account.produced -= 1

    def _ask_again(self) -> None:
        self.warming = False
        self.gather.rearm(self)

    def actor_back(self) -> None:
        self.warming = False
        self.gather.rearm(self)

    def actor_gone(self) -> None:
        self.removed = True
        self.gather.shard_removed(self)
