"""Meta-learning: who adapts when, what is published, and gradients through the adaptation."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

import rillflow as rf
from rillflow.algorithms import maml, ppo
from rillflow.experience.batch import SampleBatch
from rillflow.learning.meta_learner import (
    MetaLearner,
    adapted,
    finite_horizon_rows,
    fitted,
    mean_return,
    returns_by_step,
)
from rillflow.policies.spec import PolicySpec
from rillflow.rl.meta import InnerAdapt, MetaUpdate, tasks_of
from rillflow.rl.meta_worker import MetaWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo, Source

STEPS = 2


class Noting(MetaWorker):
    """Notes what it is asked for."""

    def __init__(self, config: Any, spec: Any, info: ActorInfo) -> None:
        super().__init__(config, spec, info)
        self.asked: list[str] = []

    def sample(self) -> SampleBatch:
        self.asked.append("sample")
        return super().sample()

    def adapt(self) -> None:
        self.asked.append("adapt")
        super().adapt()

    def set_weights(self, weights: Any) -> None:
        self.asked.append("weights")
        super().set_weights(weights)

    def draw_task(self, seed: int) -> None:
        self.asked.append("task")
        super().draw_task(seed)

    def what_was_asked(self) -> list[str]:
        return self.asked

    def goal(self) -> list[float]:
        goal: list[float] = self.envs.vector.get_task().tolist()
        return goal


@dataclass(frozen=True, kw_only=True)
class Config(maml.Config):
    @property
    def worker_class(self) -> Any:
        return Noting


def make(**settings: Any) -> Workers:
    small = {"num_envs_per_worker": 3, "inner_adaptation_steps": STEPS, "num_workers": 2}
    return Workers(Config.make(**{**small, **settings}))


def rounds_of(workers: Workers) -> Any:
    """The rounds of every task, as `MetaUpdate` is given them."""
    adapt = InnerAdapt(workers, steps=STEPS)
    return ParallelRollouts(workers).gather_sync().combine(adapt)


# -- rounds and messages -------------------------------------------------------------------------


def test_workers_adapt_between_rounds_and_get_weights_and_tasks_once_per_meta_update() -> None:
    """Each worker samples, adapts, ..., and samples once more before anything new is published."""
    workers = make()
    with maml.plan(ParallelRollouts(workers), workers).run("sim") as run:
        for _ in range(2):
            next(run)
        asked = [run.call(actor, "what_was_asked") for actor in workers.actors]
        (line,) = run.ledger().balances()
        versions = [
            a.mail.newest[workers.weights_key] for a in run._scheduler.fleet.actors.values()
        ]
        assert run.stats().operator("gather_sync").lag_max == 0
    turn = ["weights", "task", "sample", "adapt", "sample", "adapt", "sample"]
    assert asked == [[*turn, *turn, "weights", "task"]] * 2
    assert line.done == {"trained": 2 * 2 * (STEPS + 1)}, "every round of every worker"
    assert versions == [2, 2]


def test_every_round_is_made_by_the_policy_that_the_rounds_before_it_led_to() -> None:
    """The driver repeats the adaptation, and finds the probabilities with which workers acted."""
    workers = make()
    flow = rounds_of(workers).for_each(Kept(workers))
    (tasks,) = flow.take(1, engine="sim", seed=4)
    learner = MetaLearner(workers.spec, workers.config, 4)
    assert len(tasks) == 2
    for rounds in tasks:
        parameters: Any = learner.parameters
        for number, batch in enumerate(rounds):
            rows = learner._rows(batch)
            with torch.no_grad(), learner.policy.using(parameters):
                logp = learner.policy.evaluate(rows["obs"], rows["actions"])[0]
            np.testing.assert_allclose(logp, rows["logp"], atol=1e-5, err_msg=f"round {number}")
            parameters = adapted(learner.policy, parameters, rows, workers.config.inner_lr)
        moved = [(parameters[n] - p).abs().max().item() for n, p in learner.parameters.items()]
        assert max(moved) > 1e-3, "else the rounds would tell nothing"


class Kept(MetaUpdate):
    """Publishes at the start and then passes the rounds on."""

    def __call__(self, tasks: Any, ctx: Any) -> Any:
        return tasks


def test_every_worker_has_a_task_of_its_own_and_a_new_one_after_each_meta_update() -> None:
    """They are those that the family gives for all workers together."""
    workers = make(num_workers=3)
    seen = []
    with maml.plan(ParallelRollouts(workers), workers).run("sim") as run:
        for _ in range(2):
            next(run)
            seen += [tuple(run.call(actor, "goal")) for actor in workers.actors]
    assert len(set(seen)) == 6


class Asked:
    """A context for a round of some workers."""

    def __init__(self, *actors: str) -> None:
        self.provenance = tuple(Source(actor, 0, 0, 0) for actor in actors)
        self.sources = actors
        self.sent: list[Any] = []

    def send(self, to: Any, method: str) -> None:
        self.sent.append((to, method))


def test_a_worker_that_missed_a_round_is_left_out() -> None:
    """A task without its rounds cannot be learned from; the others can. With none, go on."""
    adapt = InnerAdapt(make(), steps=1)
    first, second = Asked("a", "b"), Asked("b", "c")
    assert adapt([1, 2], first) == []  # type: ignore[arg-type]
    assert adapt([3, 4], second) == [[[2, 3]]]  # type: ignore[arg-type]
    assert (first.sent, second.sent) == ([(("a", "b"), "adapt")], [])
    assert adapt([1], Asked("a")) == []  # type: ignore[arg-type]
    assert adapt([2], Asked("b")) == []  # type: ignore[arg-type]


def test_workers_may_leave_and_join() -> None:
    """The next meta-update is of those that are there."""
    workers = make()
    with maml.plan(ParallelRollouts(workers), workers).run("sim") as run:
        before = next(run).steps
        run.remove_worker("worker-1")
        assert next(run).steps == before // 2
        run.add_workers(2)
        assert next(run).steps == 3 * before // 2


def test_a_restarted_worker_goes_on_with_the_meta_weights() -> None:
    """Nothing to adapt to is no error, and its task is the one it had."""
    workers = make()
    worker = MetaWorker(workers.config, workers.spec, ActorInfo("worker-0", 0, 1, 7, 0))
    weights = MetaLearner(workers.spec, workers.config, 0).get_weights()
    worker.set_weights(weights)
    worker.adapt()
    for name, value in worker.adapted_weights().items():
        np.testing.assert_array_equal(value, weights[name])


def test_a_worker_goes_on_from_its_state_as_adapted_as_it_was() -> None:
    """Also within a turn: task, round and policy are those it had."""
    workers = make()
    one, two = (
        MetaWorker(workers.config, workers.spec, ActorInfo("worker-1", 1, 0, seed, 0))
        for seed in (7, 8)
    )
    one.set_weights(MetaLearner(workers.spec, workers.config, 0).get_weights())
    one.draw_task(3)
    one.sample()
    one.adapt()
    one.sample()
    two.set_state(copy.deepcopy(one.get_state()))
    one.adapt()
    two.adapt()
    np.testing.assert_array_equal(one.sample()["obs"], two.sample()["obs"])


def test_rounds_collected_so_far_are_part_of_the_state() -> None:
    """And come back as batches."""
    workers = make()
    first, second = InnerAdapt(workers, steps=STEPS), InnerAdapt(workers, steps=STEPS)
    first.round, first.tasks = 1, {"worker-0": [SampleBatch({"rewards": np.ones((2, 1))})]}
    second.set_state(first.get_state())
    assert second.round == 1
    assert second.tasks["worker-0"][0].steps == 2


def test_wrong_workers_environments_and_numbers_are_refused_when_the_plan_is_built() -> None:
    """One clear message each, before anything starts."""
    with pytest.raises(rf.BuildError, match="'CartPole-v1' is no family of tasks"):
        MetaUpdate(Workers(maml.Config(env="CartPole-v1")))
    with pytest.raises(rf.BuildError, match=r"can adapt to a task.*maml\.Config"):
        InnerAdapt(Workers(ppo.Config()), steps=1)
    with pytest.raises(rf.BuildError, match="steps=0"):
        InnerAdapt(make(), steps=0)


def test_tasks_are_the_same_for_the_same_seed() -> None:
    """And there are as many as asked for."""
    one, two, other = (tasks_of(maml.Config(), 3, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


# -- the meta-gradient ---------------------------------------------------------------------------


class Tiny(nn.Module):
    """Two layers in double precision, so that differences of losses are exact enough."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = {"w1": (3, 2), "w2": (2, 3), "log_std": (2,)}
        for name, shape in shapes.items():
            numbers = 0.5 * torch.randn(shape, generator=generator, dtype=torch.float64)
            setattr(self, name, nn.Parameter(numbers))

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.tanh(obs @ self.w1.T)
        return hidden @ self.w2.T, hidden.sum(-1)


