"""An algorithm's networks at a glance, built from spaces alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rillflow.algorithms import dqn, impala, ppo, sac, td3
from rillflow.learning.overview import Overview, overview

BOX = spaces.Box(-1, 1, (3,), np.float32)
PUSH = spaces.Box(-2, 2, (2,), np.float32)
SIDES = spaces.Discrete(2)


def of(algorithm: Any, actions: Any, **settings: Any) -> Overview:
    config = algorithm.Config(**settings)
    return overview(config.policy_spec(BOX, actions), config)


def test_sac_has_three_networks_each_trained_by_a_step_of_its_own() -> None:
    found = of(sac, PUSH, hidden=(8,), lr=1e-3, alpha_lr=2e-3)
    assert [line.name for line in found.networks] == ["actor", "q", "log_alpha"]
    assert [step.trains for step in found.steps] == [("q",), ("actor",), ("log_alpha",)]
    assert [line.rate for line in found.networks] == [1e-3, 1e-3, 2e-3]
    assert [line.acts for line in found.networks] == [True, False, False]
    # (3 + 1) * 8 + (8 + 1) * 4, and twice (5 + 1) * 8 + (8 + 1)
    assert [line.numbers for line in found.networks] == [68, 114, 1]
    assert found.framework == "numpy"


def test_delays_and_targets_are_told() -> None:
    assert [step.every for step in of(td3, PUSH, policy_delay=3).steps] == [1, 3]
    (line,) = of(dqn, SIDES, target_network_update_freq=500).networks
    assert line.target == "copied every 500 rows"
    assert "follows by 0.005 in 2 updates" in str(of(td3, PUSH))


def test_why_torch_learns_is_told() -> None:
    remembers = "the network 'policy' remembers, by memory="
    assert of(impala, SIDES, model="lstm").reason == f"{remembers}'lstm'"
    assert of(ppo, SIDES, memory="gru").reason == f"{remembers}'gru'"
    (line,) = of(dqn, SIDES, memory="gru", memory_size=16).networks
    assert line.what == "dueling q values on gru of 16 on mlp"
    found = of(ppo, SIDES, framework="torch")
    assert (found.framework, found.reason) == ("torch", "framework='torch'")


def test_an_update_of_ones_own_that_needs_torch_is_named() -> None:
    def mine(m: Any, rows: Any, cfg: Any) -> Any:
        import torch

        from rillflow.learning.update import Step

        yield Step(torch.relu(m.policy.values(rows.obs)).mean())

    found = of(ppo, SIDES, update=mine)
    assert found.framework == "torch"
    assert "mine uses what the tape has not: TypeError" in found.reason


def test_text_mermaid_and_json_tell_the_same() -> None:
    found = of(sac, PUSH)
    for name in ("actor", "q", "log_alpha"):
        assert name in str(found)
        assert f"trains ==> {name}" in found.to_mermaid()
    told = found.to_json()
    assert [line["name"] for line in told["networks"]] == ["actor", "q", "log_alpha"]
    assert told["steps"][0]["trains"] == ["q"]
