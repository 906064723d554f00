"""What does a flow cost against a hand-written loop on the same transport (the paper's Figure 13)?

A3C, PPO, IMPALA and Ape-X with two workers and their settings for Pong, which is the paper's kind
of work, and for CartPole, where a result of training takes a millisecond and nothing hides what
scheduling costs. (PPO on CartPole alone: on Pong one result takes half a minute.)

The loops of IMPALA and Ape-X have their learner on a thread of the driver, as the paper's have. The
plan of Ape-X puts it in a process of its own; that of IMPALA into the driver itself, if there are
no more cores than two workers and a driver need, and on a thread on Pong. `..._thread_...` is what
a flow costs with the learner on a thread too. `impala_at_once` has it in the driver on both sides,
without a thread: there a result takes so little that each function of the scheduler shows.

Both sides are alive at once and take turns, flow, hand, hand, flow, in short windows, because the
speed of a shared machine changes within seconds; the four make one pair. The side that is not
driven comes to rest by itself, because what it may have under way is bounded.

Each repeat of a case has a driver process of its own: what earlier cases leave behind in a process,
such as the threads of torch and Ray, is not part of it, and where arrays happen to lie in memory,
which makes a few percent, changes from process to process. The sides take turns in who is made
first, too. Cases far from their bar, or without one, are repeated less often.
"""

from __future__ import annotations

import copy
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import _one_thread  # noqa: F401 - before NumPy
from _common import Report, ratio, script
from channel_by_hand import LocalChannel, RayChannel
from loops_by_hand import LOOPS

from rillflow.algorithms import get_algorithm
from rillflow.rl.metrics import Progress
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import create_rollout_workers

MINUTES = 32
SEED = 1
NEXT_TO_NOTHING = 1e-12
"""the learning rate: policies that became different would end a different number of episodes, and
the better one would have less to do"""
WINDOWS = {"CartPole-v1": 0.25, "ALE/Pong-v5": 3.0}
"""seconds of one measurement"""
PAIRS = {"CartPole-v1": 15, "ALE/Pong-v5": 2}
"""of measurements, in each of the processes"""
MORE: dict[tuple[str, str], dict[str, Any]] = {
    ("impala", "ALE/Pong-v5"): {"learner_queue_size": 2},
    ("apex", "ALE/Pong-v5"): {"learner_queue_size": 2, "buffer_size": 4000, "learning_starts": 500},
}
"""settings for a run of a minute: what waits in queues would hide how fast it is made, and rows of
pictures take much memory"""
ALGORITHMS = {
    "CartPole-v1": ("a3c", "ppo", "impala", "apex"),
    "ALE/Pong-v5": ("a3c", "impala", "apex"),
}
CHANNELS = {"local": LocalChannel, "ray": RayChannel}


class Case(NamedTuple):
    """One algorithm in one place."""

    name: str
    algorithm: str
    env: str
    engine: str = "local"
    bar: str | None = ">= 0.97"
    repeats: int = 99
    """at most"""
    settings: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    loop: str | None = None
    """by hand, if it is not called as the algorithm"""


def cases() -> Iterator[Case]:
    """All of them; Ray's at the end."""
    for env, algorithms in ALGORITHMS.items():
        pong = "_pong" if "Pong" in env else ""
        for name in algorithms:
            yield Case(f"{name}{pong}_local", name, env, settings=MORE.get((name, env), {}))
    for name in ("impala", "apex"):
        thread = {"learner_placement": "thread"}
        case = Case(f"{name}_thread_local", name, "CartPole-v1", bar=None, repeats=2)
        yield case._replace(settings=thread)
    at_once = Case("impala_at_once_local", "impala", "CartPole-v1", bar=None)
    yield at_once._replace(settings={"learner_placement": "driver"}, loop="impala_at_once")
    for name in ALGORITHMS["CartPole-v1"]:
        yield Case(f"{name}_ray", name, "CartPole-v1", "ray", repeats=2)


def ask(report: Report) -> None:
    report.settings |= {"seed": SEED, "window_s": WINDOWS, "workers": 2}
    with_ray = _has_ray(report)
    for case in cases():
        if case.engine == "local" or with_ray:
            _compare(report, case)