def tiny_learner() -> MetaLearner:
    box = Box(-1.0, 1.0, (2,), np.float32)
    spec = PolicySpec(observation_space=box, action_space=box, model=Tiny)
    config = maml.Config.make(inner_lr=0.3, clip_param=5.0, entropy_coef=0.1).resolved()
    learner = MetaLearner(spec, config, 0)
    for name, parameter in Tiny(spec).named_parameters():
        learner.parameters[name].data = parameter.data.clone()  # whatever the policy starts from
    return learner


def some_rounds(count: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return [
        {
            "obs": normal(6, 2),
            "actions": normal(6, 2),
            "logp": -2.5 + 0.3 * normal(6),
            "advantages": normal(6),
        }
        for _ in range(count)
    ]


def meta_gradient(learner: MetaLearner, rounds: Any) -> dict[str, torch.Tensor]:
    total = learner.meta_loss(rounds).total
    gradients = torch.autograd.grad(total, list(learner.parameters.values()))
    return dict(zip(learner.parameters, gradients, strict=True))


@pytest.mark.parametrize("steps", [1, 3])
def test_the_meta_gradient_is_the_slope_of_the_loss_after_adaptation(steps: int) -> None:
    """Central differences of the whole computation, adaptation included, parameter by parameter."""
    learner, rounds = tiny_learner(), some_rounds(steps + 1)
    gradients = meta_gradient(learner, rounds)
    for name, parameter in learner.parameters.items():
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            ends = []
            for sign in (1, -1):
                flat[i] += sign * 1e-5
                ends.append(learner.meta_loss(rounds).total.item())
                flat[i] -= sign * 1e-5
            slope = (ends[0] - ends[1]) / 2e-5
            assert gradients[name].view(-1)[i].item() == pytest.approx(slope, abs=1e-7), name


def test_the_meta_gradient_is_of_second_order() -> None:
    """It is not the gradient at the adapted parameters, which leaves the step itself out."""
    learner, rounds = tiny_learner(), some_rounds(2)
    whole = meta_gradient(learner, rounds)
    after = adapted(learner.policy, learner.parameters, rounds[0], 0.3)
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in after.items()}
    with learner.policy.using(leaves):
        total = learner._loss(learner.policy, rounds[1]).total
    first_order = torch.autograd.grad(total, list(leaves.values()))
    gaps = [(whole[n] - g).abs().max().item() for n, g in zip(leaves, first_order, strict=True)]
    assert max(gaps) > 0.01


