"""Learning with memory: whole sequences, from workers, from replay and of several agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import a2c, async_dqn, dqn, pg, ppo
from rillflow.experience.batch import BOOTSTRAP, STATE, SampleBatch
from rillflow.learning import rows as rows_of
from rillflow.learning.torch_learner import TorchLearner
from rillflow.policies.explorers import Explorer, Sampled
from rillflow.policies.remembering import Remembering
from rillflow.policies.torch_policy import TorchPolicy
from rillflow.rl.replay import create_replay_actors
from rillflow.rl.replay_actor import ReplayActor
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

pytestmark = pytest.mark.usefixtures("one_thread")
MODES = {"NEXT_STEP": "CartPole-hidden-velocity", "SAME_STEP": "Corridor", "cut": "ConstantReward"}
SMALL: dict[str, Any] = {"hidden": (8,), "memory_size": 6, "num_envs_per_worker": 3}
MEMORIES = ("lstm", "gru")
INFO = ActorInfo("worker-0", 0, 0, seed=3)


class Recalling(torch.nn.Module):
    """A network of a user's own: the sum of what was seen, and layers on it."""

    state_shape = (2,)

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.spec = spec
        self.trunk = torch.nn.Linear(spec.observation_size, 2)
        self.outputs = torch.nn.Linear(2, spec.width)
        self.critic = torch.nn.Linear(2, 1)

    def forward(self, obs: Any, state: Any, starts: Any) -> Any:
        seen = []
        for x, start in zip(torch.tanh(self.trunk(obs)), starts, strict=True):
            state = 0.5 * state.masked_fill(start[:, None], 0) + x
            seen.append(state)
        known = torch.stack(seen)
        if self.spec.head == "q":
            return self.outputs(known), state
        return self.outputs(known), self.critic(known).squeeze(-1), state


def worker_of(config: Any) -> tuple[RolloutWorker, TorchLearner]:
    """A worker, and a learner with the same weights."""
    workers = Workers(config)
    learner = TorchLearner(workers.spec, config, 5, devices=("cpu",))
    worker = RolloutWorker(config, workers.spec, INFO)
    worker.set_weights(learner.get_weights())
    return worker, learner


def played(worker: RolloutWorker, fragments: int) -> SampleBatch:
    batch = worker.sample()
    for _ in range(fragments - 1):
        batch = worker.sample()
    return batch


# -- actors and critics ----------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [*MEMORIES, "own"])
@pytest.mark.parametrize("mode", MODES)
def test_the_first_minibatch_finds_the_probabilities_of_the_workers(mode: str, memory: str) -> None:
    """From the stored state, over ends of episodes and of fragments, at every row."""
    chosen = {"model": Recalling} if memory == "own" else {"memory": memory}
    config = ppo.Config.make(env=MODES[mode], rollout_fragment_length=25, **SMALL, **chosen)
    worker, learner = worker_of(config)
    batch = played(worker, 3)
    rows = learner.rows(batch)
    assert rows_of.time_major(rows)
    assert rows.obs.shape[:2] == (25, 3)
    assert ("valid" in rows) == (mode == "NEXT_STEP" and not batch["valid"].all())
    with torch.no_grad():
        first = rows_of.take(rows, np.array([2, 0]))
        logp, _, _ = learner.m.policy.evaluate_rows(first)
    np.testing.assert_allclose(logp, batch["logp"][:, [2, 0]], atol=1e-5)


@pytest.mark.parametrize("memory", MEMORIES)
def test_advantages_are_from_values_with_the_memory_of_each_episode(memory: str) -> None:
    """Also of the final observation of a cut episode, which the next fragment never shows."""
    config = a2c.Config.make(
        env="ConstantReward", env_config={"limit": 4}, memory=memory, rollout_fragment_length=10,
        lambda_=0.0, **SMALL,
    )  # fmt: skip
    worker, learner = worker_of(config)
    batch = played(worker, 2)  # begins two steps into an episode
    rows = learner.rows(batch)
    policy = learner.m.policy
    # the same by hand: what is seen in an episode is always one, so values follow its length alone
    ones = torch.ones(6, 1, 1)
    begins = torch.tensor([[True], *[[False]] * 5])
    zero = torch.tensor(policy.initial_state(1))
    with torch.no_grad():
        values = policy.values_recurrent(ones, zero, begins)[0][:, 0].numpy()
    age = (np.arange(10) + 2) % 4
    expected = 1 + config.gamma * values[age + 1] - values[age]
    for env in range(3):
        np.testing.assert_allclose(rows.advantages[:, env], expected, atol=1e-5)
    np.testing.assert_allclose(rows.targets[:, 0], expected + values[age], atol=1e-5)


