"""How many steps per second do Atari games make alone, with random actions, on all cores?

Each process steps one of ALE's vector environments, with the preprocessing that training has, and
does nothing else. They begin together, when all are warm; a step of one game is one step.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

WARM = 30
"""steps before the clock runs: the first games have begun"""
PATIENCE = 120.0


class Setup(NamedTuple):
    """How games are spread over processes."""

    processes: int
    copies: int
    """games in each"""
    threads: int
    """that step them, in each"""

    def __str__(self) -> str:
        return "x".join(map(str, self))


def setup(text: str) -> Setup:
    """The reverse of `str`, such as 16x32x1."""
    processes, copies, threads = map(int, text.split("x"))
    return Setup(processes, copies, threads)


def usual(cores: int) -> list[Setup]:
    """Numbers of processes and threads that fill the cores, from one process to one each."""
    threads = [count for count in (1, 2, 4, cores) if count <= cores]
    found = [Setup(max(1, cores // count), 32 * count, count) for count in threads]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Rate:
    """What was measured."""

    setup: Setup
    seconds: float
    steps_per_s: float

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**self.setup._asdict(), "seconds": self.seconds, "steps_per_s": self.steps_per_s}


def measure(game: str, config: dict[str, Any], how: Setup, seconds: float) -> Rate:
    """All processes for so long; `config`: options of the game."""
    told = {"num_threads": how.threads, **config}
    command = [sys.executable, __file__, game, json.dumps(told), str(how.copies), str(seconds)]
    processes = [
        subprocess.Popen(
            [*command, str(index)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for index in range(how.processes)
    ]  # fmt: skip
    try:
        for process in processes:
            _answer(process)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        rates = [float(_answer(process)) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return Rate(how, seconds, round(sum(rates), 1))


def best(
    game: str, config: dict[str, Any], setups: Sequence[Setup], scan: float, seconds: float
) -> tuple[Rate, list[Rate]]:
    """Look at each setup for `scan` seconds, then at the fastest for `seconds`; and all looks."""
    if len(setups) == 1:
        return measure(game, config, setups[0], seconds), []
    looks = [measure(game, config, how, scan) for how in setups]
    fastest = max(looks, key=lambda rate: rate.steps_per_s)
    return measure(game, config, fastest.setup, seconds), looks


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a process that steps games ended with {process.wait(PATIENCE)}")
    return line


def _step_games(game: str, config: str, copies: int, seconds: float, seed: int) -> None:
    """In a process of its own: ready, then steps per second."""
    import numpy as np

    from rillflow.envs.atari_preprocessing import make_atari

    games = make_atari(game, copies, json.loads(config))
    games.reset()  # not seeded: that would build every console once more
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, games.single_action_space.n, (4096, copies))
    for step in range(WARM):
        games.step(actions[step])
    print("ready", flush=True)
    sys.stdin.readline()
    began, steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        games.step(actions[steps % len(actions)])
        steps += 1
    print(steps * copies / passed, flush=True)


if __name__ == "__main__":
    _step_games(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
