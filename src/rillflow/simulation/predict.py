"""`simulate`: predict what a flow does on N workers."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from rillflow.arguments import check_count
from rillflow.engines.local import Local
from rillflow.engines.sim_latency import Seconds
from rillflow.errors import BuildError
from rillflow.flows.flow import Flow
from rillflow.graph.handles import Actors
from rillflow.graph.node import Node
from rillflow.graph.program import Program
from rillflow.simulation.calibrate import calibrate
from rillflow.simulation.calibration import Calibration
from rillflow.simulation.measure_growth import Plan
from rillflow.simulation.recorded_flow import replayed
from rillflow.simulation.report import SimulationReport, SimulationRow
from rillflow.simulation.simulated_run import simulated_run
from rillflow.simulation.virtual_engine import Bounded, VirtualEngine
from rillflow.simulation.worker_count import resized, source_group

Latencies = Literal["measured"] | Calibration | Mapping[str, Seconds]

_FEWEST, _EACH = 1000, 20
"""answers per simulated run: in all, and of each worker"""
_PATIENCE = 2.0
"""seconds that the driver's own operators may really work in one simulated run"""


def simulate(
    flow: Flow[Any] | Callable[[int], Flow[Any]],
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
    on_row: Callable[[SimulationRow, SimulationReport], object] | None = None,
) -> SimulationReport:
    """Predict throughput, utilisation, staleness and bottleneck of a flow on N workers, for each N.

    flow        a flow, of which one group of actors is made larger; or a function that makes the
                flow for a number of workers, for a plan that looks at it
    latencies   "measured": run the flow for `measure_seconds` on the `local` engine, on at most as
                many workers as there are cores, and use what was seen: how long requests and
                operators take, how much of that is processor time, what a message costs. Virtual
                workers then give recorded items and execute nothing; the driver's operators do
                run, so that weights are sent and items dropped as they would be. How much longer
                they take for larger items, such as rounds of more workers, is measured too; costly
                ones do not run again and again, but what they did is repeated.
                A mapping from actor or operator names to seconds (waiting), `Cpu(seconds)`
                (processor time) or functions of a random generator: nothing is measured, and the
                flow's own code runs, in virtual time.
                `report.calibration` of an earlier call: its measurements again
    cores       processors that the workers and the driver share; None: as many as needed
    items       items at the output per simulated run; or `seconds` of virtual time; by default as
                many as 30 answers of each worker give
    group       the source actors whose number varies, if there are several groups and `flow` is
                one flow
    transport   seconds a message takes one way; by default as measured, or none
    on_row      called with each row, and the report so far, as soon as it is known

    >>> class Worker:
    ...     def next(self): return 1
    >>> from rillflow import Actors, from_actors
    >>> flow = from_actors(Actors.of(Worker, 2)).gather_async()
    >>> report = simulate(flow, workers=[1, 10], latencies={"worker": 0.1})
    >>> [round(row.throughput) for row in report.rows]
    [10, 100]
    """
    _require(flow, workers, cores, items, seconds, measure_seconds)
    plan, source = _plan(flow, group, max(workers))
    calibration: Calibration | None = None
    if isinstance(latencies, Calibration):
        calibration = latencies
    elif latencies == "measured":
        calibration = _measure(plan, source, measure_seconds, seed, max(workers))
    else:
        latencies = _stated(plan(workers[0]), latencies)
    origin = "stated latencies" if calibration is None else str(calibration)
    report = SimulationReport([], source.name, cores, origin, calibration)
    for count in workers:
        root = plan(count)
        answers = None if items or seconds else _answers(count, calibration)
        limits = {"cores": cores, "answers": answers, "seconds": seconds}
        if calibration is not None:
            way = calibration.transport if transport is None else transport
            engine: Bounded = VirtualEngine(calibration, transport=way, **limits)
            root = replayed(root, calibration.recordings, calibration.costly)
        else:
            engine = Bounded(latencies, transport=transport or 0.0, **limits)  # type: ignore[arg-type]
        report.rows.append(simulated_run(root, engine, count, items, seed))
        if on_row is not None:
            on_row(report.rows[-1], report)
    return report


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


def _plan(
    flow: Flow[Any] | Callable[[int], Flow[Any]], group: Actors | None, count: int
) -> tuple[Plan, Actors]:
    """The flow as a function of the number of workers, and the group that these are."""
    if isinstance(flow, Flow):
        source = source_group(flow.node, group)
        return lambda workers: resized(flow.node, source, workers), source
    if group is not None:
        raise BuildError("simulate: group= is for one flow; a function makes its own groups.")
    made = flow(count)
    if not isinstance(made, Flow):
        raise BuildError(f"simulate: a function of the workers' number gives a flow; got {made!r}.")
    sources = [node["actors"] for node in Program(made.node).nodes if node.kind == "actors"]
    source = next((one for one in sources if one.count == count), sources[0])
    return lambda workers: flow(workers).node, source


def _measure(plan: Plan, source: Actors, seconds: float, seed: int, most: int) -> Calibration:
    """Run for a while on at most as many workers as there are cores; then look at larger items."""
    here = os.cpu_count() or 1
    count = min(source.count, here)
    try:
        plan(count)
    except BuildError:  # a flow that names its shards keeps all of them
        count = source.count
    return calibrate(
        plan, Local(), workers=count, seconds=seconds, seed=seed, cores=here, largest=most
    )


def _require(
    flow: object, workers: Sequence[int], cores: int | None, items: int | None,
    seconds: float | None, measure_seconds: float,
) -> None:  # fmt: skip
    """Refuse what cannot be simulated, before anything starts."""
    if not isinstance(flow, Flow) and not callable(flow):
        raise BuildError(
            f"simulate takes a flow with one output; got {flow!r}. Gather a parallel flow first."
        )
    for what, value in (("workers", list(workers)), ("cores", cores), ("items", items)):
        for number in value if isinstance(value, list) else [value]:
            if number is not None:
                check_count(f"simulate: {what}", number)
    if not workers:
        raise BuildError("simulate: workers= lists the numbers of workers to try; it is empty.")
    for what, span in (("seconds", seconds), ("measure_seconds", measure_seconds)):
        if span is not None and not span > 0:
            raise BuildError(f"simulate: {what} must be more than 0; got {span!r}.")
