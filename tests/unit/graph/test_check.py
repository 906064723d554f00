"""A flow that cannot work is refused before anything starts, with the rule and the way out."""

from __future__ import annotations

import abc
import functools
import socket
import threading
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from rillflow.errors import CheckError, DeadlockError
from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently, Union
from rillflow.flows.parallel import ParallelFlow
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.flows.sources import from_actors, from_items, from_iterators, from_range
from rillflow.graph.check import CHECKS, problems
from rillflow.graph.handles import Actors, Background, Queue
from rillflow.graph.shippable import is_shippable, why_unshippable

LOCK = threading.Lock()
T = TypeVar("T")


class Worker:
    """A rollout worker, as far as a check can see."""

    def __init__(self, env: Any = None, **options: Any) -> None:
        self.env = env

    def next(self) -> int:
        return 0


class Holder:
    """An operator or environment with one attribute."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self, item: Any) -> Any:
        return item


def numbers() -> Flow[int]:
    return from_range(8).gather_async()


def double(x: int) -> int:
    return 2 * x


def found(flow: Flow[Any] | ParallelFlow[Any]) -> list[str]:
    return problems(flow.node)


def the_problem(flow: Flow[Any] | ParallelFlow[Any]) -> str:
    (problem,) = found(flow)
    return problem


# -- flows that are fine ---------------------------------------------------------------------------


def a3c(workers: Actors) -> Flow[Any]:
    grads = from_actors(workers).for_each(lambda batch: batch + 1).gather_async()
    return grads.for_each(Holder(workers))


def ape_x(workers: Actors) -> Flow[Any]:
    replay = Actors.of(Worker, 4, name="replay")
    learner = Background(double, name="learner")
    store = from_actors(workers).gather_async(num_async=2).for_each(Holder(replay))
    feed = from_actors(replay).gather_async(num_async=4).for_each(Enqueue(learner.inqueue))
    update = Dequeue(learner.outqueue).for_each(Holder(workers))
    return Concurrently([store, feed, update], mode="async", output_indexes=[2])


def multi_agent(workers: Actors) -> Flow[Any]:
    first, second = from_actors(workers, concat=sum).split()
    ppo = first.for_each(double).batch(4)
    store = second.for_each(double)
    replayed = from_actors(Actors.of(Worker, 1, name="replay")).gather_async().for_each(double)
    return Union(ppo, Concurrently([store, replayed], output_indexes=[1]))


@pytest.mark.parametrize("plan", [a3c, ape_x, multi_agent])
def test_the_usual_plans_have_no_problems(plan: Callable[[Actors], Flow[Any]]) -> None:
    flow = plan(Actors.of(Worker, 8, name="worker"))
    assert found(flow) == []
    assert flow.check() == []
    flow.run("sim")


def test_a_flow_on_256_workers_is_checked_in_under_50_ms() -> None:
    def seconds() -> float:
        each = [(f"env-{i}",) for i in range(256)]
        flow = ape_x(Actors.of(Worker, 256, each=each, name="worker"))
        start = time.thread_time()
        assert found(flow) == []
        return time.thread_time() - start

    assert min(seconds() for _ in range(5)) < 0.05


class Counted:
    """Counts how often it is pickled."""

    times = 0

    def __call__(self, item: Any) -> Any:
        return item

    def __reduce__(self) -> Any:
        type(self).times += 1
        return (Counted, ())


def test_arguments_and_callables_are_pickled_once_not_once_per_actor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Counted, "times", 0)
    argument, operator = Counted(), Counted()
    flow = from_actors(Actors.of(Worker, 256, argument)).for_each(operator).for_each(operator)
    assert found(flow.gather_sync()) == []
    assert Counted.times == 2


def test_every_problem_is_reported_at_once() -> None:
    child, _ = numbers().split()
    shipped = from_items([1]).for_each(Holder(threading.Lock())).gather_async()
    queue: Queue[int] = Queue(name="lost")
    flow = Concurrently(
        [child.limit(2, name="same"), shipped.limit(1, name="same"), Dequeue(queue)],
        output_indexes=[0],
    )
    with pytest.raises(CheckError) as caught:
        flow.run("sim")
    assert caught.value.problems == found(flow)
    assert len(caught.value.problems) == 4
    for phrase in ("names are unique", "child of a split", "nothing fills 'lost'", "self.held"):
        assert phrase in str(caught.value)


def test_every_check_says_what_it_is_about() -> None:
    assert all(find.__doc__ for find in CHECKS)


# -- shape -----------------------------------------------------------------------------------------


def test_a_parallel_output_must_be_gathered() -> None:
    problem = the_problem(from_range(8).for_each(double))
    assert "'for_each(double)' is parallel" in problem
    assert ".gather_sync()" in problem


def test_a_split_child_without_a_reader_is_refused() -> None:
    first, _, third = numbers().split(3)
    problem = the_problem(Union(first, third))
    assert "nothing reads child 1 of 'split(3)'" in problem
    assert "output_indexes" in problem


def test_all_idle_children_of_a_split_are_named_together() -> None:
    assert "children [1, 2] of 'split(3)'" in the_problem(numbers().split(3)[0])


def test_a_second_split_is_called_by_its_own_name() -> None:
    first, second = numbers().split()
    inner, _ = second.split()
    assert "child 1 of 'split(2)#2'" in the_problem(Union(first, inner))


def test_two_readers_of_one_flow_are_refused() -> None:
    flow = numbers()
    problem = the_problem(Union(flow.for_each(double), flow.limit(2)))
    assert "'gather_async' is read 2 times, by 'for_each(double)' and 'limit(2)'" in problem
    assert ".split(2)" in problem


def test_one_operator_that_reads_a_flow_twice_is_refused() -> None:
    flow = numbers()
    assert "'gather_async' is read 2 times, by 'union'" in the_problem(Union(flow, flow))


def test_two_readers_of_one_parallel_flow_are_refused() -> None:
    flow = from_range(8)
    problem = the_problem(Union(flow.gather_sync(), flow.gather_async()))
    assert "'from_range(8)' is read 2 times" in problem


def test_each_shard_may_have_its_own_reader() -> None:
    assert found(Union(*from_range(9, 3).shards())) == []


def test_two_readers_of_one_shard_are_refused() -> None:
    flow = from_range(9, 3)
    problem = the_problem(Union(flow.get_shard(1), flow.select_shards([0, 1]).gather_async()))
    assert "'from_range(9)' is read 2 times" in problem


def test_a_name_given_twice_is_refused() -> None:
    problem = the_problem(numbers().for_each(double, name="step").limit(3, name="step"))
    assert "'step' is given to 2 operators: 'for_each(double)' and 'limit(3)'" in problem
    assert "name=" in problem


def test_two_groups_of_actors_may_have_one_name() -> None:
    groups = [from_actors(Actors.of(Worker, 2, name="worker")).gather_async() for _ in range(2)]
    assert found(Union(*groups)) == []


# -- routes ----------------------------------------------------------------------------------------


def test_repartition_gathered_whole_is_fine() -> None:
    flow = from_range(8).repartition(3).for_each(double).for_each(double, max_concurrency=2)
    assert found(flow.gather_async()) == []


@pytest.mark.parametrize(
    "mixed",
    [
        lambda: from_range(8).repartition(2).union(from_range(4)),
        lambda: from_range(4).union(from_range(8).repartition(2)),
        lambda: from_range(8).repartition(3).select_shards([0, 2]),
        lambda: from_range(8).repartition(2).select_shards([1, 0]),
    ],
    ids=["route first", "route second", "some shards", "another order"],
)
def test_new_shards_are_gathered_all_together_and_alone(mixed: Callable[[], Any]) -> None:
    problem = the_problem(mixed().gather_async())
    assert "made by 'repartition(" in problem
    assert "'gather_async' gathers a selection or a union" in problem
    assert "Union(...)" in problem


def test_shards_of_two_routes_in_one_gather_are_refused() -> None:
    flow = from_range(8).repartition(2).union(from_range(8).repartition(2)).gather_async()
    assert "'repartition(2)' and 'repartition(2)#2'" in the_problem(flow)


# -- weights ---------------------------------------------------------------------------------------


def test_unequal_weights_on_children_of_one_split_are_refused() -> None:
    first, second = numbers().split()
    problem = the_problem(Union(first.batch(2), second.for_each(double), weights=[1, 2.5]))
    assert "weights 1 to 2.5 cannot hold in 'union(weights=[1, 2.5])'" in problem
    assert "'batch(2)' and 'for_each(double)' both come from 'split(2)'" in problem
    assert "equal weights" in problem
    assert "Dequeue(queue)" in problem


def test_equal_weights_on_children_of_one_split_are_fine() -> None:
    first, second = numbers().split()
    assert found(Union(first, second, numbers(), weights=[2, 2, 5])) == []


def test_units_on_children_of_one_split_are_refused() -> None:
    first, second = numbers().split()
    problem = the_problem(Union(first, second, weights=[1, 1], units=float))
    assert "`units` cannot hold" in problem


def test_the_innermost_shared_split_is_named() -> None:
    first, second = numbers().split()
    third, fourth = second.split(buffer=3)
    problem = the_problem(Union(first, Union(third, fourth, weights=[1, 2])))
    assert "both come from 'split(2)#2'" in problem


def test_weights_hold_where_a_queue_lies_between() -> None:
    first, second = numbers().split()
    queue: Queue[int] = Queue()
    aside = Concurrently([second.for_each(Enqueue(queue)), Dequeue(queue)], output_indexes=[1])
    assert found(Union(first, aside, weights=[1, 2])) == []


def test_weights_hold_for_a_branch_with_a_source_of_its_own() -> None:
    """Its turns need no items of the split: a replay branch may train more often than it stores."""
    first, second = numbers().split()
    assert found(Union(first, Union(second, numbers()), weights=[1, 4])) == []


# -- queues ----------------------------------------------------------------------------------------


def test_a_queue_that_is_never_emptied_is_refused() -> None:
    queue: Queue[int] = Queue(name="batches")
    problem = the_problem(numbers().for_each(Enqueue(queue)))
    assert "nothing empties 'batches', which 'enqueue(batches)' fills" in problem
    assert "Dequeue(queue)" in problem
    assert "drop_oldest" in problem


def test_a_queue_that_drops_need_not_be_emptied() -> None:
    queue: Queue[int] = Queue(when_full="drop_newest")
    assert found(numbers().for_each(Enqueue(queue))) == []


def test_a_queue_that_is_never_filled_is_refused() -> None:
    problem = the_problem(Union(numbers(), Dequeue(Queue(name="batches"))))
    assert "nothing fills 'batches', which 'dequeue(batches)' reads" in problem
    assert "Enqueue(queue)" in problem


def test_a_background_whose_results_are_never_taken_is_refused() -> None:
    learner = Background(double, name="learner")
    problem = the_problem(numbers().for_each(Enqueue(learner.inqueue)))
    assert "nothing empties 'learner.out' of 'learner'" in problem
    assert "Dequeue(background.outqueue)" in problem


def test_a_background_that_is_never_fed_is_refused() -> None:
    problem = the_problem(Dequeue(Background(double, name="learner").outqueue))
    assert "nothing fills 'learner.in' of 'learner'" in problem
    assert "Enqueue(background.inqueue)" in problem


def test_a_background_given_a_queue_of_the_user_is_recognised() -> None:
    queue: Queue[int] = Queue()
    learner = Background(double, inqueue=queue)
    feed = numbers().for_each(Enqueue(queue))
    assert found(Concurrently([feed, Dequeue(learner.outqueue)], output_indexes=[1])) == []


def test_a_loop_that_nothing_enters_is_refused() -> None:
    queue: Queue[int] = Queue(name="loop")
    problem = the_problem(Dequeue(queue).for_each(double).for_each(Enqueue(queue)))
    assert "'loop' is filled only from itself, by 'enqueue(loop)'" in problem
    assert "Enqueue something from a source" in problem


def test_branches_inside_a_loop_do_not_open_it() -> None:
    queue: Queue[int] = Queue(name="loop")
    first, second = Dequeue(queue).split()
    problem = the_problem(Union(first.for_each(double), second).for_each(Enqueue(queue)))
    assert "'loop' is filled only from itself" in problem


def test_a_loop_through_two_queues_is_refused_once() -> None:
    here: Queue[int] = Queue(name="here")
    there: Queue[int] = Queue(name="there")
    one = Dequeue(here).for_each(Enqueue(there))
    other = Dequeue(there).for_each(Enqueue(here))
    problem = the_problem(Union(numbers(), one, other))
    assert "'here' and 'there' are filled only from each other" in problem


def test_a_loop_through_a_background_is_refused() -> None:
    learner = Background(double, name="learner")
    problem = the_problem(Dequeue(learner.outqueue).for_each(Enqueue(learner.inqueue)))
    assert "filled only from each other, by 'enqueue(learner.in)' and 'learner'" in problem


def test_a_loop_that_an_item_can_enter_is_fine() -> None:
    queue: Queue[int] = Queue()
    first, second = Dequeue(queue).split()
    loop = first.filter(bool).for_each(Enqueue(queue))
    assert found(Union(numbers().for_each(Enqueue(queue)), loop, second)) == []


def test_a_way_in_that_gives_no_items_does_not_open_a_loop() -> None:
    """Only the outputs of Concurrently come out of it."""
    queue: Queue[int] = Queue(name="loop")
    inner = Concurrently([numbers(), Dequeue(queue)], output_indexes=[1])
    assert "'loop' is filled only from itself" in the_problem(inner.for_each(Enqueue(queue)))


def test_a_queue_behind_an_unfilled_one_is_not_called_a_loop() -> None:
    empty: Queue[int] = Queue(name="empty")
    behind: Queue[int] = Queue(name="behind")
    flow = Union(Dequeue(empty).for_each(Enqueue(behind)), Dequeue(behind))
    assert "nothing fills 'empty'" in the_problem(flow)


@pytest.mark.parametrize("shape", ["idle child", "never emptied", "loop", "no results taken"])
def test_what_is_refused_would_have_been_stuck(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check each of these flows stops for ever."""
    queue: Queue[int] = Queue(capacity=2)
    flows: dict[str, Callable[[], Flow[Any]]] = {
        "idle child": lambda: numbers().split()[0],
        "never emptied": lambda: numbers().for_each(Enqueue(queue)),
        "loop": lambda: Dequeue(queue).for_each(Enqueue(queue)),
        "no results taken": lambda: numbers().for_each(
            Enqueue(Background(double, inqueue=queue, outqueue=Queue(capacity=2)).inqueue)
        ),
    }
    flow = flows[shape]()
    assert len(found(flow)) == 1
    monkeypatch.setattr("rillflow.graph.check.CHECKS", [])
    with pytest.raises(DeadlockError):
        flow.take(8, engine="sim")


