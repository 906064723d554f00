"""What training gives: policies that act, are evaluated and saved."""

from rillflow.trained.agents import TrainedAgents as TrainedAgents
from rillflow.trained.loading import load as load
from rillflow.trained.policy import Trained as Trained
