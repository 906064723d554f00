"""Q learning of distributions and with noisy layers: switches of every algorithm of q values."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import rillflow as rf
from rillflow.algorithms import apex, async_dqn, dqn, get_algorithm, simple_q
from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import framework_and_reason, make_learner
from rillflow.learning.overview import overview
from rillflow.policies.exploration_schedules import Place
from rillflow.policies.saved import load_policy, save_policy
from rillflow.policies.spec import PolicySpec
from rillflow.rl.workers import Workers
from tests.rl.test_learner import fragment, replayed

ATOMS: dict[str, Any] = {"num_atoms": 3, "v_min": 0.0, "v_max": 2.0}
SMALL: dict[str, Any] = {
    "hidden": (16,),
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 8,
    "learning_starts": 64,
    "train_batch_size": 16,
    "training_intensity": 1.0,
}


def learner(framework: str, **settings: Any) -> Any:
    config = dqn.Config(framework=framework, **settings)
    workers = Workers(config)
    return make_learner(workers.spec, workers.config, 0)


# -- the update, reckoned by hand -----------------------------------------------------------------


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_an_update_is_what_a_hand_reckons(framework: str) -> None:
    """Two actions, returns 0, 1, 2, no layers: the logits are the biases, whatever is seen.

    The network that learns likes the second action, and gives it (1/4, 1/4, 1/2); the target gives
    that one (1/2, 1/2, 0). Reward 1/2 and discount 1/2 move these to returns 1/2 and 1, so that
    (1/4, 3/4, 0) is what should have been.
    """
    one = learner(framework, hidden=(), dueling=False, lr=0.01, grad_clip=None, **ATOMS)
    own = np.log(np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]], np.float32))
    following = np.log(np.array([[1e-9, 1e-9, 1.0], [0.5, 0.5, 1e-9]], np.float32))
    for put, bias in ((one.set_weights, own), (one.set_target_weights, following)):
        zeros = np.zeros((6, 4), np.float32)
        put({"action_head.weight": zeros, "action_head.bias": bias.reshape(-1)})
    row = np.ones((1, 1), np.float32)
    batch = SampleBatch(
        {
            "obs": np.ones((1, 1, 4), np.float32),
            "actions": np.array([[1]]),
            "rewards": 0.5 * row,
            "discount": 0.5 * row,
            "next_obs": np.ones((1, 1, 4), np.float32),
            "weights": 0.5 * row,
            "keys": np.array([[7]]),
        }
    )
    error = 0.25 * math.log(0.25 / 0.25) + 0.75 * math.log(0.75 / 0.25)
    result = one.train(batch)
    assert result.stats["loss"] == pytest.approx(0.5 * error, abs=1e-5)
    assert result.stats["mean_q"] == pytest.approx((0.75 + 1.25) / 2, abs=1e-5)
    assert result.stats["clipped_mass"] == 0
    assert result.rows["td_errors"] == pytest.approx([error], abs=1e-5)
    assert result.rows["keys"].tolist() == [7]
    # chances less the target: 0 for return 0, -1/2 for 1, 1/2 for 2; Adam steps by `lr` each
    moved = one.get_weights()["action_head.bias"].reshape(2, 3) - own
    assert moved[0] == pytest.approx([0, 0, 0], abs=1e-7)
    assert moved[1, 1:] == pytest.approx([0.01, -0.01], rel=0.01)


@pytest.mark.parametrize("algorithm", [dqn, simple_q, apex, async_dqn])
@pytest.mark.parametrize("double_q", [False, True])
def test_both_frameworks_learn_the_same(algorithm: Any, double_q: bool) -> None:
    """Noise included: both draw the same from the learner's generator."""
    noisy = algorithm is not async_dqn
    more = {"worker_priorities": False} if algorithm is apex else {}
    config = algorithm.Config(
        num_atoms=11, v_min=-5.0, v_max=5.0, noisy=noisy, double_q=double_q, hidden=(32,), **more
    )
    workers = Workers(config)
    assert framework_and_reason(workers.spec, workers.config)[0] == "numpy"
    fast = make_learner(workers.spec, workers.config, 3)
    slow = make_learner(workers.spec, dataclasses.replace(config, framework="torch"), 3)
    for seed in range(4):
        batch = fragment(seed, 16, 4) if algorithm is async_dqn else replayed(seed, rows=64)
        results = [one.train(batch, 1, 16) for one in (fast, slow)]
        for name, figure in results[0].stats.items():
            assert figure == pytest.approx(results[1].stats[name], abs=1e-3), name
    ours, theirs = fast.get_weights(), slow.get_weights()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], atol=1e-3, err_msg=name)
    assert fast.rng.bit_generator.state == slow.rng.bit_generator.state


# -- noise ----------------------------------------------------------------------------------------