# -- what travels to actors ------------------------------------------------------------------------


def test_an_operator_that_cannot_travel_is_named_with_its_variable() -> None:
    lock = threading.Lock()
    flow = from_range(8).for_each(lambda x: (lock, x), name="step").gather_sync()
    problem = the_problem(flow)
    assert "operator 'step' cannot be: `lock` is a lock" in problem
    assert "make it there" in problem


def test_one_callable_in_two_operators_is_told_for_each() -> None:
    bad = Holder(threading.Lock())
    flow = from_range(8).for_each(bad).filter(bad).gather_sync()
    one, other = found(flow)
    assert "'for_each(Holder)' cannot be: `self.held`" in one
    assert "'filter(Holder)' cannot be: `self.held`" in other


def test_an_operator_in_the_driver_may_hold_anything() -> None:
    lock = threading.Lock()
    assert found(numbers().for_each(lambda x: (lock, x))) == []


@pytest.mark.parametrize("placement", ["process", "thread", "driver"])
def test_the_arguments_of_actors_are_checked_wherever_they_live(placement: Any) -> None:
    env = Holder(threading.Lock())
    group = Actors.of(Worker, 3, env, name="worker", placement=placement)
    problem = the_problem(from_actors(group).gather_sync())
    assert "group of actors 'worker' cannot be: `env.held` is a lock" in problem


