"""A Ray cluster of two nodes: the same program, with its workers on both."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.ray, pytest.mark.proc, pytest.mark.slow, pytest.mark.timeout(300)]


class Worker:
    """Says which node it is on."""

    def where(self) -> str:
        import ray

        return str(ray.get_runtime_context().get_node_id())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes on this machine, each with room for two workers."""
    from ray.cluster_utils import Cluster

    ray.shutdown()  # the one that other tests share
    options = {"num_cpus": 2, "object_store_memory": 80 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    made.add_node(**options)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_workers_are_on_both_nodes(cluster: Any) -> None:
    """What one node has no room for is on the other."""
    workers = rf.Actors.of(Worker, 4, name="worker", resources={"num_cpus": 1})
    flow = rf.from_actors(workers, "where").gather_sync()
    (nodes,) = flow.take(1, engine=rf.RayEngine(cluster.address))
    assert sorted(nodes.count(node) for node in set(nodes)) == [2, 2]


def test_a_training_command_runs_on_the_cluster(cluster: Any, tmp_path: Path) -> None:
    """`rillflow train ... --address`, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "rillflow", "train", "ppo", "CartPole-v1", "--address",
         cluster.address, "--until", "steps=8000", "--num-workers", "3", "--quiet"],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, textwrap.shorten(done.stderr, 2000)
    assert (tmp_path / "runs" / "ppo-CartPole-v1-1" / "policy.npz").exists()
