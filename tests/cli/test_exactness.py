"""How exactly a run goes on is known before it begins, and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.algorithms import NAMES, get_algorithm
from rillflow.runs.job import Job
from rillflow.runs.multi_agent import assigned
from rillflow.runs.resume_exactness import MEANING, exactness, is_synchronous
from tests.cli.conftest import QUICK

SYNCHRONOUS = {"a2c", "ddpg", "dqn", "maml", "pg", "ppo", "rainbow", "sac", "simple_q", "td3"}
SYNCHRONOUS |= {"bc", "cql", "iql", "marwil"}
CONTINUOUS = {"apex_ddpg", "ddpg", "sac", "td3"}
"""learned on PointGoal here: of Pendulum only what can be seen can be saved"""


def level(algorithm: str, engine: str = "sim", **settings: Any) -> str:
    module = get_algorithm(algorithm)
    config = module.Config.make(**settings)
    job = Job(algorithm, module, config, {}, 0, engine, assigned(config, None))
    return exactness(job, job.build()[1])


@pytest.mark.parametrize("algorithm", NAMES)
def test_on_sim_every_plan_goes_on_exactly_and_elsewhere_synchronous_ones(algorithm: str) -> None:
    env = {"env": "PointGoal"} if algorithm in CONTINUOUS else {}
    assert level(algorithm, **env) == "exact"
    assert level(algorithm, "local", **env) == ("exact" if algorithm in SYNCHRONOUS else "timing")


def test_environments_that_cannot_be_saved_begin_new_episodes() -> None:
    assert level("ppo", env="Acrobot-v1") == "new-episodes"
    assert level("ppo", env="MultiAgentCartPole") == "exact"


def test_an_asynchronous_run_that_changes_its_engine_is_another_run() -> None:
    module = get_algorithm("a3c")
    job = Job("a3c", module, module.Config(), {}, 0, "sim")
    assert exactness(job, job.build()[1], began_on="local") == "timing"


def test_streams_merged_as_they_come_depend_on_time() -> None:
    """Unless they are branches of one, which are ready together."""

    def stream() -> rf.ParallelFlow[int]:
        return rf.from_range(4, num_shards=2)

    assert is_synchronous(rf.Union(*stream().gather_sync().split(2)))
    assert not is_synchronous(rf.Union(stream().gather_sync(), stream().gather_sync()))
    assert not is_synchronous(stream().gather_async())


def test_a_run_says_how_it_would_go_on_and_a_resumed_one_how_it_does(call: Any) -> None:
    """In its first lines, in JSON and in its directory."""
    short = ("train", "ppo", "CartPole-v1", *QUICK, "--name", "run")
    told = call(*short, "--until", "steps=256")
    assert f"if resumed: {MEANING['exact']}" in told.out.splitlines()
    assert json.loads(Path("runs/run/run.json").read_text())["exactness"] == "exact"
    again = call("resume", "runs/run", "--until", "steps=512")
    assert "resuming: the same run, bit for bit" in again.out.splitlines()
    start = call("resume", "runs/run", "--until", "steps=1000", "--json").out.splitlines()[0]
    assert json.loads(start)["exactness"] == "exact"
