"""Do agents that share a task learn it: simple_spread, with one policy for all and with one each?

Two agents have to cover two landmarks without meeting (PettingZoo's MPE). PPO trains with its
defaults, which scale rewards, and with observations normalised: once with weights that all agents
share, once with weights of each agent's own. The score of a seed is the mean of 100 greedy episodes
of the last policy; that of random actions, from as many episodes, has its standard error beside it.
Needs `pip install mpe2`.
"""

from __future__ import annotations

import statistics
import sys
from functools import partial
from typing import Any

import numpy as np
from _common import Report, figure, script
from _left import left_or_new, settings_of

import rillflow as rf

MINUTES = 15
SEEDS = (101, 102, 103)
STEPS = 100_000
EPISODES = 100
WAYS = {"shared weights": "shared", "independent weights": "each"}


def spread() -> Any:
    """Two agents, episodes of 25 steps."""
    from mpe2 import simple_spread_v3

    return simple_spread_v3.parallel_env(N=2, max_cycles=25)


def random_returns(episodes: int = EPISODES) -> np.ndarray:
    """For each episode the mean return of the agents, which act uniformly at random."""
    env, totals = spread(), np.zeros(episodes)
    for index, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(index)
    for episode in range(episodes):
        env.reset(seed=50_000 + episode)
        while env.agents:
            rewards = env.step({a: env.action_space(a).sample() for a in env.agents})[1]
            totals[episode] += statistics.fmean(rewards.values())
    return totals


def error(values: Any) -> float:
    """Standard error of a mean over episodes; what agents get in one episode goes together."""
    return float(np.std(values, ddof=1) / EPISODES**0.5)


def ask(report: Report) -> None:
    seeds, steps = (SEEDS[:1], 5000) if report.options.quick else (SEEDS, STEPS)
    report.settings.update(seeds=seeds, steps=steps, episodes=EPISODES)
    nothing = random_returns()
    report.measured("random", score=float(nothing.mean()), error=error(nothing))
    report.add(figure("random", nothing.mean(), "mean return", error=error(nothing)))
    for case, policies in WAYS.items():
        scores, apart = [], []
        for round_, seed in enumerate(seeds):
            print(f"  {case}, seed {seed}", file=sys.stderr, flush=True)
            key = {"policies": policies, "seed": seed, "steps": steps, "ppo": settings_of("ppo")}
            row = left_or_new("simple_spread", key, partial(attempt, policies, seed, steps))
            report.measured(case, round=round_, **row)
            scores.append(row["score"])
            both = (row["error"] ** 2 + error(nothing) ** 2) ** 0.5
            apart.append((row["score"] - nothing.mean()) / both)
        name, bar = case.replace(" ", "_"), ">= 2" if policies == "shared" else None
        note = f"greedy returns {', '.join(f'{score:.2f}' for score in scores)}"
        report.add(figure(name, min(apart), "standard errors above random", bar, note=note))


def attempt(policies: str, seed: int, steps: int) -> dict[str, Any]:
    """One training run and its last policies' greedy episodes."""
    trained = rf.train(
        "ppo",
        spread,
        until={"steps": steps},
        seed=seed,
        engine="sim",
        policies=policies,
        normalize_observations=True,
    )
    returns = np.concatenate([*trained.evaluate(EPISODES, seed=70_000).values()])
    told = [(int(row["steps"]), row["return"]) for row in trained.history if "return" in row]
    return {
        "seed": seed,
        "steps": int(trained.history[-1]["steps"]),
        "score": float(returns.mean()),
        "error": error(returns),
        "training": told[:: max(1, len(told) // 40)],
    }


if __name__ == "__main__":
    sys.exit(script(__file__, ask))
