"""Training from stacked frames that are kept once gives what whole observations give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rillflow as rf
from rillflow.experience.stacked_frames import Stacks
from rillflow.rl import rollout_worker
from tests.unit.envs.test_preprocessing import pictures

SMALL: dict[str, Any] = {
    "num_workers": 2,
    "num_envs_per_worker": 3,
    "rollout_fragment_length": 6,
    "frame_stack": 4,
    "channels": "first",
    "hidden": (16,),
}
REPLAY: dict[str, Any] = {"learning_starts": 40, "train_batch_size": 16, "buffer_size": 150}
CASES = {
    "ppo": {"train_batch_size": 36, "sgd_minibatch_size": 12, "num_sgd_iter": 2},
    "impala": {"train_batch_size": 36, "learner_placement": "driver"},
    "appo": {"train_batch_size": 36, "learner_placement": "driver"},
    "a2c": {},
    "a3c": {},
    "dqn": REPLAY | {"n_step": 3, "double_q": True},
    "apex": REPLAY | {"n_step": 3, "learner_placement": "driver"},
    "r2d2": REPLAY | {"burn_in": 2, "train_batch_size": 4, "learning_starts": 8},
}


NEXT, SAME, DISABLED = (
    AutoresetMode.NEXT_STEP,
    AutoresetMode.SAME_STEP,
    AutoresetMode.DISABLED,
)
PAIRS = [
    *[(algorithm, mode) for algorithm in ("ppo", "dqn") for mode in (NEXT, SAME, DISABLED)],
    *[("impala", SAME), ("impala", NEXT), ("appo", NEXT), ("apex", SAME), ("apex", NEXT)],
    *[("a2c", NEXT), ("a3c", DISABLED), ("r2d2", SAME)],
]


@pytest.mark.parametrize(("algorithm", "mode"), PAIRS)
def test_the_weights_are_the_same_bit_for_bit(
    algorithm: str, mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From fragments and from replay, with every way to begin an episode."""
    weights = []
    for once in (False, True):
        with monkeypatch.context() as patch:
            if not once:
                patch.setattr(rollout_worker, "stacked_in", lambda *_: 1)
            weights.append(trained(algorithm, mode))
    assert set(weights[0]) == set(weights[1])
    for name, value in weights[0].items():
        np.testing.assert_array_equal(value, weights[1][name], err_msg=name)


def trained(algorithm: str, mode: AutoresetMode) -> Any:
    one = pictures((1, 24, 24))

    def games(num_envs: int) -> Any:
        return SyncVectorEnv([one] * num_envs, autoreset_mode=mode)

    settings = SMALL | CASES[algorithm]
    if algorithm == "r2d2":
        settings |= {"memory_size": 8}
    made = rf.train(algorithm, games, until={"steps": 200}, engine="sim", seed=3, **settings)
    return made.weights


def test_fragments_of_workers_hold_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would compare whole observations with themselves."""
    seen = []
    sample = rollout_worker.RolloutWorker.sample

    def looked_at(self: Any) -> Any:
        batch = sample(self)
        seen.append(type(batch.columns["obs"]))
        return batch

    monkeypatch.setattr(rollout_worker.RolloutWorker, "sample", looked_at)
    trained("ppo", AutoresetMode.NEXT_STEP)
    assert seen
    assert set(seen) == {Stacks}
