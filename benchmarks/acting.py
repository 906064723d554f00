"""How many steps per second do workers make that only act, and how many do their environments?

    python benchmarks/acting.py --game Breakout --setups 16x32,8x64 --seconds 20

A setup is a number of processes and of environments in each. `random` steps them with random
actions in the same processes; `processor` and `device` act with PPO's network, on the processor
and on a GPU, and write fragments, of which nobody learns; each is answered with weights.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.envs.make import make_envs
from rillflow.policies.make import first_weights
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

STEPS = 32
"""of each environment in one answer"""


class Stepping:
    """Environments that are stepped at random."""

    def __init__(self, config: ppo.Config, info: ActorInfo) -> None:
        count = config.num_envs_per_worker
        self.envs = make_envs(config.env, count, seed=info.seed, **config.env_settings)
        self.envs.reset()
        self.rng = np.random.default_rng(info.seed)

    def sample(self) -> int:
        """Some steps of each."""
        actions = self.envs.action_space.n
        for _ in range(STEPS):
            self.envs.step(self.rng.integers(0, actions, self.envs.num_envs))
        return STEPS * self.envs.num_envs

    def close(self) -> None:
        """Close them."""
        self.envs.close()


class Answered(rf.Operator[Any, str]):
    """Sends weights to whoever has answered, and says who that was."""

    takes_ref = True

    def __init__(self, weights: Any) -> None:
        self._weights, self._sent = weights, None

    def __call__(self, item: Any, ctx: rf.Context) -> str:
        """Its name."""
        (actor,) = ctx.sources
        if self._weights is not None:
            self._sent = ctx.put(self._weights) if self._sent is None else self._sent
            ctx.send(actor, "set_weights", self._sent)
        return str(actor)


def rate(run: Any, workers: int, each: int, seconds: float) -> int:
    """Steps per second, counted once every worker has answered twice."""
    answers: dict[str, int] = {}
    while len(answers) < workers or min(answers.values()) < 2:
        who = next(run)
        answers[who] = answers.get(who, 0) + 1
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        next(run)
        steps += each
    return round(steps / (time.perf_counter() - began))


def measured(options: argparse.Namespace, setup: str, what: str) -> dict[str, Any]:
    """One figure."""
    processes, envs = map(int, setup.split("x"))
    config = ppo.Config.make(
        env=f"ALE/{options.game}-v5",
        num_workers=processes,
        num_envs_per_worker=envs,
        rollout_fragment_length=STEPS,
        num_gpus_per_worker=1 / processes if what == "device" else 0,
    )
    if what == "random":
        group, weights = rf.Actors.of(Stepping, processes, config, name="worker"), None
    else:
        workers = Workers(config)
        group, weights = workers.actors, first_weights(workers.spec, 1)
    answers = rf.from_actors(group, "sample").gather_async(num_async=2)
    with answers.for_each(Answered(weights)).run("local") as run:
        found = rate(run, processes, STEPS * envs, options.seconds)
    return {"setup": setup, "what": what, "steps_per_s": found}


def main() -> None:
    """Measure, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--game", default="Breakout")
    parser.add_argument("--setups", default="16x32,8x64", help="processes x environments, ...")
    parser.add_argument("--what", default="random,device", help="random, processor, device")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    found = []
    for setup in options.setups.split(","):
        for what in options.what.split(","):
            found.append(measured(options, setup, what))
            print(
                "{setup:>8} {what:<10} {steps_per_s:>9,} steps/s".format(**found[-1]),
                file=sys.stderr,
            )
    print(json.dumps({"game": options.game, "seconds": options.seconds, "rates": found}, indent=1))


if __name__ == "__main__":
    main()