def test_keyword_and_further_arguments_are_checked() -> None:
    by_key = from_actors(Actors.of(Worker, 1, log=threading.Lock())).gather_sync()
    assert "`log` is a lock" in the_problem(by_key)
    many = Actors.of(_collect, 1, 1, threading.Lock())
    assert "`args[1]` is a lock" in the_problem(from_actors(many).gather_sync())
    unsigned = Actors.of(dict, 1, threading.Lock())
    flow = numbers().for_each(Holder(unsigned))
    assert "`args[0]` is a lock" in the_problem(flow)


def _collect(*parts: Any) -> Worker:
    return Worker()


def test_the_actor_whose_own_arguments_cannot_travel_is_named() -> None:
    flow = from_iterators([[1], (n for n in [2])]).gather_sync()
    assert "`iterable` is a generator" in the_problem(flow)
    assert "for actor 1" in the_problem(flow)


def test_a_class_made_on_the_spot_is_looked_into() -> None:
    lock = threading.Lock()

    class Local(Worker):
        def next(self) -> int:
            return int(lock.locked())

    flow = from_actors(Actors.of(Local, 2, name="local")).gather_sync()
    assert "group of actors 'local' cannot be: `lock` in `Local.next` is a lock" in the_problem(
        flow
    )


@pytest.mark.parametrize("placement", ["process", "thread"])
def test_a_background_that_cannot_travel_is_refused(placement: Any) -> None:
    flow = numbers().for_each(Holder(threading.Lock()), on=placement, name="learner")
    assert "background operator 'learner' cannot be: `self.held` is a lock" in the_problem(flow)


