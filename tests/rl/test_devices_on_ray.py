"""On Ray a worker's share of a GPU is what it asks of the cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHARES = """
import os
from dataclasses import dataclass

import ray

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.learning.algorithm import Algorithm
from rillflow.rl.workers import Workers


class Told:
    def __init__(self, config, spec, info):
        pass

    def sample(self):
        found = ray.get_runtime_context().get_assigned_resources()
        return found.get("GPU", 0), os.environ.get("CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, kw_only=True)
class Config(ppo.Config):
    pass


Algorithm("told", Config, ppo.modules, ppo.update, ppo.plan, worker=Told)
for count in (2, 3):
    engine = rf.RayEngine(num_cpus=1, init_options={"num_gpus": 1})
    workers = Workers(Config(num_workers=count, num_gpus_per_worker=0.5))
    try:
        rounds = rf.from_actors(workers.actors, "sample").gather_sync().take(1, engine=engine)
        print(rounds[0])
    except rf.EngineError as error:
        print(error)
"""


@pytest.mark.ray
@pytest.mark.proc
def test_workers_are_placed_by_their_shares_as_far_as_these_go() -> None:
    """Two halves of one GPU, which both see; for a third half there is no room."""
    ray = pytest.importorskip("ray")
    ray.shutdown()  # the script starts one of its own
    done = subprocess.run([sys.executable, "-c", SHARES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    placed, refused = done.stdout.splitlines()
    assert placed == "[(0.5, '0'), (0.5, '0')]"
    assert "no room for actor 'worker-2'" in refused
    assert "(num_gpus_per_worker, of rollout workers)" in refused
