"""rillflow: distributed reinforcement learning as typed dataflow over actors."""

# first: it is about where all others come from
from rillflow.safety import safe_path as _safe_path  # noqa: F401

# isort: split
from typing import TYPE_CHECKING, Any

from rillflow.deprecated import find_moved_modules as _find_moved_modules
from rillflow.engines.contract import Engine as Engine
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
from rillflow.types import ActorInfo as ActorInfo
from rillflow.types import Adaptive as Adaptive
from rillflow.types import FailurePolicy as FailurePolicy
from rillflow.types import Ref as Ref

if TYPE_CHECKING:
    from rillflow.engines.local import Local as Local
    from rillflow.engines.ray import RayEngine as RayEngine
    from rillflow.engines.sim import Sim as Sim
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

__version__ = "0.1.0"

_LAZY = {
    "Algorithm": "rillflow.learning.algorithm",
    "Linear": "rillflow.learning.schedules",
    "Local": "rillflow.engines.local",
    "Modules": "rillflow.policies.modules",
    "Piecewise": "rillflow.learning.schedules",
    "RayEngine": "rillflow.engines.ray",
    "Rows": "rillflow.learning.update",
    "Run": "rillflow.scheduler.run",
    "Sim": "rillflow.engines.sim",
    "Step": "rillflow.learning.update",
    "TrainingRun": "rillflow.runs.training_run",
    "load": "rillflow.runs.load_policy",
    "resume": "rillflow.runs.resume",
    "run": "rillflow.runs.own_flow",
    "simulate": "rillflow.simulation",
    "train": "rillflow.runs.train",
}
"""names whose modules are imported when they are first used, so that `import rillflow` is quick: a
worker has no use for a scheduler"""


_find_moved_modules()


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'rillflow' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