def noise_of(network: Any) -> bytes:
    """What the noise of a network's last layer is at the moment."""
    if hasattr(network, "noisy"):
        return bytes(network.noisy[-1]._noise[0].tobytes())
    layer = network.model.action_head
    return b"".join(part.numpy().tobytes() for part in layer.noise)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("atoms", [{}, ATOMS])
def test_noise_is_drawn_for_every_update(framework: str, atoms: dict[str, Any]) -> None:
    """Of both networks, and anew for each of several batches of one draw."""
    seen: list[tuple[bytes, bytes]] = []

    def watching(m: Any, rows: Any, cfg: Any) -> Any:
        target = m.targets["policy"]
        seen.append((noise_of(m.policy), noise_of(target)))
        for step in dqn.update(m, rows, cfg):
            seen.append((noise_of(m.policy), noise_of(target)))
            yield step

    one = learner(framework, noisy=True, hidden=(8,), update=watching, **atoms)
    seen.clear()  # of what was tried before
    one.train(replayed(0, rows=64), 1, 16)
    before, after = seen[::2], seen[1::2]
    assert before == after  # none is drawn between the forward pass and the way back
    assert len(before) == 4
    assert len({noise for pair in before for noise in pair}) == 8


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_noise_is_drawn_for_every_step_and_greedy_actions_have_none(model: str) -> None:
    from rillflow.policies.make import make_actor

    space = Box(0, 255, (10, 10, 2), np.uint8) if model == "cnn" else Box(-1, 1, (3,))
    spec = PolicySpec(
        observation_space=space,
        action_space=Discrete(4),
        model=model,  # type: ignore[arg-type]
        head="q",
        noisy=0.5,
    )
    policy: Any = make_actor(spec, 1)
    obs = np.stack([space.sample() for _ in range(6)])
    still, best = np.array(policy.action_values(obs)), policy.greedy(obs)
    drawn = [policy.act_and_value(obs)[2] for _ in range(5)]
    assert len({values.tobytes() for values in drawn}) == 5
    assert np.array_equal(policy.action_values(obs), still)
    assert np.array_equal(policy.greedy(obs), best)
    assert all(not np.allclose(values, still) for values in drawn)
    state = policy.get_state()
    first = [policy.act_and_value(obs)[2] for _ in range(3)]
    policy.set_state(state)
    assert all(np.array_equal(a, policy.act_and_value(obs)[2]) for a in first)


def test_noise_is_factorised_and_as_large_as_it_should_be() -> None:
    """Products of roots of normal numbers: mean 0, and of size 2/pi, as E|x| of each root's square.

    Each is by sigma0 over the root of the inputs at first.
    """
    from rillflow.policies.noise import Noise

    noise, rng = Noise([(3, 4), (2, 3)]), np.random.default_rng(0)
    drawn = [noise.draw(rng) for _ in range(4000)]
    products = np.array([np.outer(*pairs[0]) for pairs in drawn])
    assert products.shape == (4000, 3, 4)
    assert abs(products.mean()) < 0.02
    assert products.var() == pytest.approx(2 / math.pi, rel=0.05)
    weights = learner("numpy", noisy=True, sigma0=0.3, hidden=(9,), dueling=False).get_weights()
    assert np.allclose(weights["trunk.0.weight_sigma"], 0.3 / 2)
    assert np.allclose(weights["action_head.bias_sigma"], 0.3 / 3)


def test_what_a_gradient_needs_of_noise_it_gets() -> None:
    """How noisy the layers are is learned; without a draw of noise nothing would reach it."""
    one = learner("numpy", noisy=True, hidden=(8,), dueling=False)
    first = {name: array.copy() for name, array in one.get_weights().items()}
    for seed in range(3):
        one.train(replayed(seed, rows=32))
    for name, array in one.get_weights().items():
        assert not np.array_equal(array, first[name]), name


def test_workers_are_sent_what_acting_needs() -> None:
    spec = Workers(dqn.Config(noisy=True, hidden=(8,), **ATOMS)).spec
    for name in ("trunk.0.weight", "trunk.0.weight_sigma", "value_head.bias_sigma"):
        assert name in spec.acting_names


@pytest.mark.parametrize("algorithm", ["dqn", "simple_q", "apex"])
def test_with_noisy_layers_no_action_is_random_otherwise(algorithm: str) -> None:
    explorer: Any = get_algorithm(algorithm).Config(noisy=True).explorer()
    assert {explorer.rate(Place(i, 3), steps) for i in range(3) for steps in (0, 10**6)} == {0.0}


