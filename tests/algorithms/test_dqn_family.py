"""SimpleQ, DQN and Ape-X: the same run from the same seed, on every engine; and they learn."""

import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import get_algorithm
from rillflow.learning.results import RowStats
from rillflow.policies.exploration_schedules import Place
from rillflow.rl.replay_actor import KEY_BITS
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.runs.train import train

SMALL = {
    "hidden": (16, 16),
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 8,
    "learning_starts": 64,
    "train_batch_size": 16,
    "batches_per_draw": 1,
    "training_intensity": 1.0,
    "target_network_update_freq": 32,
}


def small(algorithm):
    """Settings of a short run; where one rate of exploration falls, soon."""
    falls = algorithm in ("simple_q", "dqn")
    return {**SMALL, **({"epsilon_timesteps": 200} if falls else {})}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def flow_of(algorithm, base=None, **settings):
    module = get_algorithm(algorithm)
    base = small(algorithm) if base is None else base
    workers = Workers(module.Config.make(**{**base, **settings}))
    return module.plan(ParallelRollouts(workers), workers), workers


def history(algorithm, engine, seed=0, steps=400, **settings):
    """What a short run reported, without the time it took, and the weights it ended with."""
    trained = train(
        algorithm,
        until={"steps": steps},
        engine=engine,
        seed=seed,
        **{**small(algorithm), **settings},
    )
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in trained.history]
    return str(rows), {name: array.tobytes() for name, array in trained.weights.items()}


@pytest.mark.parametrize("algorithm", ["simple_q", "dqn", "apex"])
def test_same_seed_same_run(algorithm):
    first = history(algorithm, "sim")
    assert first == history(algorithm, "sim")
    assert first != history(algorithm, "sim", seed=1)


@pytest.mark.proc
@pytest.mark.parametrize("shards", [1, 2])
def test_sim_equals_local(shards):
    sharded = {"num_replay_buffer_shards": shards}
    assert history("dqn", "sim", **sharded) == history("dqn", "local", **sharded)


@pytest.mark.proc
def test_apex_on_processes():
    """Both replay actors are used, and nothing is lost."""
    flow, workers = flow_of("apex", max_weight_sync_delay=32, weights_every=1)
    shards: set[int] = set()
    with flow.run("local") as run:
        for results, result in enumerate(run, 1):
            shards.update((result.rows["keys"] >> KEY_BITS).tolist())
            if shards == {0, 1} or results == 1000:
                break
        assert run.shared[workers.weights_key].version == results
        assert run.ledger().balanced
    assert shards == {0, 1}


def test_apex_sends_weights_after_the_delay(weights_put):
    """To whoever made the item: 2 fragments of 16 steps, then new weights, each serialised once."""
    flow, workers = flow_of("apex", max_weight_sync_delay=32, weights_every=1)
    with flow.run("sim") as run:
        for _ in range(30):
            next(run)
        balances = {balance.source: balance for balance in run.ledger().balances()}
        stored = run.stats().operator("for_each(StoreToReplayBuffer)").items
        assert run.shared[workers.weights_key].version == 30
    assert balances["rollouts"].done["stored"] == stored
    assert balances["replay"].done["trained"] >= 30
    assert 1 < len(weights_put) <= 1 + stored // 2


def test_apex_makes_few_snapshots_of_its_weights(weights_put):
    """Of 30 updates the 1st, 9th, 17th and 25th; workers are sent the newest of them."""
    flow, workers = flow_of("apex", max_weight_sync_delay=16, weights_every=8)
    versions = []
    with flow.run("sim") as run:
        for _ in range(30):
            next(run)
            versions.append(run.shared[workers.weights_key].version)
    assert versions == [1] * 8 + [9] * 8 + [17] * 8 + [25] * 6
    assert len(weights_put) <= 1 + 4


@pytest.mark.parametrize("algorithm", ["impala", "apex"])
def test_learner_learns_the_same_wherever_it_lives(algorithm):
    """In the driver, on a thread or in a process: on `sim`, where nothing takes time, it is the
    same run.
    """
    own = {"hidden": (16,)} if algorithm == "impala" else small(algorithm)
    runs = [
        train(algorithm, until={"steps": 500}, engine="sim", learner_placement=place, **own)
        for place in ("thread", "process", "driver")
    ]
    for other in runs[1:]:
        assert runs[0].history[-1]["steps"] == other.history[-1]["steps"]
        for name, array in runs[0].weights.items():
            assert np.array_equal(array, other.weights[name]), name


def test_each_worker_of_apex_explores_at_its_own_rate():
    rate = get_algorithm("apex").Config(num_workers=3).explorer().rate
    assert np.allclose([rate(Place(i, 3), 10**6) for i in range(3)], [0.4, 0.4**4.5, 0.4**8])
    assert rate(Place(), 0) == 0.4


def test_no_workers_is_one_in_the_driver():
    assert history("dqn", "sim", num_workers=0, steps=200)


def test_rows_trained_for_each_step_sampled_are_exact():
    """16 rows for each of 32 steps sampled: two batches of 16 per round, from the start on."""
    flow, workers = flow_of("dqn", training_intensity=1.0)
    with flow.run("sim") as run:
        for _ in range(40):
            next(run)
        sampled = run.stats().operator("for_each(StoreToReplayBuffer)").items
    # 64 rows are needed first; episodes that ended cost a step of their environment each
    assert 20 <= sampled - 2 <= 23
    assert workers.config.train_turns == 2.0