def test_a_helper_of_a_concurrent_map_that_cannot_travel_is_refused() -> None:
    flow = from_range(8).for_each(Holder(threading.Lock()), max_concurrency=2).gather_sync()
    problem = the_problem(flow)
    assert "operator 'for_each(Holder, max_concurrency=2)' cannot be: `self.held`" in problem


def test_arguments_that_travel_alone_but_not_together_are_refused() -> None:
    class Only:
        """Refuses inside the tuple of arguments, the first time it is asked."""

        asked = 0

        def __reduce__(self) -> Any:
            Only.asked += 1
            if Only.asked == 1:
                raise TypeError("not now")
            return (int, ())

    flow = from_actors(Actors.of(Worker, 1, Only())).gather_sync()
    assert "its arguments refuse" in the_problem(flow)


# -- why a value cannot travel ---------------------------------------------------------------------


def test_code_and_data_can_travel() -> None:
    class Local:
        def step(self, x: int) -> int:
            return x

    for value in (
        lambda x: Local().step(x),
        Local,
        Local().step,
        functools.partial(double, 1),
        [1],
    ):
        assert is_shippable(value)
        assert why_unshippable(value) is None


def test_what_cannot_travel_is_called_by_its_kind(tmp_path: Path) -> None:
    with (
        open(tmp_path / "log", "w") as text,
        socket.socket() as plug,
        open(tmp_path / "log", "rb") as raw,
    ):
        kinds: dict[str, list[object]] = {
            "a lock": [threading.Lock(), threading.RLock()],
            "an open file": [text, raw],
            "a socket": [plug],
            "a generator": [(x for x in [1])],
            "an Event": [threading.Event()],
        }
        for kind, values in kinds.items():
            for value in values:
                why = why_unshippable(value, "it")
                assert why is not None
                assert why.startswith(f"`it` is {kind} (")


