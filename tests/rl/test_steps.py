"""Steps of an update: who is trained, when, at which rate; targets; what a learner saves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import rillflow as rf
from rillflow.algorithms import dqn, ppo
from rillflow.experience.batch import SampleBatch
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.config import AlgorithmConfig
from rillflow.learning.make_learner import make_learner
from rillflow.learning.update import Rows, Step, Steps
from rillflow.policies.modules import Modules, Optimiser, actor_critic, q_of_action, scalar
from rillflow.policies.spec import PolicySpec
from rillflow.policies.target_networks import Hard, Polyak
from rillflow.rl.workers import Workers
from tests.rl.test_learner import equal, fragment, replayed

SPEC = PolicySpec(
    observation_space=spaces.Box(-9, 9, (2,), np.float32),
    action_space=spaces.Box(-1, 1, (1,), np.float32),
    hidden=(),
)
FRAMEWORKS = ("numpy", "torch")


def rows_of(m: Any, batch: Any, cfg: Any) -> Rows:
    return Rows(batch)


def learner(framework: str, update: Any, *, spec: PolicySpec = SPEC, **roles: Any) -> Any:
    """A learner of an actor and two numbers, `one` and `two`, by an update of the test's own."""

    @dataclass(frozen=True, kw_only=True)
    class Config(AlgorithmConfig):
        lr: float = 0.5
        grad_clip: float | None = None
        adam_epsilon: float = 1e-8

    def modules(spec: PolicySpec, cfg: Any) -> Modules:
        return Modules(
            actor=actor_critic(spec), one=scalar(1.0), two=scalar(2.0), acts="actor", **roles
        )

    Algorithm("test", Config, modules, update, lambda *_: None, prepare=rows_of)
    config = Config(framework=framework)
    return make_learner(spec, config, 0)


def batch(steps: int = 1) -> SampleBatch:
    return SampleBatch({"rewards": np.zeros((1, steps), np.float32)})


def number(lr: Any, name: str) -> float:
    return float(lr.m.by_name[name].get_weights()["value"])


def target(lr: Any, name: str) -> float:
    return float(lr.m.targets[name].get_weights()["value"])


