"""What the flows of the tables are made of: functions, classes and operators with annotations."""

from __future__ import annotations

import functools as functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Protocol,
    TypedDict,
    TypeGuard,
    TypeVar,
    runtime_checkable,
)

import numpy as np
import torch
from numpy.typing import NDArray

import rillflow as rf
from rillflow.algorithms import a3c as a3c
from rillflow.algorithms import apex as apex
from rillflow.algorithms import maml as maml
from rillflow.algorithms import ppo as ppo
from rillflow.rl.learner_thread import LearnerThread as LearnerThread
from rillflow.rl.meta import InnerAdapt as InnerAdapt
from rillflow.rl.meta import MetaUpdate as MetaUpdate
from rillflow.rl.metrics import ReportMetrics as ReportMetrics
from rillflow.rl.multi_agent import MultiAgentConfig as MultiAgentConfig
from rillflow.rl.multi_agent import Select as Select
from rillflow.rl.replay import ParallelReplay as ParallelReplay
from rillflow.rl.replay import Replay as Replay
from rillflow.rl.replay import StoreToReplayBuffer as StoreToReplayBuffer
from rillflow.rl.replay import UpdateReplayPriorities as UpdateReplayPriorities
from rillflow.rl.replay import UpdateTargetNetwork as UpdateTargetNetwork
from rillflow.rl.replay import create_replay_actors as create_replay_actors
from rillflow.rl.rollouts import ConcatBatches as ConcatBatches
from rillflow.rl.rollouts import ParallelRollouts as ParallelRollouts
from rillflow.rl.rollouts import StandardizeFields as StandardizeFields
from rillflow.rl.train import ApplyGradients as ApplyGradients
from rillflow.rl.train import AverageGradients as AverageGradients
from rillflow.rl.train import ComputeGradients as ComputeGradients
from rillflow.rl.train import TrainOneStep as TrainOneStep
from rillflow.rl.weights import UpdateWorkerWeights as UpdateWorkerWeights
from rillflow.rl.workers import create_rollout_workers as create_rollout_workers

if TYPE_CHECKING:
    from decimal import Decimal

    from nowhere_at_all import Missing  # type: ignore[import-not-found]

T = TypeVar("T")
N = TypeVar("N", int, str)
B = TypeVar("B", bound=Sequence[int])
K = TypeVar("K")

# -- functions -------------------------------------------------------------------------------------


def half(x: int) -> float:
    return x / 2


def double(x: int) -> int:
    return 2 * x


def word(x: int) -> str:
    return str(x)


def length(x: str) -> int:
    return len(x)


def shout(x: float) -> str:
    return f"{x}!"


def long(x: str) -> bool:
    return len(x) > 3


def even(x: int) -> bool:
    return x % 2 == 0


def forgets(x: int) -> None:
    print(x)


def total(xs: list[int]) -> int:
    return sum(xs)


def totals(xs: Sequence[float]) -> float:
    return sum(xs)


def spell(xs: Sequence[str]) -> str:
    return "".join(xs)


def letters(x: str) -> list[str]:
    return list(x)


def twice(x: int) -> list[int]:
    return [x, x]


def maybe(x: int) -> int | None:
    return x or None


def is_there(x: int | None) -> TypeGuard[int]:
    return x is not None


def int_or_str(x: int | str) -> int:
    return len(str(x))


def same(x: T) -> T:
    return x


def listed(x: T) -> list[T]:
    return [x]


def first(xs: Sequence[T]) -> T:
    return xs[0]


def plus(x: N) -> N:
    return x + x


def shortest(x: B) -> B:
    return x


def power(base: int, exponent: int) -> int:
    return base**exponent


def nothing() -> int:
    return 0


def table(x: int) -> dict[str, int]:
    return {"x": x}


def names(x: Mapping[str, str]) -> str:
    return ",".join(x)


def numbers(x: Mapping[str, int]) -> int:
    return sum(x.values())


def array(x: int) -> NDArray[np.float32]:
    return np.zeros(x, np.float32)


def norm(x: NDArray[np.floating[Any]]) -> float:
    return float(np.linalg.norm(x))


def indexes(x: NDArray[np.int64]) -> int:
    return int(x.sum())


def tensor(x: int) -> torch.Tensor:
    return torch.zeros(x)


def detached(x: torch.Tensor) -> torch.Tensor:
    return x.detach()


def anything(x: Any) -> Any:
    return x


def shape(x: Literal["round", "square"]) -> str:
    return x


def colour(x: int) -> Literal["red", "blue"]:
    return "red" if x else "blue"


def left(pair: tuple[int, str]) -> int:
    return pair[0]


def triple(x: int) -> tuple[int, int, int]:
    return x, x, x


def couple(x: int) -> tuple[int, str]:
    return x, str(x)


def actor_of(pair: tuple[rf.ActorHandle, int]) -> str:
    return f"{pair[0]}: {pair[1]}"


def with_context(x: str, ctx: rf.Context) -> int:
    return len(x) + ctx.seed


