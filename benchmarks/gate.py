"""Does an algorithm reach its goal with every seed, the last or a frozen policy judged greedily?

    make gate sac                                       five seeds that tuning never saw
    python benchmarks/gate.py sac --seeds 201,204       some of them
    python benchmarks/gate.py sac --goal "sac on Cart"  goals whose name begins so
    python benchmarks/gate.py --list                    the goals

A seed takes ten minutes at most on two cores.

Results are kept in `results/gates/NAME.json`, a row for each goal and seed with the commit that was
measured; a new attempt replaces the row. Tuning uses seeds below 100. Several can be measured side
by side, each into a file of its own, and be put together afterwards:

    python benchmarks/gate.py sac --seeds 203 --out rows/sac-203.json
    python benchmarks/gate.py sac --merge rows/sac-*.json

To tune, with settings beside those of the goal: --seeds 11-13 --set '{"lr": 1e-4}' --out FILE.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from _goals import Goal, Outcome, attempt, commit
from _machine import facts, versions
from _offline_goals import GOALS as OFFLINE
from _stored_state import judge as stored_state

RESULTS = Path(__file__).parent / "results" / "gates"
SEEDS = (201, 202, 203, 204, 205)


def minatar_breakout() -> Any:
    """MinAtar's Breakout: ten by ten pixels, a point for each brick."""
    sys.path.append(str(Path(__file__).parent / "peers"))  # where the environments are
    from _generality import make

    return make("MinAtar/Breakout-v1")


MINATAR: dict[str, Any] = {
    "model": "mlp",  # sees the pixels flat, in NumPy: a cnn takes five times as long
    "hidden": (128, 128),
    "num_workers": 1,
    "num_envs_per_worker": 8,
    "train_batch_size": 64,
    "training_intensity": 8.0,
    "target_network_update_freq": 8000,
    "learning_starts": 2000,
    "buffer_size": 100_000,
    "n_step": 3,
    "prioritized_replay_beta_timesteps": 250_000,
}
"""what Rainbow and DQN have in common there: the same rows and updates for each step"""

CORRIDOR: dict[str, Any] = {
    "env_config": {"length": 8},
    "rollout_fragment_length": 12,
    "burn_in": 2,
    "memory": "gru",
    "memory_size": 32,
    "hidden": (32,),
    "lr": 3e-3,
    "training_intensity": 8.0,
    "target_network_update_freq": 2000,
    "learning_starts": 500,
}
"""of R2D2, where what has to be remembered lies further back than the burn-in"""

RAINBOW_ON_MINATAR: dict[str, Any] = {
    "scale_rewards": False,
    "v_min": 0.0,
    "v_max": 20.0,
    "sigma0": 0.1,
}
DQN_ON_MINATAR = Goal(
    algorithm="dqn",
    env=minatar_breakout,
    called="dqn on MinAtar/Breakout-v1",
    steps=250_000,
    each=0.0,
    settings=MINATAR | {"epsilon_timesteps": 25_000, "final_epsilon": 0.02},
)
"""what Rainbow is measured beside"""

GATES: dict[str, tuple[Goal, ...]] = {
    "a3c": (Goal(algorithm="a3c", env="CartPole-v1", steps=300_000, each=450),),
    "apex": (Goal(algorithm="apex", env="CartPole-v1", steps=100_000, each=450),),
    "apex_ddpg": (Goal(algorithm="apex_ddpg", env="Pendulum-v1", steps=200_000, each=-200),),
    "appo": (Goal(algorithm="appo", env="CartPole-v1", steps=300_000, each=475),),
    "async_dqn": (Goal(algorithm="async_dqn", env="CartPole-v1", steps=300_000, each=450),),
    "ddpg": (Goal(algorithm="ddpg", env="Pendulum-v1", steps=30_000, each=-200, median=-180),),
    "r2d2": (
        Goal(
            algorithm="r2d2",
            env="CartPole-hidden-velocity",
            steps=300_000,
            each=195,
            median=350,
            frozen=True,
        ),
        Goal(
            algorithm="r2d2",
            env="Corridor",
            steps=24_000,
            each=1.001,
            called="TD error from a zero state, over that from the stored one",
            settings=CORRIDOR,
            judge=stored_state,
        ),
    ),
    "recurrent_ppo": (
        Goal(
            algorithm="ppo",
            env="CartPole-hidden-velocity",
            steps=300_000,
            each=475,
            settings={"memory": "lstm"},
            frozen=True,
        ),
        Goal(
            algorithm="ppo",
            env="RepeatPast",
            steps=300_000,
            each=17.1,
            settings={"memory": "lstm"},
            frozen=True,
        ),
    ),
    "rainbow": (
        Goal(algorithm="rainbow", env="CartPole-v1", steps=50_000, each=475),
        DQN_ON_MINATAR,
        Goal(
            algorithm="rainbow",
            env=minatar_breakout,
            called="rainbow on MinAtar/Breakout-v1",
            steps=250_000,
            each=3.0,
            median=5.0,
            settings=MINATAR | RAINBOW_ON_MINATAR,
            rival=DQN_ON_MINATAR,
        ),
    ),
    "sac": (
        Goal(algorithm="sac", env="Pendulum-v1", steps=10_000, each=-215, median=-200),
        Goal(algorithm="sac", env="Pendulum-v1", steps=20_000, each=-180, median=-165),
        Goal(algorithm="sac", env="CartPole-v1", steps=100_000, each=450),
    ),
    "simple_q": (Goal(algorithm="simple_q", env="CartPole-v1", steps=300_000, each=450),),
    "td3": (Goal(algorithm="td3", env="Pendulum-v1", steps=20_000, each=-185, median=-170),),
} | OFFLINE
"""the goals of each algorithm"""


