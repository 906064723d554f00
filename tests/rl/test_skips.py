"""A loss or a gradient that is not finite: the step is left out, counted, and told."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import a3c, apex, dqn, impala, maml, ppo
from rillflow.experience.batch import SampleBatch
from rillflow.learning import skips
from rillflow.learning.make_learner import make_learner
from rillflow.learning.meta_learner import MetaLearner
from rillflow.learning.results import Gradients, Loss
from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers, Select
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from tests.rl.test_learner import equal, fragment, replayed

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
"""NumPy itself warns where an infinite number becomes none: `inf - inf`"""

SMALL = {"hidden": (16, 16), "env": "CartPole-v1"}
FRAMEWORKS = ("numpy", "torch")
POISONS = (math.nan, math.inf, -math.inf)
COUNT = skips.COUNT


def learner(algorithm: Any, framework: str, **settings: Any) -> Any:
    workers = Workers(algorithm.Config.make(**{**SMALL, "framework": framework, **settings}))
    return make_learner(workers.spec, workers.config, 0)


def batch(algorithm: Any, seed: int = 0) -> SampleBatch:
    return replayed(seed, rows=32) if algorithm in (dqn, apex) else fragment(seed, 16, 8)


def poisoned(algorithm: Any, poison: float, column: str = "rewards") -> SampleBatch:
    bad = batch(algorithm, 7)
    values = np.array(bad[column])
    values.reshape(-1)[0] = poison
    return bad.with_columns(**{column: values})


def learned(one: Any) -> dict[str, Any]:
    """What a step changes: parameters, target network, optimiser."""
    state = one.get_state()
    return copy.deepcopy({k: state[k] for k in ("weights", "optimizer", "target") if k in state})


def lessons(one: Any, *batches: SampleBatch) -> Any:
    return [one.train(each) for each in batches][-1]


def times_told(warned: Any) -> int:
    return sum("left out" in str(one.message) for one in warned)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("algorithm", [ppo, impala, dqn, apex], ids=lambda a: a.__name__[20:])
@pytest.mark.parametrize("poison", POISONS, ids=str)
def test_a_step_that_is_not_finite_is_left_out(
    algorithm: Any, framework: str, poison: float
) -> None:
    """Parameters and optimiser stay as they are to the bit; the next batch is learned from."""
    one, same = (learner(algorithm, framework) for _ in range(2))
    for each in (one, same):
        each.train(batch(algorithm, 0))
    before = learned(one)
    with pytest.warns(UserWarning, match=r"not finite: the step is left out") as told:
        result = one.train(poisoned(algorithm, poison))
    assert times_told(told) == 1
    assert equal(learned(one), before)
    assert result.stats == {COUNT: 1.0}
    rows = getattr(result, "rows", {})
    assert all(np.isfinite(column).all() for column in rows.values())
    again, usual = (each.train(batch(algorithm, 1)) for each in (one, same))
    assert again.stats.keys() - usual.stats.keys() == {COUNT}
    assert equal(learned(one)["weights"], learned(same)["weights"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_only_the_minibatches_with_the_bad_row_are_left_out(framework: str) -> None:
    """The figures are the means of those that were made."""
    one = learner(a3c, framework)
    bad = poisoned(a3c, math.nan, "obs")
    with pytest.warns(UserWarning, match="left out"):
        result = one.train(bad, 3, 16)
    assert 1 <= result.stats[COUNT] < 24
    assert all(math.isfinite(value) for value in result.stats.values())


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_gradients_from_elsewhere_are_looked_at(framework: str, clip: float | None) -> None:
    """One number that is not finite, or too large for its square, leaves all out."""
    one = learner(a3c, framework, grad_clip=clip)
    good = one.compute_gradients(batch(a3c))
    one.apply_gradients(good)
    before = learned(one)
    for poison in (*POISONS, 1e30):
        values = {name: np.array(array) for name, array in good.values.items()}
        next(iter(values.values())).reshape(-1)[0] = poison
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = one.apply_gradients(Gradients(values, 8, {"policy_loss": math.nan}))
        assert equal(learned(one), before)
    assert result.stats == {COUNT: 4.0}
    one.apply_gradients(good)
    assert not equal(learned(one), before)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_too_many_in_a_row_are_one_error(framework: str) -> None:
    """It says the limit, that nothing was changed, and where to look."""
    one = learner(ppo, framework, max_nonfinite_steps=3)
    one.train(batch(ppo))
    before = learned(one)
    bad = poisoned(ppo, math.nan)
    with pytest.warns(UserWarning, match="left out") as told:
        lessons(one, bad, bad)
    assert times_told(told) == 1
    with pytest.raises(
        rf.RunError, match=r"3 batches in a row .*max_nonfinite_steps=3.* weights are those"
    ):
        one.train(bad)
    assert equal(learned(one), before)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_bad_batch_is_one_however_many_steps_are_made_of_it(framework: str) -> None:
    """One reward that is not finite spoils all of its batch: advantages are standardised."""
    one = learner(ppo, framework, max_nonfinite_steps=2)
    with pytest.warns(UserWarning, match="left out") as told:
        result = one.train(poisoned(ppo, math.nan), 4, 16)
    assert result.stats == {COUNT: 4 * 128 / 16}
    assert times_told(told) == 1
    assert one.train(batch(ppo), 4, 16).stats["policy_loss"]
    one.train(poisoned(ppo, math.nan), 4, 16)
    with pytest.raises(rf.RunError, match="2 batches in a row"):
        one.train(poisoned(ppo, math.nan), 4, 16)


def test_a_finite_step_between_begins_the_count_anew() -> None:
    one = learner(ppo, "numpy", max_nonfinite_steps=2)
    with pytest.warns(UserWarning, match="left out"):
        result = lessons(one, *4 * [poisoned(ppo, math.nan), batch(ppo)])
    assert result.stats[COUNT] == 4


def test_a_burst_is_told_once_and_the_next_one_again() -> None:
    one, bad = learner(ppo, "numpy"), poisoned(ppo, math.nan)
    burst = [bad, batch(ppo), bad, *100 * [batch(ppo)]]
    with pytest.warns(UserWarning, match="left out") as told:
        lessons(one, *burst, *burst)
    assert times_told(told) == 2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_count_is_part_of_the_state(framework: str) -> None:
    """Also of a learner of the other kind; a state from before there was a count has none."""
    one = learner(ppo, framework)
    with pytest.warns(UserWarning, match="left out"):
        one.train(poisoned(ppo, math.nan))
    state = one.get_state()
    for kind in FRAMEWORKS:
        other = learner(ppo, kind)
        other.set_state(state)
        assert other.skips.count == 1
        other.set_state({k: v for k, v in state.items() if k != COUNT})
        assert other.skips.count == 0


def test_what_is_not_finite_gets_no_priority_before_training_either() -> None:
    for framework in FRAMEWORKS:
        result = learner(dqn, framework).assess(poisoned(dqn, math.nan))
        assert np.isfinite(result.rows["td_errors"]).all()


def test_the_limit_is_at_least_one() -> None:
    with pytest.raises(rf.BuildError, match="max_nonfinite_steps must be at least 1, got 0"):
        ppo.Config.make(max_nonfinite_steps=0)


# -- MAML ------------------------------------------------------------------------------------------


def test_meta_steps_and_adaptation_are_left_out() -> None:
    """The meta-weights and those of a task stay as they are."""
    workers = Workers(maml.Config(num_workers=1, hidden=(8,)))
    one = MetaLearner(workers.spec, workers.config, 0)
    with ParallelRollouts(workers).gather_sync().run("sim") as run:
        rounds = [next(run)[0] for _ in range(2)]
    one.meta_train([rounds, rounds])
    before = learned(one)
    rewards = np.array(rounds[-1]["rewards"])
    rewards[0, 0] = math.nan
    bad = rounds[-1].with_columns(rewards=rewards)
    with pytest.warns(UserWarning, match="left out"):
        result = one.meta_train([rounds, [rounds[0], bad]])
    assert equal(learned(one), before)
    assert result.stats[COUNT] == workers.config.maml_optimizer_steps  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert equal(one.adapt(bad), before["weights"])
    assert not equal(one.adapt(rounds[0]), before["weights"])


# -- in a run --------------------------------------------------------------------------------------


class Sometimes:
    """PPO's loss, of which some are not finite."""

    def __init__(self, bad: range) -> None:
        self.bad, self.calls = bad, 0

    def __call__(self, policy: Any, rows: Any, cfg: Any) -> Loss:
        loss = ppo.loss(policy, rows, cfg)
        self.calls += 1
        return loss._replace(total=loss.total * math.nan) if self.calls in self.bad else loss


