"""Observations and rewards scaled by running statistics, in every place where somebody learns."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_type_hints

import gymnasium
import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import a2c, a3c, async_dqn, dqn, impala, maml, ppo, sac, td3
from rillflow.cli.flags.settings import parse_value
from rillflow.experience.batch import SampleBatch
from rillflow.experience.running_return import RUNNING_RETURN, RunningReturn
from rillflow.learning.make_learner import make_learner
from rillflow.learning.results import Gradients
from rillflow.learning.reward_scale import RewardScale
from rillflow.learning.torch_learner import TorchLearner
from rillflow.policies.normalizer import Moments, as_buffers, moments_in
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.train import AverageGradients
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo
from tests.rl.test_learner import fragment, replayed

SMALL: dict[str, Any] = {"num_workers": 0, "num_envs_per_worker": 4, "rollout_fragment_length": 8}
both = pytest.mark.parametrize("framework", ["numpy", "torch"])
MEAN, COUNT = "normalizer.mean", "normalizer.count"


def far(seed: int = 0, **more: Any) -> SampleBatch:
    """A fragment whose observations are large, far from 0, and partly those of mere resets."""
    batch = fragment(seed, 16, 6)
    valid = np.random.default_rng(seed).random(batch.shape) < 0.8
    obs = {name: batch[name] * 100 + 500 for name in ("obs", "bootstrap_obs")}
    return batch.with_columns(**obs, valid=valid, **more)


def far_replayed(seed: int) -> SampleBatch:
    batch = replayed(seed, rows=32)
    return batch.with_columns(obs=batch["obs"] * 100 + 500, next_obs=batch["next_obs"] * 100 + 500)


def learner_for(algorithm: Any, framework: str, **settings: Any) -> Any:
    config = algorithm.Config(framework=framework, **{"normalize_observations": True, **settings})
    return make_learner(Workers(config).spec, config, 0)


def torques(seed: int, rows: int = 32) -> SampleBatch:
    """What replay gives on Pendulum, with large observations."""
    rng = np.random.default_rng(seed)
    columns = {
        "obs": 500 + 100 * rng.standard_normal((1, rows, 3)),
        "next_obs": 500 + 100 * rng.standard_normal((1, rows, 3)),
        "actions": rng.uniform(-2, 2, (1, rows, 1)),
        "rewards": rng.standard_normal((1, rows)),
        "discount": np.full((1, rows), 0.99),
    }
    return SampleBatch({name: column.astype(np.float32) for name, column in columns.items()})


# -- the learner counts ---------------------------------------------------------------------------


@both
def test_the_learner_counts_the_valid_observations_after_learning_from_them(framework: str) -> None:
    met: list[float] = []

    def prepare(m: Any, batch: Any, cfg: Any) -> Any:
        met.append(m.policy.normalizer.moments.count)
        return ppo.prepare(m, batch, cfg)

    learner = learner_for(ppo, framework, prepare=prepare)
    batches = [far(seed) for seed in range(3)]
    for batch in batches:
        learner.train(batch, 2, 32)
    assert met[-3:] == [0.0, batches[0].steps, batches[0].steps + batches[1].steps]
    rows = np.concatenate([b["obs"][b["valid"]] for b in batches]).astype(np.float64)
    found = moments_in(learner.get_weights())
    assert found.count == len(rows)
    np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.variance, rows.var(0), rtol=1e-10)
    learner.assess(batches[0])
    assert moments_in(learner.get_weights()).count == len(rows)


def test_statistics_do_not_depend_on_the_number_of_workers() -> None:
    one, two = (learner_for(ppo, "numpy") for _ in range(2))
    parts = [far(seed) for seed in range(2)]
    one.train(SampleBatch.concat(parts))
    for part in parts:
        two.train(part)
    ours, theirs = (moments_in(learner.get_weights()) for learner in (one, two))
    assert ours.count == theirs.count
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-12)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-12)


@both
def test_workers_and_the_learner_agree_on_log_probabilities(framework: str) -> None:
    """Also after the statistics have changed: the first ratio of PPO is 1."""
    config = ppo.Config(env=shifted_pole, normalize_observations=True, framework=framework, **SMALL)
    workers = Workers(config)
    worker = RolloutWorker(config, workers.spec, ActorInfo("worker", 0, 0, 1, 1))
    learner = make_learner(workers.spec, config, 1)
    for _ in range(3):
        worker.set_weights(learner.get_weights())
        batch = worker.sample()
        logp, _, _ = learner.m.policy.evaluate(
            *map(learner._tensor, (batch["obs"], batch["actions"]))
            if isinstance(learner, TorchLearner)
            else (batch["obs"], batch["actions"])
        )
        found = logp.detach() if isinstance(learner, TorchLearner) else logp
        np.testing.assert_allclose(np.asarray(found), batch["logp"], atol=2e-6)
        learner.train(batch)
    worker.close()


LEARNED = [
    (ppo, {}, far),
    (a2c, {}, far),
    (impala, {}, lambda seed: far(seed).with_columns(valid=np.ones((16, 6), bool))),
    (dqn, {"target_network_update_freq": 64}, far_replayed),
    (async_dqn, {}, lambda seed: SampleBatch({n: c for n, c in far(seed).items() if n != "valid"})),
    (sac, {"env": "Pendulum-v1", "hidden": (16, 16)}, torques),
    (td3, {"env": "Pendulum-v1", "hidden": (16, 16)}, torques),
]


@pytest.mark.parametrize(
    ("algorithm", "settings", "made"), LEARNED, ids=[a.__name__[-5:] for a, _, _ in LEARNED]
)
def test_the_two_learners_learn_the_same(algorithm: Any, settings: Any, made: Any) -> None:
    """Weights, targets and statistics, with rewards scaled, gradients cut and all else on."""
    more = {"grad_clip_value": 0.01, "scale_rewards": True, "lr": 3e-4}
    fast, slow = (learner_for(algorithm, f, **settings, **more) for f in ("numpy", "torch"))
    for seed in range(3):
        batch = made(seed)
        batch = batch.with_columns(**{RUNNING_RETURN: 3 * batch["rewards"] + 1})
        for one in (fast, slow):
            one.train(batch, 1, 32)
    ours, theirs = fast.get_state(), slow.get_state()
    for part in ("networks", "targets"):
        for name, weights in theirs[part].items():
            for key, array in weights.items():
                np.testing.assert_allclose(
                    ours[part][name][key], array, rtol=1e-5, atol=1e-5, err_msg=f"{name} {key}"
                )
    assert ours["rewards"] == theirs["rewards"]
    slow.set_state(ours)
    assert slow.get_state()["rewards"] == ours["rewards"]


@both
@pytest.mark.parametrize(
    ("algorithm", "made"), [(dqn, far_replayed), (td3, torques)], ids=["hard", "polyak"]
)
def test_targets_take_the_statistics_over_entirely(
    algorithm: Any, made: Any, framework: str
) -> None:
    env = "CartPole-v1" if algorithm is dqn else "Pendulum-v1"
    learner = learner_for(algorithm, framework, env=env)
    name = learner.modules.acts

    def means() -> tuple[Any, Any]:
        nets = learner.m.by_name[name], learner.m.targets[name]
        return tuple(net.get_weights()[MEAN].copy() for net in nets)  # type: ignore[return-value]

    learner.train(made(0))
    before = means()
    assert (before[0] > 300).all()
    assert (before[1] == 0).all()  # it followed before anything was counted, or not at all yet
    learner.update_target()
    learner.train(made(1))
    learner.train(made(2))
    target = means()[1]
    if algorithm is dqn:
        assert np.array_equal(target, before[0])
    else:  # in the second of two updates, when two batches had been counted
        assert (target > 300).all()
    optimised = learner.get_state()["optimisers"][name]
    assert optimised
    assert not any(key.startswith("normalizer") for key in optimised)


def test_several_devices_hold_the_same_statistics() -> None:
    config = dqn.Config(normalize_observations=True, framework="torch")
    spec = Workers(config).spec
    one, two = (TorchLearner(spec, config, 0, devices=("cpu",) * count) for count in (1, 2))
    for seed in range(3):
        one.train(far_replayed(seed))
        two.train(far_replayed(seed))
    for copy in two.copies:
        found = copy.by_name["policy"].get_weights()
        for name, array in one.get_weights().items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


# -- gradients that travel, several policies, tasks ------------------------------------------------


@both
def test_statistics_travel_with_gradients(framework: str) -> None:
    worker, learner = (learner_for(a2c, framework) for _ in range(2))
    batches = [far(seed) for seed in range(2)]
    gradients = [worker.compute_gradients(batch) for batch in batches]
    assert worker.get_weights()[COUNT] == 0
    learner.apply_gradients(AverageGradients()(gradients))
    rows = np.concatenate([b["obs"][b["valid"]] for b in batches])
    np.testing.assert_allclose(learner.get_weights()[MEAN], rows.mean(0, dtype=np.float64))
    assert learner.get_weights()[COUNT] == len(rows)
    with pytest.raises(rf.RunError, match="passes `seen` on"):
        learner.apply_gradients(Gradients(gradients[0].values, 3, {}))


@pytest.mark.parametrize("algorithm", [a3c, async_dqn], ids=["a3c", "async_dqn"])
def test_asynchronous_gradients_are_of_normalised_observations(algorithm: Any) -> None:
    name = algorithm.__name__.rpartition(".")[2]
    trained = rf.train(
        name,
        "CartPole-v1",
        until={"steps": 1500},
        engine="sim",
        normalize_observations=True,
        num_workers=2,
        num_envs_per_worker=4,
        rollout_fragment_length=16,
    )
    counted = float(trained.weights[COUNT])
    assert 1000 < counted <= trained.history[-1]["steps"]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", [a3c, async_dqn], ids=["a3c", "async_dqn"])
def test_gradients_of_a_worker_are_of_rewards_scaled_by_what_it_has_seen(
    algorithm: Any, framework: Any
) -> None:
    """A hundred times the rewards give the same gradients, and so does a worker that goes on."""
    given: dict[str, Any] = {"scale_rewards": True, "framework": framework, "hidden": (8,)}
    given |= {"num_envs_per_worker": 2, "rollout_fragment_length": 12}
    config = algorithm.Config(env=Hundred, **given)
    info = ActorInfo("worker-0", index=0, incarnation=0, seed=4)
    one, other = (RolloutWorker(config, Workers(config).spec, info) for _ in range(2))
    for worker in (one, other):
        worker.set_weights(make_learner(worker.spec, config, 0).get_weights())
    batch = one.sample()
    small = SampleBatch({**batch, "rewards": batch["rewards"] / 100})
    small = small.with_columns(running_return=batch["running_return"] / 100)
    gradients = one.compute_gradients(batch).values
    for name, values in other.compute_gradients(small).values.items():
        np.testing.assert_allclose(values, gradients[name], rtol=1e-3, atol=1e-6)
    again = RolloutWorker(config, Workers(config).spec, info)
    again.set_state(one.get_state())
    batch = one.sample()
    gradients = one.compute_gradients(batch).values
    for name, values in again.compute_gradients(batch).values.items():
        assert np.array_equal(values, gradients[name])


def test_each_of_several_policies_has_statistics_and_a_scale_of_its_own() -> None:
    trained = rf.train(
        "ppo",
        "MultiAgentCartPole",
        policies="each",
        until={"steps": 600},
        engine="sim",
        normalize_observations=True,
        scale_rewards=True,
        num_envs_per_worker=4,
        rollout_fragment_length=16,
        train_batch_size=128,
    )
    weights = [policy.weights for policy in trained.policies.values()]
    assert len(weights) > 1
    assert all(each[COUNT] > 300 for each in weights)
    assert not np.array_equal(weights[0][MEAN], weights[1][MEAN])


def test_tasks_of_meta_learning_count_after_the_update() -> None:
    small = {"num_workers": 2, "inner_adaptation_steps": 1, "maml_optimizer_steps": 1}
    trained = rf.train(
        "maml", "PointGoal", until={"steps": 2000}, engine="sim", normalize_observations=True,
        **small,
    )  # fmt: skip
    counted = float(trained.weights[COUNT])
    assert counted > 1000
    assert counted <= trained.history[-1]["steps"]
    with pytest.raises(rf.BuildError, match="advantages of every round are standardised"):
        maml.Config(scale_rewards=True)


@pytest.mark.proc
def test_a_learner_in_a_process_sends_statistics_with_its_weights() -> None:
    trained = rf.train(
        "impala",
        "CartPole-v1",
        until={"steps": 3000},
        num_workers=2,
        num_envs_per_worker=4,
        learner_placement="process",
        normalize_observations=True,
        scale_rewards=True,
    )
    assert trained.weights[COUNT] > 0
    assert np.isfinite(trained.history[-1]["policy_loss"])


# -- what is saved --------------------------------------------------------------------------------


def test_a_saved_policy_acts_as_it_did_and_is_never_changed_by_acting(tmp_path: Path) -> None:
    trained = rf.train(
        "ppo",
        shifted_pole,
        until={"steps": 2500},
        engine="sim",
        normalize_observations=True,
        **SMALL | {"rollout_fragment_length": 64},
    )
    before = {name: array.copy() for name, array in trained.weights.items()}
    trained.evaluate(2)
    assert all(np.array_equal(trained.weights[name], array) for name, array in before.items())
    trained.save(tmp_path / "p.npz")
    loaded = rf.load(tmp_path / "p.npz", env=shifted_pole)
    assert loaded.weights.keys() == before.keys()
    assert np.array_equal(loaded.weights[MEAN], before[MEAN])
    rng = np.random.default_rng(0)
    for _ in range(20):
        obs = (1000 * rng.normal(0.1, 0.1, 4) + 5000).astype(np.float32)
        assert loaded.act(obs) == trained.act(obs)


def test_settings_that_contradict_each_other_are_told_at_once() -> None:
    with pytest.raises(rf.BuildError, match="set one of the two to False"):
        ppo.Config(env="MountainCar-v0", normalize_observations=True)
    ppo.Config(env="MountainCar-v0", normalize_observations=True, scale_observations=False)
    config = dataclasses.replace(ppo.Config(), normalize_observations=True)
    assert Workers(config).spec.normalize_observations


def test_ppo_normalises_loosely_what_nobody_has_tuned() -> None:
    """Vectors without other settings, for a built-in network; the flag says it, too."""
    assert Workers(ppo.Config(env=shifted_pole)).spec.normalize_observations == "loosely"
    scaled = ppo.Config(env="Pendulum-v1", normalize_observations=None, scale_observations=True)
    assert Workers(scaled).spec.normalize_observations is False
    hint = get_type_hints(ppo.Config)["normalize_observations"]
    found = [parse_value(hint, text) for text in ("loosely", "true", "false", "none", "loose")]
    assert found == ["loosely", True, False, None, "loose"]
    with pytest.raises(rf.BuildError, match=r"normalize_observations must be .*'loosely'"):
        ppo.Config(normalize_observations="loose")  # type: ignore[arg-type]


# -- rewards --------------------------------------------------------------------------------------


def test_running_returns_by_hand() -> None:
    """They begin anew where an episode ended, cut or not, and go on from fragment to fragment."""
    rewards = np.array([[1, 1], [2, 2], [4, 4]], np.float32)
    none = np.zeros((3, 2), bool)
    terminated, truncated = none.copy(), none.copy()
    terminated[1, 0] = truncated[2, 1] = True
    batch = SampleBatch({"rewards": rewards, "terminated": terminated, "truncated": truncated})
    running = RunningReturn(2)
    assert running.written(batch, 0.5)[RUNNING_RETURN].tolist() == [[1, 1], [2.5, 2.5], [4, 5.25]]
    again = RunningReturn(2)
    again.set_state(running.get_state())
    for one in (running, again):
        assert one.written(batch, 0.5)[RUNNING_RETURN][0].tolist() == [3, 1]


def test_rewards_are_divided_by_the_deviation_of_returns() -> None:
    """Of returns 0, 2, 4, 2 the variance is 2; nothing is subtracted, and 100 ends at 10."""
    returns = np.array([[0, 2], [4, 2]], np.float32)
    rewards = np.array([[1, -2], [100, 0]], np.float32)
    batch = SampleBatch({"rewards": rewards, RUNNING_RETURN: returns})
    scale = RewardScale()
    found = scale.scaled(batch, see=True)
    assert RUNNING_RETURN not in found
    assert found["rewards"].dtype == np.float32
    root = np.sqrt(2)
    np.testing.assert_allclose(found["rewards"], [[1 / root, -2 / root], [10, 0]], rtol=1e-6)
    assert rewards[1, 0] == 100
    valid = np.array([[True, False], [False, False]])
    scale.scaled(batch.with_columns(valid=valid), see=True)
    assert scale.moments.count == 5
    scale.scaled(batch, see=False)
    again = RewardScale()
    again.set_state(scale.get_state())
    assert again.moments == scale.moments
    assert scale.moments.variance == pytest.approx(2.24)  # of 0, 2, 4, 2 and 0
    with pytest.raises(rf.RunError, match="needs the column 'running_return'"):
        scale.scaled(SampleBatch({"rewards": rewards}), see=True)


@pytest.mark.parametrize("algorithm", ["ppo", "impala", "dqn", "sac", "a3c"])
def test_scaled_rewards_leave_reported_returns_alone(algorithm: str) -> None:
    """Values are of the size of scaled returns; the returns told are the environment's."""
    env = Hundred if algorithm != "sac" else HundredTorque
    more: dict[str, Any] = {"num_workers": 1, "num_envs_per_worker": 4}
    if algorithm in ("dqn", "sac"):
        more |= {"learning_starts": 64, "training_intensity": 2.0, "train_batch_size": 32}
    trained = rf.train(
        algorithm, env, until={"steps": 4000}, engine="sim", scale_rewards=True, **more
    )
    last = trained.history[-1]
    assert last["return"] == 1000.0
    figure = last.get("mean_q", last.get("value_loss"))
    assert np.isfinite(figure)
    assert abs(figure) < 300  # unscaled returns are about 1000, and value losses half a million


