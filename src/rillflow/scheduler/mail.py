"""Messages to actors: what is under way to whom, what is newest on which channel, who is crowded.

sent        handed to the run by an operator, for one actor
posted      handed to the engine; it leaves within the driver's step
handled     by its actor, as the actor has said
under way   sent and neither handled nor lost: posted, or still here
lost        never to be handled, by reason: `worker_lost` (its actor died with it), `gone` (its
            actor had left), `error` (its handler raised), `superseded` (a newer version took its
            place before it was posted), `ended` (the run was over)

A message with a version belongs to a channel, of which only the newest counts: the newest waits
here while two older ones are under way, and a newer one takes its place. A message with a version
leaves together with a request to its actor, or when the driver has to wait; to an actor that nobody
asks for items it leaves with the driver's step.

A posted message takes a credit of its actor's mailbox until it is handled. Operators that send
messages without a version to a group wait while an actor of the group has no credit left.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rillflow.engines.host import MANY_BYTES
from rillflow.types import NO_VERSIONS, Ref

if TYPE_CHECKING:
    from rillflow.scheduler.actor import Actor


_NEVER = (0, 0)


class Message:
    """One message, to any number of actors."""

    __slots__ = ("channel", "order", "payload", "version")

    def __init__(
        self,
        method: str,
        payload: Ref,
        spread: bool,
        channel: str | None = None,
        version: int | None = None,
    ) -> None:
        self.payload = payload
        self.channel = channel
        self.version = version
        self.order = ("tell", method, spread, channel, version)
        """as an engine carries it; `spread`: the payload's elements are the arguments"""

    @property
    def method(self) -> str:
        """What is called."""
        return self.order[1]

    @property
    def spread(self) -> bool:
        """Whether the payload's elements are the arguments."""
        return self.order[2]


@dataclass
class MessageAccount:
    """Messages to one group of actors, counted."""

    sent: int = 0
    handled: int = 0
    lost: Counter[str] = field(default_factory=Counter)


class Mail:
    """The messages of one actor: to its present incarnation, and those that are not posted yet."""

    __slots__ = (
        "account",
        "bytes",
        "channels",
        "crowded",
        "handled",
        "kept",
        "last_unversioned",
        "limit",
        "newest",
        "posted",
        "sizes",
        "told",
        "unsent",
        "versions",
        "versions_sent",
    )

    def __init__(self, account: MessageAccount, limit: int) -> None:
        self.account = account
        """the account of the actor's group"""
        self.limit = limit
        """messages under way that fill the mailbox"""
        self.told = 0
        """messages for the actor so far, all incarnations together"""
        self.posted = 0
        self.handled = 0
        self.sizes: deque[tuple[int, int]] = deque()
        """of each message without a version that is posted and not handled: how many were posted
        with it, and its bytes"""
        self.bytes = 0
        self.last_unversioned = 0
        """how many messages were posted with the last one that has no version"""
        self.crowded = False
        """the actor has no credit left"""
        self.kept: list[Message] = []
        """messages without a version for the actor's next incarnation"""
        self.unsent: dict[str, Message] = {}
        """by channel: the newest message, if it has not been posted yet"""
        self.channels: dict[str, tuple[int, int]] = {}
        """by channel: how many messages were posted with its last but one, and with its last"""
        self.newest: dict[str, int] = {}
        """by channel: the newest version that is posted or unsent"""
        self.versions: Mapping[str, int] = NO_VERSIONS
        """the newest version posted on each channel: what the next item is made with; never
        changed, only replaced"""
        self.versions_sent = 0
        """messages with a version so far; the lag of an item is counted in these"""

    @property
    def under_way(self) -> int:
        """Messages for the actor that are neither handled nor lost."""
        return self.posted - self.handled + len(self.unsent) + len(self.kept)

    def begin(self) -> None:
        """A new incarnation has been posted nothing."""
        self.posted = self.handled = self.last_unversioned = self.bytes = 0
        self.sizes.clear()
        self.channels.clear()
        self.newest.clear()
        self.versions = NO_VERSIONS


