"""Updates on the processor that are recorded and repeated are those made as they are written."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from rillflow.algorithms import get_algorithm, ppo, sac, td3
from rillflow.experience.batch import SampleBatch
from rillflow.learning import losses, torch_recording, torch_repeats
from rillflow.learning.schedules import Linear
from rillflow.learning.torch_graphs import MOST, WARM
from rillflow.learning.torch_learner import TorchLearner
from rillflow.learning.torch_recording import drawn
from rillflow.learning.torch_repeats import RepeatedUpdates
from rillflow.learning.try_update import invented
from rillflow.learning.update import Step
from rillflow.rl.workers import Workers

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"
ENOUGH = WARM + 7
"""batches of one update: some are made, two are recorded, one is compared, the rest repeated; of
one that takes turns, of each kind"""
C51 = {"noisy": False, "v_min": 0.0, "v_max": 9.0}

CASES: dict[str, dict[str, Any]] = {
    "sac": {"env": PENDULUM},
    "sac, discrete": {"env": CARTPOLE},
    "sac, clipped, normalized": {
        "env": PENDULUM,
        "grad_clip": 0.1,
        "normalize_observations": True,
    },
    "sac, tanh, prioritized": {"env": PENDULUM, "activation": "tanh", "prioritized_replay": True},
    "td3": {"env": PENDULUM},
    "td3, now and then": {"env": PENDULUM, "policy_delay": 3},
    "ddpg": {"env": PENDULUM},
    "cql": {"env": PENDULUM},
    "iql": {"env": PENDULUM},
    "dqn": {"env": CARTPOLE},
    "rainbow": {"env": CARTPOLE, **C51},
    "ppo": {"env": CARTPOLE},
    "ppo, clipped": {"env": PENDULUM, "grad_clip": 0.1, "grad_clip_value": 0.05},
    "ppo, amsgrad": {"env": CARTPOLE, "amsgrad": True},
    "a2c": {"env": CARTPOLE},
    "impala": {"env": CARTPOLE},
    "appo": {"env": CARTPOLE},
}


def learner(name: str, seed: int = 0, **settings: Any) -> TorchLearner:
    algorithm = get_algorithm(name.partition(",")[0])
    fixed = {"framework": "torch", "hidden": (16, 16)}
    workers = Workers(algorithm.Config(**{**fixed, **settings}))
    return TorchLearner(workers.spec, workers.config, seed, ("cpu",))


def pair(name: str, **settings: Any) -> tuple[TorchLearner, TorchLearner]:
    """One that repeats, and one that does not."""
    return learner(name, **settings), learner(name, **settings, record_updates=False)


def batch(lr: TorchLearner, seed: int, rows: int = 12) -> SampleBatch:
    """Random rows with all columns that workers give, or replay."""
    fragments = lr.config.algorithm.name in ("ppo", "a2c", "impala", "appo")
    spec = lr.spec
    rng = np.random.default_rng(seed)
    made = invented(spec).columns
    columns = {}
    for name, column in made.items():
        timeless = name == "bootstrap_obs"
        if timeless and not fragments:
            continue
        if fragments and name in ("next_obs", "discount", "weights", "keys"):
            continue
        flat = column if timeless else column.reshape(-1, *column.shape[2:])
        picked = flat if timeless else flat[rng.integers(0, len(flat), rows)]
        if picked.dtype.kind == "f" and name != "actions":
            picked = rng.uniform(0.1, 1, picked.shape).astype(picked.dtype)
        if name == "logp":
            picked = -picked
        if name == "terminated":
            picked = rng.random(rows) < 0.2
        envs = len(made["bootstrap_obs"]) if fragments else rows
        shape = (rows // envs, envs)
        columns[name] = picked if timeless else picked.reshape(*shape, *picked.shape[1:])
    return SampleBatch(columns)


def repeating(lr: TorchLearner) -> RepeatedUpdates:
    assert isinstance(lr.graphs, RepeatedUpdates)
    return lr.graphs


def assert_same(one: Any, other: Any) -> None:
    """In every bit."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_same(value, other[name])
    else:
        np.testing.assert_array_equal(one, other)


def teach(learners: Any, batches: range, *, rows: int = 12, **options: Any) -> None:
    """The same batches; the learners tell the same of them."""
    for number in batches:
        data = batch(learners[0], number, rows)
        told = [one.train(data, **options) for one in learners]
        for result in told[1:]:
            assert_same(told[0].stats, result.stats)
            assert_same(getattr(told[0], "rows", {}), getattr(result, "rows", {}))
    for one in learners[1:]:
        assert_same(learners[0].get_state(), one.get_state())


