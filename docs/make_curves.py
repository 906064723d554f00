"""Measure the learning curves of the documentation: every algorithm on `sim`, with fixed seeds.

    OMP_NUM_THREADS=1 python docs/make_curves.py              all of them, some ten minutes
    OMP_NUM_THREADS=1 python docs/make_curves.py ppo dqn      some of them
    python docs/make_curves.py --draw                         only the pictures, from the figures
    python docs/make_curves.py sac --seeds 3 --out parts/3    into another folder, side by side,
    python docs/make_curves.py --merge parts/*/sac.json       and put together

Writes docs/pictures/curves/NAME.svg and NAME.json. On `sim` the same seed gives the same curve, so
anybody can check them; the seconds are those of the machine that is named in the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rillflow as rf
from rillflow.results import plot_runs
from rillflow.runs.machine_facts import machine, versions

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # for `_recorded`
HERE = Path(__file__).parent / "pictures" / "curves"
POINTS = 120
"""rows that are kept of each run"""
GOALS = {
    "ppo": ("CartPole-v1", {"return": 475, "steps": 150_000}),
    "a2c": ("CartPole-v1", {"return": 450, "steps": 400_000}),
    "a3c": ("CartPole-v1", {"return": 450, "steps": 400_000}),
    "dqn": ("CartPole-v1", {"return": 450, "steps": 150_000}),
    "rainbow": ("CartPole-v1", {"steps": 50_000}),
    "impala": ("CartPole-v1", {"return": 475, "steps": 400_000}),
    "appo": ("CartPole-v1", {"return": 475, "steps": 400_000}),
    "apex": ("CartPole-v1", {"return": 450, "steps": 150_000}),
    "recurrent_ppo": ("CartPole-hidden-velocity", {"steps": 40_000}),
    "r2d2": ("CartPole-hidden-velocity", {"steps": 80_000}),
    "simple_q": ("CartPole-v1", {"return": 450, "steps": 150_000}),
    "pg": ("CartPole-v1", {"return": 450, "steps": 400_000}),
    "async_dqn": ("CartPole-v1", {"return": 400, "steps": 400_000}),
    "maml": ("PointGoal", {"steps": 400_000}),
    "apex_ddpg": ("Pendulum-v1", {"steps": 200_000}),
    "ddpg": ("Pendulum-v1", {"steps": 30_000}),
    "sac": ("Pendulum-v1", {"steps": 30_000}),
    "sac_discrete": ("CartPole-v1", {"steps": 100_000}),
    "td3": ("Pendulum-v1", {"steps": 30_000}),
    "bc": ("CartPole-v1", {"steps": 500_000}),
    "marwil": ("CartPole-v1", {"steps": 500_000}),
    "cql": ("Pendulum-v1", {"steps": 1_024_000}),
    "iql": ("Pendulum-v1", {"steps": 1_280_000}),
}
"""for each algorithm where it is trained, and until when; all other settings are the defaults"""
OTHERWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "recurrent_ppo": ("ppo", {"memory": "lstm"}),
    "sac_discrete": ("sac", {}),
}
"""of curves that have not the algorithm's name: which it is, and settings beside its own"""

DATA = {
    "bc": ("cartpole_expert", "20 episodes of PPO"),
    "marwil": ("cartpole_mixed", "as many steps of PPO as of its opposite"),
    "cql": ("pendulum_medium", "100 episodes of a SAC that was stopped early"),
    "iql": ("pendulum_medium", "100 episodes of a SAC that was stopped early"),
}
"""what those learn from that learn from data: who makes it, in benchmarks/_recorded.py"""
LOOKS = 20
"""evaluations of these, which are their curve"""