def test_a_step_of_adaptation_on_what_the_policy_did_is_the_policy_gradient() -> None:
    """Where the ratio is one, its slope is that of `logp * advantages`."""
    learner, (rows,) = tiny_learner(), some_rounds(1)
    policy = learner.policy
    rows["logp"] = policy.evaluate(rows["obs"], rows["actions"])[0].detach()
    after = adapted(policy, learner.parameters, rows, 0.1)
    logp = policy.evaluate(rows["obs"], rows["actions"])[0]
    usual = torch.autograd.grad(
        (logp * rows["advantages"]).mean(), list(learner.parameters.values())
    )
    for (name, before), gradient in zip(learner.parameters.items(), usual, strict=True):
        torch.testing.assert_close(after[name], before + 0.1 * gradient)


def test_a_meta_update_follows_the_mean_gradient_over_tasks() -> None:
    """The gradients left behind by one optimiser step are the mean of the tasks' own."""
    workers = make(maml_optimizer_steps=1, grad_clip=None, lr=1e-12)
    (tasks,) = rounds_of(workers).for_each(Kept(workers)).take(1, engine="sim", seed=4)
    learner = MetaLearner(workers.spec, workers.config, 4)
    names = [name for name in learner.parameters if not name.startswith(("critic", "value"))]
    parameters = [learner.parameters[name] for name in names]
    each = [
        torch.autograd.grad(learner.meta_loss([learner._rows(b) for b in rounds]).total, parameters)
        for rounds in tasks
    ]
    learner.meta_train(tasks)
    for parameter, *own in zip(parameters, *each, strict=True):
        torch.testing.assert_close(parameter.grad, torch.stack(own).mean(0), atol=1e-6, rtol=1e-4)


