"""Every kind of node that works in the driver, and the step that does its work.

This is the one list: to add a kind, write its step in a file of its own and name it here. Kinds
that live inside actors (`actors`, `shards`, `route`, parallel transforms) are installed there by
the gather behind them.
"""

from __future__ import annotations

from collections.abc import Iterator

from rillflow.graph.program import Program
from rillflow.scheduler.admit import AdmitStep
from rillflow.scheduler.fresh import FreshStep
from rillflow.scheduler.gather import Gather
from rillflow.scheduler.queue import DequeueStep, EnqueueStep
from rillflow.scheduler.split import PortStep, SplitStep
from rillflow.scheduler.step import Step
from rillflow.scheduler.transform import TransformStep
from rillflow.scheduler.union import UnionStep

STEPS: dict[str, type[Step]] = {
    step.kind: step
    for step in (
        Gather,
        TransformStep,
        SplitStep,
        PortStep,
        UnionStep,
        EnqueueStep,
        DequeueStep,
        AdmitStep,
        FreshStep,
    )
}


def problems(program: Program) -> Iterator[str]:
    """What the kinds themselves find wrong with a program, before anything starts."""
    for node in program.nodes:
        if node.kind in STEPS and not node.parallel:
            yield from STEPS[node.kind].problems(program, node)
