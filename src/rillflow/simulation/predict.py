"""`simulate`: predict what a flow does on N workers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from rillflow.engines.latency import Seconds
from rillflow.engines.local import Local
from rillflow.errors import BuildError
from rillflow.graph.flow import Flow
from rillflow.graph.handles import Actors
from rillflow.graph.node import Node
from rillflow.simulation.calibration import Calibration, calibrate
from rillflow.simulation.rehearsal import Bounded, Rehearsal
from rillflow.simulation.report import SimulationReport
from rillflow.simulation.resize import resized, source_group
from rillflow.simulation.trial import trial

Latencies = Literal["measured"] | Calibration | Mapping[str, Seconds]


def simulate(
    flow: Flow[Any],
    *,
    workers: Sequence[int],
    latencies: Latencies = "measured",
    cores: int | None = os.cpu_count(),
    items: int | None = None,
    seconds: float | None = None,
    group: Actors | None = None,
    transport: float | None = None,
    seed: int = 0,
    measure_seconds: float = 2.0,
) -> SimulationReport:
    """Predict throughput, utilisation, staleness and bottleneck of a flow on N workers, for each N.

    latencies   "measured": run the flow for `measure_seconds` on the `local` engine, on at most as
                many workers as there are cores, and use what was seen: how long requests and
                operators take, how much of that is processor time, what a message costs. Virtual
                workers then give recorded items and execute nothing; the driver's operators do
                run, so that weights are sent and items dropped as they would be.
                A mapping from actor or operator names to seconds (waiting), `Cpu(seconds)`
                (processor time) or functions of a random generator: nothing is measured, and the
                flow's own code runs, in virtual time.
                `report.calibration` of an earlier call: its measurements again
    cores       processors that the workers and the driver share; None: as many as needed
    items       items at the output per simulated run; or `seconds` of virtual time; by default as
                many as 30 answers of each worker give
    group       the source actors whose number varies, if there are several groups
    transport   seconds a message takes one way; by default as measured, or none

    >>> class Worker:
    ...     def next(self): return 1
    >>> from rillflow import Actors, from_actors
    >>> flow = from_actors(Actors.of(Worker, 2)).gather_async()
    >>> report = simulate(flow, workers=[1, 10], latencies={"worker": 0.1})
    >>> [round(row.throughput) for row in report.rows]
    [10, 100]
    """
    _require(flow, workers, cores, items, seconds, measure_seconds)
    source = source_group(flow.node, group)
    calibration: Calibration | None = None
    if isinstance(latencies, Calibration):
        calibration = latencies
    elif latencies == "measured":
        calibration = _measure(flow.node, source, measure_seconds, seed)
    rows = []
    for count in workers:
        answers = None if items or seconds else max(2000, 30 * count)
        limits = {"cores": cores, "answers": answers, "seconds": seconds}
        if calibration is not None:
            way = calibration.transport if transport is None else transport
            engine: Bounded = Rehearsal(calibration, transport=way, **limits)
        else:
            engine = Bounded(latencies, transport=transport or 0.0, **limits)  # type: ignore[arg-type]
        rows.append(trial(resized(flow.node, source, count), engine, count, items, seed))
    origin = "stated latencies" if calibration is None else str(calibration)
    return SimulationReport(rows, source.name, cores, origin, calibration)


def _measure(root: Node, source: Actors, seconds: float, seed: int) -> Calibration:
    here = os.cpu_count() or 1
    with suppress(BuildError):  # a flow that names its shards keeps all of them
        root = resized(root, source, min(source.count, here))
    return calibrate(root, Local(), seconds=seconds, seed=seed, cores=here)


def _require(
    flow: object, workers: Sequence[int], cores: int | None, items: int | None,
    seconds: float | None, measure_seconds: float,
) -> None:  # fmt: skip
    """Refuse what cannot be simulated, before anything starts."""
    if not isinstance(flow, Flow):
        raise BuildError(
            f"simulate takes a flow with one output; got {flow!r}. Gather a parallel flow first."
        )
    for what, value in (("workers", list(workers)), ("cores", cores), ("items", items)):
        for number in value if isinstance(value, list) else [value]:
            whole = isinstance(number, int) and not isinstance(number, bool)
            if number is not None and not (whole and number >= 1):
                raise BuildError(
                    f"simulate: {what} must be whole numbers of at least 1; got {number!r}."
                )
    if not workers:
        raise BuildError("simulate: workers= lists the numbers of workers to try; it is empty.")
    for what, span in (("seconds", seconds), ("measure_seconds", measure_seconds)):
        if span is not None and not span > 0:
            raise BuildError(f"simulate: {what} must be more than 0; got {span!r}.")