# -- returns and advantages ----------------------------------------------------------------------


def batch_of(rewards: Any, truncated: Any) -> SampleBatch:
    rewards = np.array(rewards, np.float32)
    return SampleBatch(
        {
            "rewards": rewards,
            "truncated": np.array(truncated),
            "terminated": np.zeros(rewards.shape, bool),
            "obs": np.zeros((*rewards.shape, 1), np.float32),
            "actions": np.zeros((*rewards.shape, 1), np.float32),
            "logp": np.zeros(rewards.shape, np.float32),
        }
    )


def test_the_return_of_a_round_is_that_of_its_whole_episodes() -> None:
    """What was cut by its end counts only if there is nothing else."""
    cut = batch_of([[1, 5], [2, 6], [9, 7]], [[False, False], [True, False], [False, True]])
    assert mean_return(cut) == pytest.approx((3 + 18) / 2)
    assert mean_return(batch_of([[1, 5], [2, 6]], [[False, False]] * 2)) == pytest.approx(7)


def test_returns_are_told_by_step() -> None:
    """Before, after each step in between, and after the last; means over tasks."""
    task = [batch_of([[value]], [[True]]) for value in (1, 2, 4)]
    other = [batch_of([[value]], [[True]]) for value in (3, 4, 6)]
    told = returns_by_step([task, other])
    assert told == {"return_before": 2.0, "return_after_1": 3.0, "return_after": 5.0}


def test_advantages_end_with_the_episode_and_the_round() -> None:
    """With a constant baseline they are the discounted sums of what was left, standardised."""
    batch = batch_of([[1.0], [2.0], [4.0], [8.0]], [[False], [True], [False], [False]])
    rows = finite_horizon_rows({k: torch.from_numpy(v) for k, v in batch.items()}, 0.5, 1.0)
    returns = torch.tensor([1 + 0.5 * 2, 2, 4 + 0.5 * 8, 8])
    # two episodes of two steps: the baseline is the mean return of a first and of a second step
    left = returns - torch.tensor([5.0, 5.0, 5.0, 5.0])
    torch.testing.assert_close(
        rows["advantages"], (left - left.mean()) / left.std(), atol=1e-3, rtol=0
    )


def test_a_baseline_that_fits_leaves_no_advantage() -> None:
    """Least squares finds a target that is linear in the features, and skips invalid rows."""
    features = torch.rand((5, 3, 4), dtype=torch.float64)
    targets = (features @ torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)).float()
    valid = torch.ones((5, 3), dtype=torch.bool)
    wrong = targets.clone()
    wrong[2, 1], valid[2, 1] = 99.0, False
    torch.testing.assert_close(fitted(features, wrong, valid), targets, atol=1e-2, rtol=0)