def test_results_carry_errors_and_keys_and_priorities_go_back():
    flow, _ = flow_of("dqn")
    with flow.run("sim") as run:
        results = [next(run) for _ in range(5)]
        assert run.ledger().balanced
    for result in results:
        assert isinstance(result, RowStats)
        assert result.rows["keys"].shape == result.rows["td_errors"].shape == (16,)
        assert set(result.stats) == {"loss", "mean_q"}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", ["simple_q", "dqn", "apex"])
def test_several_batches_of_one_draw_are_as_many_updates(algorithm, framework):
    """Every row of a draw is learned from once; the rows for each step sampled stay the same."""
    flow, workers = flow_of(
        algorithm, framework=framework, batches_per_draw=3, training_intensity=3.0
    )
    assert workers.config.train_turns == 2.0  # of 48 rows, for 32 steps sampled
    with flow.run("sim") as run:
        results = [next(run) for _ in range(4)]
        assert run.ledger().balanced
        state = run.get_state()
    assert [result.steps for result in results] == [48] * 4
    assert all(len(result.rows["keys"]) == 48 for result in results)
    # the learner of Ape-X is an actor, and may be ahead of its results
    learned = _states_with(state, "optimisers")
    assert len(learned) == 1
    updates = int(next(iter(learned[0]["optimisers"]["policy"].values()))["step"])
    assert updates == learned[0]["updates"]
    assert updates == 3 * int(learned[0]["version"])
    assert updates == 12 or (algorithm == "apex" and updates > 12)


def _states_with(state, key):
    """All mappings inside a state that have this key."""
    if not isinstance(state, Mapping):
        parts = state if isinstance(state, list | tuple) else ()
        return [found for part in parts for found in _states_with(part, key)]
    own = [state] if key in state else []
    return own + [found for part in state.values() for found in _states_with(part, key)]


def test_fewer_than_one_batch_a_draw_is_refused():
    with pytest.raises(rf.BuildError, match="batches_per_draw must be at least 1, got 0"):
        get_algorithm("dqn").Config.make(batches_per_draw=0)


@pytest.mark.parametrize("algorithm", ["simple_q", "dqn", "apex"])
def test_two_of_them_run_in_one_flow(algorithm):
    """Each with workers, replay and a learner of its own."""
    every = {"weights_every": 1} if algorithm == "apex" else {}
    (one, first), (two, second) = flow_of(algorithm, **every), flow_of(algorithm, n_step=2, **every)
    with rf.Union(one, two).run("sim") as run:
        for _ in range(40):
            next(run)
        versions = [run.shared[workers.weights_key].version for workers in (first, second)]
        assert run.ledger().balanced
    assert sum(versions) == 40
    assert min(versions) > 10


@pytest.fixture
def weights_put(monkeypatch):
    """Weights that were serialised, one entry each."""
    puts = []

    def counting(put):
        def counted(self, value):
            if isinstance(value, Mapping) and any("trunk" in name for name in value):
                puts.append(value)
            return put(self, value)

        return counted

    for engine in (rf.Sim, rf.Local):
        monkeypatch.setattr(engine, "put", counting(engine.put))
    return puts


@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_weights_are_serialised_once_per_version(weights_put, engine):
    """With two workers as with one; those that nobody was sent are not serialised at all."""
    flow, _ = flow_of("dqn")
    with flow.run(engine, trace=True) as run:
        for _ in range(10):
            next(run)
        told = [event[2:] for event in run.trace if event[1] == "tell"]
    versions = [
        [version for name, method, version in told if (name, method) == (worker, "set_weights")]
        for worker in ("worker-0", "worker-1")
    ]
    assert versions[0] == versions[1] == sorted(set(versions[0]))
    assert len(weights_put) == len(versions[0]) > 2


def test_the_target_network_lags_and_is_saved():
    flow, workers = flow_of("dqn", target_network_update_freq=48)
    with flow.run("sim") as run:
        same = []
        for _ in range(6):
            next(run)
            learner = run.shared[workers.learner_key]
            own, target = learner.get_weights(), learner.target.get_weights()
            same.append(all(np.array_equal(own[name], target[name]) for name in own))
        state = learner.get_state()
    assert same == [False, False, True, False, False, True]
    assert set(state["targets"]["policy"]) == set(state["networks"]["policy"])


def test_without_torch():
    """The modules, and so the workers, need no torch."""
    code = (
        "import sys, rillflow.algorithms.dqn, rillflow.algorithms.simple_q; "
        "import rillflow.algorithms.apex, rillflow.rl.replay_actor; "
        "import rillflow.rl.rollout_worker; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.proc
def test_worker_processes_never_import_torch():
    """Though the algorithm travels with their configuration."""
    _, workers = flow_of("dqn")
    rows = ParallelRollouts(workers)
    assert rows.for_each(lambda _: "torch" in sys.modules).take(2, engine="local") == [False] * 2


def test_continuous_actions_are_refused():
    with pytest.raises(rf.BuildError, match="continuous"):
        flow_of("dqn", env="Pendulum-v1")


def test_plans_are_checked_and_drawn_without_starting():
    flow, _ = flow_of("dqn")
    assert "StoreToReplayBuffer" in flow.explain()
