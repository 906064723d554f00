"""Workers whose rows look ahead beyond their fragments: in replay, in gradients, in checkpoints."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rillflow.algorithms import async_dqn, dqn, simple_q
from rillflow.engines.sim import Sim
from rillflow.engines.sim_faults import Kill
from rillflow.experience.batch import SampleBatch
from rillflow.rl.multi_agent import MultiAgentConfig, Select
from rillflow.rl.replay import StoreToReplayBuffer, create_replay_actors
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers, create_rollout_workers
from rillflow.types import ActorInfo

SMALL: dict[str, Any] = {"hidden": (8,), "num_envs_per_worker": 2, "learning_starts": 8}


class Clock(gym.Env[Any, Any]):
    """Observes (whose it is, episode, time); its reward is 1; episodes last 3 to 7 steps, every
    second one is truncated."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, **_: Any) -> None:
        self.episode, self.time, self.own = -1, 0, 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.own = float(seed % 100_003)
        self.episode, self.time = self.episode + 1, 0
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.array([self.own, self.episode, self.time], np.float32)

    def step(self, action: Any) -> Any:
        self.time += 1
        over = self.time == 3 + self.episode % 5
        return self._seen(), 1.0, over and self.episode % 2 == 0, over and self.episode % 2 == 1, {}


def clocks(mode: AutoresetMode) -> Any:
    def make(num_envs: int = 1, **_: Any) -> Any:
        return SyncVectorEnv([Clock] * num_envs, autoreset_mode=mode)

    return make


def stored(actor: Any) -> dict[str, Any]:
    """The rows of a replay actor."""
    columns: dict[str, Any] = actor.get_state()["columns"]
    return columns


def check(rows: dict[str, Any], n: int) -> None:
    """Each row against what the clock says: the episode decides how far it looks, nothing else."""
    own, episode, time = rows["obs"].T
    length = 3 + episode % 5
    ahead = np.minimum(n, length - time)
    np.testing.assert_array_equal(rows["rewards"], ahead)  # gamma is 1
    assert (rows["next_obs"] == np.stack([own, episode, time + ahead], 1)).all()
    ends = (time + ahead == length) & (episode % 2 == 0)
    np.testing.assert_array_equal(rows["discount"], np.where(ends, 0, 1))
    assert max(Counter(map(tuple, rows["obs"])).values()) == 1, "each step has one row"


def stores(n: int, mode: AutoresetMode, **settings: Any) -> tuple[Any, Any]:
    cfg = simple_q.Config(env=clocks(mode), n_step=n, gamma=1.0, **{**SMALL, **settings})
    replay = create_replay_actors(cfg)
    flow = ParallelRollouts(Workers(cfg), mode="async", num_async=2)
    return flow.for_each(StoreToReplayBuffer(replay)), replay


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(("n", "length"), [(5, 1), (3, 8), (4, 3), (1, 4)])
def test_rows_of_several_workers_in_several_shards(
    n: int, length: int, mode: AutoresetMode
) -> None:
    """Fragments of one worker go to shards in turn: no row ends where its fragment did."""
    flow, replay = stores(n, mode, rollout_fragment_length=length, num_replay_buffer_shards=3)
    with flow.run("sim", seed=3) as run:
        for _ in range(40):
            next(run)
        parts = [stored_of(run, actor) for actor in replay]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    check(rows, n)
    if mode is not AutoresetMode.NEXT_STEP:
        assert len(rows["obs"]) >= 40 * length * 2 - 2 * 2 * (n - 1)


def stored_of(run: Any, actor: Any) -> dict[str, Any]:
    columns: dict[str, Any] = run.call(actor, "get_state")["columns"]
    return columns


def test_a_worker_that_replaces_another_begins_anew() -> None:
    """No window reaches from the steps of the one to those of the other."""
    flow, replay = stores(5, AutoresetMode.SAME_STEP, rollout_fragment_length=2)
    with flow.run(
        Sim(faults=[Kill(actor="worker-0", request=7)]), seed=3, on_failure="restart"
    ) as run:
        for _ in range(40):
            next(run)
        assert run.ledger().balanced
        rows = stored_of(run, replay[0])
    check(rows, 5)
    assert len(set(rows["obs"][:, 0])) == 6, "two environments of each of three workers"


