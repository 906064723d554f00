"""How fast are Atari games trained on a machine with a GPU, and how soon do they score?

    python benchmarks/atari_gpu.py rates --games Pong,Breakout --seconds 60 --out DIR
    python benchmarks/atari_gpu.py throughput --algorithms impala,appo,ppo --games Pong --out DIR
    python benchmarks/atari_gpu.py train appo Pong --minutes 5 --target 18 --out DIR
    python benchmarks/atari_gpu.py evaluate DIR/train-appo-Pong-0 --episodes 100
    python benchmarks/atari_gpu.py peer Pong --seconds 60 --out DIR
    python benchmarks/atari_gpu.py collect --out DIR            one document of all that is there

Each command is a piece that may be run by itself, ends at its time, and leaves its figures in files
of its own under `--out`. A training goes on where its directory was left. `--set name=value` (JSON,
several times) changes a setting; all others are those that `rillflow train ALGORITHM GAME
--num-gpus 1 --num-workers CORES` takes. Without a GPU everything runs on the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import _atari_rates as rates_of
import _atari_training as training
from _common import RESULTS
from _machine import facts, versions

Options = argparse.Namespace
STARTS = 120.0
"""seconds that processes may take to start, before a throughput is given up"""
PEER = Path(__file__).parent / "peers" / "cleanrl_style_ppo_atari.py"


def game_id(name: str) -> str:
    """The id of a game.

    >>> game_id("Pong")
    'ALE/Pong-v5'
    """
    return f"ALE/{name}-v5"


def protocol(options: Options) -> dict[str, Any]:
    """Options of the games: those of the papers, or with the sticky actions of version 5."""
    return {"sticky_actions": 0.25 if options.sticky else 0.0, "resumable": False}


def settings_of(options: Options) -> dict[str, Any]:
    """What a run is given: the usual, the protocol, and what was asked for."""
    usual = {**training.usual_settings(), "env_config": protocol(options)}
    return {**usual, **options.set}


def write(folder: Path, name: str, told: dict[str, Any]) -> dict[str, Any]:
    """Keep figures, and show them."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "part": name,
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "machine": {**facts(), "gpu": gpu_name()},
        "versions": versions(),
        **told,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return document


def gpu_name() -> str | None:
    """What the GPU is called; None: there is none."""
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def rates(options: Options) -> None:
    """The environments' own rate, for each game."""
    setups = usual_setups(options)
    for name in options.games:
        found, looks = rates_of.best(
            game_id(name), protocol(options), setups, options.scan, options.seconds
        )
        told = {"game": name, "best": found.told(), "looks": [look.told() for look in looks]}
        write(options.out, f"rates-{name}", told)
        shown = ", ".join(f"{look.setup}: {look.steps_per_s:,.0f}" for look in looks)
        print(f"{name}: {found.steps_per_s:,.0f} steps/s as {found.setup} ({shown})", flush=True)


def usual_setups(options: Options) -> list[rates_of.Setup]:
    """Those that were asked for, or those that fill the cores."""
    if options.setups:
        return [rates_of.setup(text) for text in options.setups]
    return rates_of.usual(len(os.sched_getaffinity(0)))


def throughput(options: Options) -> None:
    """Steps per second of training, over the environments' own rate beside it."""
    for name in options.games:
        saved = options.out / f"rates-{name}.json"
        setups = usual_setups(options)
        if saved.exists() and not options.setups:
            known = json.loads(saved.read_text())["best"]
            setups = [rates_of.Setup(*(known[key] for key in rates_of.Setup._fields))]
        own, _ = rates_of.best(
            game_id(name), protocol(options), setups, options.scan, options.scan * 2
        )
        for algorithm in options.algorithms:
            _throughput(options, algorithm, name, own)


def _throughput(options: Options, algorithm: str, name: str, own: rates_of.Rate) -> None:
    part = f"throughput-{algorithm}-{name}{options.tag}"
    folder = options.out / f".{part}-{time.time():.0f}"
    told = training.sitting(
        algorithm,
        game_id(name),
        folder,
        seconds=options.warm + options.seconds + STARTS,
        window=options.seconds,
        settings=settings_of(options),
        warm=options.warm,
        checkpoints=None,
    )
    rate = told["steps_per_s"]
    told |= {"own": own.told(), "ratio": rate and round(rate / own.steps_per_s, 3)}
    write(options.out, part, told)
    shutil.rmtree(folder, ignore_errors=True)  # nobody goes on with it
    print(
        f"{algorithm} on {name}: {rate} steps/s, {told['ratio']} of the environments' "
        f"{own.steps_per_s:,.0f}; gpu {told.get('mean_gpu')} %, cores {told.get('mean_cpu')}; "
        f"{told.get('verdict')}; {told['error'] or ''}",
        flush=True,
    )


def train(options: Options) -> None:
    """A sitting of training; the curve, and when the target was reached."""
    part = f"train-{options.algorithm}-{options.game}-{options.seed}{options.tag}"
    told = training.sitting(
        options.algorithm,
        game_id(options.game),
        options.out / part,
        seconds=60 * options.minutes,
        settings=settings_of(options),
        target=options.target,
        seed=options.seed,
    )
    write(options.out, part, told)
    told.pop("times", None)
    print(json.dumps(told, indent=1), flush=True)