def main() -> int:
    """Attempt, print, keep."""
    options = _options()
    if options.list or options.name is None:
        for name, goals in sorted(GATES.items()):
            for goal in goals:
                print(f"{name:<12} {goal}: {_bar(goal)} within {goal.steps:,} steps")
        return 0
    path = options.out or options.results / f"{options.name}.json"
    for part in options.merge:
        merge(path, json.loads(part.read_text()))
    if options.merge:
        return 0
    torch.set_num_threads(1)
    good = True
    for goal in GATES[options.name]:
        if not str(goal).startswith(options.goal):
            continue
        goal = replace(goal, settings={**goal.settings, **options.set})
        print(f"{goal}: {_bar(goal)} within {goal.steps:,} steps", flush=True)
        outcomes = []
        for seed in options.seeds:
            outcome = attempt(goal, seed)
            outcomes.append(outcome)
            keep(path, goal, outcome)
            verdict = "passed" if outcome.passed else "FAILED"
            about = f"{outcome.steps:,} steps, {outcome.seconds:.0f} s"
            print(f"  seed {seed}: {outcome.score:8.2f}  {about}  {verdict}", flush=True)
        good &= reached(goal, outcomes, rivals_scores(path, goal, options.seeds))
    print("passed" if good else "FAILED")
    return 0 if good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=sorted(GATES), metavar="NAME")
    parser.add_argument("--seeds", type=_seeds, default=SEEDS, help="201,202 or 201-205")
    parser.add_argument("--goal", default="", help="only goals whose name begins so")
    parser.add_argument("--list", action="store_true", help="print the goals")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for what is found")
    parser.add_argument("--out", type=Path, help="file for what is found, in place of the folder's")
    parser.add_argument("--set", type=json.loads, default={}, help="settings to tune, as JSON")
    parser.add_argument(
        "--merge", type=Path, nargs="+", default=(), metavar="FILE",
        help="attempt nothing: put the rows of these files among those that are kept",
    )  # fmt: skip
    options = parser.parse_args()
    if options.set and options.out is None:
        parser.error("--set is to tune: say where its rows go, --out FILE")
    return options


def reached(goal: Goal, outcomes: list[Outcome], rivals: Sequence[float] = ()) -> bool:
    """Whether all seeds passed, and their median; `rivals` are what the rival's seeds scored."""
    if goal.rival is not None and len(rivals) < len(outcomes):
        return False  # nobody knows
    middle = statistics.median(outcome.score for outcome in outcomes)
    fine = goal.median is None or len(outcomes) == 1 or middle >= goal.median
    if rivals and len(outcomes) > 1:
        fine &= middle >= statistics.median(rivals)
    return fine and all(outcome.passed for outcome in outcomes)


def rivals_scores(path: Path, goal: Goal, seeds: Sequence[int]) -> list[float]:
    """What the rival's attempts with these seeds scored, of those that are kept."""
    if goal.rival is None or not path.exists():
        return []
    name = _called(goal.rival)
    kept = json.loads(path.read_text())
    return [row["score"] for row in kept if row["goal"] == name and row["seed"] in seeds]


def keep(path: Path, goal: Goal, outcome: Outcome) -> None:
    """Put one outcome in the place of an older one of the same goal and seed."""
    which = {"goal": _called(goal), "seed": outcome.seed}
    bars = {"each": goal.each, "median": goal.median, "episodes": goal.episodes}
    where = {"commit": commit(), "cpu": facts()["cpu"], "torch": versions()["torch"]}
    merge(path, [{**which, **bars, "frozen": goal.frozen, **asdict(outcome), **where}])


def merge(path: Path, new: list[dict[str, Any]]) -> None:
    """Put rows in the place of those of the same goals and seeds."""
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    kept = {(row["goal"], row["seed"]): row for row in [*rows, *new]}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(kept[which]) for which in sorted(kept))
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _called(goal: Goal) -> str:
    return f"{goal}, {goal.steps:,} steps"


def _bar(goal: Goal) -> str:
    middle = "" if goal.median is None else f", median >= {goal.median:g}"
    rival = "" if goal.rival is None else f" and that of {goal.rival.algorithm}"
    return f"all >= {goal.each:g}{middle}{rival}"


def _seeds(text: str) -> tuple[int, ...]:
    """201,204 or 201-205."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return tuple(seeds)


if __name__ == "__main__":
    sys.exit(main())
