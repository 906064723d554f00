"""Whatever can be set is looked at by a run: for every algorithm, setting by setting."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import fields
from typing import Any

import pytest

import rillflow as rf
from rillflow.algorithms import NAMES, get_algorithm
from rillflow.learning.config import AlgorithmConfig
from rillflow.results import record_data

MANY = 25
"""a function that looks at more settings than this copies, saves, checks or shows all there are"""
CHECKS = {"problems", "require_ready", "notes"}
"""functions that look at settings to refuse them, or to tell of them"""


class Readers:
    """Which functions looked at which settings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._found: dict[Any, set[str]] = defaultdict(set)
        names = {field.name for name in NAMES for field in fields(get_algorithm(name).Config)}

        def looked_at(config: Any, name: str) -> Any:
            if name in names:
                code = sys._getframe(1).f_code
                self._found[code].add(name)
            return object.__getattribute__(config, name)

        monkeypatch.setattr(AlgorithmConfig, "__getattribute__", looked_at, raising=False)

    def read(self) -> set[str]:
        """Settings that somebody read who did not read them all."""
        found = [
            names
            for code, names in self._found.items()
            if len(names) <= MANY and not CHECKS & set(code.co_qualname.split("."))
        ]
        return set().union(*found)


LAST: dict[str, Any] = {"framework": "torch", "final_lr": 1e-5}
REMEMBERS = {"memory": "lstm", **LAST}
USUAL: list[dict[str, Any]] = [{}, LAST]
"""what is set in the runs of an algorithm, where it is not this:"""
RUNS: dict[str, list[dict[str, Any]]] = {
    "apex": [{"worker_priorities": True}, {"noisy": True}, REMEMBERS],
    "async_dqn": [{}, REMEMBERS],
    "dqn": [{"prioritized_replay": True, "worker_priorities": True}, {"noisy": True}, REMEMBERS],
    "maml": [{}, {"final_lr": 1e-5}],
    "r2d2": [LAST],
    "simple_q": [{}, {"noisy": True}, REMEMBERS],
}
STEPS = {"maml": 3000}
"""of a run, where 300 are not enough for a result"""