@pytest.mark.parametrize("case", list(CASES))
def test_repeated_updates_are_those_as_they_are_written(case: str) -> None:
    """Weights, targets, optimisers, random numbers and figures, in every bit."""
    learners = pair(case, **CASES[case])
    teach(learners, range(3 * ENOUGH if "td3" in case else ENOUGH))
    assert repeating(learners[0]).repeats, repeating(learners[0]).given_up
    assert learners[1].graphs is None


@pytest.mark.parametrize("case", ["ppo", "sac"])
def test_minibatches_are_repeated_too(case: str) -> None:
    """Of shuffled rows, pass by pass."""
    learners = pair(case, **CASES[case])
    teach(learners, range(4), rows=24, epochs=3, minibatch=8)
    assert repeating(learners[0]).repeats


def test_an_update_of_sac_is_less_than_half_as_many_operations() -> None:
    lr, _ = pair("sac", **CASES["sac"])
    teach([lr], range(ENOUGH))
    ((program,),) = [found.values() for found in repeating(lr)._programs.values()]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        lr.update_once([program.rows])
    asked = sum(event.count for event in profile.key_averages())
    assert len(program.program.calls) < asked / 2
    assert program.program.memory.bytes < 100_000, "results lie one over the other"


@pytest.mark.parametrize("settings", [{"final_lr": 1e-5, "lr_updates": 30}, {}])
def test_rates_are_those_of_the_moment(settings: Any) -> None:
    """By the optimiser's steps, and by a schedule of the run."""
    if not settings:
        settings = {"lr": Linear(1e-2, 1e-4, steps=200)}
    learners = pair("sac", env=PENDULUM, **settings)
    teach(learners, range(2 * ENOUGH))
    assert repeating(learners[0]).repeats
    rate = learners[0].optimisers["q"].param_groups[0]["lr"]
    assert rate == learners[1].optimisers["q"].param_groups[0]["lr"] < 1e-2


def test_steps_that_are_not_finite_are_left_out() -> None:
    """Those behind them in the update too; and what is recorded then is of no use."""
    learners = pair("sac", env=PENDULUM)
    for bad in (WARM, ENOUGH + 2):
        teach(learners, range(bad))
        before = [one.get_state() for one in learners]
        data = batch(learners[0], 99)
        rewards = np.full_like(data["rewards"], np.nan)
        for one, state in zip(learners, before, strict=True):
            if one.skips.count == 0:
                with pytest.warns(UserWarning, match="left out"):
                    one.train(data.with_columns(rewards=rewards))
            else:
                one.train(data.with_columns(rewards=rewards))
            assert_same(state["networks"], one.get_state()["networks"])
        teach(learners, range(100, 100 + ENOUGH))
    assert learners[0].skips.count == learners[1].skips.count == 2
    assert repeating(learners[0]).repeats


def test_rows_of_many_shapes() -> None:
    """Some are repeated, the others are learned from as usual."""
    learners = pair("sac", env=PENDULUM)
    for rows in range(5, 5 + MOST + 3):
        teach(learners, range(ENOUGH), rows=rows)
    teach(learners, range(3), rows=5)
    kept = repeating(learners[0])._programs
    assert sum(map(len, kept.values())) == MOST


def test_shapes_that_do_not_come_again_are_not_kept() -> None:
    """Of each there is one recording, for which no second one comes."""
    learners = pair("sac", env=PENDULUM)
    for rows in range(6, 26):
        teach(learners, range(1), rows=rows * 6, minibatch=rows, epochs=1)
    kept = repeating(learners[0])
    assert kept._programs == {}
    assert 0 < len(kept._begun) <= MOST
    assert len(kept._rows) <= MOST


def test_a_state_is_gone_on_from_in_every_bit() -> None:
    """By a fresh learner and by one that repeated another state's updates."""
    one, other = pair("td3", env=PENDULUM)
    teach([one, other], range(2 * ENOUGH))
    assert repeating(one).repeats
    fresh, busy = learner("td3", env=PENDULUM, seed=5), learner("td3", env=PENDULUM, seed=6)
    teach([busy], range(50, 50 + 2 * ENOUGH))
    state = one.get_state()
    for later in (fresh, busy):
        later.set_state(state)
    teach([one, other, fresh, busy], range(20, 20 + 3 * ENOUGH))
    assert repeating(busy).repeats