RUN = {
    "num_workers": 1, "num_envs_per_worker": 4, "rollout_fragment_length": 8, "hidden": (8,),
    "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1,
}  # fmt: skip


def test_a_run_goes_on_and_counts_them() -> None:
    with pytest.warns(UserWarning, match="left out"):
        trained = rf.train(
            "ppo", "CartPole-v1", engine="sim", until={"steps": 320},
            loss=Sometimes(range(3, 6)), **RUN,
        )  # fmt: skip
    counts = [row.get(COUNT, 0) for row in trained.history]
    assert counts[:6] == [0, 0, 1, 2, 3, 3]
    assert counts[-1] == 3
    assert all(np.isfinite(array).all() for array in trained.weights.values())


def test_a_run_of_nothing_but_them_ends_with_one_error() -> None:
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(rf.RunError, match=r"10 batches in a row"),
    ):
        rf.train(
            "ppo", "CartPole-v1", engine="sim", until={"steps": 3200},
            loss=Sometimes(range(1000)), **RUN,
        )  # fmt: skip


@pytest.mark.proc
def test_a_learner_in_a_process_counts_and_tells_them(capfd: pytest.CaptureFixture[str]) -> None:
    settings = {k: v for k, v in RUN.items() if not k.startswith(("sgd", "num_sgd"))}
    trained = rf.train(
        "impala", "CartPole-v1", until={"steps": 640}, framework="torch", loss=Inf(),
        learner_placement="process", **settings,
    )  # fmt: skip
    assert trained.history[-1][COUNT] == 1
    assert capfd.readouterr().err.count("a loss or a gradient is not finite") == 1