class Hundred(gymnasium.Env[Any, Any]):
    """Ten steps that bring a hundred each."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**_)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        obs = np.full(2, self.t / 10, np.float32)
        return obs, 100.0, self.t == 10, False, {}


class HundredTorque(Hundred):
    """The same, with a continuous action."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)


# -- it helps -------------------------------------------------------------------------------------


class Shifted(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole in units that no network likes: a thousand times larger, and five thousand off."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def observation(self, observation: Any) -> Any:
        return (1000 * observation + 5000).astype(np.float32)


def shifted_pole(**options: Any) -> Any:
    return Shifted(gymnasium.make("CartPole-v1", **options))


def test_ppo_learns_from_badly_scaled_observations_only_if_they_are_normalised() -> None:
    found = {}
    for normalize in (True, False):
        trained = rf.train(
            "ppo",
            shifted_pole,
            until={"steps": 30_000},
            engine="sim",
            num_workers=1,
            **ppo.MANY | {"normalize_observations": normalize},
        )
        found[normalize] = trained.history[-1]["return"]
    assert found[True] > 100
    assert found[False] < 50


def test_buffers_round_trip_through_weights() -> None:
    moments = Moments(np.array([1.0, 2.0]), np.array([3.0, 4.0]), 5.0)
    back = moments_in(as_buffers(moments))
    assert np.array_equal(back.mean, moments.mean)
    assert back.count == 5.0
