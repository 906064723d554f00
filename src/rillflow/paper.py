"""The paper's own spellings, and a loader that runs its listings as they were printed.

RLlib Flow: Liang et al., NeurIPS 2021, arXiv:2011.12719. Its operators have different names on the
poster and in the appendix; here are both.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

from rillflow.algorithms import (
    a2c,
    a3c,
    apex,
    apex_ddpg,
    appo,
    async_dqn,
    bc,
    cql,
    ddpg,
    dqn,
    impala,
    iql,
    maml,
    marwil,
    pg,
    ppo,
    r2d2,
    rainbow,
    sac,
    simple_q,
    td3,
)
from rillflow.flows.merge import Concurrently as Concurrently
from rillflow.flows.merge import Union as Union
from rillflow.flows.queues import Dequeue as Dequeue
from rillflow.flows.queues import Enqueue as Enqueue
from rillflow.graph.handles import Actors
from rillflow.learning.config import AlgorithmConfig
from rillflow.rl.learner_thread import LearnerThread as LearnerThread
from rillflow.rl.meta import InnerAdapt as InnerAdapt
from rillflow.rl.meta import MetaUpdate as MetaUpdate
from rillflow.rl.metrics import ReportMetrics as ReportMetrics
from rillflow.rl.multi_agent import MultiAgentConfig
from rillflow.rl.multi_agent import Select as Select
from rillflow.rl.multi_agent import SelectExperiences as SelectExperiences
from rillflow.rl.replay import ParallelReplay as ParallelReplay
from rillflow.rl.replay import Replay as Replay
from rillflow.rl.replay import StoreToReplayBuffer as StoreToReplayBuffer
from rillflow.rl.replay import UpdateReplayPriorities as UpdateReplayPriorities
from rillflow.rl.replay import UpdateTargetNetwork as UpdateTargetNetwork
from rillflow.rl.replay import create_replay_actors as create_replay_actors
from rillflow.rl.replay_actor import ReplayActor as ReplayActor
from rillflow.rl.rollouts import ConcatBatches as ConcatBatches
from rillflow.rl.rollouts import ParallelRollouts as ParallelRollouts
from rillflow.rl.rollouts import StandardizeFields as StandardizeFields
from rillflow.rl.train import ApplyGradients as ApplyGradients
from rillflow.rl.train import AverageGradients as AverageGradients
from rillflow.rl.train import ComputeGradients as ComputeGradients
from rillflow.rl.train import TrainOneStep as TrainOneStep
from rillflow.rl.weights import UpdateWorkerWeights as UpdateWorkerWeights
from rillflow.rl.workers import create_rollout_workers as create_rollout_workers

StandardMetricsReporting = ReportMetrics
StoreToBuffer = StoreToReplayBuffer
UpdatePriorities = UpdateReplayPriorities
UpdateWeights = UpdateWorkerWeights

a2c_plan = a2c.plan
a3c_plan = a3c.plan
apex_plan = apex.plan
apex_ddpg_plan = apex_ddpg.plan
appo_plan = appo.plan
async_dqn_plan = async_dqn.plan
marwil_plan = marwil.plan
iql_plan = iql.plan
cql_plan = cql.plan
bc_plan = bc.plan
ddpg_plan = ddpg.plan
dqn_plan = dqn.plan
impala_plan = impala.plan
maml_plan = maml.plan
pg_plan = pg.plan
ppo_plan = ppo.plan
r2d2_plan = r2d2.plan
rainbow_plan = rainbow.plan
sac_plan = sac.plan
simple_q_plan = simple_q.plan
td3_plan = td3.plan

_NUMBER = re.compile(r"^\s*\d+(?:\s|$)")


def create_colocated(kind: Callable[..., Any], config: Any = None) -> Actors:
    """Actors beside the driver; replay actors take their number and settings from `config`.

    >>> create_colocated(ReplayActor)
    <1 actors 'replay' of ReplayActor>
    """
    return create_replay_actors(config) if kind is ReplayActor else Actors.of(kind, 1)


def load(listing: str, config: AlgorithmConfig | MultiAgentConfig) -> Callable[[], Any]:
    """A printed listing as a function that builds its flow, with workers and replay for `config`.

    Printed line numbers are stripped, a line that begins with `.` is joined to the one before
    unless a backslash does that already, and the whole is wrapped in a function, because listings
    end in a bare `return`. Nothing else is changed.

    >>> from rillflow.algorithms import ppo
    >>> listing = "1 rollouts = ParallelRollouts(create_rollout_workers())\\n2 .gather_async()\\n"
    >>> load(listing + "3\\n4 return rollouts", ppo.Config())()
    Flow(gather_async)
    """
    lines: list[str] = []
    for printed in listing.splitlines():
        line = _NUMBER.sub("", printed, count=1).rstrip()
        if line.lstrip().startswith(".") and lines and not lines[-1].endswith("\\"):
            lines[-1] += line.lstrip()
        elif line.strip():
            lines.append(line)
    body = textwrap.indent(textwrap.dedent("\n".join(lines)), "    ")
    names = {
        **globals(),
        **{
            "create_rollout_workers": partial(create_rollout_workers, config),
            "create_replay_actors": partial(create_replay_actors, config),
            "create_colocated": partial(create_colocated, config=config),
        },
    }
    exec(compile(f"def build():\n{body}\n", "<listing>", "exec"), names)
    build: Callable[[], Any] = names["build"]
    return build