class Inf:
    """IMPALA's loss, the second of which is not finite."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, policy: Any, rows: Any, cfg: Any) -> Loss:
        loss = impala.loss(policy, rows, cfg)
        self.calls += 1
        return loss._replace(total=loss.total * math.inf) if self.calls == 2 else loss


def test_one_of_several_policies_leaves_the_others_alone() -> None:
    """Each has a learner, and a count, of its own."""
    own = {k: v for k, v in RUN.items() if k in ("hidden", "sgd_minibatch_size", "num_sgd_iter")}
    fine = ppo.Config(train_batch_size=32, **own)  # type: ignore[arg-type]
    poor = dataclasses.replace(fine, loss=Sometimes(range(1, 9)))
    workers = MultiAgentWorkers(
        MultiAgentConfig(
            policies={"fine": fine, "poor": poor},
            policy_mapping={"agent_0": "fine", "agent_1": "poor"},
            num_workers=1, num_envs_per_worker=4, rollout_fragment_length=8,
        )
    )  # fmt: skip
    streams = ParallelRollouts(workers).split(2)
    plans = [
        ppo.plan(Select(stream, policy=name), workers)
        for stream, name in zip(streams, ("fine", "poor"), strict=True)
    ]
    run = rf.Union(*plans).run("sim")
    with pytest.warns(UserWarning, match="left out"):
        results = list(itertools.islice(run, 12))
    weights = {name: run.shared[own.weights_key].weights for name, own in workers.policies.items()}
    run.stop()
    assert [r.stats.get(COUNT, 0) for r in results if r.policy == "fine"] == [0] * 6
    assert [r.stats.get(COUNT, 0) for r in results if r.policy == "poor"] == [1, 2, 3, 4, 5, 6]
    assert all(np.isfinite(array).all() for own in weights.values() for array in own.values())


@pytest.mark.parametrize("algorithm", [ppo, dqn], ids=["ppo", "dqn"])
@pytest.mark.parametrize("gpu", [False, True], ids=["as on a gpu", "gpu"])
def test_a_gpu_leaves_them_out_without_being_asked(algorithm: Any, gpu: bool) -> None:
    """The optimiser does; the processor's can, too."""
    if gpu and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    one, same = (learner(algorithm, "torch", num_gpus=int(gpu)) for _ in range(2))
    one.looks = False
    for each in (one, same):
        each.train(batch(algorithm, 0))
    before = learned(one)
    with pytest.warns(UserWarning, match="left out"):
        result = one.train(poisoned(algorithm, math.nan))
    assert result.stats == {COUNT: 1.0}
    assert equal(learned(one), before)
    for each in (one, same):
        each.train(batch(algorithm, 1))
    assert not equal(learned(one), before)
    assert equal(learned(one), learned(same))