def _default(x: Any, *, key: Any = None) -> Any:
    return x


def _values() -> Iterator[tuple[str, Any]]:
    """What to blame, and the value it is found in."""
    lock = threading.Lock()
    env = Holder(lock)
    worker = Holder(env)

    def helper() -> Any:
        return lock

    def with_default(x: int, a: int = 1, guard: Any = lock) -> None: ...

    def with_keyword(x: int, *, guard: Any = lock) -> None: ...

    def with_attribute(x: int) -> None: ...

    with_attribute.guard = lock  # type: ignore[attr-defined]

    def unbound() -> Any:
        return (later, lock)  # noqa: F821 - a name that is not bound yet

    later = None
    del later

    class Slotted:
        __slots__ = ("guard",)

        def __init__(self) -> None:
            self.guard = lock

    class Attribute(abc.ABC):  # noqa: B024 - an abstract class has members that are made anew
        guard = lock

    class Child(Attribute):
        pass

    class Wrapped:
        @staticmethod
        def make() -> Any:
            return lock

    class Computed:
        @property
        def now(self) -> Any:
            return lock

    class Super(Holder):
        """Its `__class__` cell points back to the class, which is not what is to blame."""

        def __call__(self, item: Any) -> Any:
            return super().__call__(item)

        guard = lock

    class Listed(list[Any]):
        pass

    class Refuses:
        def __reduce_ex__(self, protocol: Any) -> Any:
            raise ValueError

    yield "`worker.held.held` is a lock", lambda: worker
    yield "`lock` in `helper` is a lock", lambda: helper
    yield "`LOCK` is a lock", lambda: [LOCK for _ in range(2)]
    yield "`LOCK` is a lock", lambda: lambda: LOCK
    yield "`LOCK` is a lock", lambda: (threading, T, LOCK)
    yield "`guard` is a lock", with_default
    yield "`guard` is a lock", with_keyword
    yield "`with_attribute.guard` is a lock", with_attribute
    yield "`lock` is a lock", unbound
    yield "`self.held` is a lock", env
    yield "`self.held` is a lock", env.__call__
    yield "`self['callback'].__self__.held` is a lock", {"callback": env.__call__}
    yield "`self.guard` is a lock", Slotted()
    yield "`Attribute.guard` is a lock", Attribute
    yield "`Attribute.guard` is a lock", Child()
    yield "`lock` in `Wrapped.make` is a lock", Wrapped
    yield "`lock` in `Computed.now` is a lock", Computed
    yield "`Super.guard` is a lock", Super
    yield "`self` is a lock", lock.acquire
    yield "`self.held` is a lock", functools.partial(env, 1)
    yield "`args[0].held` is a lock", functools.partial(_default, env)
    yield "`key` is a lock", functools.partial(_default, key=lock)
    yield "`self[1]` is a lock", [1, lock]
    yield "`self['a'][0]` is a lock", {"a": (lock,)}
    yield "`self{...}` is a lock", {lock}
    yield "`self[0]` is a lock", Listed([lock])
    yield "`self[0]` is a lock", deque([lock])
    yield "`self.held` is an Event", Holder(threading.Event())
    yield "`self` is a Refuses (ValueError)", Refuses()