# -- settings that contradict each other ----------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"num_atoms": 0}, "num_atoms must be a whole number, at least 1, got 0"),
    ({"num_atoms": 51}, "num_atoms=51 needs v_min and v_max: the least and the largest"),
    ({"num_atoms": 51, "v_max": 1.0}, "num_atoms=51 needs v_min: "),
    ({"v_min": 0.0}, "v_min=0.0 is an end of distributions, and with num_atoms=1 there are none"),
    ({**ATOMS, "v_min": 2.0}, "v_min must be below v_max, got v_min=2.0 and v_max=2.0"),
    ({**ATOMS, "v_min": 3.0}, "v_min must be below v_max"),
    ({**ATOMS, "v_max": math.inf}, "v_max must be a finite number, got inf"),
    ({**ATOMS, "v_max": math.nan}, "v_max must be a finite number, got nan"),
    ({**ATOMS, "v_max": "1:2"}, "v_max is read once, when a run begins"),
    ({"noisy": True, "epsilon": 0.1}, "epsilon=0.1 is how often actions are random, and with noi"),
    ({"noisy": True, "epsilon": "0.5:0.1@100"}, "the noise of the layers explores: leave it out"),
    ({"noisy": True, "final_epsilon": 0.5}, "final_epsilon=0.5 is of random actions, and with"),
    ({"noisy": True, "epsilon_timesteps": 5}, "epsilon_timesteps=5 is of random actions"),
    ({"sigma0": 0.1}, "sigma0=0.1 is how much noise noisy layers have, and noisy=False"),
    ({"noisy": True, "sigma0": 0.0}, "sigma0 must be above 0 and below 100, got 0.0"),
    ({"noisy": True, "memory": "gru"}, "noisy=True is for a policy without a memory"),
    ({**ATOMS, "model": "lstm"}, "num_atoms=3 is for a policy without a memory"),
    ({**ATOMS, "model": lambda spec: None}, "num_atoms=3 changes layers that are built in"),
    ({**ATOMS, "value_rescaling": 0.01}, "value_rescaling makes q values smaller, and distrib"),
    ({"noisy": True, "compile": True}, "noisy=True is not for compiled networks"),
    (
        {**ATOMS, "worker_priorities": True, "prioritized_replay": True},
        "with num_atoms=3 priorities are distances of distributions, which are other numbers",
    ),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(rf.BuildError) as told:
        dqn.Config(**settings)
    assert message in str(told.value)


def test_what_suits_an_environment_contradicts_nobody() -> None:
    """Random actions that nobody asked for are left out without a word."""
    assert dqn.Config(env="CartPole-v1", noisy=True).noisy


def test_noise_needs_one_learner() -> None:
    with pytest.raises(rf.BuildError, match="noisy=True needs one learner"):
        async_dqn.Config(noisy=True)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"num_atoms": 3, "head": "actor_critic"}, "v_min"),
        ({"head": "actor_critic", **ATOMS}, "num_atoms=3 gives q values distributions and needs"),
        ({"noisy": 0.5}, "noisy=0.5 gives noise to networks of q values and needs head='q'"),
        ({"noisy": 0.5, "head": "q", "memory": "lstm"}, "without a memory, found memory='lstm'"),
        ({"noisy": math.nan, "head": "q"}, "noisy must be a finite number above 0, or 0 for none"),
        ({"head": "q", "model": lambda spec: None, **ATOMS}, "this one is your own"),
        ({"head": "q", **ATOMS, "num_atoms": 2.5}, "num_atoms must be a whole number"),
        ({"head": "q", **ATOMS, "v_min": "x"}, "v_min must be a finite number, got 'x'"),
    ],
)
def test_a_spec_that_cannot_work_is_refused(choices: dict[str, Any], message: str) -> None:
    """Also one out of a file: it is compared before any network is made."""
    with pytest.raises(rf.BuildError) as told:
        PolicySpec(observation_space=Box(-1, 1, (3,)), action_space=Discrete(2), **choices)
    assert message in str(told.value)


# -- what else has to do with networks ------------------------------------------------------------


def test_a_saved_policy_keeps_its_distributions(tmp_path: Path) -> None:
    one = learner("numpy", noisy=True, hidden=(8,), **ATOMS)
    save_policy(tmp_path / "one.npz", one.spec, one.get_weights(), {})
    spec, weights, _ = load_policy(tmp_path / "one.npz")
    assert spec == one.spec
    assert all(np.array_equal(weights[n], array) for n, array in one.get_weights().items())


def test_an_overview_tells_of_atoms_and_noise() -> None:
    workers = Workers(dqn.Config(noisy=True, num_atoms=51, v_min=-10.0, v_max=10.0))
    told = str(overview(workers.spec, workers.config))
    assert "noisy dueling q values of 51 atoms, -10 to 10, 4 x" in told
    assert "clipped_mass" in told


@pytest.mark.parametrize("algorithm", ["simple_q", "apex"])
def test_other_algorithms_have_the_switches_too(algorithm: str) -> None:
    more: dict[str, Any] = {"worker_priorities": False} if algorithm == "apex" else {}
    trained = rf.train(
        algorithm,
        until={"steps": 600},
        engine="sim",
        noisy=True,
        **ATOMS,
        **{**SMALL, **more},
    )
    assert np.isfinite(trained.history[-1]["clipped_mass"])
