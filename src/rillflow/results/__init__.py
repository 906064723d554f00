"""What is left after training: figures, pictures, and a network to deploy.

Each needs its own library, named in the error if it is missing; importing this imports none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rillflow.results.evaluation import Evaluation as Evaluation
    from rillflow.results.evaluation import evaluate as evaluate
    from rillflow.results.evaluation import evaluate_agents as evaluate_agents
    from rillflow.results.film_episodes import record as record
    from rillflow.results.film_strip import frame_strip as frame_strip
    from rillflow.results.onnx_export import export_onnx as export_onnx
    from rillflow.results.plots import plot_runs as plot_runs
    from rillflow.results.record_episodes import record_data as record_data

_LAZY = {
    "Evaluation": "rillflow.results.evaluation",
    "evaluate": "rillflow.results.evaluation",
    "evaluate_agents": "rillflow.results.evaluation",
    "export_onnx": "rillflow.results.onnx_export",
    "frame_strip": "rillflow.results.film_strip",
    "plot_runs": "rillflow.results.plots",
    "record": "rillflow.results.film_episodes",
    "record_data": "rillflow.results.record_episodes",
}
"""names whose modules are imported when they are first used: most of us need few of them"""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module rillflow.results has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
