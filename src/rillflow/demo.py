"""A demonstration flow on this machine's cores: `python -m rillflow.demo`.

Workers estimate π by throwing darts. Each answers with a batch of throws; the driver averages and
sends every worker a new random seed after each answer, the way a learner sends new weights.
"""

from __future__ import annotations

import argparse
import os
import random
from typing import Any

import rillflow as rf


class Thrower:
    """Throws darts at a square and counts those inside the circle."""

    def __init__(self, info: rf.ActorInfo, throws: int) -> None:
        self.throws = throws
        self.rng = random.Random(info.seed)

    def throw(self) -> float:
        """The share of one batch of darts that landed inside."""
        draw = self.rng.random
        inside = sum(draw() ** 2 + draw() ** 2 <= 1.0 for _ in range(self.throws))
        return inside / self.throws

    def reseed(self, seed: int) -> None:
        """Go on from a new seed."""
        self.rng.seed(seed)


class Average(rf.Operator[float, float]):
    """The running estimate; tells the worker that made the item to go on from a new seed."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def __call__(self, share: float, ctx: rf.Context) -> float:
        """Fold one answer in."""
        self.total += share
        self.count += 1
        ctx.send(ctx.sources, "reseed", self.count, version=self.count)
        return 4.0 * self.total / self.count


def build(workers: int, throws: int) -> rf.Flow[float]:
    """The flow: throw in parallel, gather as ready, average."""
    throwers = rf.Actors.of(Thrower, workers, throws=throws, name="thrower")
    return rf.from_actors(throwers, "throw").gather_async(num_async=2).for_each(Average())


def main(arguments: list[str] | None = None) -> None:
    """Run it, and show what a flow can tell about itself."""
    parser = argparse.ArgumentParser(prog="rillflow.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="number of actors")
    parser.add_argument("--items", type=int, default=400, help="answers to wait for")
    parser.add_argument("--throws", type=int, default=20_000, help="darts per answer")
    parser.add_argument("--engine", choices=("sim", "local", "ray"), default="local")
    options: Any = parser.parse_args(arguments)
    flow = build(options.workers, options.throws)
    print(flow.explain(), end="\n\n")
    estimate = 0.0
    with flow.run(options.engine) as run:
        for step, estimate in enumerate(run, start=1):
            if step % max(1, options.items // 5) == 0:
                print(f"after {step:4d} answers: π ≈ {estimate:.5f}")
            if step >= options.items:
                break
        print(f"\n{run.stats()}\n\nledger: {run.ledger()}")


if __name__ == "__main__":
    main()
