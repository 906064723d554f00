"""What does a flow cost against a hand-written loop on the same transport (the paper's Figure 13)?

A3C, PPO, IMPALA and Ape-X with two workers and their settings for Pong, which is the paper's kind
of work, and for CartPole, where a result of training takes a millisecond and nothing hides what
scheduling costs. (PPO on CartPole alone: on Pong one result takes half a minute.)

The loops of IMPALA and Ape-X have their learner on a thread of the driver, as the paper's have; the
plans put it in a process of its own (but IMPALA on Pong). `..._thread_...` is what a flow costs
with the learner on a thread too.

Both sides are alive at once and take turns, so that a slow moment of the machine hits both; the one
that is not driven comes to rest by itself, because what it may have under way is bounded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import _one_thread  # noqa: F401 - before NumPy
from _common import Report, ratio, script
from channel_by_hand import LocalChannel, RayChannel
from loops_by_hand import LOOPS

from rillflow.algorithms import get_algorithm
from rillflow.rl.metrics import Progress
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import create_rollout_workers

MINUTES = 14
SEED = 1
WINDOWS = {"CartPole-v1": 2.5, "ALE/Pong-v5": 6.0}
"""seconds of one measurement"""
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


def ask(report: Report) -> None:
    report.settings |= {"seed": SEED, "window_s": WINDOWS, "workers": 2}
    for env in WINDOWS:
        _compare_all(report, "local", env)
    for algorithm in ("impala", "apex"):
        thread = {"learner_placement": "thread"}
        _compare(report, f"{algorithm}_thread_local", "local", algorithm, **thread)
    if _start_ray(report):  # not before: its own processes and threads never rest
        _compare_all(report, "ray", "CartPole-v1")


def _compare_all(report: Report, engine: str, env: str) -> None:
    for algorithm in ALGORITHMS[env]:
        name = f"{algorithm}_pong_{engine}" if "Pong" in env else f"{algorithm}_{engine}"
        _compare(report, name, engine, algorithm, env, ">= 0.97")


def _compare(
    report: Report,
    case: str,
    engine: str,
    algorithm: str,
    env: str = "CartPole-v1",
    bar: str | None = None,
    **settings: Any,
) -> None:
    """Flow, hand, hand, flow, ...: results of training per second, and the driver's own time."""
    more = {**MORE.get((algorithm, env), {}), **settings}
    config = get_algorithm(algorithm).Config.make(env=env, num_workers=2, **more)
    window = 0.5 if report.options.quick else WINDOWS[env]
    waiting = 2 * getattr(config, "learner_queue_size", 0) + 2
    with _flow(engine, algorithm, config) as flow, _by_hand(engine, algorithm, config) as hand:
        sides = {"flow": flow, "hand": hand}
        for step in sides.values():
            _rate(step, window, waiting)
        for round_ in range(report.options.repeats):
            for side in sides if round_ % 2 == 0 else reversed(sides):
                report.measured(
                    f"{case}_{side}", round=round_, **_rate(sides[side], window, waiting)
                )
    rates = [report.values(f"{case}_{side}", "per_s") for side in sides]
    cpu = {side: report.values(f"{case}_{side}", "driver_cpu_us") for side in sides}
    medians = {side: sorted(values)[len(values) // 2] for side, values in cpu.items()}  # type: ignore[type-var]
    report.add(ratio(case, *rates, "flow / by hand", bar, driver_cpu_us=medians))
    print(f"  {report.figures[-1].line()}", file=sys.stderr, flush=True)


def _rate(step: Callable[[], object], window: float, waiting: int) -> dict[str, float]:
    """Steps per second over a window, when what a resting learner has got ready is taken.

    Meanwhile what the other side had under way may end.
    """
    time.sleep(0.1)
    for _ in range(waiting):
        step()
    steps, began, cpu = 0, time.perf_counter(), time.thread_time()
    while (took := time.perf_counter() - began) < window:
        step()
        steps += 1
    spent = time.thread_time() - cpu
    return {
        "per_s": round(steps / took, 3),
        "ms": round(1e3 * took / steps, 4),
        "driver_cpu_us": round(1e6 * spent / steps, 1),
    }


@contextmanager
def _flow(engine: str, algorithm: str, config: Any) -> Iterator[Callable[[], object]]:
    workers = create_rollout_workers(config)
    plan = get_algorithm(algorithm).plan(ParallelRollouts(workers), workers)
    with plan.run(engine, seed=SEED) as run:
        run.on_metrics(Progress().record)
        yield run.__next__


@contextmanager
def _by_hand(engine: str, algorithm: str, config: Any) -> Iterator[Callable[[], object]]:
    with ExitStack() as stack:
        loop = LOOPS[algorithm](CHANNELS[engine](), config, SEED)
        stack.callback(loop.close)
        yield loop.step


def _start_ray(report: Report) -> bool:
    """One Ray for the whole run, on two cores and without a dashboard."""
    try:
        import ray
    except ImportError:
        report.lacks("ray", "Ray is not installed")
        return False
    report.versions["ray"] = ray.__version__
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return True


if __name__ == "__main__":
    sys.exit(script(__file__, ask, repeats=9))
