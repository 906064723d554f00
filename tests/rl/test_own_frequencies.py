"""Policies of one environment, each trained as often as its own settings say, counted exactly."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_frequencies.py"
ROUND = 2 * 8 * 32
"""steps of each agent in a round: workers, copies, steps"""


@pytest.mark.parametrize("rounds", [4, 12])
def test_each_policy_is_trained_as_often_as_its_settings_say(rounds: int) -> None:
    """PPO after each round, PPO after every fourth, DQN two draws of four batches a round."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    example = runpy.run_path(str(EXAMPLE))
    flow, workers = example["flow"], example["workers"]
    batches: Counter[str] = Counter()
    order: list[str] = []
    with flow.run("sim", seed=0) as run:
        while batches["often"] <= rounds or batches["dqn"] < 2 * rounds:
            name = next(run).policy
            batches[name] += 1
            order.append(name)
        learners = {name: run.shared[one.learner_key] for name, one in workers.policies.items()}
        stored = run.stats().operator("for_each(StoreToReplayBuffer)").items
        assert run.ledger().balanced
    torch.set_num_threads(threads)
    # a round begins when all have done with the one before, so nobody is a round ahead
    assert batches["often"] == rounds + 1
    assert batches["seldom"] == rounds // 4
    assert stored in (rounds, rounds + 1)
    assert 2 * (stored - 1) <= batches["dqn"] <= 2 * stored
    cfg = workers.policies["dqn"].config
    assert cfg.train_turns == ROUND / (64 * 4) == 2
    assert learners["dqn"].updates == 4 * batches["dqn"]
    assert {name: one.version for name, one in learners.items()} == batches
    seldom = [order[:at].count("often") for at, name in enumerate(order) if name == "seldom"]
    assert [round(often / 4) for often in seldom] == list(range(1, rounds // 4 + 1))
