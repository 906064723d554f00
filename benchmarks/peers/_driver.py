"""What the drivers share: their options, the clock of a training run, one line of JSON at the end.

A driver runs in the virtual environment of its library: nothing of rillflow can be imported here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

START = float(os.environ.get("PEER_T0") or time.time())
"""when the process was started, before the interpreter was"""


class EnoughError(Exception):
    """Ends a training loop that is the library's own."""


class Tracker:
    """Mean return of the last 100 training episodes, time to a threshold, rate of steps."""

    def __init__(
        self, budget: float, threshold: float = 475.0, window: int = 100, least: int = 0
    ) -> None:
        self.budget, self.threshold = budget, threshold
        self.least = least
        """marks that a rate needs, however long they take"""
        self.returns: deque[float] = deque(maxlen=window)
        self.began = time.time()
        self.best = float("-inf")
        self.reached: dict[str, Any] = {}
        self.paused = 0.0
        self.marks: list[tuple[float, int, float | None]] = []
        self.next_evaluation = 0

    def start(self) -> None:
        """Training begins now."""
        self.began = time.time()

    @property
    def seconds(self) -> float:
        """Of training, evaluations left out."""
        return time.time() - self.began - self.paused

    @property
    def done(self) -> bool:
        """Whether the threshold was reached or the time is up."""
        late = self.seconds > self.budget and len(self.marks) >= self.least
        return bool(self.reached) or late

    def episode(self, episode_return: float, steps: int) -> None:
        """An episode ended."""
        self.returns.append(float(episode_return))
        if len(self.returns) == self.returns.maxlen:
            self.mean(sum(self.returns) / len(self.returns), steps)

    def mean(self, mean: float, steps: int) -> None:
        """The mean of the last episodes, or of an evaluation."""
        self.best = max(self.best, float(mean))
        if not self.reached and mean >= self.threshold:
            wall = time.time() - START - self.paused
            self.reached = {"train_s": self.seconds, "wall_s": wall, "env_steps": int(steps)}

    def mark(self, steps: int, updates: float | None = None) -> None:
        """So many steps and updates have been made by now."""
        self.marks.append((time.time() - self.paused, steps, updates))

    def evaluate(self, act: Callable[[Any], Any], steps: int, every: int = 1000) -> None:
        """Twenty greedy episodes at the first chance after each `every` steps, off the clock."""
        if steps < self.next_evaluation or self.done:
            return
        self.next_evaluation = (steps // every + 1) * every
        reached = self.seconds, time.time() - START - self.paused
        before = time.time()
        mean = greedy_return(act)
        self.paused += time.time() - before
        self.best = max(self.best, mean)
        if mean >= self.threshold:
            self.reached = {"train_s": reached[0], "wall_s": reached[1], "env_steps": int(steps)}

    def rate(self, column: int = 1, skip: float = 0.3) -> float | None:
        """Steps (1) or updates (2, from the first on) per second, without the run's first part."""
        marks = [mark for mark in self.marks if (mark[column] if column == 2 else True)]
        if len(marks) < 2:
            return None
        first, last = marks[min(int(len(marks) * skip), len(marks) - 2)], marks[-1]
        return (last[column] - first[column]) / max(last[0] - first[0], 1e-9)  # type: ignore[operator]

    def fields(self) -> dict[str, Any]:
        """What there is to tell."""
        found = {
            "solved": bool(self.reached),
            **self.reached,
            "best_mean": self.best if self.best > float("-inf") else None,
            "run_s": self.seconds,
            "total_steps": self.marks[-1][1] if self.marks else 0,
            "steps_per_s": self.rate(),
            "updates_per_s": self.rate(2),
            "evaluating_s": self.paused or None,
        }
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in found.items()
            if value is not None
        }


def greedy_return(act: Callable[[Any], Any], episodes: int = 20, seed: int = 12345) -> float:
    """Mean return of one greedy episode in each of so many copies of CartPole-v1."""
    import gymnasium as gym
    import numpy as np

    envs = gym.make_vec("CartPole-v1", episodes, vectorization_mode="vector_entry_point")
    obs, _ = envs.reset(seed=seed)
    returns, alive = np.zeros(episodes), np.ones(episodes, bool)
    while alive.any():
        actions = np.asarray(act(np.asarray(obs, np.float32)))
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        returns += rewards * alive
        alive &= ~(terminated | truncated)
    envs.close()
    return float(returns.mean())


def arguments(**defaults: Any) -> argparse.Namespace:
    """The options of a driver: `seed`, `budget` and `threads`, and its own with their defaults."""
    parser = argparse.ArgumentParser()
    for name, value in {"seed": 1, "budget": 300.0, "threads": 1, **defaults}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args()


def emit(peer: str, **fields: Any) -> None:
    """The one line that the benchmark reads."""
    sys.__stdout__.write(json.dumps({"peer": peer, **fields}) + "\n")
    sys.__stdout__.flush()


def quit_now() -> None:
    """Leave without the clean-up of libraries that take long for it or hang."""
    sys.stdout.flush()
    os._exit(0)


def cases_of(text: str) -> list[tuple[str, str, int, str]]:
    """Cases of sampling, written `BACKEND:COPIES:ENV`, separated by commas."""
    found = []
    for case in filter(None, text.split(",")):
        backend, copies, env = case.split(":", 2)  # a name of an environment may have one, too
        found.append((case, backend, int(copies), env))
    return found


def tried(measure: Callable[[str, int, str], float], cases: str) -> dict[str, Any]:
    """Steps per second of each case, or in `refused` why there are none."""
    rates: dict[str, float] = {}
    refused: dict[str, str] = {}
    for case, backend, copies, env in cases_of(cases):
        try:
            rates[case] = round(measure(backend, copies, env), 1)
        except Exception as error:  # a wrapper that does not take this environment says so
            refused[case] = f"{type(error).__name__}: {error}"[:300]
    return {"rates": rates, "refused": refused}


def steps_per_second(step: Callable[[], int], seconds: float, least: int = 4) -> float:
    """How fast `step` goes, which returns how many steps it made; at least so many calls."""
    step()
    began, count, calls = time.time(), 0, 0
    while time.time() - began < seconds or calls < least:
        count, calls = count + step(), calls + 1
    return count / (time.time() - began)