def evaluate(options: Options) -> None:
    """Fresh games of the policy that a training left, spread over processes."""
    run_dir = options.run / "run"
    processes = min(len(os.sched_getaffinity(0)), options.episodes)
    shares = [
        options.episodes // processes + (i < options.episodes % processes) for i in range(processes)
    ]
    began = time.time()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        jobs = [
            pool.submit(play, str(run_dir), count, 5000 + index, options.greedy)
            for index, count in enumerate(shares)
        ]
        returns = [value for job in jobs for value in job.result()]
    told = {
        "run": options.run.name,
        "actions": "greedy" if options.greedy else "sampled",
        "episodes": len(returns),
        "mean": round(statistics.fmean(returns), 3),
        "median": statistics.median(returns),
        "least": min(returns),
        "most": max(returns),
        "returns": returns,
        "wall_s": round(time.time() - began, 1),
    }
    write(options.run.parent, f"evaluate-{options.run.name}-{told['actions']}", told)
    print(json.dumps({key: told[key] for key in told if key != "returns"}), flush=True)


def play(run_dir: str, episodes: int, seed: int, greedy: bool) -> list[float]:
    """Some games of the newest policy in a directory; the game's own points."""
    import torch

    import rillflow as rf
    from rillflow.results import evaluate as evaluated

    torch.set_num_threads(1)
    found = evaluated(rf.load(run_dir), episodes, seed=seed, greedy=greedy)
    return list(found.returns)


def peer(options: Options) -> None:
    """PPO in one process beside ALE's vector environment, with the settings of CleanRL."""
    for name in options.games:
        command = [sys.executable, str(PEER), "--game", game_id(name)]
        command += ["--seconds", str(options.seconds), "--num-envs", str(options.copies)]
        command += ["--target", str(options.target)] if options.target is not None else []
        limit = options.seconds + 90
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=limit)
        if done.returncode:
            raise SystemExit(f"the peer ended with {done.returncode}")
        told = json.loads(done.stdout.splitlines()[-1])
        write(options.out, f"peer-{name}{options.tag}", told)
        print(json.dumps(told), flush=True)


def collect(options: Options) -> None:
    """All figures and curves under a directory as one document, which the documentation draws."""
    parts = []
    for path in sorted(options.out.glob("*.json")):
        part = json.loads(path.read_text())
        if "part" not in part:
            continue
        part.pop("times", None)
        curve = options.out / part["part"] / "curve.jsonl"
        if curve.exists():
            part["curve"] = thinned([json.loads(line) for line in curve.read_text().splitlines()])
        parts.append(part)
    if not parts:
        raise SystemExit(f"there are no figures in {options.out}")
    document = {"question": "atari_gpu", "parts": parts}
    options.to.parent.mkdir(parents=True, exist_ok=True)
    options.to.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(parts)} parts in {options.to}")


def thinned(points: list[Any], most: int = 200) -> list[Any]:
    """Evenly spaced ones of many, and the last.

    >>> thinned(list(range(10)), most=4)
    [0, 3, 6, 9]
    """
    every = max(1, -(-len(points) // most))
    kept = points[::every]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    _add(parts, rates, games=True, seconds=60.0, scan=True)
    one = _add(parts, throughput, games=True, seconds=30.0, scan=True, settings=True)
    one.add_argument("--algorithms", type=_names, default=["impala", "appo", "ppo"])
    one.add_argument("--warm", type=float, default=15.0, help="seconds before the clock runs")
    one = _add(parts, train, settings=True)
    one.add_argument("algorithm")
    one.add_argument("game")
    one.add_argument("--minutes", type=float, default=4.0, help="of this sitting")
    one.add_argument("--target", type=float, help="mean of 100 games at which it ends")
    one.add_argument("--seed", type=int, default=0)
    one = _add(parts, evaluate, out=False)
    one.add_argument("run", type=Path, help="the directory of a training, as `train` says")
    one.add_argument("--episodes", type=int, default=100)
    one.add_argument("--greedy", action="store_true", help="otherwise actions are sampled")
    one = _add(parts, peer, games=True, seconds=60.0)
    one.add_argument("--copies", type=int, default=128, help="games side by side")
    one.add_argument("--target", type=float)
    one.add_argument("--tag", default="")
    one = _add(parts, collect)
    one.add_argument("--to", type=Path, default=RESULTS / "atari_gpu.json")
    options = parser.parse_args(arguments)
    options.set = dict(getattr(options, "set", []))
    options.do(options)
    return 0


def _add(
    parts: Any,
    do: Callable[[Options], None],
    *,
    out: bool = True,
    games: bool = False,
    seconds: float | None = None,
    scan: bool = False,
    settings: bool = False,
) -> argparse.ArgumentParser:
    own: argparse.ArgumentParser = parts.add_parser(do.__name__, description=do.__doc__)
    own.set_defaults(do=do)
    if out:
        own.add_argument("--out", type=Path, default=Path("build/bench/atari_gpu"))
    if games:
        own.add_argument("--games", type=_names, default=["Pong", "Breakout"])
    if seconds is not None:
        own.add_argument("--seconds", type=float, default=seconds, help="of each measurement")
    if scan:
        own.add_argument("--scan", type=float, default=3.0, help="seconds of each first look")
        own.add_argument("--sticky", action="store_true", help="actions are, as in version 5")
        own.add_argument("--setups", type=_names, help="PROCESSESxGAMESxTHREADS, ...")
    if settings:
        own.add_argument("--set", action="append", default=[], type=_setting, metavar="NAME=JSON")
        if not scan:
            own.add_argument("--sticky", action="store_true", help="actions are, as in version 5")
        own.add_argument("--tag", default="", help="ends names of files, of another try")
    return own


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    sys.exit(main())
