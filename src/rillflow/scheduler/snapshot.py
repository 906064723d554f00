"""The state of a run, as a cut at a step boundary: nothing is on its way, nothing is lost.

Requests are let in first, and what they brought is saved with the operators that hold it. After
the cut the run goes on exactly as a run restored from it would: both ask all shards anew, nobody
waits any longer for items that were on their way through the driver, actors that keep no state of
their own are sent the newest of each channel, and on `sim` both draw from the same, freshly seeded
generators.

    format, cut, clock     of the state itself
    members                by group: how many the program had, which there are, which have left,
                           and which were lost by an error: these are started anew
    actors                 by name: what its host told, its counters, the tickets inside it
    channels               by group and channel: the newest message
    operators, queues      by name: what each step and queue told (`step.py`)
    counters, run_counters, shared, ledger, messages, tickets

Everything is found again by its name. Actors that joined are started again, those that left are
not; in a program with another number of actors the ones that both have go on, new ones start fresh,
and items inside the others are dropped as `removed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rillflow.errors import RunError
from rillflow.scheduler.actor import Actor
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.mail import Message
from rillflow.scheduler.membership import give_shards
from rillflow.scheduler.quiescing import come_to_rest, hosts_of
from rillflow.scheduler.saving import Loader, Saver, apart
from rillflow.scheduler.scheduler import Members, Scheduler
from rillflow.scheduler.step import Step
from rillflow.seeding import derive_seed

if TYPE_CHECKING:
    from rillflow.scheduler.driver import Driver

FORMAT = 2


def take(
    driver: Driver, scheduler: Scheduler, timeout: float | None = None, *, partial: bool = False
) -> dict[str, Any]:
    """Let every request come in, then save everything by name; whatever fails, the run goes on.

    With `partial`, actors that do not come to rest in time, or do not tell their state, count as
    lost, where their policy restarts those that are: the state is taken without theirs.
    """
    state: dict[str, Any] | None = None
    try:
        replaced = come_to_rest(driver, timeout, partial)
        state = _take(driver, scheduler, hosts_of(driver, scheduler, timeout, partial, replaced))
    finally:
        if state is None:  # the run goes on as if nobody had asked
            scheduler.fleet.paused = False
            scheduler.begin()
    _go_on(driver, scheduler, state)
    return state


def _take(driver: Driver, scheduler: Scheduler, hosts: dict[str, Any]) -> dict[str, Any]:
    fleet, program = scheduler.fleet, scheduler.program
    present = [actor for actor in fleet.actors.values() if actor.name in hosts]
    for step in scheduler.steps.values():
        step.cut()
    save = Saver(lambda key: _stable(scheduler, key))
    told = {key: value.get_state() for key, value in scheduler.shared.items() if _saves(value)}
    state: dict[str, Any] = {
        "format": FORMAT,
        "cut": scheduler.cut + 1,
        "clock": fleet.engine.now(),
        "members": {
            program.group_names[group.uid]: {
                "count": len(group),
                "present": [_member(a) for a in present if a.group == group.uid],
                "lost": [
                    _successor(a)
                    for a in fleet.group(group.uid)
                    if a not in present and _comes_back(a)
                ],
                "left": [
                    a.handle.index
                    for a in fleet.group(group.uid)
                    if a not in present and not _comes_back(a)
                ],
            }
            for group in program.groups
        },
        "actors": {
            actor.name: _actor(scheduler, actor, hosts[actor.name], save) for actor in present
        },
        "channels": [
            {
                "group": program.group_names[group],
                "channel": _stable(scheduler, channel),
                "method": message.method,
                "value": message.payload.get(),
                "spread": message.spread,
                "version": message.version,
            }
            for (group, channel), message in fleet.office.newest.items()
        ],
        "operators": {
            program.names[node]: step.get_state(save) for node, step in scheduler.steps.items()
        },
        "kinds": {program.names[node]: node.kind for node in scheduler.steps},
        "queues": {queue.name: queue.get_state(save) for queue in scheduler.queues.values()},
        "counters": {
            name: {"items": s.items, "counters": dict(s.counters)}
            for name, s in scheduler.stats.items()
        },
        "run_counters": dict(fleet.counters),
        "shared": {
            _stable(scheduler, key): value
            for key, value in (*scheduler.waiting_states.items(), *apart(told).items())
        },
        "ledger": {name: account.state() for name, account in scheduler.ledger.accounts.items()},
        "messages": {
            program.group_names[group]: {
                "sent": account.sent,
                "handled": account.handled,
                "lost": dict(account.lost),
            }
            for group, account in fleet.office.accounts.items()
        },
    }
    state["tickets"] = save.rows
    return state


def members_of(state: dict[str, Any], scheduler: Scheduler) -> Members:
    """Who is to be started, and who has left: as in the state, unless the program asks for another
    number of actors; then those of the program."""
    members: Members = {}
    for group in scheduler.program.groups:
        saved = state["members"].get(scheduler.program.group_names[group.uid])
        if saved is None:
            continue
        there = [*saved["present"], *saved["lost"]]
        known = {index: (life, asked) for index, life, asked in there}
        chosen = list(known) if saved["count"] == len(group) else range(len(group))
        present = {index: known.get(index, (0, 0)) for index in chosen}
        left = [index for index in (*known, *saved["left"]) if index not in present]
        members[group.uid] = (present, left)
    return members


def restore(driver: Driver, scheduler: Scheduler, state: dict[str, Any]) -> None:
    """Bring a freshly built, not yet begun scheduler into a saved state."""
    for name, account in state["ledger"].items():
        scheduler.ledger.account(name).restore(account)
    load = Loader(scheduler, state["tickets"], lambda key: _live(scheduler, key))
    steps = {scheduler.program.names[node]: step for node, step in scheduler.steps.items()}
    renamed = _renamed(steps, state)
    _same_names("operators", set(steps), {renamed.get(n, n) for n in state["operators"]})
    queues = {queue.name: queue for queue in scheduler.queues.values()}
    _same_names("queues", set(queues), set(state["queues"]))
    groups = set(scheduler.program.group_names.values())
    _same_names("groups of actors", groups, set(state["members"]))
    _restore_members(scheduler)
    for name, saved in state["queues"].items():
        queues[name].set_state(saved, load)
    for name, saved in state["operators"].items():
        steps[renamed.get(name, name)].set_state(saved, load)
    for name, saved in state["counters"].items():
        stats = scheduler.stats_of(renamed.get(name, name))
        stats.items = saved["items"]
        stats.counters.update(saved["counters"])
    scheduler.fleet.counters.update(state["run_counters"])
    for key, saved in state["shared"].items():
        scheduler.restore_shared(_live(scheduler, key), saved)
    _restore_channels(scheduler, state)
    for actor in scheduler.fleet.actors.values():
        saved = state["actors"].get(actor.name)
        if saved is None:
            if actor.status == "live":  # a newcomer
                _bring_up_to_date(scheduler, actor)
        elif actor.status == "live":
            _restore_actor(driver, scheduler, actor, saved, load)
        else:  # the actor is not part of this run any more
            for numbers in saved["inside"].values():
                for ticket in load.tickets(numbers):
                    ticket.finish("removed")
    _restore_messages(scheduler, state)
    _go_on(driver, scheduler, state)


def check_format(state: dict[str, Any]) -> None:
    """Refuse a state that another version has written."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise RunError(
            f"this state has format {found!r}; this version reads {FORMAT}. A run that an older "
            "version saved cannot be continued: train anew, or start from its policy."
        )


