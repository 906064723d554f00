"""How weights get to the workers: who sends them, when, and how often they are serialised."""

from __future__ import annotations

from typing import Any

import pytest

import rillflow as rf
from rillflow.algorithms import a2c, apex
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.train import TrainOneStep
from rillflow.rl.weights import Published, UpdateWorkerWeights
from rillflow.rl.workers import Workers, create_rollout_workers

SMALL: dict[str, Any] = {"hidden": (8,), "num_envs_per_worker": 4, "rollout_fragment_length": 5}


def workers(module: Any = a2c, **settings: Any) -> Workers:
    return create_rollout_workers(module.Config.make(**SMALL, **settings))


class Ctx:
    """A context for items of some actors, that remembers to whom messages went."""

    def __init__(self, own: Workers, *sources: int) -> None:
        self.seed = 0
        self.sources = [own.actors[i] for i in sources]
        self.published = Published(own, {})
        self.sent: list[int] = []
        self.put_values: list[Any] = []

    def shared(self, key: str, make: Any) -> Published:
        return self.published

    def defer(self, value: Any) -> str:
        self.put_values.append(value)
        return "ref"

    def send(self, to: Any, method: str, *args: Any, **options: Any) -> None:
        assert method == "set_weights"
        self.sent += [to.index] if isinstance(to, rf.ActorHandle) else [a.index for a in to]


@pytest.mark.parametrize(
    ("module", "settings", "delay", "found"),
    [
        (a2c, {}, None, 0),
        (a2c, {}, 40, 40),
        (apex, {"max_weight_sync_delay": 60}, None, 60),
        (apex, {"max_weight_sync_delay": 60}, 0, 0),
    ],
)
def test_the_delay_is_the_argument_or_the_setting_or_none(
    module: Any, settings: dict[str, Any], delay: int | None, found: int
) -> None:
    """`UpdateWorkerWeights(workers)`, as the paper writes it, follows the settings."""
    assert UpdateWorkerWeights(workers(module, **settings), delay).delay == found


def test_each_worker_is_sent_weights_after_so_many_steps_of_its_own() -> None:
    """Fragments have 20 steps: with a delay of 40 every second one of a worker is answered."""
    own = workers()
    update = UpdateWorkerWeights(own, 40)
    sent = []
    for index in (0, 0, 1, 0, 1, 0):
        ctx = Ctx(own, index)
        assert update("item", ctx) == "item"
        sent.append(ctx.sent)
    assert sent == [[], [0], [], [], [1], [0]]


def test_every_source_of_a_joined_item_is_sent_weights() -> None:
    """Not only the last one."""
    own = workers(num_workers=3)
    ctx = Ctx(own, 0, 2)
    UpdateWorkerWeights(own)("item", ctx)
    assert ctx.sent == [0, 2]
    assert len(ctx.put_values) == 1, "serialised once for both"


def test_a_plan_that_is_built_again_goes_on_counting() -> None:
    """Steps are kept by the names of the workers, which a new plan gives again."""
    one, two = (UpdateWorkerWeights(workers(), 40) for _ in range(2))
    one("item", Ctx(one.workers, 0))
    two.set_state(one.get_state())
    ctx = Ctx(two.workers, 0)
    two("item", ctx)
    assert ctx.sent == [0]


def told(flow: rf.Flow[Any], results: int) -> int:
    """Messages to workers during so many results, without those before the first request."""
    with flow.run("sim", trace=True) as run:
        for _ in range(results):
            next(run)
        return sum(event[1] == "tell" for event in run.trace)


def test_who_trains_sends_to_all_workers() -> None:
    """Two at the start, then two for each training step that another round follows."""
    own = workers()
    rollouts = ParallelRollouts(own, mode="bulk_sync")
    assert told(rollouts.for_each(TrainOneStep(own)), 5) == 2 + 2 * 4


def test_an_operator_that_updates_workers_does_so_alone() -> None:
    """Training only keeps the newest weights ready; 40 steps are two rounds."""
    own = workers()
    rollouts = ParallelRollouts(own, mode="bulk_sync").for_each(TrainOneStep(own))
    assert told(rollouts.for_each(UpdateWorkerWeights(own, 40)), 6) == 2 + 2 * 2


def test_the_same_version_is_not_sent_twice() -> None:
    """Nobody trains here: after the first weights there is nothing to send."""
    own = workers()
    rollouts = ParallelRollouts(own, mode="async").for_each(UpdateWorkerWeights(own))
    assert told(rollouts, 8) == 2