BLAME = list(_values())


@pytest.mark.parametrize(("blamed", "value"), BLAME, ids=[str(i) for i in range(len(BLAME))])
def test_the_variable_to_blame_is_named(blamed: str, value: object) -> None:
    why = why_unshippable(value)
    assert why is not None
    assert why.startswith(blamed)


def test_an_object_that_points_back_to_its_owner_is_not_blamed() -> None:
    owner = Holder(None)
    owner.held = [*(Holder(owner) for _ in range(1000)), threading.Lock()]
    assert str(why_unshippable(owner)).startswith("`self.held[1000]` is a lock")


def test_what_an_object_is_rebuilt_from_is_looked_into() -> None:
    class Rebuilt(Holder):
        def __reduce__(self) -> Any:
            return (Rebuilt, ([self.held],))

    assert str(why_unshippable(Rebuilt(threading.Lock()))).startswith("`self[0]` is a lock")


def test_an_object_is_blamed_itself_for_what_it_makes_up_on_the_way() -> None:
    class Fresh(Holder):
        def __reduce__(self) -> Any:
            return (Fresh, (), {"rows": (row for row in [1])})

    assert str(why_unshippable(Fresh(1), "rows")).startswith("`rows` is a Fresh (TypeError: ")


def test_data_too_deep_to_pickle_is_blamed_as_a_whole() -> None:
    deep: list[Any] = []
    chain = Holder(None)
    for _ in range(100_000):  # some versions of Python go as deep as 10,000
        deep = [deep]
        chain = Holder(chain)
    assert str(why_unshippable(deep, "deep")).startswith("`deep` is a list (")
    assert str(why_unshippable(chain, "chain")).startswith("`chain` is a Holder (")


def test_large_arrays_are_looked_at_without_a_copy() -> None:
    weights = np.ones(1_000_000)
    tracemalloc.start()
    try:
        assert is_shippable(Holder({"weights": weights}))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
