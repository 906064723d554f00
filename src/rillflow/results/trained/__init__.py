"""What training gives: policies that act, are evaluated and saved."""

from rillflow.results.trained.agents import TrainedAgents as TrainedAgents
from rillflow.results.trained.policy import Trained as Trained
from rillflow.results.trained.policy_file import load as load
