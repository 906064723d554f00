"""The running form of a program: named tables, and what happens next.

    program     the graph, which never changes
    fleet       actors: who lives, who was asked for what, which messages are under way
    steps       the operators of the driver, by node; each keeps what it knows
    queues      bounded queues between branches, by uid
    backgrounds operators between two queues
    routes      items on their way from one group of actors to another
    ledger      what became of every request
    stats       counters of each operator, by name
    shared      what operators of the driver share, by key
    cut         how often the state was saved or restored

    pull()                ask the output for an item; the question travels upstream, operator by
                          operator, and consumes at most one input
    fleet.handle(event)   take in what an engine reports

There is no thread, clock or socket here: `rillflow.testing.ScriptedEngine` can stand in for an
engine and feed events by hand. States of an operator that has no item are in `envelope.Blocked`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cloudpickle

from rillflow.engines.contract import Engine
from rillflow.errors import BuildError, DeadlockError
from rillflow.graph.handles import ActorHandle, Actors
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.graph.program import Shard as ShardPlan
from rillflow.scheduler.actor import Actor
from rillflow.scheduler.background import BackgroundState
from rillflow.scheduler.envelope import Blocked
from rillflow.scheduler.fleet import Fleet
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.kinds import STEPS
from rillflow.scheduler.ledger import Ledger, Ticket
from rillflow.scheduler.mail import Message, MessageBalance
from rillflow.scheduler.queue import QueueState
from rillflow.scheduler.route import Route
from rillflow.scheduler.stats import NodeStats
from rillflow.scheduler.step import Puller, Step
from rillflow.types import FailurePolicy, Ref, read

Listener = Callable[[str, int, dict[str, Any]], None]
Members = dict[str, tuple[dict[int, tuple[int, int]], list[int]]]
"""by the uid of a group: its actors' indexes, each with the incarnation to start and how often it
was asked, and the indexes of those who have left"""


class Scheduler:
    """The running form of one program."""

    def __init__(self, program: Program, engine: Engine, seed: int, policy: FailurePolicy) -> None:
        self.program = program
        self.seed = seed
        self.fleet = Fleet(engine, seed, policy)
        self.ledger = Ledger(self.message_balances)
        self.stats: dict[str, NodeStats] = {}
        self.steps: dict[Node, Step] = {}
        self.queues: dict[str, QueueState] = {}
        self.backgrounds: list[BackgroundState] = []
        self.routes: list[Route] = []
        self.cut = 0
        self.shared: dict[str, Any] = {}
        self.waiting_states: dict[str, Any] = {}
        """restored states of shared things that nobody has asked for yet"""
        self.metrics_listeners: list[Listener] = []
        self.inline_before: dict[str, float] = {}
        """seconds of actors in the driver, by actor, when the counting began"""
        self.pull: Puller
        """the next item of the program, or why there is none"""
        self._codes: dict[tuple[Any, ...], bytes] = {}

    # -- construction --------------------------------------------------------------------------

    def start(self, members: Members | None = None) -> None:
        """Bring actors to life, all or those of a saved state; `begin` makes the first requests."""
        for group in self.program.groups:
            everybody = dict.fromkeys(range(len(group)), (0, 0))
            present, left = (members or {}).get(group.uid, (everybody, []))
            for index in sorted({*present, *left}):
                handle = ActorHandle(group, index)
                if index in present:
                    self.add_actor(handle, *present[index])
                else:
                    self.fleet.remember(self.program.actor_name(handle), handle)
        names = self.program.queue_names
        self.queues = {q.uid: QueueState(q, names[q.uid]) for q in self.program.queues}
        for node in self.program.nodes:
            if not node.parallel:
                self._build(node)
        self.pull = self.pull_of(self.program.root)
        for background in self.program.backgrounds:
            actor = self.fleet.by_uid[background.actors[0].uid]
            inqueue = self.queues[background.inqueue.uid]
            outqueue = self.queues[background.outqueue.uid]
            state = BackgroundState(self, background, actor, inqueue, outqueue)
            self.fleet.install(actor, state.PIPELINE, cloudpickle.dumps(("fn", [])), state)
            self.backgrounds.append(state)

    def prepare(self) -> None:
        """What operators do once, before the first request: send the first weights, for one."""
        for node, step in self.steps.items():
            if node.kind == "transform":
                step.start()

    def begin(self) -> None:
        """Make the first requests, or all that may be made after a pause."""
        for step in self.steps.values():
            step.start()
        for background in self.backgrounds:
            background.pump()
        self.settle()

    def add_actor(self, handle: ActorHandle, incarnation: int = 0, asked: int = 0) -> Actor:
        """Start one actor of a group."""
        group: Actors = handle.group
        key = (group.uid, handle.index if group.each is not None else 0)
        if key not in self._codes:
            code = (group.factory, group.arguments(handle.index), dict(group.kwargs))
            self._codes[key] = cloudpickle.dumps(code)
        name = self.program.actor_name(handle)
        return self.fleet.add(name, handle, self._codes[key], incarnation, asked)

    def _build(self, node: Node) -> None:
        step = self.steps[node] = STEPS[node.kind](self, node, self.program.names[node])
        if isinstance(step, Gather):
            source = self.program.shards(node.inputs[0])[0].source
            if source.kind == "route":
                upstream = self.steps[source.inputs[0]]
                assert isinstance(upstream, Gather)
                step.route = Route(self, source, upstream, upstream.pull, step)
                self.routes.append(step.route)
            step.connect()

    def pull_of(self, node: Node) -> Puller:
        """How whoever reads a node asks it for an item."""
        return self.steps[node].pull

    def pipeline_code(self, plan: ShardPlan) -> bytes:
        """A shard's source method and transforms, ready to be shipped; pickled once."""
        key = (plan.method, plan.source, plan.chain)
        if key not in self._codes:
            chain = [(self.program.names[node], _bare(node)) for node in plan.chain]
            self._codes[key] = cloudpickle.dumps((plan.method, chain))
        return self._codes[key]

    def detach(self, node: Node) -> None:
        """Whoever reads this node wants no more."""
        if not node.parallel:
            self.steps[node].detach()

    # -- running -------------------------------------------------------------------------------

    def settle(self) -> None:
        """After events: due timers, and items on their way to a second group of actors."""
        if self.fleet.timers:
            self.fleet.timers.run_due()
        for route in self.routes:
            route.pump()

    def send(
        self,
        to: ActorHandle | Actors | Iterable[ActorHandle],
        method: str,
        args: tuple[Any, ...],
        version: int | None = None,
        key: str | None = None,
        targets: set[str] | None = None,
    ) -> None:
        """Send a message to actors; serialised once, or forwarded unread if it is one reference."""
        actors = self._actors(to)
        if version is None:
            channel, name = None, key
            if targets is not None:
                targets.update([actor.group for actor in actors])
        else:
            channel = name = key or method
            for actor in actors:
                if actor.mail.newest.get(channel) != version:
                    break
            else:
                return  # everybody has this version
        spread = len(args) != 1  # a single argument travels as it is, a reference unread
        value = tuple(map(read, args)) if spread else args[0]
        payload = value if isinstance(value, Ref) else self._packed(value, actors)
        message = Message(method, payload, spread, channel, version)
        office = self.fleet.office
        for actor in actors:
            if name is not None:
                office.newest[actor.group, name] = message
            if office.send(actor, message) and actor.parked:
                parked, actor.parked = actor.parked, []
                for ask_again in parked:
                    ask_again()

    def _packed(self, value: Any, actors: list[Actor]) -> Ref:
        """What a message carries, serialised once; references in a list or a tuple are read."""
        if type(value) is list or type(value) is tuple:
            value = read(value)
        if len(actors) == 1 and actors[0].status != "gone":
            return actors[0].port.pack(value)
        return self.fleet.engine.put(value)

    def _actors(self, to: ActorHandle | Actors | Iterable[ActorHandle]) -> list[Actor]:
        """Whom a message goes to."""
        if isinstance(to, Actors):
            actors = self.fleet.group(to.uid)
            if not actors:
                raise self._unknown(to)
            return actors
        by_uid, actors = self.fleet.by_uid, []
        for handle in (to,) if isinstance(to, ActorHandle) else to:
            found = by_uid.get(handle.uid)
            if found is None:
                raise self._unknown(handle)
            actors.append(found)
        return actors

    def share(self, key: str, make: Callable[[], Any]) -> Any:
        """What several operators share; made by the first that asks, with its restored state."""
        if key not in self.shared:
            self.shared[key] = make()
            if key in self.waiting_states:
                self.shared[key].set_state(self.waiting_states.pop(key))
        return self.shared[key]

    def restore_shared(self, key: str, state: Any) -> None:
        """Give a shared thing its state back, now or when it is made."""
        if key in self.shared:
            self.shared[key].set_state(state)
        else:
            self.waiting_states[key] = state

    def _unknown(self, target: object) -> BuildError:
        return BuildError(
            f"a message was sent to {target!r}, which is not part of this flow. Use the group as a "
            "source, or hold it in an attribute of the operator that sends to it."
        )

    def deadlock(self, status: Blocked) -> DeadlockError:
        """Explain why nothing can ever happen again."""
        lines = [
            f"queue {q.name!r} holds {len(q.items)} of {q.queue.capacity}"
            for q in self.queues.values()
        ]
        lines += [why for step in self.steps.values() if (why := step.why()) is not None]
        for actor in self.fleet.actors.values():
            if actor.requests or actor.mail.crowded:
                lines.append(
                    f"actor {actor.name!r}: {len(actor.requests)} requests and "
                    f"{actor.mail.under_way} messages without an answer"
                )
        return DeadlockError(
            f"nothing can happen any more in this flow: its output says {status.value!r}, and no "
            "answer will come.\n  " + "\n  ".join(lines)
        )

    def lag_of(self, tickets: tuple[Ticket, ...], only: str | None = None) -> int:
        """By how many versions the oldest of these requests is behind the newest there are.

        A request that was made before there was any version has version 0. With `only`, versions of
        that channel count.
        """
        newest, actors, oldest = self.fleet.office.newest, self.fleet.actors, 0
        for ticket in tickets:
            group = actors[ticket.actor].group
            for (other, channel), message in newest.items():
                wanted = only is None or channel == only
                if other == group and wanted and message.version is not None:
                    oldest = max(oldest, message.version - ticket.versions.get(channel, 0))
        return oldest

    # -- measuring -----------------------------------------------------------------------------

    def begin_counting(self) -> None:
        """Times are counted from now on: what the start took would hide what is usual."""
        self.fleet.counted_from = self.fleet.engine.now()
        self.inline_before = self.fleet.engine.inline_busy()
        for stats in self.stats.values():
            stats.begin_counting()
        for actor in self.fleet.actors.values():
            actor.busy = 0.0

    def stats_of(self, name: str) -> NodeStats:
        """Counters of one operator."""
        stats = self.stats.get(name)
        if stats is None:
            stats = self.stats[name] = NodeStats()
        return stats

    def record_metrics(
        self, stats: NodeStats, actor: str, seq: int, metrics: Mapping[str, Any]
    ) -> None:
        """What an actor sent along with an answer: counters, and whatever listeners want."""
        if "counters" in metrics:
            stats.counters.update(metrics["counters"])
        for listener in self.metrics_listeners:
            listener(actor, seq, dict(metrics))

    def message_balances(self) -> list[MessageBalance]:
        """What became of every message, by group."""
        actors = list(self.fleet.actors.values())
        return list(self.fleet.office.balances(actors, self.program.group_names))

    def path_of(self, node: Node) -> str:
        """The operators from the source to a node, for error messages."""
        parts = [self.program.names[node]]
        while node.inputs:
            node = node.inputs[0]
            if node.kind != "port":
                parts.append(self.program.names[node])
        return " > ".join(reversed(parts))

    def audit(self) -> dict[str, int]:
        """Count the tickets that are really inside operators, by source: what `held` should be."""
        groups: list[tuple[Ticket, ...]] = []
        for step in self.steps.values():
            groups += step.held()
        for queue in self.queues.values():
            groups += queue.held()
        for actor in self.fleet.actors.values():
            groups += list(actor.inside.values())
            groups += [r.tickets for r in actor.requests.values() if not r.new_ticket]
        tickets = {id(ticket): ticket for group in groups for ticket in group}
        return dict(Counter(ticket.account.source for ticket in tickets.values()))

    def release(self) -> None:
        """The run is over: let go of every item, and count the messages that nobody will handle."""
        for step in self.steps.values():
            step.release()
        for queue in self.queues.values():
            queue.items.clear()
        for route in self.routes:
            route.release()
        for actor in self.fleet.actors.values():
            actor.kept = None
        self.fleet.office.end(list(self.fleet.actors.values()))
        self._codes.clear()


def _bare(node: Node) -> Node:
    """A transform without the graph behind it: what an actor needs of it."""
    wanted = {key: value for key, value in node.options.items() if key != "gives"}
    return Node(kind="transform", label=node.label, options=wanted)