@pytest.mark.parametrize("algorithm", [ppo, a2c, pg])
def test_rows_that_are_no_steps_change_nothing(algorithm: Any) -> None:
    """Neither the loss nor the standardised advantages, whatever stands in them."""
    config = algorithm.Config.make(
        env="CartPole-hidden-velocity", memory="lstm", rollout_fragment_length=40, **SMALL
    )
    worker, learner = worker_of(config)
    batch = played(worker, 2)
    resets = ~batch["valid"]
    assert resets.any()
    spoiled = {name: np.array(column) for name, column in batch.items()}
    for name in ("rewards", "logp"):
        spoiled[name][resets] = 1e3
    sizes = []
    for columns in (batch, SampleBatch(spoiled)):
        rows = learner.rows(columns)
        advantages = rows.advantages[rows.valid]
        if algorithm is not a2c:
            assert float(advantages.mean()) == pytest.approx(0, abs=1e-5)
            assert float(advantages.std()) == pytest.approx(1, abs=1e-4)
        sizes.append(learner.look_at(rows)[1])
    assert sizes[0] == sizes[1]
    assert batch.steps == rows_of.weight(rows) < 120


@pytest.mark.parametrize(("size", "sequences"), [(64, [4, 4]), (39, [2] * 4), (3, [1] * 8)])
def test_minibatches_are_whole_sequences(size: int, sequences: list[int]) -> None:
    """As many as the rows that are asked for hold; one, if they hold none."""
    rows = {"obs": torch.zeros(16, 8, 2), STATE: torch.zeros(8, 6)}
    orders = list(rows_of.orders(rows, size, np.random.default_rng(0)))
    taken = [rows_of.take(rows, chosen)["obs"].shape for chosen in orders]
    assert taken == [(16, count, 2) for count in sequences]


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "a3c", "pg", "impala", "appo", "async_dqn"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_plans_train_what_remembers(algorithm: str, memory: str) -> None:
    """One environment is enough, and all weights of the memory are learned."""
    small = {"hidden": (8,), "memory_size": 6, "num_workers": 1, "num_envs_per_worker": 1}
    settings: dict[str, Any] = {**small, "rollout_fragment_length": 16}
    if algorithm in ("ppo", "a2c", "pg", "impala", "appo"):
        settings["train_batch_size"] = 16
    trained = rf.train(
        algorithm, "CartPole-hidden-velocity", until={"steps": 64}, engine="sim",
        memory=memory, **settings,
    )  # fmt: skip
    first = TorchPolicy(trained.spec, 0).get_weights()
    changed = [n for n in first if not np.array_equal(first[n], trained.weights[n])]
    assert {n for n in first if n.startswith(memory)} <= set(changed)


# -- explorers -------------------------------------------------------------------------------------


class Curious(Explorer):
    """Asks for outputs, and for the best action, and acts as it is drawn."""

    def act(self, exploring: Any, policy: Any, obs: Any, starts: Any) -> Any:
        best = policy.greedy(obs)
        outputs = policy.outputs(obs)
        assert np.array_equal(outputs.argmax(-1), best)
        return *policy.act(obs), {"best": best}


@pytest.mark.parametrize("explorer", [Curious(), Sampled(random_first=10**6)])
@pytest.mark.parametrize("memory", MEMORIES)
def test_memory_moves_on_once_a_step_whatever_an_explorer_asks(explorer: Any, memory: str) -> None:
    """Several times, or not at all as in the first steps at random; its columns are kept."""
    config = ppo.Config.make(env="Corridor", memory=memory, rollout_fragment_length=9, **SMALL)
    worker, learner = worker_of(config)
    worker.exploring = explorer.begin(worker.spec, worker.exploring.place)
    batch = worker.sample()
    assert worker.remembering is not None
    with torch.no_grad():
        columns = (torch.from_numpy(batch[name]) for name in ("obs", STATE, "starts"))
        *_, after = learner.m.policy.values_recurrent(*columns)
    np.testing.assert_allclose(worker.remembering.state, after, atol=1e-6)
    assert ("best" in batch) == isinstance(explorer, Curious)


def test_a_worker_plays_whole_episodes_with_memory() -> None:
    """As `results` does: the policy of a corridor cannot be better than chance without it."""
    config = ppo.Config.make(env="Corridor", memory="gru", **SMALL)
    worker, _ = worker_of(config)
    returns = worker.play(5, greedy=True)
    assert len(returns) == 5
    assert set(returns) <= {-1.0, 1.0}
    assert worker.starts.all()


# -- replay ----------------------------------------------------------------------------------------


def q_config(**settings: Any) -> Any:
    given = {"env": "ConstantReward", "env_config": {"limit": 4}, "memory": "lstm"}
    sizes = {"rollout_fragment_length": 6, "burn_in": 3, "learning_starts": 6, "n_step": 2}
    return dqn.Config.make(**{**given, **sizes, **SMALL, "train_batch_size": 12, **settings})


