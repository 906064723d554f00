"""The scheduler: builds the running form of a program and decides what happens next.

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
from rillflow.scheduler.envelope import Blocked, Pulled
from rillflow.scheduler.fleet import Fleet
from rillflow.scheduler.gather import AsyncGather, Gather, SyncGather
from rillflow.scheduler.ledger import Ledger, Ticket
from rillflow.scheduler.merge import SplitStep, UnionStep
from rillflow.scheduler.queues import BackgroundState, DequeueStep, EnqueueStep, QueueState
from rillflow.scheduler.route import Route
from rillflow.scheduler.stats import NodeStats
from rillflow.scheduler.transform import TransformStep
from rillflow.types import FailurePolicy, Ref, read

Step = TransformStep | SplitStep | UnionStep | EnqueueStep | DequeueStep | Gather
Listener = Callable[[str, int, dict[str, Any]], None]


class Scheduler:
    """The running form of one program."""

    def __init__(self, program: Program, engine: Engine, seed: int, policy: FailurePolicy) -> None:
        self.program = program
        self.seed = seed
        self.fleet = Fleet(engine, seed, policy)
        self.ledger = Ledger()
        self.stats: dict[str, NodeStats] = {}
        self.steps: dict[Node, Step] = {}
        self.queues: dict[str, QueueState] = {}
        self.backgrounds: list[BackgroundState] = []
        self.routes: list[Route] = []
        self.cut = 0
        self.shared: dict[str, Any] = {}
        """what operators of the driver share, by key"""
        self.waiting_states: dict[str, Any] = {}
        """restored states of shared things that nobody has asked for yet"""
        self.metrics_listeners: list[Listener] = []
        self.inline_before: dict[str, float] = {}
        """seconds of actors in the driver, by actor, when the counting began"""
        self.pull: Callable[[], Pulled]
        """the next item of the program, or why there is none"""
        self._pulls: dict[Node, Callable[[], Pulled]] = {}
        self._codes: dict[tuple[Any, ...], bytes] = {}

    # -- construction --------------------------------------------------------------------------

    def start(self) -> None:
        """Bring every actor to life; `begin` makes the first requests."""
        for group in self.program.groups:
            for handle in group:
                self.add_actor(handle)
        self.queues = {queue.uid: QueueState(queue) for queue in self.program.queues}
        for node in self.program.nodes:
            if not node.parallel:
                self._build(node)
        self.pull = self._pulls[self.program.root]
        for step in self.steps.values():
            if isinstance(step, TransformStep):
                step.on_start()
        for background in self.program.backgrounds:
            actor = self.fleet.by_uid[background.actors[0].uid]
            state = BackgroundState(
                self,
                background,
                actor,
                self.queues[background.inqueue.uid],
                self.queues[background.outqueue.uid],
            )
            self.fleet.install(actor, state.PIPELINE, cloudpickle.dumps(("fn", [])), state)
            self.backgrounds.append(state)

    def begin(self) -> None:
        """Make the first requests, or all that may be made after a pause."""
        for step in self.steps.values():
            if isinstance(step, Gather):
                step.start()
        for background in self.backgrounds:
            background.pump()
        self._pump_routes()

    def add_actor(self, handle: ActorHandle) -> Actor:
        """Start one actor of a group."""
        group: Actors = handle.group
        key = (group.uid, handle.index if group.each is not None else 0)
        if key not in self._codes:
            code = (group.factory, group.arguments(handle.index), dict(group.kwargs))
            self._codes[key] = cloudpickle.dumps(code)
        return self.fleet.add(self.program.actor_name(handle), handle, self._codes[key])

    def _build(self, node: Node) -> None:
        name = self.program.names[node]
        pulls = [self._pulls[i] for i in node.inputs if not i.parallel and i.kind != "split"]
        step: Step
        if node.kind == "gather":
            step = self._build_gather(node, name)
        elif node.kind == "transform":
            step = TransformStep(self, node, name, pulls[0])
        elif node.kind == "split":
            self.steps[node] = SplitStep(self, node, name, pulls[0])
            return
        elif node.kind == "port":
            split = self.steps[node.inputs[0]]
            assert isinstance(split, SplitStep)
            index = node["index"]
            self._pulls[node] = lambda: split.pull_port(index)
            return
        elif node.kind == "union":
            step = UnionStep(self, node, name, pulls)
        elif node.kind == "enqueue":
            step = EnqueueStep(self, self.queues[node["queue"].uid], name, pulls[0])
        else:
            step = DequeueStep(self, self.queues[node["queue"].uid], name)
        self.steps[node] = step
        self._pulls[node] = step.pull

    def _build_gather(self, node: Node, name: str) -> Gather:
        gather: Gather = (SyncGather if node["mode"] == "sync" else AsyncGather)(self, node, name)
        plans = self.program.shards(node.inputs[0])
        source = plans[0].source
        if source.kind == "route":
            upstream = self.steps[source.inputs[0]]
            assert isinstance(upstream, Gather)
            gather.route = Route(self, source, upstream, upstream.pull, gather)
            self.routes.append(gather.route)
        for plan in plans:
            actor = self.fleet.by_uid[plan.actor.uid]
            gather.add_shard(plan, actor, self.pipeline_code(plan))
        return gather

    def pipeline_code(self, plan: ShardPlan) -> bytes:
        """A shard's source method and transforms, ready to be shipped; pickled once."""
        key = (plan.method, plan.source, plan.chain)
        if key not in self._codes:
            chain = [(self.program.names[node], _bare(node)) for node in plan.chain]
            self._codes[key] = cloudpickle.dumps((plan.method, chain))
        return self._codes[key]

    def detach(self, node: Node) -> None:
        """Whoever reads this node wants no more: a split need not keep items for it."""
        if node.kind == "port":
            split = self.steps[node.inputs[0]]
            assert isinstance(split, SplitStep)
            if split.detach_port(node["index"]):
                self.detach(node.inputs[0].inputs[0])
        elif not node.parallel:
            step = self.steps[node]
            if isinstance(step, EnqueueStep):
                step.leave()
            for input_ in node.inputs:
                if not input_.parallel:
                    self.detach(input_)

    # -- running -------------------------------------------------------------------------------

    def settle(self) -> None:
        """After events: due timers, and items on their way to a second group of actors."""
        if self.fleet.timers:
            self.fleet.timers.run_due()
        if self.routes:
            self._pump_routes()

    def _pump_routes(self) -> None:
        for route in self.routes:
            route.pump()

    def send(
        self,
        to: ActorHandle | Actors | Iterable[ActorHandle],
        method: str,
        args: tuple[Any, ...],
        version: int | None = None,
        key: str | None = None,
    ) -> None:
        """A message to actors; serialised once, or forwarded unread if it is one reference."""
        if isinstance(to, ActorHandle):
            targets = [self._actor(to)]
        elif isinstance(to, Actors):
            targets = [a for a in self.fleet.actors.values() if a.handle.group.uid == to.uid]
            if not targets:
                raise self._unknown(to)
        else:
            targets = [self._actor(handle) for handle in to]
        single = len(args) == 1 and isinstance(args[0], Ref)
        # a reference that travels alone is forwarded; one among others has to be read
        if single:
            payload = args[0]
        elif len(targets) == 1:
            payload = self.fleet.engine.give(targets[0].name, tuple([read(a) for a in args]))
        else:
            payload = self.fleet.engine.put(tuple([read(a) for a in args]))
        for actor in targets:
            self.fleet.tell(actor, method, payload, not single, version, key)

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

    def _actor(self, handle: ActorHandle) -> Actor:
        actor = self.fleet.by_uid.get(handle.uid)
        if actor is None:
            raise self._unknown(handle)
        return actor

    def _unknown(self, target: object) -> BuildError:
        return BuildError(
            f"a message was sent to {target!r}, which is not part of this flow. Use the group as a "
            "source, or hold it in an attribute of the operator that sends to it."
        )

    def deadlock(self, status: Blocked) -> DeadlockError:
        """Explain why nothing can ever happen again."""
        lines = []
        for name, state in ((q.queue.name, q) for q in self.queues.values()):
            lines.append(f"queue {name!r} holds {len(state.items)} of {state.queue.capacity}")
        for step in self.steps.values():
            if isinstance(step, Gather):
                warming = sum(shard.warming for shard in step.shards)
                lines.append(
                    f"{step.name!r}: {step.in_flight} in flight, {len(step.waiting())} ready"
                    + (f", {warming} waiting for a message" if warming else "")
                )
        return DeadlockError(
            f"nothing can happen any more in this flow: its output says {status.value!r}, and no "
            "request is on its way.\n  " + "\n  ".join(lines)
        )

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
        for route in self.routes:
            groups += [envelope.tickets for buffer in route.buffers for envelope in buffer]
        for queue in self.queues.values():
            groups += [envelope.tickets for envelope in queue.items]
        for actor in self.fleet.actors.values():
            groups.append(tuple(actor.held.values()))
            groups += [request.tickets for request in actor.requests.values() if not request.own]
        tickets = {id(ticket): ticket for group in groups for ticket in group}
        return dict(Counter(ticket.account.source for ticket in tickets.values()))


def _bare(node: Node) -> Node:
    """A transform without the graph behind it: what an actor needs of it."""
    wanted = {key: value for key, value in node.options.items() if key != "gives"}
    return Node(kind="transform", label=node.label, options=wanted)
