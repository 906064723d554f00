"""`simulate`: predict what a flow does on N workers."""

from __future__ import annotations

import difflib
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
from rillflow.graph.program import Program
from rillflow.simulation.calibration import Calibration
from rillflow.simulation.learn import calibrate
from rillflow.simulation.rehearsal import Bounded, Rehearsal
from rillflow.simulation.report import SimulationReport
from rillflow.simulation.resize import resized, source_group
from rillflow.simulation.trial import trial

Latencies = Literal["measured"] | Calibration | Mapping[str, Seconds]

_FEWEST, _EACH = 2000, 30
"""answers per simulated run: in all, and of each worker"""
_PATIENCE = 20.0
"""seconds that the driver's own operators may really work in one simulated run"""


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
    else:
        latencies = _stated(flow.node, latencies)
    rows = []
    for count in workers:
        answers = None if items or seconds else _answers(count, calibration)
        limits = {"cores": cores, "answers": answers, "seconds": seconds}
        if calibration is not None:
            way = calibration.transport if transport is None else transport
            engine: Bounded = Rehearsal(calibration, transport=way, **limits)
        else:
            engine = Bounded(latencies, transport=transport or 0.0, **limits)  # type: ignore[arg-type]
        rows.append(trial(resized(flow.node, source, count), engine, count, items, seed))
    origin = "stated latencies" if calibration is None else str(calibration)
    return SimulationReport(rows, source.name, cores, origin, calibration)


def _stated(root: Node, latencies: object) -> dict[str, Seconds]:
    """Stated latencies by the names the engine knows; a name that is nobody's is refused."""
    if not isinstance(latencies, Mapping):
        raise BuildError(
            f"simulate: latencies are 'measured' or a mapping from names; got {latencies!r}."
        )
    program = Program(root)
    known = {name: name for name in program.names.values()} | {"*": "*"}
    for group in program.groups:  # the source's own name stands for its actors
        known[group.name] = group.name
        known |= {program.actor_name(handle): program.actor_name(handle) for handle in group}
    known |= {program.names[n]: n["actors"].name for n in program.nodes if "actors" in n.options}
    known |= {f"background({b.name})": b.actors.name for b in program.backgrounds}
    for name in latencies:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise BuildError(f"simulate: no actor or operator is called {name!r}.{hint}")
    return {known[name]: seconds for name, seconds in latencies.items()}


def _answers(workers: int, calibration: Calibration | None) -> int:
    """How many answers show the steady state, without running a costly learner for an hour."""
    wanted = max(_FEWEST, _EACH * workers)
    cost = 0.0 if calibration is None else calibration.in_operators
    return wanted if cost * wanted <= _PATIENCE else max(8 * workers, int(_PATIENCE / cost))


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
