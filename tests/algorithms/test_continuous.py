"""SAC, TD3 and DDPG: updates by hand, alike in both frameworks and from a seed; their edges."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rillflow as rf
from rillflow.algorithms import ddpg, get_algorithm, sac, td3
from rillflow.experience.batch import SampleBatch
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.make_learner import make_learner
from rillflow.learning.numpy_learner import NumpyLearner
from rillflow.policies.explorers import Explorer, Exploring
from rillflow.policies.spec import PolicySpec
from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

FRAMEWORKS = ("numpy", "torch")
SMALL: dict[str, Any] = {
    "hidden": (8,),
    "learning_starts": 40,
    "train_batch_size": 16,
    "training_intensity": 8.0,
    "batches_per_draw": 2,
}
each = pytest.mark.parametrize("algorithm", [sac, td3, ddpg], ids=["sac", "td3", "ddpg"])
in_each = pytest.mark.parametrize("framework", FRAMEWORKS)


class Bounded(gymnasium.Env[Any, Any]):
    """Observations at random; an action outside its bounds is an error."""

    def __init__(
        self, low: Any = -1.0, high: Any = 1.0, shape: Any = (1,), dtype: Any = np.float32
    ):
        self.observation_space = spaces.Box(-2, 2, (3,), np.float32)
        ends = [np.broadcast_to(np.array(end, dtype), shape) for end in (low, high)]
        self.action_space = spaces.Box(*ends, shape, dtype)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        taken = np.asarray(action, self.action_space.dtype)
        assert self.action_space.contains(taken), f"{action} in {self.action_space}"
        self.t += 1
        cost = float(np.square(taken).sum())
        return self.observation_space.sample(), -cost, False, self.t >= 20, {}


def replayed(spec: PolicySpec, seed: int = 0, rows: int = 64, **more: Any) -> SampleBatch:
    """What replay gives."""
    rng = np.random.default_rng(seed)
    space: Any = spec.action_space
    unit = rng.random((1, rows, *space.shape), np.float32)
    return SampleBatch(
        {
            "obs": rng.standard_normal((1, rows, *spec.observation_shape), np.float32),
            "actions": (space.low + (space.high - space.low) * unit).astype(np.float32),
            "rewards": rng.standard_normal((1, rows), np.float32),
            "next_obs": rng.standard_normal((1, rows, *spec.observation_shape), np.float32),
            "discount": np.full((1, rows), 0.9, np.float32),
            **more,
        }
    )


# -- the same in both frameworks -------------------------------------------------------------------

ENVS: dict[str, Any] = {
    "Pendulum-v1": "Pendulum-v1",
    "uneven bounds": lambda: Bounded([-1, -3], [2, -1], (2,)),
    "two axes": lambda: Bounded(shape=(2, 3)),
    "float64": lambda: Bounded(dtype=np.float64),
}


def pair(algorithm: Any, **settings: Any) -> tuple[Any, Any]:
    workers = Workers(algorithm.Config(**{"hidden": (16, 16), **settings}))
    config = workers.config
    fast = make_learner(workers.spec, config, 0)
    slow = make_learner(workers.spec, dataclasses.replace(config, framework="torch"), 0)
    assert isinstance(fast, NumpyLearner)
    return fast, slow


def assert_same_states(one: Any, two: Any, atol: float = 2e-4) -> None:
    """Networks and targets, by name."""
    mine, theirs = one.get_state(), two.get_state()
    for part in ("networks", "targets"):
        for name, weights in mine[part].items():
            for key, array in weights.items():
                np.testing.assert_allclose(
                    array, theirs[part][name][key], atol=atol, rtol=1e-3, err_msg=f"{part} {name}"
                )


@each
@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_two_learn_the_same(algorithm: Any, env: str, activation: str) -> None:
    """Weights, targets and figures, after batches and after minibatches of one draw."""
    fast, slow = pair(algorithm, env=ENVS[env], activation=activation, lr=1e-3)
    for seed in range(5):
        data = replayed(fast.acting.spec, seed)
        minibatch = 16 if seed % 2 else None
        results = [one.train(data, 1, minibatch).stats for one in (fast, slow)]
        assert results[0].keys() == results[1].keys()
        for name, value in results[0].items():
            assert value == pytest.approx(results[1][name], abs=2e-3, rel=2e-3), name
    assert fast.updates == slow.updates == 11
    assert_same_states(fast, slow)


@each
def test_weights_and_keys_of_prioritized_replay(algorithm: Any) -> None:
    """Errors are those of the first critic, by the keys of their rows."""
    fast, slow = pair(algorithm, env="Pendulum-v1")
    data = replayed(
        fast.acting.spec,
        weights=np.random.default_rng(3).random((1, 64), np.float32),
        keys=np.arange(64)[None],
    )
    results: list[Any] = [one.train(data, 1, 16) for one in (fast, slow)]
    assert sorted(results[0].rows["keys"]) == list(range(64))
    for name in ("td_errors", "keys"):
        np.testing.assert_allclose(results[0].rows[name], results[1].rows[name], atol=1e-4)
    assert_same_states(fast, slow)


@each
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_goes_on_from_the_state_of_the_other(algorithm: Any, order: Any) -> None:
    """Also with what it draws, and with steps that wait for their turn."""
    learners = pair(algorithm, env="Pendulum-v1")
    one, two = (learners[i] for i in order)
    for seed in range(3):
        one.train(replayed(one.acting.spec, seed))
    two.set_state(one.get_state())
    for seed in range(3, 6):
        for each in (one, two):
            each.train(replayed(one.acting.spec, seed))
    assert_same_states(one, two)


# -- by hand ---------------------------------------------------------------------------------------


def linear(algorithm: Any, framework: str, copies: int = 2, **settings: Any) -> Any:
    """Networks without hidden layers, all of whose weights are known, on one number each."""
    spec = PolicySpec(
        observation_space=spaces.Box(-9, 9, (1,), np.float32),
        action_space=spaces.Box(-2, 2, (1,), np.float32),
        hidden=(),
    )
    config = algorithm.Config(
        hidden=(), framework=framework, adam_epsilon=1e-8, lr=0.01, tau=0.5, **settings
    )
    learner = make_learner(config.modules(spec).acting, config, 0)
    q = {
        "value_head.weight": np.float32([[[1.0, 2.0]], [[0.5, 1.0]]]),
        "value_head.bias": np.float32([[0.25], [0.5]]),
    }
    if copies == 1:
        q = {name: array[0] for name, array in q.items()}
    learner.m.q.set_weights(q)
    learner.m.targets["q"].set_weights(q)
    return learner


ROW = {
    "obs": [[[1.0]]],
    "actions": [[[1.0]]],
    "rewards": [[3.0]],
    "next_obs": [[[2.0]]],
    "discount": [[0.5]],
}


def row() -> SampleBatch:
    return SampleBatch({name: np.array(column, np.float32) for name, column in ROW.items()})


@in_each
def test_a_td3_update_by_hand(framework: str) -> None:
    """One row, no noise, an actor that says tanh(0.5 * obs) of its bound 2.

    Its next action is tanh(1) in -1 ... 1; the target critics give 2 + 2 tanh(1) + 0.25 and
    1 + tanh(1) + 0.5, of which the lower counts. The critics say 1 + 1 + 0.25 and 0.5 + 0.5 + 0.5
    of the row, whose action is 0.5 in -1 ... 1.
    """
    learner = linear(td3, framework, target_noise=0.0)
    actor = {"action_head.weight": np.float32([[0.5]]), "action_head.bias": np.float32([0.0])}
    learner.m.actor.set_weights(actor)
    learner.m.targets["actor"].set_weights(actor)
    goal = 3.0 + 0.5 * (1.5 + np.tanh(1.0))
    result = learner.train(row())
    assert result.stats["q_loss"] == pytest.approx(
        0.5 * ((2.25 - goal) ** 2 + (1.5 - goal) ** 2), rel=1e-5
    )
    assert result.stats["mean_q"] == pytest.approx((2.25 + 1.5) / 2)
    # both critics are below the target: their weights grow by the rate; the actor has its turn
    # in the next update, and so have all targets
    np.testing.assert_allclose(learner.m.q.get_weights()["value_head.bias"], [[0.26], [0.51]])
    assert learner.get_weights()["action_head.weight"] == pytest.approx(0.5)
    np.testing.assert_allclose(
        learner.m.targets["q"].get_weights()["value_head.bias"], [[0.25], [0.5]]
    )
    learner.train(row())
    # more is better: the first critic's value of an action grows with it
    assert learner.get_weights()["action_head.weight"] == pytest.approx(0.51)
    assert learner.m.targets["actor"].get_weights()["action_head.weight"] == pytest.approx(0.505)
    own = learner.m.q.get_weights()["value_head.bias"]
    np.testing.assert_allclose(
        learner.m.targets["q"].get_weights()["value_head.bias"], 0.5 * np.add(own, [[0.25], [0.5]])
    )


@in_each
def test_a_ddpg_update_by_hand(framework: str) -> None:
    """One row, an actor that says tanh(0.5 * obs) of its bound 2; its target, tanh(0.25 * obs).

    The target's next action is tanh(0.5) in -1 ... 1, of which the target critic says
    2 + 2 tanh(0.5) + 0.25. The critic says 1 + 1 + 0.25 of the row, whose action is 0.5 there.
    """
    learner = linear(ddpg, framework, critic_lr=0.02, copies=1)
    for network, weight in ((learner.m.actor, 0.5), (learner.m.targets["actor"], 0.25)):
        weights = {"action_head.weight": [[weight]], "action_head.bias": [0.0]}
        network.set_weights({name: np.float32(array) for name, array in weights.items()})
    goal = 3.0 + 0.5 * (2.25 + 2 * np.tanh(0.5))
    stats = learner.train(row()).stats
    assert stats["q_loss"] == pytest.approx(0.5 * (2.25 - goal) ** 2, rel=1e-5)
    assert stats["mean_q"] == pytest.approx(2.25)
    # the critic was below the target: its weights grow by its own rate, before the actor looks
    np.testing.assert_allclose(learner.m.q.get_weights()["value_head.weight"], [[1.02, 2.02]])
    value = 1.02 + 2.02 * np.tanh(0.5) + 0.27
    assert stats["actor_loss"] == pytest.approx(-value, rel=1e-5)
    # more is better; both targets follow, half of the way
    assert learner.get_weights()["action_head.weight"] == pytest.approx(0.51)
    target = learner.m.targets["actor"].get_weights()["action_head.weight"]
    assert target == pytest.approx((0.25 + 0.51) / 2)
    assert learner.m.targets["q"].get_weights()["value_head.bias"] == pytest.approx(0.26)


@in_each
def test_a_sac_update_by_hand(framework: str) -> None:
    """One row; the actor's width is so small that it always says tanh(0.5 * obs).

    Its logarithm is cut off at -20: the log-probability of an action u is then
    20 - z^2/2 - log(2 pi)/2 - log(1 - tanh(u)^2), with the z that was drawn.
    """
    learner = linear(sac, framework, initial_alpha=0.1, target_entropy=-1.0)
    actor = {
        "action_head.weight": np.float32([[0.5], [0.0]]),
        "action_head.bias": np.float32([0.0, -30.0]),
    }
    learner.m.actor.set_weights(actor)
    rng = np.random.default_rng(0)
    rng.bit_generator.state = learner.rng.bit_generator.state
    z_next, z = (float(rng.standard_normal((1, 1), np.float32)[0, 0]) for _ in range(2))

    def logp(u: float, noise: float) -> float:
        normal = 20 - noise**2 / 2 - 0.5 * np.log(2 * np.pi)
        return float(normal - np.log(1 - np.tanh(u) ** 2))

    goal = 3.0 + 0.5 * (1.5 + np.tanh(1.0) - 0.1 * logp(1.0, z_next))
    stats = learner.train(row()).stats
    expected = 0.5 * ((2.25 - goal) ** 2 + (1.5 - goal) ** 2)
    assert stats["q_loss"] == pytest.approx(expected, rel=1e-4)
    assert stats["alpha"] == pytest.approx(0.1, rel=1e-6)
    assert stats["entropy"] == pytest.approx(-logp(0.5, z), rel=1e-5)
    # the critics as they are after their step: each weight moved by the rate towards the target
    sign = np.sign(goal - np.array([2.25, 1.5]))
    weights = np.array([[1.0, 2.0, 0.25], [0.5, 1.0, 0.5]]) + 0.01 * sign[:, None]
    values = weights @ [1.0, np.tanh(0.5), 1.0]
    assert stats["actor_loss"] == pytest.approx(0.1 * logp(0.5, z) - values.min(), rel=1e-4)
    # entropy is far below what is wanted, so it is worth more: by the rate, in its logarithm
    log_alpha = float(learner.m.log_alpha.get_weights()["value"])
    assert log_alpha == pytest.approx(np.log(0.1) + 0.01, rel=1e-5)
    # half of the way, tau, after the update
    np.testing.assert_allclose(
        learner.m.targets["q"].get_weights()["value_head.bias"][:, 0],
        (weights[:, 2] + [0.25, 0.5]) / 2,
        rtol=1e-5,
    )


# -- runs ------------------------------------------------------------------------------------------


def short(algorithm: Any, env: Any = "Pendulum-v1", **settings: Any) -> Any:
    return rf.train(
        algorithm.__name__.rpartition(".")[2], env, engine="sim", until={"steps": 120},
        **{**SMALL, **settings},
    )  # fmt: skip


@each
@in_each
@pytest.mark.parametrize("env", ENVS)
def test_actions_stay_within_their_bounds(algorithm: Any, framework: str, env: str) -> None:
    """In training, first at random and then with noise, and in evaluation."""
    trained = short(algorithm, ENVS[env], framework=framework)
    assert np.isfinite(trained.history[-1]["q_loss"])
    assert len(trained.evaluate(2)) == 2


@each
@pytest.mark.parametrize(
    "settings",
    [
        {"n_step": 3, "prioritized_replay": True, "num_replay_buffer_shards": 2},
        {"train_batch_size": 1, "training_intensity": 1.0},
        {"scale_observations": True, "hidden": ()},
        {"num_workers": 2, "batches_per_draw": 3},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_with_other_settings(algorithm: Any, settings: dict[str, Any]) -> None:
    assert np.isfinite(short(algorithm, Bounded, **settings).history[-1]["q_loss"])


@each
@in_each
def test_a_resumed_run_equals_the_one_that_was_saved(algorithm: Any, framework: str) -> None:
    """To the last bit, on an environment that can be saved exactly."""

    def started() -> Any:
        workers = Workers(algorithm.Config(env="PointGoal", framework=framework, **SMALL))
        return algorithm.plan(ParallelRollouts(workers), workers).run("sim", seed=5), workers

    run, workers = started()
    with run:
        for _ in range(7):
            next(run)
        state = run.get_state()
        rest = [next(run).stats for _ in range(6)]
        weights = dict(run.shared[workers.weights_key].weights)
    again, workers = started()
    with again:
        again.set_state(state)
        assert [next(again).stats for _ in range(6)] == rest
        found = again.shared[workers.weights_key].weights
        assert all((found[name] == array).all() for name, array in weights.items())


@each
def test_a_network_of_ones_own_is_the_actor(algorithm: Any) -> None:
    """With as many outputs as its head has: of a squashed Gaussian two for each number."""
    from torch import nn

    def model(spec: PolicySpec) -> Any:
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, spec.width))

    assert np.isfinite(short(algorithm, model=model).history[-1]["q_loss"])


@each
def test_workers_receive_the_weights_of_the_actor_alone(algorithm: Any) -> None:
    workers = Workers(algorithm.Config(env="Pendulum-v1", **SMALL))
    with algorithm.plan(ParallelRollouts(workers), workers).run("sim") as run:
        next(run)
        weights = run.shared[workers.weights_key].weights
    assert set(weights) == set(workers.spec.parameter_shapes)


@each
def test_a_policy_is_saved_and_exported(algorithm: Any, tmp_path: Path) -> None:
    """It acts as it did; an exported one is compared with it before it is written."""
    trained = short(algorithm, lambda: Bounded([-1, -3], [2, -1], (2,)))
    trained.save(tmp_path / "policy.npz")
    loaded = rf.load(tmp_path / "policy.npz")
    obs = np.random.default_rng(0).standard_normal((5, 3), np.float32)
    assert np.array_equal(loaded.act(obs), trained.act(obs))
    assert loaded.spec == trained.spec
    pytest.importorskip("onnx")
    from rillflow.results.onnx_export import export_onnx

    assert export_onnx(trained, tmp_path / "policy.onnx").exists()


# -- what they refuse ------------------------------------------------------------------------------


class Pictures(Bounded):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (3, 40, 40), np.uint8)


@each
@pytest.mark.parametrize(
    ("env", "settings", "told"),
    [
        (lambda: Bounded(-np.inf, np.inf), {}, "give it bounds .*RescaleAction.*or use PPO"),
        (lambda: Bounded([0, 1], [0, 2], (2,)), {}, "the same below and above"),
        (Pictures, {}, "an algorithm for images"),
        ("Pendulum-v1", {"model": "lstm"}, "memory='lstm' remembers.*impala"),
        ("Pendulum-v1", {"tau": 0.0}, "tau must be above 0 and at most 1, got 0.0"),
        ("Pendulum-v1", {"dueling": True}, "unknown setting 'dueling'"),
    ],
    ids=["unbounded", "no choice", "pictures", "lstm", "tau", "dueling"],
)
def test_what_cannot_work_is_told_before_anything_starts(
    algorithm: Any, env: Any, settings: Any, told: str
) -> None:
    with pytest.raises(rf.BuildError, match=told):
        Workers(algorithm.Config(env=env, **settings))


@pytest.mark.parametrize("algorithm", [td3, ddpg], ids=["td3", "ddpg"])
def test_discrete_actions_have_no_gradient_to_follow(algorithm: Any) -> None:
    """SAC takes the expectation over them, see test_sac_discrete.py; the others name who does."""
    told = r"found Discrete\(2\): use an algorithm for discrete actions \(SAC, DQN, PPO"
    with pytest.raises(rf.BuildError, match=told):
        Workers(algorithm.Config(env="CartPole-v1"))


@each
@in_each
def test_gradients_do_not_travel(algorithm: Any, framework: str) -> None:
    """There are several networks; the message names them and what to use."""
    workers = Workers(algorithm.Config(env="Pendulum-v1", framework=framework, **SMALL))
    learner = make_learner(workers.spec, workers.config, 0)
    with pytest.raises(rf.BuildError, match=r"one network, but .* has actor, q.*TrainOneStep"):
        learner.compute_gradients(replayed(workers.spec))


# -- an explorer of one's own ----------------------------------------------------------------------


class Curious(Explorer):
    """Acts as the policy says, and notes how sure it was."""

    def act(self, exploring: Exploring, policy: Any, obs: Any, starts: Any) -> Any:
        actions, logp = policy.act(obs)
        return (
            actions,
            logp,
            {"sure": logp > -1, "place": np.full(len(obs), exploring.place.worker)},
        )


@dataclass(frozen=True, kw_only=True)
class CuriousConfig(sac.Config):
    """Settings of SAC with an explorer of one's own."""


Algorithm(
    "curious", CuriousConfig, sac.modules, sac.update, sac.plan, prepare=sac.SAC.prepare,
    explorer=lambda cfg: Curious(),
)  # fmt: skip


def test_an_explorer_of_ones_own_adds_columns() -> None:
    """They are in the fragment, one row for each step."""
    workers = Workers(CuriousConfig(env="Pendulum-v1", **SMALL))
    worker = RolloutWorker(workers.config, workers.spec, ActorInfo("worker-3", 3, 0, 0))
    batch = worker.sample()
    assert batch["sure"].shape == batch["place"].shape == batch["rewards"].shape
    assert np.array_equal(batch["sure"], batch["logp"] > -1)
    assert (batch["place"] == 3).all()


def test_the_agents_of_an_environment_have_actions_that_suit() -> None:
    """Otherwise the error names the policy's settings."""
    config = MultiAgentConfig(
        policies={"one": get_algorithm("td3").Config()}, policy_mapping=lambda agent: "one"
    )
    with pytest.raises(rf.BuildError, match="discrete actions"):
        MultiAgentWorkers(config)