def test_what_others_change_is_what_is_gone_on_from() -> None:
    """Weights set from outside, gradients applied, a look at a batch, all between repeated
    updates."""
    learners = pair("ppo", env=CARTPOLE)
    teach(learners, range(ENOUGH))
    data = batch(learners[0], 50)
    for one in learners:
        one.set_weights({name: 0.5 * value for name, value in one.get_weights().items()})
    teach(learners, range(3))
    assert_same(*(one.assess(data).stats for one in learners))
    for one in learners:
        one.apply_gradients(one.compute_gradients(data))
    teach(learners, range(3))
    assert repeating(learners[0]).repeats


def test_learners_of_several_threads_record_each_its_own() -> None:
    learners = [learner("sac", env=PENDULUM) for _ in range(2)]
    meet = threading.Barrier(2)

    def work(one: TorchLearner) -> None:
        meet.wait()
        teach([one], range(3 * ENOUGH))

    threads = [threading.Thread(target=work, args=(one,)) for one in learners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(repeating(one).repeats for one in learners)
    alone = learner("sac", env=PENDULUM, record_updates=False)
    teach([alone], range(3 * ENOUGH))
    teach([*learners, alone], range(2))


# -- what is not repeated --------------------------------------------------------------------------


def test_what_may_differ_is_not_recorded() -> None:
    def of(name: str = "ppo", **settings: Any) -> Any:
        return learner(name, **{"env": CARTPOLE, **settings}).graphs

    assert isinstance(of(), RepeatedUpdates)
    assert of(record_updates=False) is None
    assert of(target_kl=0.01) is None
    assert of(clip_param=Linear(0.3, 0.1, steps=100)) is None
    assert of(memory="lstm", memory_size=8) is None
    assert of("dqn", noisy=True) is None
    assert of(update=ppo.update) is None, "nobody has said that it does the same each time"
    assert isinstance(of(update=ppo.update, record_updates=True), RepeatedUpdates)


def of_my_own(update: Any, why: str | None, module: Any = sac) -> TorchLearner:
    """A learner with such an update, which has learned what one that repeats nothing has."""
    name = module.__name__.rpartition(".")[2]
    env = CARTPOLE if module is ppo else PENDULUM
    one = learner(name, env=env, update=update, record_updates=True)
    other = learner(name, env=env, update=update)
    assert other.graphs is None
    torch.manual_seed(0)
    for number in range(3 * ENOUGH):
        data = batch(one, number)
        state = torch.get_rng_state()
        first = other.train(data)
        torch.set_rng_state(state)
        if why is not None and repeating(one).given_up is None:
            with catching() as told:
                second = one.train(data)
            assert bool(told) == (repeating(one).given_up is not None)
            assert all("record_updates=False does not try it" in text for text in told)
        else:
            second = one.train(data)
        assert_same(first.stats, second.stats)
    assert_same(one.get_state(), other.get_state())
    if why is None:
        assert repeating(one).repeats, repeating(one).given_up
    else:
        assert not repeating(one).repeats
        assert why in str(repeating(one).given_up)
    return one


class catching:  # noqa: N801 - reads like pytest.warns
    """Warnings inside, as text; there may be none."""

    def __enter__(self) -> list[str]:
        self._texts: list[str] = []
        self._caught = warnings.catch_warnings(record=True)
        self._found: Any = self._caught.__enter__()
        warnings.simplefilter("always")
        return self._texts

    def __exit__(self, *error: Any) -> None:
        self._texts += [str(one.message) for one in self._found]
        self._caught.__exit__(*error)


def test_an_update_that_looks_at_a_number_is_made_as_it_is_written() -> None:
    def update(m: Any, rows: Any, cfg: Any) -> Any:
        for step in sac.update(m, rows, cfg):
            if step.loss > 0:
                yield step
            else:
                yield dataclasses.replace(step, loss=2 * step.loss)

    of_my_own(update, "looks at numbers")


def test_an_update_that_picks_rows_by_a_mask_is_made_as_it_is_written() -> None:
    def update(m: Any, rows: Any, cfg: Any) -> Any:
        q = m.q(rows.obs, rows.actions)[:, rows.rewards > 0.5]
        yield Step(losses.mean(q), trains="q", stats={"rows": float(q.shape[1])})

    of_my_own(update, "looks at numbers")


def test_an_update_that_does_something_else_each_time_is_made_as_it_is_written() -> None:
    """A number of Python's that changes; a tensor that is made beside torch."""

    class Counted:
        """Each learner counts for itself."""

        def __init__(self, lift: Any) -> None:
            self.counts: dict[int, int] = {}
            self.lift = lift

        def __call__(self, m: Any, rows: Any, cfg: Any) -> Any:
            count = self.counts[id(m)] = self.counts.get(id(m), 0) + 1
            loss = losses.mean(m.q(rows.obs, rows.actions)) * self.lift(count)
            yield Step(loss, trains="q", stats={"q": loss})

    of_my_own(Counted(float), "not do the same each time")
    made = Counted(lambda count: torch.from_numpy(np.full(1, count, np.float32)))
    of_my_own(made, "made anew each time")


def test_random_numbers_of_torch_are_drawn_anew() -> None:
    def update(m: Any, rows: Any, cfg: Any) -> Any:
        for step in sac.update(m, rows, cfg):
            kept = torch.rand(len(rows.obs)) < 0.5
            more = (kept * rows.rewards).mean()
            yield dataclasses.replace(step, loss=step.loss * (1 + more), stats={"more": more})

    of_my_own(update, None)


def test_random_numbers_of_the_learner_are_drawn_anew() -> None:
    def update(m: Any, rows: Any, cfg: Any) -> Any:
        noise = drawn(lambda out: m.actor.rng.random(out=out, dtype=np.float32), (len(rows.obs),))
        loss = (m.q(rows.obs, rows.actions) * noise).sum()
        yield Step(loss, trains="q", stats={"noise": noise.mean()})

    of_my_own(update, None)


def test_operations_of_all_kinds_are_repeated() -> None:
    """Several results, views of them, indices, tensors that are written to, constants."""

    def update(m: Any, rows: Any, cfg: Any) -> Any:
        logp, entropy, values = m.policy.evaluate(rows.obs, rows.actions)
        ordered, at = values.sort()
        least = torch.zeros(3)
        least[1:] += ordered[:2].detach().flip(0)
        best = rows.advantages[at].view(-1, 2).max(1).values
        table = torch.arange(len(values)).float().softmax(0).scatter(0, at[:2], 0.5)
        weight = torch.where(rows.advantages > 0, 1.0, table).cumsum(0)
        loss = (logp * weight).sum() + entropy.std() + ordered.square().mean() + best.mean()
        stats = {"least": least[1], "best": best, "loss": loss, "rows": len(values)}
        yield Step(loss, stats=stats)

    of_my_own(update, None, ppo)


def test_a_weight_that_has_no_gradient() -> None:
    """torch leaves it out of a step; so does an update as it is written."""

    def update(m: Any, rows: Any, cfg: Any) -> Any:
        logp, *_ = m.policy.evaluate(rows.obs, rows.actions)
        yield Step(-losses.mean(logp))

    of_my_own(update, "a weight has no gradient", ppo)


@pytest.mark.parametrize("most", ["LARGEST", "MOST_BYTES"])
def test_a_large_update_is_made_as_it_is_written(
    most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep memory that is free between updates otherwise."""
    where = torch_repeats if most == "LARGEST" else torch_recording
    monkeypatch.setattr(where, most, 2**10)
    learners = pair("sac", env=PENDULUM)
    teach(learners, range(ENOUGH))
    assert "takes more than" in str(repeating(learners[0]).given_up)


def test_a_repetition_that_gives_other_numbers_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is compared with the update before it is believed; nothing of it is left."""
    again = torch_repeats.Repeat.again

    def wrong(self: Any) -> Any:
        figures, size = again(self)
        with torch.no_grad():
            self.learner.lists[0]["q"][0].add_(1)
        return figures, size

    monkeypatch.setattr(torch_repeats.Repeat, "again", wrong)
    learners = pair("sac", env=PENDULUM)
    teach(learners, range(ENOUGH))
    assert repeating(learners[0]).given_up == "repeated it gives other numbers"


def test_td3_takes_turns() -> None:
    """There is a program with the actor's step and one without."""
    one, other = pair("td3", env=PENDULUM)
    teach([one, other], range(2 * ENOUGH))
    ((first, second),) = repeating(one)._programs.values()
    assert {first, second} == {((td3.Config().policy_delay, due),) for due in (True, False)}