def measure(name: str, seed: int) -> dict[str, Any]:
    """One run: its curve, and how good the policy is in the end."""
    env, until = GOALS[name]
    algorithm, settings = OTHERWISE.get(name, (name, {}))
    given = settings if name not in DATA else _data(name, seed)
    trained = rf.train(algorithm, env, until=until, seed=seed, engine="sim", **given)
    figure = "eval_return" if name in DATA else "return"
    rows = [row for row in trained.history if figure in row]
    last, updates = rows[-1], len(trained.history)
    kept = np.linspace(0, len(rows) - 1, min(POINTS, len(rows))).round().astype(int)
    curve = [(rows[i]["steps"], round(rows[i][figure], 2)) for i in kept]
    run: dict[str, Any] = {
        "seed": seed,
        "steps": int(last["steps"]),
        "seconds": round(last["seconds"], 1),
        "return": round(last[figure], 1),
        "updates": updates,
        "curve": [point for point in curve if not np.isnan(point[1])],
    }
    if name == "maml":
        run["adaptation"] = _adaptation(trained)
    else:
        run["greedy"] = round(float(np.mean(trained.evaluate(20))), 1)
    return run


def _data(name: str, seed: int) -> dict[str, Any]:
    """A dataset made anew, and how often to look at what is learned from it."""
    import _recorded

    made = getattr(_recorded, DATA[name][0])(seed)
    return {"data": made.path, "eval_every": int(GOALS[name][1]["steps"]) // LOOKS}


def _adaptation(trained: Any, tasks: int = 20) -> list[float]:
    """Mean return in tasks never seen: before adapting, and after one, two and three steps."""
    from rillflow.algorithms import maml

    found = [
        maml.adapt_and_evaluate(trained.config, trained.weights, task, steps=3).returns
        for task in maml.tasks_of(trained.config, tasks, seed=1000)
    ]
    return [round(float(value), 2) for value in np.mean(found, 0)]


def draw(name: str, about: dict[str, Any]) -> None:
    """The picture of what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for run in about["runs"]:
            path = Path(folder) / f"{name}-{run['seed']}"
            path.mkdir()
            facts = {"algorithm": about["algorithm"], "env": about["env"], "until": about["until"]}
            (path / "run.json").write_text(json.dumps(facts))
            rows = [_row(name, steps, value) for steps, value in run["curve"]]
            (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
            paths.append(path)
        plot_runs(paths, HERE / f"{name}.svg")


def _row(name: str, steps: float, value: float) -> dict[str, float]:
    if name in DATA:
        return {"steps": steps, "eval_steps": steps, "eval_return": value}
    return {"steps": steps, "return": value}


def main() -> None:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GOALS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--draw", action="store_true", help="only draw")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for what is measured")
    parser.add_argument(
        "--merge", type=Path, nargs="+", default=(), metavar="FILE",
        help="measure nothing: put the runs of these files among those that are kept",
    )  # fmt: skip
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.merge:
        remember(options.out / part.name, json.loads(part.read_text()))
    names = {part.stem for part in options.merge} or options.names or GOALS
    for seed in options.seeds:  # all algorithms once, then again: a partial result is useful
        for name in () if options.draw or options.merge else names:
            about = about_run(name, measure(name, seed))
            remember(options.out / f"{name}.json", about)
            shown = {key: value for key, value in about["runs"][0].items() if key != "curve"}
            print(name, shown, flush=True)
    for name in names:
        file = HERE / f"{name}.json"
        if file.exists() and options.out == HERE:
            draw(name, json.loads(file.read_text()))


def about_run(name: str, run: dict[str, Any]) -> dict[str, Any]:
    """What a file says that has this run alone."""
    here = machine()
    return {
        "algorithm": OTHERWISE.get(name, (name, {}))[0],
        "env": GOALS[name][0],
        "until": GOALS[name][1],
        **({"data": DATA[name][1]} if name in DATA else {}),
        "engine": "sim",
        "machine": {"cores": here["cores"], "gpus": len(here["gpus"])},
        "versions": {k: v for k, v in versions().items() if k in ("python", "torch", "numpy")},
        "runs": [run],
    }


def remember(file: Path, about: dict[str, Any]) -> None:
    """Write runs beside those of other seeds, in the place of those of the same."""
    known = json.loads(file.read_text())["runs"] if file.exists() else []
    runs = {run["seed"]: run for run in [*known, *about["runs"]]}
    file.write_text(json.dumps({**about, "runs": [runs[seed] for seed in sorted(runs)]}) + "\n")


if __name__ == "__main__":
    main()