def _compare(report: Report, case: Case) -> None:
    pairs = 1 if report.options.quick else PAIRS[case.env]
    for repeat in range(min(case.repeats, report.options.repeats)):
        for side, measured in _in_own_process(case, pairs, flow_first=repeat % 2 == 0):
            report.measured(f"{case.name}_{side}", round=repeat, **measured)
    names = [f"{case.name}_{side}" for side in ("flow", "hand")]
    rates = [report.values(name, "per_s") for name in names]
    cpu = {name: _median(report.values(name, "driver_cpu_us")) for name in names}
    report.add(ratio(case.name, *rates, "flow / by hand", case.bar, driver_cpu_us=cpu))
    print(f"  {report.figures[-1].line()}", file=sys.stderr, flush=True)


def _median(values: list[Any]) -> float:
    return float(sorted(values)[len(values) // 2])


def _in_own_process(
    case: Case, pairs: int, *, flow_first: bool
) -> list[tuple[str, dict[str, Any]]]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_take_turns, args=(theirs, case, pairs, flow_first))
    process.start()
    theirs.close()
    try:
        found: list[tuple[str, dict[str, Any]]] = ours.recv()
        process.join()
        return found
    except EOFError:
        raise SystemExit(f"{case.name}: its process ended without a result") from None
    finally:
        process.terminate()


def _take_turns(out: Connection, case: Case, pairs: int, flow_first: bool) -> None:
    """Results of training per second, and the driver's own time, of both sides."""
    settings = {"env": case.env, "num_workers": 2, "lr": NEXT_TO_NOTHING, **case.settings}
    config = get_algorithm(case.algorithm).Config.make(**settings)
    ready = 2 * getattr(config, "learner_queue_size", 0) + 2
    window = WINDOWS[case.env]
    found = []
    if case.engine == "ray":
        _start_ray()
    with ExitStack() as stack:
        made = {}
        for make in (_flow, _by_hand) if flow_first else (_by_hand, _flow):
            made[make] = stack.enter_context(make(case, config))
            Window(made[make], max(1.0, window), ready)
        flow, hand = made[_flow], made[_by_hand]
        for pair in range(pairs):
            first, second, third, last = (
                Window(step, window, ready) for step in (flow, hand, hand, flow)
            )
            found.append(("flow", {"pair": pair, **(first + last).figures()}))
            found.append(("hand", {"pair": pair, **(second + third).figures()}))
    out.send(found)


class Window:
    """Steps, seconds and the driver's own seconds, when what a side has got ready is taken."""

    def __init__(self, step: Callable[[], object], window: float, ready: int) -> None:
        time.sleep(0.05)  # what the other side had under way may end
        for _ in range(ready):
            step()
        self.steps, began, cpu = 0, time.perf_counter(), time.thread_time()
        while time.perf_counter() - began < window:
            step()
            self.steps += 1
        self.seconds = time.perf_counter() - began
        self.cpu = time.thread_time() - cpu

    def __add__(self, other: Window) -> Window:
        both = copy.copy(self)
        both.steps += other.steps
        both.seconds += other.seconds
        both.cpu += other.cpu
        return both

    def figures(self) -> dict[str, float]:
        """Per second and per step."""
        return {
            "per_s": round(self.steps / self.seconds, 3),
            "ms": round(1e3 * self.seconds / self.steps, 4),
            "driver_cpu_us": round(1e6 * self.cpu / self.steps, 1),
        }


@contextmanager
def _flow(case: Case, config: Any) -> Iterator[Callable[[], object]]:
    workers = create_rollout_workers(config)
    plan = get_algorithm(case.algorithm).plan(ParallelRollouts(workers), workers)
    with plan.run(case.engine, seed=SEED) as run:
        run.on_metrics(Progress().record)
        yield run.__next__


@contextmanager
def _by_hand(case: Case, config: Any) -> Iterator[Callable[[], object]]:
    with ExitStack() as stack:
        loop = LOOPS[case.loop or case.algorithm](CHANNELS[case.engine](), config, SEED)
        stack.callback(loop.close)
        yield loop.step


def _has_ray(report: Report) -> bool:
    try:
        import ray
    except ImportError:
        report.lacks("ray", "Ray is not installed")
        return False
    report.versions["ray"] = ray.__version__
    return True


def _start_ray() -> None:
    """For the flow and the loop, on two cores and without a dashboard."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


if __name__ == "__main__":
    sys.exit(script(__file__, ask, repeats=5))