def _go_on(driver: Driver, scheduler: Scheduler, state: dict[str, Any]) -> None:
    """From the cut on, the run that was saved and the one restored do the same."""
    fleet = scheduler.fleet
    scheduler.cut = state["cut"]
    for name, saved in state["actors"].items():
        actor = fleet.actors[name]
        if actor.status == "live" and not saved["host"]["remembers"]:
            _bring_up_to_date(scheduler, actor)
    fleet.engine.cut(derive_seed(scheduler.seed, "cut", scheduler.cut), state["clock"])
    fleet.paused = False
    scheduler.begin()


def _bring_up_to_date(scheduler: Scheduler, actor: Actor) -> None:
    """Send the newest of each channel to an actor that knows only what it is told."""
    office = scheduler.fleet.office
    actor.mail.newest.clear()
    for (group, _), message in office.newest.items():
        if group == actor.group:
            office.send(actor, message)


def _saves(value: object) -> bool:
    return hasattr(value, "get_state") and hasattr(value, "set_state")


def _stable(scheduler: Scheduler, key: str) -> str:
    """A key as it is saved: a group of actors by its name, since its uid is another in each build.

    `learner 5f2c... default` is saved as `learner <worker> default`.
    """
    for uid, name in scheduler.program.group_names.items():
        key = key.replace(uid, f"<{name}>")
    return key


