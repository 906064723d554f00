"""Replay actors and the operators around them."""

from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import dqn
from rillflow.experience.batch import SampleBatch
from rillflow.experience.transitions import transitions
from rillflow.learning.results import RowStats, TrainStats
from rillflow.policies.exploration_schedules import Place
from rillflow.rl.learner_thread import LearnerThread
from rillflow.rl.replay import (
    ParallelReplay,
    Replay,
    StoreToReplayBuffer,
    UpdateReplayPriorities,
    UpdateTargetNetwork,
    create_replay_actors,
)
from rillflow.rl.replay_actor import KEY_BITS, ReplayActor
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.train import TrainOneStep
from rillflow.types import ActorInfo


def info(index=0):
    return rf.ActorInfo(name=f"replay-{index}", index=index, incarnation=0, seed=3)


def rows(start, count):
    """Rows whose reward is their number."""
    numbers = np.arange(start, start + count, dtype=np.float32)
    return SampleBatch({"obs": numbers[None, :, None], "rewards": numbers[None]})


# -- transitions ----------------------------------------------------------------------------------


def fragment(**columns):
    """Three steps of two environments; observations are 10 t + environment."""
    obs = np.array([[0, 1], [10, 11], [20, 21]], np.float32)
    no = np.zeros((3, 2), bool)
    whole = {
        "obs": obs,
        "actions": np.arange(6).reshape(3, 2),
        "logp": np.zeros((3, 2), np.float32),
        "rewards": np.ones((3, 2), np.float32),
        "terminated": no,
        "truncated": no,
        "bootstrap_obs": np.array([30, 31], np.float32),
    }
    return SampleBatch({**whole, **columns})


def test_the_next_observation_is_the_one_of_the_next_step():
    made = transitions(fragment(), 1, 0.5)
    assert len(made["obs"]) == 6
    assert set(made) == {"obs", "actions", "rewards", "discount", "next_obs"}
    assert made["next_obs"].tolist() == [10, 11, 20, 21, 30, 31]
    assert made["discount"].tolist() == [0.5] * 6


def test_an_explicit_next_observation_is_used():
    after = np.full((3, 2), 7, np.float32)
    assert set(transitions(fragment(next_obs=after), 1, 0.99)["next_obs"].ravel()) == {7}


def test_steps_that_only_reset_are_left_out():
    ended = np.array([[True, False], [False, False], [False, False]])
    valid = np.array([[True, True], [False, True], [True, True]])
    made = transitions(fragment(terminated=ended, valid=valid), 2, 0.5)
    assert made["obs"].tolist() == [0, 1, 11, 20, 21]
    assert made["discount"].tolist() == [0, 0.25, 0.25, 0.5, 0.5]
    assert made["rewards"].tolist() == [1, 1.5, 1.5, 1, 1]


# -- the actor ------------------------------------------------------------------------------------


def test_not_ready_before_learning_starts():
    actor = ReplayActor(100, learning_starts=5, train_batch_size=4, info=info())
    actor.add(rows(0, 4))
    with pytest.raises(rf.NotReady):
        actor.replay()
    actor.add(rows(4, 1))
    batch = actor.replay()
    assert batch.steps == 4
    assert batch["keys"].shape == batch["weights"].shape == (1, 4)


def test_keys_name_the_shard_and_the_row():
    actor = ReplayActor(100, 1, 8, info=info(index=3))
    actor.add(rows(0, 50))
    batch = actor.replay()
    assert set((batch["keys"] >> KEY_BITS).ravel()) == {3}
    assert (batch["keys"] - (3 << KEY_BITS)).tolist() == batch["rewards"].astype(int).tolist()


def test_new_priorities_decide_what_is_drawn():
    actor = ReplayActor(100, 1, 8, alpha=1.0, epsilon=0.0, info=info(index=1))
    actor.add(rows(0, 10))
    keys = np.arange(10) + (1 << KEY_BITS)
    actor.update_priorities(keys, np.eye(10)[4])
    assert set(actor.replay()["rewards"].ravel()) == {4}


def test_uniform_replay_has_no_weights_and_ignores_priorities():
    actor = ReplayActor(100, 1, 8, prioritized=False, info=info())
    actor.add(rows(0, 10))
    actor.update_priorities(np.arange(10), np.eye(10)[4])
    assert "weights" not in actor.replay()


def test_the_account_balances():
    actor = ReplayActor(8, 1, 8, info=info())
    actor.add(rows(0, 13))
    assert actor.account() == {"inserted": 13, "resident": 8, "evicted": 5}


def test_state_goes_on_where_it_was():
    one, two = (ReplayActor(8, 1, 8, info=info()) for _ in range(2))
    one.add(rows(0, 13))
    two.set_state(one.get_state())
    for _ in range(3):
        first, second = one.replay(), two.replay()
        assert all((first[name] == second[name]).all() for name in first)