def test_a_sequence_begins_with_the_end_of_the_one_before() -> None:
    """Each step is learned from once; the state stored is the one before the burn-in."""
    worker, learner = worker_of(q_config(env="CartPole-hidden-velocity", env_config={}))
    one, two, three = worker.sample(), worker.sample(), worker.sample()
    assert [b.shape for b in (one, two)] == [(9, 3), (9, 3)]
    assert not one["valid"][:3].any()
    assert one["starts"][3].all()
    for name in ("obs", "actions", "rewards", "starts"):
        assert np.array_equal(two[name][:3], one[name][-3:])
    assert not two["valid"][:3].any()
    assert two.steps == two["valid"].sum() <= 18
    with torch.no_grad():
        seen = (torch.from_numpy(np.array(two[name][:6])) for name in ("obs", "starts"))
        obs, starts = seen
        state = torch.from_numpy(np.array(two[STATE]))
        *_, after = learner.m.policy.q_values_recurrent(obs, state, starts)
    np.testing.assert_allclose(after, three[STATE], atol=1e-6)


def replayed(config: Any, worker: RolloutWorker, fragments: int = 4) -> SampleBatch:
    options = config.replay_options
    assert create_replay_actors(config).name == "replay"
    actor = ReplayActor(**options, info=INFO)
    for _ in range(fragments):
        actor.add(worker.sample())
    return actor.replay()


@pytest.mark.parametrize("double", [True, False])
def test_targets_look_ahead_within_their_sequence(double: bool) -> None:
    """Computed by hand with one pass over each episode: the final observation of a cut episode has
    its episode's memory, and the last steps look less far."""
    config = q_config(double_q=double, dueling=False, batches_per_draw=1)
    worker, learner = worker_of(config)
    target = learner.m.targets["policy"]
    for parameter in target.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    batch = replayed(config, worker)
    assert batch["obs"].shape[:2] == (9, 2)
    rows = learner.rows(batch)
    q, chooser = dqn.update.__globals__["q_and_chooser"](learner.m, rows, config)
    # what is seen is always one, so that values follow the age of the episode alone
    whole = torch.ones(5, 1, 1), torch.tensor(learner.m.policy.initial_state(1))
    begins = torch.tensor([[True], *[[False]] * 4])
    with torch.no_grad():
        online = learner.m.policy.q_values_recurrent(*whole, begins)[0][:, 0].numpy()
        other = target.q_values_recurrent(*whole, begins)[0][:, 0].numpy()
    for column in range(2):
        (first,) = np.flatnonzero(batch["starts"][3:, column])[:1]
        for t in range(6):
            age = (t - first) % 4
            last = min(t + 1, 5, t + 3 - age)  # two steps, the sequence's end, the episode's end
            steps = last - t + 1
            expected = sum(config.gamma**i for i in range(steps))
            assert rows.rewards[t, column] == pytest.approx(expected)
            assert rows.discount[t, column] == pytest.approx(config.gamma**steps)
            seen = slice(None), rows.actions[t, column]
            np.testing.assert_allclose(q.detach()[t, column], online[age], atol=1e-5)
            np.testing.assert_allclose(rows.next_q[t, column], other[age + steps], atol=1e-5)
            by = online if double else other
            np.testing.assert_allclose(chooser[t, column], by[age + steps], atol=1e-5)
            assert seen is not None


def test_priorities_are_of_sequences() -> None:
    """Nine tenths of the largest error and one tenth of the mean; steps of burn-in have no part."""
    config = q_config(env="CartPole-hidden-velocity", env_config={}, batches_per_draw=1)
    worker, learner = worker_of(config)
    batch = replayed(config, worker)
    rows = learner.rows(batch)
    (step,) = dqn.update(learner.m, rows, config)
    q, chooser = dqn.update.__globals__["q_and_chooser"](learner.m, rows, config)
    best = chooser.argmax(-1, keepdim=True)
    targets = rows.rewards + rows.discount * rows.next_q.gather(-1, best)[..., 0]
    errors = (targets - q.gather(-1, rows.actions[..., None])[..., 0]).detach().abs().numpy()
    for column in range(2):
        own = errors[batch["valid"][3:, column], column]
        expected = 0.9 * own.max() + 0.1 * own.mean()
        assert float(step.stats["td_errors"][column]) == pytest.approx(expected, rel=1e-4)
    assert np.array_equal(step.stats["keys"], batch["keys"][0])


