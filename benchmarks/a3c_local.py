"""What does a flow cost on `local`, against the same loop written by hand?"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

from _common import Figure, Took, figure, interleaved, load, median_ratio, seconds_for
from a3c_by_hand import OneMessage, OnOurEngine, Pipes, Sockets
from a3c_work import a3c


def with_work(repeats: int) -> Iterator[Figure]:
    """1 ms of work per item: throughput of the flow over that of the loop by hand."""
    items = 400
    flow, pipes, one, sockets, engine = _seconds(0.001, items, 3 * repeats)
    yield figure(
        "a3c_local_1ms", median_ratio(flow, one), "flow / one message by hand", ">= 0.97",
        flow_items_per_s=round(items / statistics.median(flow)),
        pipe_items_per_s=round(items / statistics.median(pipes)),
        over_two_messages=round(median_ratio(flow, pipes), 3),
        over_raw_sockets=round(median_ratio(flow, sockets), 3),
        over_own_engine=round(median_ratio(flow, engine), 3),
        load=load(),
    )  # fmt: skip


def without_work(repeats: int) -> Iterator[Figure]:
    """No work: the flow's own cost per item, in seconds of the clock on the wall."""
    items = 2000
    flow, pipes, one, sockets, engine = _seconds(0.0, items, 3 * repeats)
    yield figure(
        "a3c_local_own_cost", _extra(flow, pipes, items), "µs per item", "<= 40",
        flow_us=round(1e6 * statistics.median(flow) / items, 1),
        pipe_us=round(1e6 * statistics.median(pipes) / items, 1),
        over_one_message_us=round(_extra(flow, one, items), 1),
        over_raw_sockets_us=round(_extra(flow, sockets, items), 1),
        over_own_engine_us=round(_extra(flow, engine, items), 1),
        driver_cpu_us={"flow": _cpu(flow, items), "pipes": _cpu(pipes, items),
                       "one message": _cpu(one, items),
                       "sockets": _cpu(sockets, items), "own engine": _cpu(engine, items)},
        load=load(),
    )  # fmt: skip


def _cpu(took: list[Took], items: int) -> float:
    """Processor time of the driver per item: what is left of a figure when the machine is busy."""
    return round(1e6 * statistics.median(one.cpu for one in took) / items, 1)


def _extra(ours: list[Took], theirs: list[Took], items: int) -> float:
    """Microseconds per item that ours takes longer, from seconds measured side by side."""
    return 1e6 * statistics.median((o - t) / items for o, t in zip(ours, theirs, strict=True))


def _seconds(work: float, items: int, repeats: int) -> list[list[Took]]:
    """Seconds for `items` items, in turn: the flow, then the loops by hand."""
    with (
        a3c(work).run("local") as run, Pipes(work) as pipes, OneMessage(work) as one,
        Sockets(work) as sockets, OnOurEngine(work) as engine,
    ):  # fmt: skip
        steps = [run.__next__, pipes.step, one.step, sockets.step, engine.step]
        for step in steps:
            seconds_for(step, 100)
        return interleaved([partial(seconds_for, step, items) for step in steps], repeats)
