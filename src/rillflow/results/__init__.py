"""What is left after training: figures, pictures, and a network to deploy.

Each needs its own library, named in the error if it is missing; importing this imports none.
"""

from rillflow.results.evaluation import Evaluation as Evaluation
from rillflow.results.evaluation import evaluate as evaluate
from rillflow.results.evaluation import evaluate_agents as evaluate_agents
from rillflow.results.export import export_onnx as export_onnx
from rillflow.results.film_strip import frame_strip as frame_strip
from rillflow.results.plots import plot_runs as plot_runs
from rillflow.results.video import record as record