ELSEWHERE = {
    "record_updates": "tests/rl/test_repeated_updates.py: of learners in torch",
    "env_timeout": "tests/engines, tests/rl/test_limits.py: of workers that are processes",
    "worker_memory": "tests/rl/test_limits.py: of workers that are processes",
    "max_nonfinite_steps": "tests/rl/test_skips.py: of losses that are no numbers",
}
"""settings that a healthy run on `sim` without a GPU has no use for, and where they are tested"""
REFUSED = {
    "a3c": {"train_batch_size": 99},
    "apex": {"initial_epsilon": 0.5, "final_epsilon": 0.5, "epsilon_timesteps": 99},
    "async_dqn": {"sigma0": 0.1},
    "bc": {"num_envs_per_worker": 3, "rollout_fragment_length": 3},
    "cql": {"num_envs_per_worker": 3, "rollout_fragment_length": 3},
    "iql": {"num_envs_per_worker": 3, "rollout_fragment_length": 3},
    "marwil": {"num_envs_per_worker": 3, "rollout_fragment_length": 3},
    "r2d2": {"initial_epsilon": 0.5, "final_epsilon": 0.5, "epsilon_timesteps": 99, "sigma0": 0.1},
    "rainbow": {"value_rescaling": 0.1, "burn_in": 3},
    "simple_q": {"worker_priorities": True},
    "maml": {"framework": "numpy"},
}
"""settings that an algorithm has for the sake of its relatives, and has no use for: refused"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What those learn from that learn from data, by environment."""
    folder = tmp_path_factory.mktemp("data")
    envs = ("CartPole-v1", "Pendulum-v1")
    for env in envs:
        record_data(env, folder / env, steps=200, seed=1)
    return {env: str(folder / env) for env in envs}


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_read(
    name: str, data: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = get_algorithm(name).Config
    known = {field.name for field in fields(config)}
    usual: dict[str, Any] = {"eval_every": 100, "eval_episodes": 1}
    usual |= {"learning_starts": 64} if "learning_starts" in known else {}
    usual |= {"data": data[config().env]} if "data" in known else {}
    readers = Readers(monkeypatch)
    for settings in RUNS.get(name, USUAL):
        until = {"steps": STEPS.get(name, 300)}
        rf.train(name, until=until, engine="sim", seed=1, **usual, **settings)
    unread = known - readers.read() - set(ELSEWHERE) - set(REFUSED.get(name, ()))
    assert not unread, f"{name} has settings that nothing looks at: refuse them"


@pytest.mark.parametrize(
    ("name", "setting"), [(name, setting) for name, given in REFUSED.items() for setting in given]
)
def test_what_is_of_no_use_is_refused(name: str, setting: str) -> None:
    with pytest.raises(rf.BuildError, match=setting):
        get_algorithm(name).Config.make(**{setting: REFUSED[name][setting]})


CONTRADICTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("ppo", {"lr_updates": 50}, r"lr_updates=50 is how long the learning rate falls, and final_lr"),
    ("ppo", {"lr_updates": 50, "lr": "1e-3:0"}, r"which an lr that is one number falls to"),
    ("a2c", {"memory_size": 32}, r"memory_size=32 is of the cells of a memory, and memory=None"),
    ("ppo", {"clip_param": 0.0}, r"clip_param must be above 0, got 0.0"),
    ("ppo", {"lr": float("inf")}, r"lr must be a finite number, got inf"),
    ("a2c", {"entropy_coef": float("nan")}, r"entropy_coef must be a finite number, got nan"),
    ("impala", {"vf_loss_coef": -1.0}, r"vf_loss_coef must be 0 or above"),
    ("a3c", {"lambda_": 2.0}, r"lambda_ must be between 0 and 1"),
    ("dqn", {"epsilon": 0.1, "final_epsilon": 0.5}, r"final_epsilon=0.5 is of the line"),
    ("async_dqn", {"epsilon": 0.1, "epsilon_timesteps": 9}, r"epsilon_timesteps=9 is of the line"),
    ("sac", {"prioritized_replay_alpha": 0.9}, r"alpha=0.9 is about rows that are drawn by prior"),
    (
        "rainbow",
        {"prioritized_replay": False, "prioritized_replay_epsilon": 0.1},
        r"epsilon=0.1 is",
    ),
    ("dqn", {"prioritized_replay": True, "prioritized_replay_alpha": -1.0}, r"alpha must be 0 or"),
    ("apex", {"max_weight_sync_delay": -5}, r"max_weight_sync_delay must be 0 or above, got -5"),
    ("td3", {"target_noise_clip": 0.0}, r"target_noise_clip=0 leaves nothing of target_noise=0.2"),
    ("cql", {"target_entropy": float("nan")}, r"target_entropy must be a finite number, got nan"),
]


@pytest.mark.parametrize(
    ("name", "settings", "told"), CONTRADICTIONS, ids=[f"{n}-{s}" for n, s, _ in CONTRADICTIONS]
)
def test_settings_that_leave_each_other_nothing_to_do_are_refused(
    name: str, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(rf.BuildError, match=told):
        get_algorithm(name).Config.make(**settings)


@pytest.mark.parametrize("name", NAMES)
def test_what_suits_an_environment_contradicts_nothing(name: str) -> None:
    """And neither does it beside a setting that leaves others, which nobody gave, nothing to do."""
    algorithm = get_algorithm(name)
    envs = [env for env in algorithm.tuned if env not in ("memory", "atari", "atari-gpu")]
    off = {"final_lr": None, "memory": None, "prioritized_replay": False, "epsilon": 0.1}
    off |= {"noisy": False, "worker_priorities": False}
    known = {field.name for field in fields(algorithm.Config)}
    if name == "r2d2":
        del off["memory"]
    for env in envs:
        for setting, value in off.items():
            if setting not in known or (setting, name) == ("epsilon", "rainbow"):
                continue
            more = {"noisy": False} if setting == "epsilon" else {}
            algorithm.Config.make(env=env, **{setting: value}, **more)


def test_a_setting_that_nothing_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is checked, copied or saved does not count."""
    config = get_algorithm("ppo").Config
    readers = Readers(monkeypatch)
    made = config(clip_param=0.1)
    made.problems()
    [getattr(made, field.name) for field in fields(made)]
    assert "clip_param" not in readers.read()
    assert made.clip_param == 0.1
    assert "clip_param" in readers.read()
