"""Simulated clusters: a flow on N virtual workers, before anybody pays for them."""

from rillflow.engines.sim_latency import Cpu as Cpu
from rillflow.simulation.calibration import Calibration as Calibration
from rillflow.simulation.predict import simulate as simulate
from rillflow.simulation.report import SimulationReport as SimulationReport
from rillflow.simulation.report import SimulationRow as SimulationRow