def plus_context(x: int, ctx: rf.Context) -> int:
    return x + ctx.seed


def exact(x: Decimal) -> int:
    return int(x)


def lost(x: Missing) -> int:
    return 0


def callback(x: int) -> Callable[[int], str]:
    return lambda y: str(x + y)


def calls(f: Callable[[str], str]) -> str:
    return f("")


def calls_rightly(f: Callable[[int], str]) -> str:
    return f(1)


@functools.lru_cache
def cached(x: str) -> int:
    return len(x)


def retried(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(fn)
    def wrapper(item: Any) -> Any:
        return fn(str(item))

    return wrapper


stringly = retried(length)
"""a decorator that changes what goes in: nothing is known of it"""

# -- classes ---------------------------------------------------------------------------------------

Metres = NewType("Metres", float)
Feet = NewType("Feet", float)


def in_metres(x: int) -> Metres:
    return Metres(x)


def in_feet(x: int) -> Feet:
    return Feet(x)


def climb(x: Metres) -> float:
    return x


class Animal:
    def name(self) -> str:
        return type(self).__name__


class Dog(Animal):
    def bark(self) -> str:
        return "woof"


class Cat(Animal):
    pass


def a_dog(x: int) -> Dog:
    return Dog()


def a_cat(x: int) -> Cat:
    return Cat()


def an_animal(x: int) -> Animal:
    return Dog()


def feed(x: Animal) -> str:
    return x.name()


def walk(x: Dog) -> str:
    return x.bark()


class Point(NamedTuple):
    x: int
    y: int


def a_point(x: int) -> Point:
    return Point(x, x)


def far(p: tuple[int, int]) -> int:
    return p[0] + p[1]


def far_names(p: tuple[str, str]) -> str:
    return p[0] + p[1]


class Movie(TypedDict):
    title: str
    year: int


class Titled(TypedDict):
    title: str


class Paged(TypedDict):
    pages: int


def a_movie(x: int) -> Movie:
    return {"title": str(x), "year": x}


def title(x: Titled) -> str:
    return x["title"]


def pages(x: Paged) -> int:
    return x["pages"]


@dataclass
class Order:
    item: str
    """what"""


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: float) -> float:
        return self.factor * x

    def apply(self, x: str) -> str:
        return x * int(self.factor)


class Box(Generic[T]):
    def __init__(self, inside: T) -> None:
        self.inside = inside


def boxed(x: int) -> Box[int]:
    return Box(x)


def unbox(x: Box[str]) -> str:
    return x.inside


def unbox_any(x: Box[T]) -> T:
    return x.inside


class IntBox(Box[int]):
    pass


def int_boxed(x: int) -> IntBox:
    return IntBox(x)


class Count(rf.Operator[str, int]):
    def __call__(self, item: str, ctx: rf.Context) -> int:
        return len(item)


@runtime_checkable
class Closes(Protocol):
    def close(self) -> None: ...


class Opens(Protocol):
    def open(self) -> None: ...


class File:
    def close(self) -> None: ...


def a_file(x: int) -> File:
    return File()


def close(x: Closes) -> str:
    x.close()
    return "closed"


def open_it(x: Opens) -> str:
    x.open()
    return "open"


class Worker:
    def next(self) -> int:
        return 0

    def text(self) -> str:
        return ""

    def needy(self, x: int) -> int:
        return x

    def untold(self):  # type: ignore[no-untyped-def]
        return 1


class Source(Generic[K]):
    def next(self) -> K:
        raise NotImplementedError


class Texts(Source[str]):
    pass


def countdown() -> Iterator[int]:
    yield from (3, 2, 1)


class Names:
    def __iter__(self) -> Iterator[str]:
        return iter(["a", "b"])


# -- flows -----------------------------------------------------------------------------------------

ints = rf.from_range(8, 2)
strs = rf.from_items(["a", "b"], 2)
int_flow = ints.gather_async()
str_flow = strs.gather_async()
int_queue: rf.Queue[int] = rf.Queue(name="numbers")
any_queue: rf.Queue[Any] = rf.Queue(name="things")


def queued(feed: rf.Flow[Any], out: rf.Flow[T]) -> rf.Flow[T]:
    """A flow that fills a queue, and one that empties it."""
    both: rf.Flow[T] = rf.Concurrently([feed, out], mode="async", output_indexes=[1])
    return both


# -- reinforcement learning ------------------------------------------------------------------------

workers = create_rollout_workers(ppo.Config(num_workers=2))
rollouts = ParallelRollouts(workers)
batches = ParallelRollouts(workers, mode="async")
grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
replay = create_replay_actors()
learner = LearnerThread(workers)
two_policies = create_rollout_workers(
    MultiAgentConfig(
        policies={"left": ppo.Config(), "right": ppo.Config()},
        policy_mapping={"agent_0": "left", "agent_1": "right"},
        num_envs_per_worker=4,
    )
)
meta_workers = create_rollout_workers(maml.Config(num_workers=2))
