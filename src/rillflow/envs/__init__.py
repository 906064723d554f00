"""Environments: any Gymnasium, ALE or PettingZoo environment behind one small, checked face.

This layer knows arrays and environments only: no graph, no engine, no tensors.
"""

from rillflow.envs.checks import EnvError as EnvError
from rillflow.envs.make import make_envs as make_envs
from rillflow.envs.multiagent import MultiAgentEnvs as MultiAgentEnvs
from rillflow.envs.multiagent import MultiAgentVector as MultiAgentVector
from rillflow.envs.multiagent_mapping import make_multi_agent_envs as make_multi_agent_envs
from rillflow.envs.vector import Envs as Envs
from rillflow.envs.vector import Step as Step
