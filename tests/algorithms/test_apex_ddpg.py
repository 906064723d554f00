"""Ape-X-DDPG: Ape-X's plan with DDPG's update; and the noise of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import apex_ddpg, ddpg, get_algorithm
from rillflow.policies.explorers import Gaussian, OrnsteinUhlenbeck
from rillflow.rl.replay_actor import KEY_BITS
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers

SMALL: dict[str, Any] = {
    "env": "Pendulum-v1",
    "num_envs_per_worker": 2,
    "hidden": (8,),
    "learning_starts": 40,
    "train_batch_size": 16,
    "training_intensity": 8.0,
    "batches_per_draw": 2,
}


def started(engine: str = "sim", **settings: Any) -> tuple[Any, Workers]:
    workers = Workers(apex_ddpg.Config(**{**SMALL, **settings}))
    return apex_ddpg.plan(ParallelRollouts(workers), workers).run(engine, seed=5), workers


def test_errors_go_back_to_the_replay_actors_that_rows_came_from() -> None:
    """Each result has one of every row, by its key."""
    run, _ = started()
    shards: set[int] = set()
    with run:
        for result in [next(run) for _ in range(20)]:
            assert result.rows["keys"].shape == result.rows["td_errors"].shape == (32,)
            shards.update((result.rows["keys"] >> KEY_BITS).tolist())
        assert run.ledger().balanced
    assert shards == {0, 1}


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg", "apex_ddpg"])
def test_rows_are_as_likely_as_their_errors_say(algorithm: str) -> None:
    """Those that were learned from; all others have one priority."""
    module = get_algorithm(algorithm)
    workers = Workers(module.Config(**SMALL, prioritized_replay=True))
    with module.plan(ParallelRollouts(workers), workers).run("sim") as run:
        for _ in range(10):
            next(run)
        state = run.get_state()
    found = [len(np.unique(masses)) for masses in _found(state, "masses")]
    assert found
    assert min(found) > 10


def _found(state: Any, key: str) -> list[Any]:
    """All that stands under a key, anywhere inside a state."""
    if isinstance(state, Mapping):
        own = [state[key]] if key in state else []
        return own + [found for part in state.values() for found in _found(part, key)]
    parts = state if isinstance(state, list | tuple) else ()
    return [found for part in parts for found in _found(part, key)]


@pytest.mark.proc
def test_it_learns_beside_its_workers() -> None:
    """Two of them, which are sent the actor alone; nothing is lost."""
    learns_beside_its_workers("local")


@pytest.mark.ray
@pytest.mark.proc
@pytest.mark.usefixtures("users_ray")
def test_it_learns_beside_its_workers_on_ray() -> None:
    learns_beside_its_workers("ray")


def learns_beside_its_workers(engine: str) -> None:
    run, workers = started(engine, max_weight_sync_delay=32)
    with run:
        for _ in range(30):
            next(run)
        assert run.shared[workers.weights_key].version == 30
        assert set(run.shared[workers.weights_key].weights) == set(workers.spec.parameter_shapes)
        assert run.ledger().balanced
        sources = {balance.source for balance in run.ledger().balances()}
    assert sources >= {"rollouts", "replay"}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_resumed_run_equals_the_one_that_was_saved(framework: str) -> None:
    """To the last bit, with drifting noise, queues and two shards of replay."""
    settings = {"env": "PointGoal", "framework": framework}
    run, workers = started(**settings)
    with run:
        for _ in range(7):
            next(run)
        state = run.get_state()
        rest = [next(run).stats for _ in range(6)]
        weights = dict(run.shared[workers.weights_key].weights)
    again, workers = started(**settings)
    with again:
        again.set_state(state)
        assert [next(again).stats for _ in range(6)] == rest
        found = again.shared[workers.weights_key].weights
        assert all((found[name] == array).all() for name, array in weights.items())


@pytest.mark.parametrize(
    "settings",
    [
        {"num_workers": 0},
        {"num_workers": 1, "learner_placement": "driver"},
        {"n_step": 1, "prioritized_replay": False, "num_replay_buffer_shards": 1},
        {"noise": "gaussian", "weights_every": 4, "learner_placement": "thread"},
        {"exploration_noise": rf.Linear(0.4, 0.1, steps=200)},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_with_other_settings(settings: dict[str, Any]) -> None:
    known = {**SMALL, **settings}
    trained = rf.train("apex_ddpg", engine="sim", until={"steps": 300}, **known)
    assert np.isfinite(trained.history[-1]["actor_loss"])
    assert len(trained.evaluate(2)) == 2


def test_the_noise_is_a_switch() -> None:
    for module in (ddpg, apex_ddpg):
        explorer = module.Config(learning_starts=70, noise_theta=0.3).explorer()
        assert isinstance(explorer, OrnsteinUhlenbeck)
        assert (explorer.theta, explorer.random_first) == (0.3, 70)
        explorer = module.Config(learning_starts=70, noise="gaussian").explorer()
        assert isinstance(explorer, Gaussian)
        assert explorer.random_first == 70
    assert isinstance(ddpg.Config().explorer(), OrnsteinUhlenbeck)


@pytest.mark.parametrize("module", [ddpg, apex_ddpg], ids=["ddpg", "apex_ddpg"])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"noise": "gaussian", "noise_theta": 0.1}, "noise_theta=0.1 is for noise that drifts"),
        ({"noise_theta": 1.5}, "noise_theta must be between 0 and 1, or None, got 1.5"),
        ({"exploration_noise": -0.1}, "exploration_noise must be 0 or above, got -0.1"),
        ({"critic_lr": 0.0}, "critic_lr must be above 0, or None, got 0.0"),
        ({"noise": "pink"}, "noise must be one of 'ornstein_uhlenbeck', 'gaussian'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_that_contradict_each_other_are_refused(
    module: Any, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(rf.BuildError, match=told):
        module.Config(**settings)


def test_the_noise_of_the_first_worker_has_powers_below_it() -> None:
    with pytest.raises(rf.BuildError, match=r"exploration_noise .* must be at most 1, got 1.5"):
        apex_ddpg.Config(exploration_noise=1.5)
    assert ddpg.Config(exploration_noise=1.5).exploration_noise == 1.5


def test_the_critic_learns_at_a_rate_of_its_own() -> None:
    for module in (ddpg, apex_ddpg):
        workers = Workers(module.Config(env="Pendulum-v1", critic_lr=0.02))
        modules = workers.config.modules(workers.spec)
        assert modules.optimisers["q"].lr == 0.02
        assert "actor" not in modules.optimisers
