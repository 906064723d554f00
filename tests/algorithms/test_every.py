"""What holds for every algorithm: engines with several workers, resuming, page, curve, goal.

`test_settings_are_read.py` has its settings, `test_gates.py` its goals.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.algorithms import NAMES
from rillflow.results import record_data
from tests.algorithms.test_offline import ENVS as WITH_DATA
from tests.runs.test_resume import ALGORITHMS as RESUMED

ROOT = Path(__file__).parents[2]
if str(ROOT / "benchmarks") not in sys.path:
    sys.path.append(str(ROOT / "benchmarks"))  # they are scripts: they find each other by folder

from _rllib_rows import ROWS  # noqa: E402
from gate import GATES  # noqa: E402

SMALL: dict[str, Any] = {"num_workers": 2, "num_envs_per_worker": 2, "rollout_fragment_length": 8}
REPLAY = SMALL | {"learning_starts": 64, "train_batch_size": 16, "training_intensity": 1.0}
BATCH = SMALL | {"train_batch_size": 64}
DATA = {"num_workers": 2, "train_batch_size": 64, "batches_per_draw": 2, "hidden": (8,)}
SETTINGS: dict[str, dict[str, Any]] = {
    "a2c": BATCH,
    "a3c": SMALL,
    "apex": REPLAY,
    "apex_ddpg": REPLAY,
    "appo": BATCH,
    "async_dqn": SMALL,
    "bc": DATA,
    "cql": DATA,
    "ddpg": REPLAY,
    "dqn": REPLAY,
    "impala": BATCH,
    "iql": DATA,
    "maml": SMALL | {"rollout_fragment_length": 20},
    "marwil": DATA,
    "pg": BATCH,
    "ppo": BATCH | {"sgd_minibatch_size": 32, "num_sgd_iter": 2},
    "r2d2": REPLAY | {"memory_size": 8, "burn_in": 4},
    "rainbow": REPLAY,
    "sac": REPLAY,
    "simple_q": REPLAY,
    "td3": REPLAY,
}
STEPS = 400
WITHOUT_GOAL = {
    "maml": "tests/algorithms/test_maml.py: it adapts to tasks it has not seen",
}
"""algorithms for which neither we nor RLlib ask a return, and what holds them instead"""


def test_the_table_has_every_algorithm() -> None:
    assert set(SETTINGS) == set(NAMES)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("local", marks=pytest.mark.proc),
        pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow]),
    ],
)
@pytest.mark.filterwarnings("ignore:waiting for")  # on a busy machine Ray's actors start slowly
@pytest.mark.parametrize("name", NAMES)
def test_it_learns_with_several_workers(
    name: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also where only the rollouts, or the reading of data, are distributed."""
    if engine == "ray":
        request.getfixturevalue("users_ray")
    given = dict(SETTINGS[name])
    if SETTINGS[name] is DATA:
        env = "Pendulum-v1" if name in ("cql", "iql") else "CartPole-v1"
        record_data(env, tmp_path / "data", steps=400, seed=1)
        given |= {"data": str(tmp_path / "data"), "eval_every": None}
    trained = rf.train(name, until={"steps": STEPS}, seed=1, engine=engine, **given)
    last = trained.history[-1]
    assert last["steps"] >= STEPS
    losses = [last[figure] for figure in last if "loss" in figure]
    assert losses
    assert all(map(math.isfinite, losses))


@pytest.mark.parametrize("name", NAMES)
def test_a_test_resumes_it_exactly(name: str) -> None:
    """It is among those that are cut and go on, or among those that do so with data."""
    with_data = {module.__name__.rpartition(".")[2] for module in WITH_DATA}
    assert name in {**RESUMED, **dict.fromkeys(with_data)}


@pytest.mark.parametrize("name", NAMES)
def test_its_page_says_what_is_distributed(name: str) -> None:
    text = (ROOT / "docs" / "algorithms" / f"{name}.md").read_text()
    assert "workers" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_goal_holds_it(name: str) -> None:
    held = set(GATES) | {row.algorithm for row in ROWS} | set(WITHOUT_GOAL)
    assert name in held
