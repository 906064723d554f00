"""From a short real run to a calibration."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from rillflow.engines.contract import Engine
from rillflow.errors import RunError
from rillflow.graph.node import Node
from rillflow.scheduler.run import Run
from rillflow.simulation.calibration import Answer, Calibration, Segment
from rillflow.simulation.cpu_meters import Meter
from rillflow.simulation.measure_growth import Plan, with_growth
from rillflow.simulation.recorded_flow import replayed
from rillflow.simulation.recording_engine import Enough, Recorder, Seen
from rillflow.simulation.virtual_engine import VirtualEngine
from rillflow.types import Header

_SIZING = 4.0
"""seconds to find out how operators take larger items"""
_PATIENCE = 2.0
"""seconds that the driver's own operators may really work to find out what was counted twice"""
_ENOUGH = 30
"""answers from which a mean is taken"""


def calibrate(
    plan: Plan, engine: Engine, *, workers: int, seconds: float, seed: int, cores: int, largest: int
) -> Calibration:
    """Run a flow for a while and learn from it.

    Args:
        plan: the flow on so many workers.
        engine: where it runs.
        workers: on how many.
        seconds: how long.
        seed: of the run.
        cores: those this machine has.
        largest: number of workers that will be simulated.
    """
    recorder = Recorder(engine, seconds)
    root = plan(workers)
    run: Run[object] = Run(root, recorder, seed=seed)
    with run:
        with suppress(Enough):
            for _ in run:
                recorder.came_out = True
        recorder.finish()
    calibration = with_growth(
        plan, _learned(recorder), first=workers, largest=largest, seconds=_SIZING, seed=seed
    )
    if 1 + len(recorder.meters) > cores:
        calibration = _without_crowding(root, calibration, recorder, cores, seed)
    return calibration


def _learned(recorder: Recorder) -> Calibration:
    window, meters = recorder.window, list(recorder.meters.values())
    pipelines = {
        key: segments
        for key in dict.fromkeys(one.key for one in recorder.seen)
        if (segments := _segments([one for one in recorder.seen if one.key == key]))
    }
    if not pipelines:
        raise RunError(
            "simulate: the flow gave no item while it was measured, so there is nothing to learn "
            "from. Let it run longer with measure_seconds=, or state the latencies."
        )
    gaps = recorder.gaps
    pipelines = {key: _with_gap(own, gaps.get(key[0], ())) for key, own in pipelines.items()}
    at_actor = _per_group(meters)
    operators_cpu = sum(call.cpu for calls in recorder.operators.values() for call in calls)
    inline = sum(one.header.cpu for one in recorder.seen
                 if recorder.specs[one.actor].placement == "driver")  # fmt: skip
    own = max(0.0, window.driver_cpu - operators_cpu - inline)
    return Calibration(
        pipelines=pipelines,
        # the first call of an operator pays for caches; it is not like the others
        operators={n: c[1:] if len(c) > 3 else c for n, c in recorder.operators.items()},
        per_message=own / recorder.messages if recorder.messages else 0.0,
        at_actor=at_actor,
        transport=_transport(recorder, at_actor),
        engine=recorder.name,
        seconds=window.seconds,
        answers=len(recorder.seen) - recorder.before,
        others=window.others,
    )


def _without_crowding(
    root: Node, calibration: Calibration, recorder: Recorder, cores: int, seed: int
) -> Calibration:
    """Take out of the waiting what a simulation adds by itself.

    Part of what looks like waiting may be waiting for a processor that another of our own processes
    had. The measured run is simulated as it was; what the actors have to wait for cores there is
    what was counted twice, as far as the kernel has really seen them wait for one.
    """
    most = int(min(1000, _PATIENCE / max(calibration.in_operators, 1e-9)))
    engine = VirtualEngine(calibration, cores=cores, transport=calibration.transport, answers=most)
    replayed_root = replayed(root, calibration.recordings, calibration.costly)
    run: Run[object] = Run(replayed_root, engine, seed=seed)
    with run, suppress(Enough):
        for _ in run:
            pass
    kept: dict[str, float] = {}
    for group in {meter.group for meter in recorder.meters.values()}:
        meters = [meter for meter in recorder.meters.values() if meter.group == group]
        wait = sum(meter.service_wait for meter in meters)
        stated = engine.stated.get(group, 0.0)
        if wait > 0 and stated > 0:
            seen = sum(meter.delay for meter in meters) / wait
            own = max(0.0, engine.waited.get(group, 0.0) / stated - 1)
            kept[group] = 1 - min(1.0, seen, own)
    return replace(
        calibration,
        pipelines={
            key: [
                tuple(replace(one, wait=one.wait * kept.get(key[0], 1.0)) for one in segment)
                for segment in segments
            ]
            for key, segments in calibration.pipelines.items()
        },
    )


def _with_gap(segments: list[Segment], gaps: Sequence[float]) -> list[Segment]:
    """Answers of a thread with what it waits for the interpreter between two of them."""
    gap = max(0.0, statistics.fmean(gaps)) if gaps else 0.0
    if not gap:
        return segments
    return [tuple(replace(one, wait=one.wait + gap) for one in segment) for segment in segments]


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
    rest = [
        one.on_the_way - one.header.wall - at_actor.get(one.key[0], 0.0)
        for one in recorder.seen
        if one.on_the_way is not None and recorder.specs[one.actor].placement == "process"
    ]
    if not rest:
        return 0.0
    # in the long run it is the mean; but few answers come from actors that are hardly ever idle,
    # and were idle then because something had held up their requests
    round_trip = statistics.fmean(rest) if len(rest) >= _ENOUGH else min(rest)
    in_engine = recorder.engine_cpu / max(1, recorder.messages) * 2
    return max(0.0, round_trip - in_engine - _waited_for_a_core(recorder)) / 2


def _waited_for_a_core(recorder: Recorder) -> float:
    """Seconds for each answer that its process was ready to run, beside those in the request.

    A simulation that shares cores adds them by itself.
    """
    meters = recorder.meters
    answers = sum(one.actor in meters for one in recorder.seen[recorder.before :])
    waited = sum(max(0.0, meter.delay - meter.service_wait) for meter in meters.values())
    return waited / max(1, answers)


def _segments(seen: Sequence[Seen]) -> list[Segment]:
    """The answers of one kind of pipeline, cut where the actor held nothing back."""
    segments: list[Segment] = []
    for shard in dict.fromkeys((one.actor, one.pipeline) for one in seen):
        answers = [one for one in seen if (one.actor, one.pipeline) == shard]
        own = _of_shard(answers)
        # the first answer of an actor pays for imports and caches; it is not like the others
        segments += own[1:] if len(own) > 3 else own
    return segments


def _of_shard(seen: Iterable[Seen]) -> list[Segment]:
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
        wait = max(0.0, header.wall - header.cpu)
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