@dataclass(frozen=True)
class MessageBalance:
    """One line of the ledger: the messages to one group of actors."""

    group: str
    sent: int
    handled: int
    under_way: int
    lost: dict[str, int]
    """by reason"""

    @property
    def balanced(self) -> bool:
        """Whether every message is in exactly one state."""
        return self.sent == self.handled + self.under_way + sum(self.lost.values())

    def __str__(self) -> str:
        parts = [f"{self.handled} handled", f"{self.under_way} under way"]
        parts += [f"{n} lost ({reason})" for reason, n in self.lost.items()]
        return f"messages to {self.group}: {self.sent} sent = " + " + ".join(parts)


class PostOffice:
    """Takes messages in, posts them in order, and counts what becomes of each."""

    def __init__(self) -> None:
        self.accounts: dict[str, MessageAccount] = {}
        """by the uid of a group"""
        self.newest: dict[tuple[str, str], Message] = {}
        """by group and channel (or key): what joiners, restarted and restored actors start from"""
        self.behind: dict[str, Actor] = {}
        """actors with unsent messages"""
        self.listeners: dict[str, Actor] = {}
        """actors with unsent messages that no request takes along: nobody asks them for items"""
        self.crowded: dict[str, int] = {}
        """by group: how many of its actors have no credit left"""
        self.unflushed = False
        """something was posted since the engine was last told to send"""
        self.on_crowded: Callable[[Actor], None] | None = None
        """told who has no credit left: an actor that hangs then has to be noticed"""
        self.log: Any = None
        """called with what is posted, if somebody wants to know"""

    def account(self, group: str) -> MessageAccount:
        """The account of a group."""
        account = self.accounts.get(group)
        if account is None:
            account = self.accounts[group] = MessageAccount()
        return account

    # -- sending -------------------------------------------------------------------------------

    def send(self, actor: Actor, message: Message) -> bool:
        """Take in a message for one actor; False: the actor has this version, or is gone."""
        mail, channel = actor.mail, message.channel
        if channel is not None:
            newest, version = mail.newest, message.version
            if newest.get(channel) == version:
                return False
            newest[channel] = version  # type: ignore[assignment]
            mail.versions_sent += 1
        mail.account.sent += 1
        if actor.status == "gone":
            mail.account.lost["gone"] += 1
            return False
        mail.told += 1
        if channel is not None:
            unsent = mail.unsent
            if unsent and unsent.pop(channel, None) is not None:
                mail.account.lost["superseded"] += 1
            unsent[channel] = message  # the newest: behind those of other channels
            self.behind[actor.name] = actor
            if not actor.targets:
                self.listeners[actor.name] = actor
        elif actor.status == "waiting":
            mail.kept.append(message)
            self._count_credits(actor)
        else:
            if mail.unsent:
                self.catch_up(actor)
            self._post(actor, message)
        return True

    def _post(self, actor: Actor, message: Message) -> None:
        mail, payload = actor.mail, message.payload
        if isinstance(payload, Deferred):
            payload = payload.sendable()
        if self.log is not None:
            self.log("tell", actor.name, message.method, message.version)
        mail.posted = posted = mail.posted + 1
        channel = message.channel
        if channel is None:
            mail.last_unversioned = posted
            size = getattr(payload, "nbytes", 0)
            mail.bytes += size
            mail.sizes.append((posted, size))
        else:
            mail.channels[channel] = (mail.channels.get(channel, _NEVER)[1], posted)
            mail.versions = {**mail.versions, channel: message.version}  # type: ignore[dict-item]
        self.unflushed = True
        actor.port.send(message.order, payload)
        if posted - mail.handled >= mail.limit or mail.bytes >= MANY_BYTES:
            self._count_credits(actor)

    def catch_up(self, actor: Actor) -> None:
        """Whatever has not been posted to this actor is posted now."""
        unsent, actor.mail.unsent = actor.mail.unsent, {}
        self.behind.pop(actor.name, None)
        if self.listeners:
            self.listeners.pop(actor.name, None)
        for message in unsent.values():
            self._post(actor, message)

    def post_newest(self, listeners: bool = False) -> None:
        """Post what waits, except to actors that have two messages of the same channel to handle:
        one that they are at, and one to go on with."""
        for actor in list((self.listeners if listeners else self.behind).values()):
            mail = actor.mail
            if actor.status not in ("live", "leaving"):
                continue
            for channel in list(mail.unsent):
                if mail.channels.get(channel, _NEVER)[0] <= mail.handled:
                    self._post(actor, mail.unsent.pop(channel))
            if not mail.unsent:
                self._caught_up(actor)

    def _caught_up(self, actor: Actor) -> None:
        self.behind.pop(actor.name, None)
        if self.listeners:
            self.listeners.pop(actor.name, None)

    # -- what became of them -------------------------------------------------------------------

    def handled(self, actor: Actor, count: int) -> None:
        """An actor has handled so many messages of those posted to it."""
        mail = actor.mail
        new = count - mail.handled
        if new <= 0:
            return
        mail.handled = count
        mail.account.handled += new
        sizes = mail.sizes
        while sizes and sizes[0][0] <= count:
            mail.bytes -= sizes.popleft()[1]
        if mail.crowded:
            self._count_credits(actor)

    def raised(self, actor: Actor, count: int) -> None:
        """The handlers of so many messages that the actor has reported as handled have raised."""
        if not count:
            return
        account = actor.mail.account
        account.handled -= count
        account.lost["error"] += count

    def never_arrived(self, actor: Actor, count: int) -> None:
        """So many posted messages were lost on their way to an actor that lives on."""
        mail = actor.mail
        mail.posted -= count
        actor.mail.account.lost["error"] += count
        while mail.sizes and mail.sizes[-1][0] > mail.posted:
            mail.bytes -= mail.sizes.pop()[1]
        self._count_credits(actor)

    def died(self, actor: Actor) -> None:
        """An incarnation is over: what it had not handled is lost; the rest is for the next."""
        mail = actor.mail
        lost = mail.posted - mail.handled
        account = actor.mail.account
        if lost:
            account.lost["worker_lost"] += lost
        if mail.unsent:  # the next incarnation starts from the newest of each channel
            account.lost["superseded"] += len(mail.unsent)
            mail.unsent.clear()
        self._caught_up(actor)
        mail.begin()
        self._count_credits(actor)

    def departed(self, actor: Actor) -> None:
        """The actor will not come back."""
        self.died(actor)
        account = actor.mail.account
        if actor.mail.kept:
            account.lost["gone"] += len(actor.mail.kept)
            actor.mail.kept.clear()
        self._count_credits(actor)

    def welcome(self, actor: Actor) -> None:
        """Post the newest of each channel, then what was kept, to a new incarnation."""
        account = actor.mail.account
        for (group, _), message in self.newest.items():
            if group == actor.group:
                account.sent += 1
                actor.mail.told += 1
                if message.channel is not None:
                    actor.mail.newest[message.channel] = message.version  # type: ignore[assignment]
                self._post(actor, message)
        kept, actor.mail.kept = actor.mail.kept, []
        for message in kept:
            self._post(actor, message)

    def end(self, actors: list[Actor]) -> None:
        """The run is over: nobody will handle what is still under way."""
        for actor in actors:
            mail = actor.mail
            if mail.under_way:
                actor.mail.account.lost["ended"] += mail.under_way
            mail.begin()
            mail.unsent.clear()
            mail.kept.clear()
        self.behind.clear()
        self.listeners.clear()
        self.newest.clear()

    def _count_credits(self, actor: Actor) -> None:
        mail = actor.mail
        waiting = mail.posted - mail.handled + len(mail.kept)
        crowded = waiting >= mail.limit or mail.bytes >= MANY_BYTES
        if crowded != mail.crowded:
            mail.crowded = crowded
            if crowded and self.on_crowded is not None:
                self.on_crowded(actor)
            count = self.crowded.get(actor.group, 0) + (1 if crowded else -1)
            if count:
                self.crowded[actor.group] = count
            else:
                self.crowded.pop(actor.group, None)

    # -- looking -------------------------------------------------------------------------------

    def balances(self, actors: list[Actor], names: dict[str, str]) -> Iterator[MessageBalance]:
        """One line per group."""
        for group, account in self.accounts.items():
            under_way = sum(actor.mail.under_way for actor in actors if actor.group == group)
            lost = dict(account.lost)
            yield MessageBalance(names[group], account.sent, account.handled, under_way, lost)


class Deferred(Ref):
    """A value that nobody changes any more, serialised when it is first posted, once for all."""

    __slots__ = ("_engine", "_ref", "_value")

    def __init__(self, engine: Any, value: Any) -> None:
        self._engine = engine
        self._value = value
        self._ref: Ref | None = None

    def get(self) -> Any:
        return self._value

    def sendable(self) -> Ref:
        """What an engine can send."""
        if self._ref is None:
            self._ref = self._engine.put(self._value)
        return self._ref