# -- the operators --------------------------------------------------------------------------------


class Rollouts:
    """Gives rows, numbered on."""

    def __init__(self):
        self.next = 0

    def sample(self):
        self.next += 4000
        return rows(self.next, 4000)


class Counting(rf.Operator):
    """An item that is still unread, counted; and whether the driver ever saw a value."""

    takes_ref = True

    def __call__(self, item, ctx):
        ctx.count("refs" if isinstance(item, rf.Ref) else "values")
        return item


@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_rows_reach_replay_unread(engine, monkeypatch):
    """The driver reads batches from replay and nothing else."""
    replay = rf.Actors.of(ReplayActor, 2, 50_000, 6000, 16, name="replay")
    source = rf.from_actors(rf.Actors.of(Rollouts, 2, name="rollouts"), "sample")
    store = source.gather_async().for_each(StoreToReplayBuffer(actors=replay))
    flow = rf.Concurrently(
        [store.for_each(Counting(), name="count"), Replay(actors=replay, num_async=1)],
        mode="async",
        output_indexes=[1],
    )
    read = reads(monkeypatch)
    with flow.run(engine) as run:
        sizes = [next(run)["rewards"].size for _ in range(6)]
        counted = run.stats().operator("count").counters
        stored = sum(balance.done.get("stored", 0) for balance in run.ledger().balances())
        assert run.ledger().balanced
    assert sizes == [16] * 6
    assert counted["refs"] >= 3  # the third add is the first that makes a shard ready
    assert not counted.get("values")
    assert max(read) == 16
    assert stored >= 3


def reads(monkeypatch):
    """The number of rows in each batch that the driver reads from now on."""
    from rillflow.scheduler.envelope import Envelope

    found, read = [], Envelope.read

    def noted(self):
        value = read(self)
        found.append(value["rewards"].size if isinstance(value, SampleBatch) else 0)
        return value

    monkeypatch.setattr(Envelope, "read", noted)
    return found


def test_round_robin_over_shards():
    sent = []

    class Ctx:
        def send(self, to, method, batch):
            sent.append((to.index, method))

        def mark(self, outcome):
            sent.append(outcome)

    store = StoreToReplayBuffer(actors=rf.Actors.of(dict, 2))
    for item in (rows(0, 1), rows(1, 1), rows(2, 1)):
        assert store(item, Ctx()) is item
    assert sent == [(0, "add"), "stored", (1, "add"), "stored", (0, "add"), "stored"]
    assert store.get_state()["turn"] == 1


class Ctx:
    """A context that remembers."""

    def __init__(self, sources=()):
        self.sources, self.sent, self.updates = sources, [], 0
        self.version = 1  # it is the learner too

    def send(self, to, method, *args):
        self.sent.append((to.index, method, *(a.tolist() for a in args)))

    def shared(self, key, make):
        return self

    def update_target(self):
        self.updates += 1

    def count(self, counter, n=1):
        assert counter == "target_updates"


def test_priorities_go_to_the_shard_of_each_row():
    keys = np.array([5, 6, (1 << KEY_BITS) + 5])
    result = RowStats(3, {}, {"keys": keys, "td_errors": np.array([-1.0, 2.0, 3.0])})
    ctx = Ctx(rf.Actors.of(dict, 2)[:])
    assert UpdateReplayPriorities()(result, ctx) is result
    assert ctx.sent == [
        (0, "update_priorities", [5, 6], [1, 2]),
        (1, "update_priorities", [keys[2]], [3]),
    ]


def test_priorities_need_errors():
    with pytest.raises(rf.RunError, match="td_errors"):
        UpdateReplayPriorities()(TrainStats(1, {}), Ctx())


def test_target_networks_are_updated_by_rows_trained():
    """Two instances do not disturb each other."""
    from rillflow.rl.workers import Workers

    workers = Workers(dqn.Config(num_workers=0))
    often, seldom = UpdateTargetNetwork(workers, 10), UpdateTargetNetwork(workers, 35)
    one, two = Ctx(), Ctx()
    for _ in range(10):
        often(TrainStats(5, {}), one)
        seldom(TrainStats(7, {}), two)
    assert (one.updates, two.updates) == (5, 2)
    assert often.get_state()["since"] == 0


def q_workers(**settings):
    from rillflow.rl.workers import Workers

    small = {"hidden": (8,), "num_envs_per_worker": 2, "num_workers": 1}
    sizes = {
        "learning_starts": 16,
        "train_batch_size": 16,
        "batches_per_draw": 1,
        "target_network_update_freq": 48,
    }
    return Workers(dqn.Config.make(**{**small, **sizes, **settings}))


