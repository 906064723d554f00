"""rillflow: distributed reinforcement learning as typed dataflow over actors."""

# first: it is about where all others come from
from rillflow.safety import safe_path as _safe_path  # noqa: F401

# isort: split
from typing import TYPE_CHECKING, Any

from rillflow.deprecated import find_moved_modules as _find_moved_modules

if TYPE_CHECKING:
    from rillflow.engines.contract import Engine as Engine
    from rillflow.engines.local import Local as Local
    from rillflow.engines.ray import RayEngine as RayEngine
    from rillflow.engines.sim import Sim as Sim
    from rillflow.errors import ActorStartError as ActorStartError
    from rillflow.errors import BuildError as BuildError
    from rillflow.errors import CheckError as CheckError
    from rillflow.errors import DeadlockError as DeadlockError
    from rillflow.errors import DeviceLost as DeviceLost
    from rillflow.errors import EndOfStream as EndOfStream
    from rillflow.errors import EngineError as EngineError
    from rillflow.errors import NotReady as NotReady
    from rillflow.errors import OperatorError as OperatorError
    from rillflow.errors import Recycle as Recycle
    from rillflow.errors import RillflowError as RillflowError
    from rillflow.errors import RunError as RunError
    from rillflow.errors import TypeMismatch as TypeMismatch
    from rillflow.errors import WorkerLost as WorkerLost
    from rillflow.flows.flow import Flow as Flow
    from rillflow.flows.merge import Concurrently as Concurrently
    from rillflow.flows.merge import Union as Union
    from rillflow.flows.parallel import ParallelFlow as ParallelFlow
    from rillflow.flows.queues import Dequeue as Dequeue
    from rillflow.flows.queues import Enqueue as Enqueue
    from rillflow.flows.sources import from_actors as from_actors
    from rillflow.flows.sources import from_items as from_items
    from rillflow.flows.sources import from_iterators as from_iterators
    from rillflow.flows.sources import from_range as from_range
    from rillflow.graph.context import Context as Context
    from rillflow.graph.context import Operator as Operator
    from rillflow.graph.handles import ActorHandle as ActorHandle
    from rillflow.graph.handles import Actors as Actors
    from rillflow.graph.handles import Background as Background
    from rillflow.graph.handles import Queue as Queue
    from rillflow.learning.algorithm import Algorithm as Algorithm
    from rillflow.learning.schedules import Linear as Linear
    from rillflow.learning.schedules import Piecewise as Piecewise
    from rillflow.learning.update import Rows as Rows
    from rillflow.learning.update import Step as Step
    from rillflow.policies.modules import Modules as Modules
    from rillflow.runs.load_policy import load as load
    from rillflow.runs.own_flow import run as run
    from rillflow.runs.resume import resume as resume
    from rillflow.runs.train import train as train
    from rillflow.runs.training_run import TrainingRun as TrainingRun
    from rillflow.scheduler.run import Run as Run
    from rillflow.simulation import simulate as simulate
    from rillflow.types import ActorInfo as ActorInfo
    from rillflow.types import Adaptive as Adaptive
    from rillflow.types import FailurePolicy as FailurePolicy
    from rillflow.types import Ref as Ref

__version__ = "0.1.0"

_HOMES = {
    "rillflow.engines.contract": ("Engine",),
    "rillflow.engines.local": ("Local",),
    "rillflow.engines.ray": ("RayEngine",),
    "rillflow.engines.sim": ("Sim",),
    "rillflow.errors": (
        "ActorStartError",
        "BuildError",
        "CheckError",
        "DeadlockError",
        "DeviceLost",
        "EndOfStream",
        "EngineError",
        "NotReady",
        "OperatorError",
        "Recycle",
        "RillflowError",
        "RunError",
        "TypeMismatch",
        "WorkerLost",
    ),
    "rillflow.flows.flow": ("Flow",),
    "rillflow.flows.merge": (
        "Concurrently",
        "Union",
    ),
    "rillflow.flows.parallel": ("ParallelFlow",),
    "rillflow.flows.queues": (
        "Dequeue",
        "Enqueue",
    ),
    "rillflow.flows.sources": (
        "from_actors",
        "from_items",
        "from_iterators",
        "from_range",
    ),
    "rillflow.graph.context": (
        "Context",
        "Operator",
    ),
    "rillflow.graph.handles": (
        "ActorHandle",
        "Actors",
        "Background",
        "Queue",
    ),
    "rillflow.learning.algorithm": ("Algorithm",),
    "rillflow.learning.schedules": (
        "Linear",
        "Piecewise",
    ),
    "rillflow.learning.update": (
        "Rows",
        "Step",
    ),
    "rillflow.policies.modules": ("Modules",),
    "rillflow.runs.load_policy": ("load",),
    "rillflow.runs.own_flow": ("run",),
    "rillflow.runs.resume": ("resume",),
    "rillflow.runs.train": ("train",),
    "rillflow.runs.training_run": ("TrainingRun",),
    "rillflow.scheduler.run": ("Run",),
    "rillflow.simulation": ("simulate",),
    "rillflow.types": (
        "ActorInfo",
        "Adaptive",
        "FailurePolicy",
        "Ref",
    ),
}
"""modules and what is public of them: imported when it is first asked for. So the command can hear
Ctrl-C from the start, and a worker, which has no use for a scheduler, is quick to begin."""
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [*_HOME]


_find_moved_modules()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rillflow' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