def _live(scheduler: Scheduler, key: str) -> str:
    """The reverse of `_stable`, with the uids of this build."""
    for uid, name in scheduler.program.group_names.items():
        key = key.replace(f"<{name}>", uid)
    return key


def _comes_back(actor: Actor) -> bool:
    """Whether an actor whose state is not there is to be started anew."""
    return actor.lost or actor.status in ("live", "waiting")


def _member(actor: Actor) -> list[int]:
    return [actor.handle.index, actor.incarnation, actor.seq]


def _successor(actor: Actor) -> list[int]:
    return [actor.handle.index, actor.incarnation + 1, actor.seq]


def _actor(scheduler: Scheduler, actor: Actor, host: Any, save: Saver) -> dict[str, Any]:
    now = scheduler.fleet.engine.now()
    return {
        "host": {**host, "versions": save.versions(host["versions"])},
        "seq": actor.seq,
        "versions_sent": actor.mail.versions_sent,
        "restarted": [now - when for when in actor.restarts],
        "counters": dict(actor.counters),
        "inside": {str(seq): save.tickets(tickets) for seq, tickets in actor.inside.items()},
    }


def _restore_actor(
    driver: Driver, scheduler: Scheduler, actor: Actor, saved: dict[str, Any], load: Loader
) -> None:
    versions = load.versions(saved["host"]["versions"])
    driver.ask(actor, "set_state", {**saved["host"], "versions": dict(versions)})
    now = scheduler.fleet.engine.now()
    actor.seq = saved["seq"]
    actor.restarts.extend(now - ago for ago in saved["restarted"])
    actor.counters.update(saved["counters"])
    actor.inside = {int(seq): load.tickets(numbers) for seq, numbers in saved["inside"].items()}
    actor.mail.versions_sent = saved["versions_sent"]
    actor.mail.versions = versions
    actor.mail.newest = dict(versions)


def _restore_members(scheduler: Scheduler) -> None:
    """Actors beyond those that the program names, who had joined, get their shards back; so do
    those of them who have left, for what they made may still wait there."""
    for step in scheduler.steps.values():
        if isinstance(step, Gather) and step.route is None:
            for actor in scheduler.fleet.actors.values():
                if actor.handle.index >= len(actor.handle.group):
                    give_shards(scheduler, step, actor)


def _restore_channels(scheduler: Scheduler, state: dict[str, Any]) -> None:
    """The newest message of each channel, instead of what was sent at the start."""
    office, engine = scheduler.fleet.office, scheduler.fleet.engine
    office.newest.clear()
    uids = {name: uid for uid, name in scheduler.program.group_names.items()}
    for row in state["channels"]:
        if row["group"] in uids:
            channel = _live(scheduler, row["channel"])
            versioned = row["version"] is not None
            office.newest[uids[row["group"]], channel] = Message(
                row["method"],
                engine.put(row["value"]),
                row["spread"],
                channel if versioned else None,
                row["version"],
            )


def _restore_messages(scheduler: Scheduler, state: dict[str, Any]) -> None:
    """Counts of messages go on from the state; what was sent to newcomers is added to them."""
    office = scheduler.fleet.office
    uids = {name: uid for uid, name in scheduler.program.group_names.items()}
    for name, saved in state["messages"].items():
        if name in uids:
            account = office.account(uids[name])
            account.sent, account.handled = saved["sent"], saved["handled"]
            account.lost.clear()
            account.lost.update(saved["lost"])
    for actor in scheduler.fleet.actors.values():
        actor.mail.account.sent += actor.mail.under_way


def _renamed(steps: dict[str, Step], state: dict[str, Any]) -> dict[str, str]:
    """Operators whose names tell a setting that differs, such as weights by the number of workers.

    They are paired in the order of the program, if they are as many and of the same kinds.
    """
    here = [name for name in steps if name not in state["operators"]]
    saved = [name for name in state["operators"] if name not in steps]
    kinds = [steps[name].kind for name in here]
    if kinds != [state["kinds"][name] for name in saved]:
        return {}
    return dict(zip(saved, here, strict=True))


def _same_names(what: str, here: set[str], saved: set[str]) -> None:
    if here != saved:
        raise RunError(
            f"this state belongs to another flow: its {what} differ. Only here: "
            f"{sorted(here - saved) or 'none'}; only in the state: "
            f"{sorted(saved - here) or 'none'}."
        )