def training(workers, *operators):
    """Batches from replay, trained; then these operators."""
    replay = create_replay_actors(workers.config, placement="driver")
    rollouts = ParallelRollouts(workers, mode="bulk_sync").for_each(StoreToReplayBuffer(replay))
    results = Replay(replay).for_each(TrainOneStep(workers))
    for operator in operators:
        results = results.for_each(operator)
    return rf.Concurrently([rollouts, results], output_indexes=[1])


@pytest.fixture
def updates(monkeypatch):
    """The learner and its version, each time a target network was updated."""
    from rillflow.learning.numpy_learner import NumpyLearner

    found, update = [], NumpyLearner.update_target

    def noted(self):
        found.append((self, self.version))
        update(self)

    monkeypatch.setattr(NumpyLearner, "update_target", noted)
    return found


def test_a_learner_updates_its_target_network_by_itself(updates):
    """Three batches of 16 rows are 48."""
    training(q_workers()).take(10, engine="sim")
    assert [version for _, version in updates] == [3, 6, 9]


def test_an_operator_takes_over_from_the_learner(updates):
    """Then its own number counts, and the setting does not."""
    workers = q_workers()
    training(workers, UpdateTargetNetwork(workers, 80)).take(12, engine="sim")
    assert [version for _, version in updates] == [5, 10]


def test_two_learners_in_one_flow_each_have_their_own_target(updates):
    """One is updated by an operator, the other by itself."""
    one, two = q_workers(), q_workers(target_network_update_freq=32)
    flow = rf.Union(training(one, UpdateTargetNetwork(one, 64)), training(two))
    with flow.run("sim") as run:
        for _ in range(60):
            next(run)
        first, second = (run.shared[workers.learner_key] for workers in (one, two))
        ran = first.version, second.version
    assert min(ran) > 10
    versions = {who: [v for learner, v in updates if learner is who] for who in (first, second)}
    assert versions[first] == list(range(4, ran[0] + 1, 4))
    assert versions[second] == list(range(2, ran[1] + 1, 2))


def test_a_learner_on_a_thread_needs_no_operator_for_its_target():
    """The operator would update a network that nobody trains: it says so."""
    workers = q_workers()
    replay = create_replay_actors(workers.config)
    learner = LearnerThread(workers)
    rollouts = ParallelRollouts(workers, mode="async").for_each(StoreToReplayBuffer(replay))
    results = rf.Dequeue(learner.outqueue).for_each(TrainOneStep(workers))
    flow = rf.Concurrently(
        [
            rollouts,
            Replay(replay).for_each(rf.Enqueue(learner.inqueue)),
            results.for_each(UpdateTargetNetwork(workers, 32)),
        ],
        mode="async",
        output_indexes=[2],
    )
    with pytest.raises(rf.RunError, match="Leave UpdateTargetNetwork out"):
        flow.take(10, engine="sim")


def test_batches_of_all_shards():
    assert ParallelReplay(actors=rf.Actors.of(ReplayActor, 3)).num_shards() == 3


# -- exploration ----------------------------------------------------------------------------------


def test_epsilon_falls_by_steps_of_all_workers():
    config = dqn.Config(
        num_workers=2, initial_epsilon=1.0, final_epsilon=0.0, epsilon_timesteps=100
    )
    rate = config.explorer().rate
    assert [rate(Place(0, 2), steps) for steps in (0, 25, 50, 99)] == [1.0, 0.5, 0.0, 0.0]


def test_bad_settings_are_told_at_once():
    with pytest.raises(rf.BuildError, match=r"n_step .* buffer_size .* final_epsilon") as error:
        dqn.Config.make(n_step=0, buffer_size=10, final_epsilon=2.0)
    assert "learning never starts" in str(error.value)


def test_a_restarted_replay_actor_ignores_priorities_of_its_predecessors_rows() -> None:
    def replay(life: int) -> ReplayActor:
        info = ActorInfo("replay-3", index=3, incarnation=life, seed=0)
        made = ReplayActor(100, learning_starts=1, train_batch_size=20, info=info)
        made.add(SampleBatch({"rewards": np.arange(10.0)[None]}))
        return made

    before, after = replay(0), replay(1)
    keys = before.replay()["keys"].ravel()
    assert not set(keys) & set(after.replay()["keys"].ravel())
    assert set(after.replay()["keys"].ravel() >> KEY_BITS) == {3}
    priorities = after.get_state()
    after.update_priorities(keys, np.full(len(keys), 1e6))
    assert after.strangers == len(keys)
    assert _same(priorities, after.get_state())
    after.update_priorities(after.replay()["keys"].ravel(), np.full(20, 1e6))
    assert not _same(priorities, after.get_state())


def _same(left: Any, right: Any) -> bool:
    trees = [{k: v for k, v in one.items() if "rng" not in k and "random" not in k}
             for one in (left, right)]  # fmt: skip
    return repr(trees[0]) == repr(trees[1])