def test_the_first_fragment_of_a_new_worker_joins_those_of_the_others() -> None:
    """They are as long: what does not exist yet is not valid."""
    cfg = simple_q.Config(env=clocks(AutoresetMode.SAME_STEP), n_step=4, **SMALL)
    spec = Workers(cfg).spec
    old, new = (RolloutWorker(cfg, spec, info(index)) for index in range(2))
    old.sample()
    both = SampleBatch.concat([old.sample(), new.sample()])
    assert both.shape == (8 + 3, 4)
    assert both.steps == 2 * 8 + 2 * (8 - 3)


def info(index: int = 0) -> ActorInfo:
    return ActorInfo(f"worker-{index}", index=index, incarnation=0, seed=5 + index)


@pytest.mark.parametrize("env", ["CartPole-v1", Clock])
def test_a_restored_worker_gives_the_rows_of_the_one_that_was_saved(env: Any) -> None:
    """Bit for bit where environments can be saved; else what waited ends, truncated."""
    cfg = dqn.Config(env=env, **SMALL)
    spec = Workers(cfg).spec
    one, two = RolloutWorker(cfg, spec, info()), RolloutWorker(cfg, spec, info())
    one.sample()
    two.set_state(one.get_state())
    kept = two.waiting.kept
    assert kept is not None
    first, second = one.sample(), two.sample()
    if one.envs.exact:
        assert all(np.array_equal(first[name], second[name]) for name in first)
    else:
        last = second["truncated"] | second["terminated"]
        assert last[cfg.n_step - 2].all()
        assert np.array_equal(second["next_obs"][cfg.n_step - 2], kept["bootstrap_obs"])


def test_gradients_of_fragments_shorter_than_their_windows() -> None:
    """The first have no row yet and change nothing; then each has one for every environment."""
    cfg = async_dqn.Config(num_envs_per_worker=3, rollout_fragment_length=1, n_step=4, hidden=(8,))
    flow = async_dqn.plan(ParallelRollouts(workers := Workers(cfg)), workers)
    with flow.run("sim") as run:
        steps = [next(run).steps for _ in range(6 * cfg.num_workers)]
        assert run.ledger().balanced
    assert steps[: 3 * cfg.num_workers] == [0] * 3 * cfg.num_workers
    assert max(steps[3 * cfg.num_workers :]) == 3


def test_policies_of_several_agents_wait_each_for_its_own() -> None:
    """One looks four steps ahead, one a single step."""
    config = MultiAgentConfig(
        policies={"far": dqn.Config(n_step=4), "near": simple_q.Config(n_step=1)},
        policy_mapping={"agent_0": "far", "agent_1": "near"},
        num_envs_per_worker=2,
        rollout_fragment_length=3,
    )
    workers = create_rollout_workers(config)
    (batch,) = ParallelRollouts(workers, mode="bulk_sync").take(1, engine="sim")
    assert (batch["far"].shape, batch["near"].shape) == ((6, 4), (3, 4))
    assert batch["far"].steps == 0
    assert Select(ParallelRollouts(workers, mode="async"), "far").take(2, engine="sim")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_returns_so_far_are_counted_once_where_steps_wait(mode: AutoresetMode) -> None:
    """The scale of rewards goes by the discounted sum since the episode began, across fragments."""
    cfg = dqn.Config(env=clocks(mode), n_step=4, gamma=0.5, scale_rewards=True, **SMALL)
    worker = RolloutWorker(cfg, Workers(cfg).spec, info())
    for _ in range(6):
        batch = worker.sample()
        time = batch["obs"][..., 2][batch["valid"]]
        so_far = 2 * (1 - 0.5 ** (time + 1))
        np.testing.assert_allclose(batch["running_return"][batch["valid"]], so_far, rtol=1e-6)
