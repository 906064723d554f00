from __future__ import annotations

import pytest

import rillflow as rf
from rillflow.runs.train import Trained


@pytest.fixture(scope="session")
def cartpole() -> Trained:
    """A CartPole policy after a moment of training."""
    return rf.train("ppo", "CartPole-v1", until={"steps": 8000}, engine="sim", num_workers=1)


@pytest.fixture(scope="session")
def remembering() -> Trained:
    """A policy with an lstm, after a moment of training."""
    return rf.train(
        "impala",
        "CartPole-hidden-velocity",
        until={"steps": 1000},
        engine="sim",
        num_workers=1,
        model="lstm",
        lstm_size=16,
    )
