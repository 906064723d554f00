"""What is written for TensorBoard, read by TensorBoard's own reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rillflow.algorithms import apex, ppo
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.tensorboard_graph import graph_def


@pytest.fixture(scope="module")
def events(finished: Path) -> Any:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accumulator = reader.EventAccumulator(str(finished / "tensorboard"))
    accumulator.Reload()
    return accumulator


def test_figures_are_scalars_over_steps(events: Any, finished: Path) -> None:
    rows = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert {"policy_loss", "value_loss", "kl", "episodes", "steps_per_second"} <= set(
        events.Tags()["scalars"]
    )
    by_step = {row["steps"]: row for row in rows}
    for tag in ("policy_loss", "return"):
        written = events.Scalars(tag)
        assert written
        for scalar in written:
            assert scalar.value == pytest.approx(by_step[scalar.step][tag], rel=1e-5)
    assert events.Scalars("policy_loss")[-1].step == rows[-1]["steps"]


def test_the_dataflow_is_in_the_graph_tab(events: Any) -> None:
    nodes = {node.name: node for node in events.Graph().node}
    train = nodes["driver/for_each_TrainOneStep"]
    assert list(train.input) == ["driver/combine_ConcatBatches"]
    assert nodes["worker/rollouts"].device == "/job:worker"
    # weights go back to the workers: TensorBoard's control edge
    assert "^driver/for_each_TrainOneStep" in nodes["worker/rollouts"].input


@pytest.mark.parametrize("module", [ppo, apex])
def test_every_edge_of_a_flow_is_there(module: Any) -> None:
    workers = Workers(module.Config(env="CartPole-v1", num_workers=2))
    document = module.plan(ParallelRollouts(workers), workers).to_json()
    graph = graph_def(document)
    names = [node.name for node in graph.node]
    assert len(names) == len(set(names)) == len(document["nodes"])
    edges = [source for node in graph.node for source in node.input]
    pairs = {(e["from"], e["to"], e["kind"] == "data") for e in document["edges"]}
    known = {node["id"] for node in document["nodes"]}
    assert len(edges) == len({p for p in pairs if p[0] in known and p[1] in known})
    assert {edge.lstrip("^") for edge in edges} <= set(names)
