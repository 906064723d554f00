"""What a short real run teaches about a flow: how long things take, what its items look like."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rillflow.engines.base import Engine
from rillflow.engines.run import Run
from rillflow.errors import RunError
from rillflow.graph.node import Node
from rillflow.simulation.meters import Meter
from rillflow.simulation.recorder import Enough, Key, Recorder, Seen
from rillflow.types import Header, Ref


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of an actor, to be given again by a virtual one."""

    cpu: float
    wait: float
    header: Header
    """as it was, with relative numbers: 0 is this request of the pipeline, 1 the last one, ..."""
    payload: Ref | None


Segment = tuple[Answer, ...]
"""answers between two moments at which no item was held inside the actor"""


@dataclass(frozen=True)
class Calibration:
    """The outcome of a short real run. Give it to `simulate` again as `latencies`."""

    pipelines: dict[Key, list[Segment]]
    operators: dict[str, list[tuple[float, float]]]
    """processor time and waiting of the calls of each driver operator"""
    per_message: float
    """processor time the driver needs to send or receive one message"""
    at_actor: dict[str, float]
    """by group: processor time a worker process needs for a message, beside the request's own"""
    transport: float
    """seconds a message is on its way"""
    in_operators: float
    """seconds of the driver's operators per answer"""
    engine: str
    seconds: float
    answers: int
    others: float
    """cores that other programs used meanwhile"""

    @property
    def rate(self) -> float:
        """Answers per second in the run that was measured."""
        return self.answers / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        text = f"latencies measured on {self.engine!r} "
        text += f"({self.answers:,} answers in {self.seconds:.1f} s"
        if self.others >= 0.1:
            text += f", while other programs used {self.others:.1f} cores"
        return text + ")"


def calibrate(root: Node, engine: Engine, *, seconds: float, seed: int, cores: int) -> Calibration:
    """Run a flow for `seconds` and learn from it; `cores` are those this machine has."""
    recorder = Recorder(engine, seconds)
    run: Run[object] = Run(root, recorder, seed=seed)
    with run:
        with suppress(Enough):
            for _ in run:
                pass
        recorder.finish()
    return _learned(recorder, cores)


def _learned(recorder: Recorder, cores: int) -> Calibration:
    window, meters = recorder.window, list(recorder.meters.values())
    processes = 1 + len(meters)
    # What delays a worker and is our own doing will happen again in the simulation, by itself. It
    # is told apart from what other programs do by the processor time each of the two has used.
    ours = 0.0
    if processes > cores and window.driver_cpu > 0:
        ours = window.driver_cpu / (window.driver_cpu + window.others * window.seconds)
    kept = {name: _kept(meter, ours) for name, meter in recorder.meters.items()}
    pipelines = {
        key: segments
        for key in dict.fromkeys(one.key for one in recorder.seen)
        if (segments := _segments([one for one in recorder.seen if one.key == key], kept))
    }
    if not pipelines:
        raise RunError(
            "simulate: the flow gave no item while it was measured, so there is nothing to learn "
            "from. Let it run longer with measure_seconds=, or state the latencies."
        )
    at_actor = _per_group(meters)
    operators_cpu = sum(cpu for cpu, _ in _flat(recorder.operators))
    inline = sum(one.header.cpu for one in recorder.seen
                 if recorder.specs[one.actor].placement == "driver")  # fmt: skip
    own = max(0.0, window.driver_cpu - operators_cpu - inline)
    return Calibration(
        pipelines=pipelines,
        operators=recorder.operators,
        per_message=own / recorder.messages if recorder.messages else 0.0,
        at_actor=at_actor,
        transport=_transport(recorder, at_actor),
        in_operators=sum(map(sum, _flat(recorder.operators))) / len(recorder.seen),
        engine=recorder.name,
        seconds=window.seconds,
        answers=len(recorder.seen) - recorder.before,
        others=window.others,
    )


def _flat(calls: dict[str, list[tuple[float, float]]]) -> list[tuple[float, float]]:
    return [call for of_one in calls.values() for call in of_one]


def _kept(meter: Meter, ours: float) -> float:
    """The share of a worker's waiting that is not of our own making."""
    if meter.service_wait <= 0:
        return 1.0
    return 1.0 - ours * min(1.0, meter.delay / meter.service_wait)


def _per_group(meters: Sequence[Meter]) -> dict[str, float]:
    """Processor time per message beside the requests themselves, by group."""
    totals: dict[str, tuple[float, int]] = {}
    for meter in meters:
        extra, messages = totals.get(meter.group, (0.0, 0))
        extra += max(0.0, meter.cpu - meter.service_cpu)
        totals[meter.group] = extra, messages + meter.messages
    return {group: extra / messages for group, (extra, messages) in totals.items() if messages}


def _transport(recorder: Recorder, at_actor: dict[str, float]) -> float:
    """Seconds one way, from answers that had nothing else in their way."""
    rest = sorted(
        one.on_the_way - one.header.wall - at_actor.get(one.key[0], 0.0)
        for one in recorder.seen
        if one.on_the_way is not None and recorder.specs[one.actor].placement == "process"
    )
    if not rest:
        return 0.0
    in_engine = recorder.engine_cpu / max(1, recorder.messages) * 2
    # the mean, for it is what counts in the long run; without the few that a hiccup has hit
    usual = statistics.fmean(rest[: max(1, len(rest) * 19 // 20)])
    return max(0.0, usual - in_engine) / 2


def _segments(seen: Sequence[Seen], kept: dict[str, float]) -> list[Segment]:
    """The answers of one kind of pipeline, cut where the actor held nothing back."""
    segments: list[Segment] = []
    for shard in dict.fromkeys((one.actor, one.pipeline) for one in seen):
        answers = [one for one in seen if (one.actor, one.pipeline) == shard]
        own = _of_shard(answers, kept.get(shard[0], 1.0))
        # the first answer of an actor pays for imports and caches; it is not like the others
        segments += own[1:] if len(own) > 3 else own
    return segments


def _of_shard(seen: Iterable[Seen], kept: float) -> list[Segment]:
    segments: list[Segment] = []
    current: list[Answer] = []
    position: dict[int, int] = {}
    held: set[int] = set()
    for one in seen:
        header = one.header
        if header.not_ready or (header.ended and not header.items):
            continue  # a simulation shows the flow as it is when it is warm, and before its end
        position[one.seq] = len(current)
        held.add(one.seq)
        gone = {seq for seqs in header.items for seq in seqs} | {seq for seq, _ in header.dropped}
        held -= gone - set(header.kept)
        wait = max(0.0, header.wall - header.cpu) * kept
        relative = _relative(header, position, one.seq)
        current.append(Answer(min(header.cpu, header.wall), wait, relative, one.payload))
        if not held:
            segments.append(tuple(current))
            current, position = [], {}
    return segments or ([tuple(current)] if current else [])


def _relative(header: Header, position: dict[int, int], seq: int) -> Header:
    here = position[seq]

    def ago(other: int) -> int:
        return here - position.get(other, here)

    return header._replace(
        items=tuple(tuple(map(ago, seqs)) for seqs in header.items),
        dropped=tuple((ago(other), operator) for other, operator in header.dropped),
        kept=tuple(map(ago, header.kept)),
        ended=False,
    )
