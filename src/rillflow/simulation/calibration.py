"""What a short real run teaches about a flow: how long things take, what its items look like."""

from __future__ import annotations

from dataclasses import dataclass, field

from rillflow.simulation.cost_growth import Growth
from rillflow.simulation.recorded_operators import Recording
from rillflow.simulation.recording_engine import Call, Key
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
    operators: dict[str, list[Call]]
    """calls of each operator of the driver"""
    per_message: float
    """processor time the driver needs to send or receive one message"""
    at_actor: dict[str, float]
    """by group: processor time a worker process needs for a message, beside the request's own"""
    transport: float
    """seconds a message is on its way"""
    engine: str
    seconds: float
    answers: int
    others: float
    """cores that other programs used meanwhile"""
    growth: dict[str, Growth] = field(default_factory=dict)
    """how the time of each operator of the driver grows with the size of its items"""
    recordings: dict[str, Recording] = field(default_factory=dict)
    """what the operators of the driver were seen to do"""
    costly: frozenset[str] = frozenset()
    """those of them whose recording can and should be replayed"""

    @property
    def in_operators(self) -> float:
        """Seconds per answer that operators of the driver really work in a simulation."""
        names = [name for name in self.operators if name not in self.costly]
        real = [call for name in names for call in self.operators[name]]
        return sum(call.cpu + call.wait for call in real) / max(1, self.answers)

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
