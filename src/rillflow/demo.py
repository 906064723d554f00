"""Train PPO on CartPole on this machine's cores: `python -m rillflow.demo`, or `make train`."""

from __future__ import annotations

import argparse
from typing import Any

import rillflow as rf


def build(algorithm: str, env: str, workers: int) -> rf.Flow[Any]:
    """The dataflow that will run, as a value: to be printed before anything starts."""
    from rillflow.algorithms import get_algorithm
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import Workers

    module = get_algorithm(algorithm)
    group = Workers(module.Config.make(env=env, num_workers=workers))
    flow: rf.Flow[Any] = module.plan(ParallelRollouts(group), group)
    return flow


class Reporter:
    """Prints a line each time training has gone on for a second."""

    def __init__(self) -> None:
        self.next = 0.0

    def __call__(self, row: dict[str, float]) -> None:
        """One result of training."""
        if row["seconds"] >= self.next:
            self.next = row["seconds"] + 1.0
            rate = row["steps"] / max(row["seconds"], 1e-9)
            print(
                f"{row['seconds']:6.1f} s  {row['steps']:8,.0f} steps  {rate:8,.0f} steps/s  "
                f"return {row['return']:6.1f}",
                flush=True,
            )


def main(arguments: list[str] | None = None) -> None:
    """Show the flow, train, say what came of it."""
    parser = argparse.ArgumentParser(prog="rillflow.demo", description=__doc__)
    parser.add_argument("--algorithm", default="ppo", help="pg, a2c, a3c or ppo")
    parser.add_argument("--env", default="CartPole-v1", help="a Gymnasium id")
    parser.add_argument("--workers", type=int, default=2, help="rollout workers")
    parser.add_argument("--engine", choices=("sim", "local", "ray"), default="local")
    parser.add_argument("--until-return", type=float, default=475.0, help="mean of 100 episodes")
    parser.add_argument("--until-steps", type=float, default=400_000, help="environment steps")
    parser.add_argument("--seed", type=int, default=0)
    options: Any = parser.parse_args(arguments)
    print(build(options.algorithm, options.env, options.workers).explain(), end="\n\n")
    trained = rf.train(
        options.algorithm,
        options.env,
        until={"return": options.until_return, "steps": options.until_steps},
        engine=options.engine,
        seed=options.seed,
        num_workers=options.workers,
        on_progress=Reporter(),
    )
    last = trained.history[-1]
    returns = trained.evaluate(20)
    print(f"\n{trained.stats}\n")
    print(
        f"trained {options.algorithm} on {options.env}: return {last['return']:.1f} over the last "
        f"100 episodes after {last['steps']:,.0f} steps and {last['seconds']:.1f} s; "
        f"greedy over 20 episodes: {sum(returns) / len(returns):.1f}"
    )


if __name__ == "__main__":
    main()