def both_down(m: Any, rows: Rows, cfg: Any) -> Steps:
    """Adam's first step is the rate, whatever the gradient."""
    yield Step(3 * m.one() + 5 * m.two(), trains=("one", "two"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_network_has_an_optimiser_with_its_own_rate(framework: str) -> None:
    """The settings' for those that say nothing; what is not trained stays."""
    lr = learner(framework, both_down, optimisers={"two": Optimiser(lr=0.25)})
    before = lr.get_weights()
    lr.train(batch())
    assert number(lr, "one") == pytest.approx(1.0 - 0.5)
    assert number(lr, "two") == pytest.approx(2.0 - 0.25)
    assert equal(dict(before), dict(lr.get_weights()))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_network_has_a_clip_of_its_own(framework: str) -> None:
    """Gradients 3 and 5, cut to 1 and left alone: what Adam remembers is a tenth of each."""
    lr = learner(
        framework,
        both_down,
        optimisers={"one": Optimiser(clip=1.0), "two": Optimiser(clip=math.inf)},
    )
    lr.train(batch())
    slots = lr.get_state()["optimisers"]
    assert float(slots["one"]["value"]["exp_avg"]) == pytest.approx(0.1, rel=1e-4)
    assert float(slots["two"]["value"]["exp_avg"]) == pytest.approx(0.5, rel=1e-4)
    assert slots["actor"] == {}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_step_may_wait_for_its_turn(framework: str) -> None:
    """Of five updates the second and the fourth; a loss that is a function is not called before."""
    called = []

    def update(m: Any, rows: Rows, cfg: Any) -> Steps:
        yield Step(m.one() * 1.0, trains="one", stats={"one": m.one()})

        def later() -> Any:
            called.append(float(m.frozen.one()))
            return m.two() * 1.0

        yield Step(later, trains="two", every=2, stats={"two": m.frozen.two()})

    lr = learner(framework, update)
    called.clear()  # it was tried before
    seen = []
    for _ in range(5):
        result = lr.train(batch())
        seen.append(number(lr, "two"))
        assert ("two" in result.stats) == (len(seen) % 2 == 0)
    assert np.allclose(seen, [2.0, 1.5, 1.5, 1.0, 1.0])
    assert np.allclose(called, [0.0, -1.0], atol=1e-6)  # after the first step of that update


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_comes_after_a_step_sees_the_new_weights(framework: str) -> None:
    def update(m: Any, rows: Rows, cfg: Any) -> Steps:
        yield Step(m.one() * 1.0, trains="one")
        yield Step(m.two() * 1.0, trains="two", stats={"one": m.frozen.one()})

    assert learner(framework, update).train(batch()).stats == {"one": pytest.approx(0.5)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_network_that_is_not_there_cannot_be_trained(framework: str) -> None:
    def update(m: Any, rows: Rows, cfg: Any) -> Steps:
        yield Step(m.one() * 1.0, trains=("one", "three"))

    with pytest.raises(rf.RunError, match="found 'three'; there are actor, one, two"):
        learner(framework, update).train(batch())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_without_names_all_are_trained(framework: str) -> None:
    def update(m: Any, rows: Rows, cfg: Any) -> Steps:
        yield Step(m.one() + m.two())

    lr = learner(framework, update)
    lr.train(batch())
    assert (number(lr, "one"), number(lr, "two")) == pytest.approx((0.5, 1.5))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_loss_that_depends_on_no_network_is_told(framework: str) -> None:
    def update(m: Any, rows: Rows, cfg: Any) -> Steps:
        yield Step(m.frozen.one() * 1.0, trains="one")

    with pytest.raises(Exception, match="which does not depend on them"):
        learner(framework, update).train(batch())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_polyak_targets_by_hand(framework: str) -> None:
    """A quarter of the way after each update; with `every=2`, half of it after every second."""
    lr = learner(framework, both_down, targets={"one": Polyak(0.25), "two": Polyak(0.5, every=2)})
    assert (target(lr, "one"), target(lr, "two")) == (1.0, 2.0)
    ones, twos = [], []
    expected_one, expected_two, want_one, want_two = 1.0, 2.0, [], []
    for update in range(1, 5):
        lr.train(batch())
        ones.append(target(lr, "one"))
        twos.append(target(lr, "two"))
        expected_one += 0.25 * (number(lr, "one") - expected_one)
        if update % 2 == 0:
            expected_two += 0.5 * (number(lr, "two") - expected_two)
        want_one.append(expected_one)
        want_two.append(expected_two)
    assert ones[0] == pytest.approx(1.0 + 0.25 * (0.5 - 1.0))
    assert twos[:2] == pytest.approx([2.0, 2.0 + 0.5 * (1.0 - 2.0)], abs=1e-3)
    assert ones == pytest.approx(want_one)
    assert twos == pytest.approx(want_two)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_hard_targets_by_hand(framework: str) -> None:
    """Renewed when 4 rows have been trained, in batches of 3: after the second, third, fourth."""
    lr = learner(framework, both_down, targets={"one": Hard(4)})
    same = []
    for _ in range(5):
        lr.train(batch(3))
        same.append(target(lr, "one") == number(lr, "one"))
    assert same == [False, True, True, True, False]


# -- states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", FRAMEWORKS)
@pytest.mark.parametrize("second", FRAMEWORKS)
def test_a_state_goes_from_one_framework_to_the_other(first: str, second: str) -> None:
    """Networks, targets, optimisers and counts; what follows is the same."""
    roles: dict[str, Any] = {"targets": {"one": Polyak(0.5), "two": Hard(2)}}
    one, two = learner(first, both_down, **roles), learner(second, both_down, **roles)
    for _ in range(3):
        one.train(batch())
    state = one.get_state()
    two.set_state(state)
    again = two.get_state()
    assert again.keys() == state.keys()
    assert equal({k: v for k, v in again.items() if k != "rng"},
                 {k: v for k, v in state.items() if k != "rng"})  # fmt: skip
    assert again["rng"] == state["rng"]
    for lr in (one, two):
        lr.train(batch())
    for name in ("one", "two"):
        assert number(one, name) == pytest.approx(number(two, name), abs=1e-6)
        assert target(one, name) == pytest.approx(target(two, name), abs=1e-6)


@pytest.mark.parametrize("first", FRAMEWORKS)
@pytest.mark.parametrize("second", FRAMEWORKS)
def test_weights_that_no_gradient_has_reached_have_no_memory_either(
    first: str, second: str
) -> None:
    """A loss without the value leaves the critic out: a state without it goes over, too."""

    def update(m: Any, rows: Rows, cfg: Any) -> Steps:
        logp, _, _ = m.policy.evaluate(rows.obs, rows.actions)
        yield Step(logp.mean(), trains="policy")

    def made(framework: str) -> Any:
        from rillflow.rl.workers import Workers

        workers = Workers(ppo.Config(hidden=(4,), update=update, framework=framework))
        return make_learner(workers.spec, workers.config, 0)

    one, two = made(first), made(second)
    one.train(fragment())
    two.set_state(one.get_state())
    for lr in (one, two):
        lr.train(fragment(1))
    for name, array in one.get_weights().items():
        np.testing.assert_allclose(array, two.get_weights()[name], atol=1e-6)


def first_edition(state: dict[str, Any]) -> dict[str, Any]:
    """A learner's state as version 0.1 wrote it."""
    old = {
        "weights": state["networks"]["policy"],
        "optimizer": state["optimisers"]["policy"],
        "rng": state["rng"],
        "version": state["version"],
        "since_target": state["since_target"],
        "nonfinite_steps": 0,
    }
    if state["targets"]:
        old["target"] = state["targets"]["policy"]
    return old


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("algorithm", [ppo, dqn], ids=["ppo", "dqn"])
def test_a_state_of_the_first_edition_goes_on(algorithm: Any, framework: str) -> None:
    """Bit by bit as the state that it was."""
    from rillflow.rl.workers import Workers

    def made(seed: int) -> Any:
        workers = Workers(algorithm.Config(env="CartPole-v1", hidden=(8,), framework=framework))
        return make_learner(workers.spec, workers.config, seed)

    data = [fragment(i) if algorithm is ppo else replayed(i) for i in range(4)]
    one, two = made(0), made(1)
    for each in data[:3]:
        one.train(each)
    two.set_state(first_edition(one.get_state()))
    for lr in (one, two):
        lr.train(data[3])
    mine, theirs = one.get_state(), two.get_state()
    for part in ("networks", "targets", "optimisers"):
        assert equal(mine[part], theirs[part]), part


def test_a_state_of_another_algorithm_is_told() -> None:
    lr = learner("numpy", both_down)
    state = lr.get_state()
    other = {**state, "networks": {"policy": state["networks"]["actor"]}}
    with pytest.raises(
        rf.RunError, match=r"\['policy'\].*\['actor', 'one', 'two'\].*another algor"
    ):
        lr.set_state(other)


# -- roles -----------------------------------------------------------------------------------------


def test_roles_name_networks_that_there_are() -> None:
    for roles, told in (
        ({"acts": "critic"}, "acts names 'critic', but the networks are actor, k"),
        ({"acts": "actor", "targets": {"q": Hard(1)}}, "targets names 'q'"),
        ({"acts": "actor", "optimisers": {"q": Optimiser()}}, "optimisers names 'q'"),
        ({"acts": "k"}, "must be a policy, such as actor_critic"),
    ):
        with pytest.raises(rf.BuildError, match=told):
            Modules(actor=actor_critic(SPEC), k=scalar(0.0), **roles)


def test_values_of_actions_are_for_continuous_ones_and_vectors() -> None:
    discrete = PolicySpec(observation_space=SPEC.observation_space, action_space=spaces.Discrete(2))
    with pytest.raises(rf.BuildError, match=r"found Discrete\(2\): use q_values"):
        q_of_action(discrete)
    images = PolicySpec(
        observation_space=spaces.Box(0, 255, (3, 40, 40), np.uint8),
        action_space=SPEC.action_space,
        model="cnn",
    )
    with pytest.raises(rf.BuildError, match="an algorithm for images"):
        q_of_action(images)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_gradients_that_travel_are_of_one_loss(framework: str) -> None:
    """A second step would be lost in silence."""

    def twice(m: Any, rows: Any, cfg: Any) -> Any:
        for _ in range(2):
            yield Step(m.policy.values(rows.obs).square().mean(), trains="policy")

    config = ppo.Config(hidden=(4,), update=twice, framework=framework)
    workers = Workers(config)
    learner = make_learner(workers.spec, config, 0)
    with pytest.raises(rf.RunError, match=r"those of one loss, but .*twice yields several steps"):
        learner.compute_gradients(fragment())
