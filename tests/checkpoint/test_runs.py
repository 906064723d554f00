"""A run that is saved to disk and loaded goes on as if nothing had happened, on `sim`."""

import itertools

import pytest
import torch

from rillflow.algorithms import get_algorithm
from rillflow.checkpoint import CheckpointStore
from rillflow.engines.sim import Sim
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from tests.checkpoint.states import same
from tests.scheduler.test_state import FLOWS

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def through_the_store(directory, state):
    with CheckpointStore(directory) as store:
        store.save(step=1, state=state)
    with CheckpointStore(directory) as store:
        return store.newest().state


@pytest.mark.parametrize("build", FLOWS, ids=lambda build: build.__name__)
def test_a_flow_goes_on(tmp_path, build):
    for cut in (0, 5):
        with build().run(Sim(latency=lambda rng: rng.random()), seed=5) as run:
            list(itertools.islice(run, cut))
            state = run.get_state()
            saved = through_the_store(tmp_path, state)
            assert same(saved, state)
            rest, ledger = list(itertools.islice(run, 12)), str(run.ledger())
        with build().run(Sim(latency=lambda rng: rng.random()), seed=5) as resumed:
            resumed.set_state(saved)
            assert list(itertools.islice(resumed, 12)) == rest
            assert str(resumed.ledger()) == ledger


SMALL = {"hidden": (16, 16), "num_envs_per_worker": 2, "rollout_fragment_length": 8}
REPLAY = {
    **SMALL,
    "learning_starts": 64,
    "train_batch_size": 16,
    "training_intensity": 1.0,
    "target_network_update_freq": 32,
}
PPO = {**SMALL, "train_batch_size": 64, "num_sgd_iter": 2, "sgd_minibatch_size": 32}
ALGORITHMS = {"ppo": PPO, "a3c": SMALL, "impala": SMALL, "dqn": REPLAY, "apex": REPLAY}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_training_goes_on(tmp_path, algorithm):
    """The same results bit for bit; in the end the state of a run that never saw a disk."""

    def build():
        module = get_algorithm(algorithm)
        workers = Workers(module.Config.make(env="CartPole-v1", **ALGORITHMS[algorithm]))
        return module.plan(ParallelRollouts(workers), workers)

    def resumed(state):
        with build().run(Sim(latency=lambda rng: rng.random()), seed=3) as run:
            run.set_state(state)
            return list(itertools.islice(run, 4)), run.get_state()

    with build().run(Sim(latency=lambda rng: rng.random()), seed=3) as run:
        list(itertools.islice(run, 4))
        state = run.get_state()
        saved = through_the_store(tmp_path, state)
        assert same(saved, state)
        rest = list(itertools.islice(run, 4))
    from_disk, from_memory = resumed(saved), resumed(state)
    assert same(from_disk[0], rest)
    assert same(from_disk, from_memory)