def test_neither_network_learns_from_burn_in() -> None:
    """Its rewards, actions and ends do not matter; what was seen in it does."""
    config = q_config(env="CartPole-hidden-velocity", env_config={}, batches_per_draw=1)
    worker, learner = worker_of(config)
    batch = replayed(config, worker)

    def loss(**changes: Any) -> float:
        columns = {name: np.array(column) for name, column in batch.items()}
        for name, value in changes.items():
            columns[name][:3] = value
        return learner.look_at(learner.rows(SampleBatch(columns)))[1]

    assert loss(rewards=9.0, actions=0, terminated=True) == loss()
    assert loss(obs=3.0, starts=False) != loss()


@pytest.mark.parametrize("algorithm", ["dqn", "simple_q", "apex"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_plans_with_replay_train_what_remembers(algorithm: str, memory: str) -> None:
    """Prioritized or not, with the settings that they have for a memory."""
    trained = rf.train(
        algorithm, "CartPole-hidden-velocity", until={"steps": 800}, engine="sim", memory=memory,
        hidden=(8,), memory_size=6, num_workers=1, num_envs_per_worker=4, learning_starts=200,
        training_intensity=1.0,
    )  # fmt: skip
    assert trained.history[-1]["steps"] >= 800
    first = TorchPolicy(trained.spec, 0).get_weights()
    changed = [n for n in first if not np.array_equal(first[n], trained.weights[n])]
    assert {n for n in first if n.startswith(memory)} <= set(changed)


def test_a_network_of_ones_own_remembers_in_replay() -> None:
    trained = rf.train(
        "dqn", "Corridor", until={"steps": 600}, engine="sim", model=Recalling, dueling=False,
        num_workers=0, num_envs_per_worker=4, learning_starts=200, training_intensity=1.0,
    )  # fmt: skip
    assert trained.spec.recurrent
    assert len(trained.evaluate(2)) == 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"burn_in": 4}, "burn_in=4 is for a policy that remembers"),
        ({"memory": "gru", "burn_in": 9, "rollout_fragment_length": 8}, "at most rollout_fragment"),
        ({"memory": "gru", "burn_in": -1}, "burn_in must be at least 0, got -1"),
        ({"memory": "gur"}, "memory must be .*got 'gur'"),
        ({"lstm_size": 8, "memory_size": 9}, "lstm_size is an older name of memory_size"),
    ],
)
def test_settings_of_a_memory_that_cannot_work(settings: Any, told: str) -> None:
    with pytest.raises(rf.BuildError, match=told):
        dqn.Config.make(**settings)


def test_settings_that_a_memory_needs_are_there_unless_others_are_given() -> None:
    """Whether it is ours, by its older name, or in a network of one's own."""
    for chosen in ({"memory": "gru"}, {"model": "lstm"}, {"model": Recalling}):
        assert async_dqn.Config.make(**chosen).rollout_fragment_length == 32
    assert async_dqn.Config.make(memory="gru", rollout_fragment_length=9).fragment_steps == 72
    assert async_dqn.Config.make().rollout_fragment_length == 4
    assert dqn.Config.make(memory="gru", lstm_size=9).memory_size == 9


def test_fragments_of_gradients_in_workers_are_sequences() -> None:
    """Without replay there is no burn-in, and what follows the last step is in the fragment."""
    config = async_dqn.Config.make(env="Corridor", memory="gru", **SMALL)
    worker, learner = worker_of(config)
    batch = worker.sample()
    assert BOOTSTRAP in batch
    assert batch["obs"].shape[0] == 32
    gradients = learner.compute_gradients(batch).values
    assert all(np.abs(gradient).sum() > 0 for name, gradient in gradients.items())


def test_remembering_is_of_one_policy() -> None:
    """States begin at nothing, and those of the last steps are kept if somebody wants them."""
    spec = Workers(q_config()).spec
    known = Remembering(TorchPolicy(spec), 3, keep=2)
    assert not known.state.any()
    assert len(known.recent) == 0
    exploring = Sampled().begin(spec, None)  # type: ignore[arg-type]
    for start in (True, False, False):
        known.step(exploring, np.ones((3, 1), np.float32), np.full(3, start))
    assert len(known.recent) == 2
    assert not np.array_equal(known.recent[0], known.state)


def test_rollouts_of_several_workers_are_joined() -> None:
    """States side by side with their environments."""
    workers = Workers(q_config(num_workers=2))
    (batch,) = ParallelRollouts(workers, mode="bulk_sync").take(1, engine="sim")
    assert batch[STATE].shape[0] == batch.shape[1] == 6


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("memory", MEMORIES)
def test_what_was_shown_two_steps_ago_is_repeated(memory: str) -> None:
    """At least 0.95 of the best return, 18, greedily; without a memory it is 4.5 by chance."""
    trained = rf.train(
        "ppo", "RepeatPast", memory=memory, num_workers=0, engine="sim", seed=1,
        until={"return": 17.1, "steps": 150_000},
    )  # fmt: skip
    assert np.mean(trained.evaluate(100)) >= 17.1
