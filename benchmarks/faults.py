"""What does each fault cost a training run, started from the command line on `local`?

    python benchmarks/faults.py              # every row, then docs/faults.md
    python benchmarks/faults.py --rows 1 15  # some of them
    python benchmarks/faults.py --quick      # fewer repetitions; the page stays as it is

Each row starts the product, hurts it, and measures what happens. A row holds if all its figures do.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import faults_page
from faults_machine import in_time, over
from faults_product import ENV, SMALL, Never, Product, goes_on, lives, rillflow

LONG = "--until=steps=1e8"
PPO = ("train", "ppo", "CartPole-v1", *SMALL)
FAULTY = ("train", "ppo", ENV, *SMALL)


@dataclass
class Row:
    """One fault of the matrix."""

    number: int
    fault: str
    happens: str
    target: str
    measure: Callable[[Path, bool], Iterator[tuple[str, bool]]]
    figures: list[str] = field(default_factory=list)
    ok: bool = True

    def run(self, quick: bool) -> None:
        """Measure; a figure that misses its target, or never comes, fails the row."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                for figure, ok in self.measure(Path(folder), quick):
                    self.figures.append(figure)
                    self.ok = self.ok and ok
            except Never as never:
                self.figures.append(str(never))
                self.ok = False


ROWS: dict[int, Row] = {}


def row(number: int, fault: str, happens: str, target: str) -> Callable[..., Callable[..., None]]:
    """Register a measurement."""

    def keep(measure: Callable[..., None]) -> Callable[..., None]:
        ROWS[number] = Row(number, fault, happens, target, measure)
        return measure

    return keep


def config(**values: object) -> str:
    """Settings of the environment, as a flag."""
    return f"--env-config={json.dumps(values)}"


@contextmanager
def training(folder: Path, *words: str) -> Iterator[Product]:
    """A run that has begun to learn."""
    with Product(folder, *words) as product:
        product.until_rows(2)
        yield product


def stopped(product: Product) -> bool:
    """Whether one Ctrl-C ends it, with nobody left behind."""
    product.signal(signal.SIGINT)
    return product.end() == 130 and not product.survivors()


# -- workers ---------------------------------------------------------------------------------------


@row(1, "a worker is killed (-9)", "a new one with the newest weights takes its place",
     "noticed <= 0.5 s, back <= 5 s, 30 of 30; 70 % of the speed, a kill in 10 s")  # fmt: skip
def worker_killed(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    noticed, back = [], []
    with training(folder, *PPO, LONG) as product:
        clean = product.rate(10 if not quick else 2)
        for _ in range(2 if quick else 30):
            when = product.kill("worker")
            noticed.append(product.until_said("was lost", since=when) - when)
            product.workers("worker")
            product.until_rows(1)
            back.append(time.monotonic() - when)
            time.sleep(0.0 if quick else 1.0)
        yield f"{len(noticed)} of {len(noticed)} survived", True
        soon = in_time(max(noticed), 0.5, strict=not quick)
        yield f"noticed after {max(noticed):.2f} s at most", soon
        soon = in_time(max(back), 5, strict=not quick)
        yield f"back after {max(back):.1f} s at most", soon
        if not quick:
            when = product.kill("worker")
            hurt = product.rate(10)
            yield f"{hurt / clean:.0%} of the speed with a kill in 10 s", hurt >= 0.7 * clean
        balanced = product.status()["ledger"]["balanced"]
        yield "ledger balanced" if balanced else "ledger not balanced", balanced
        yield from _nobody_left(product)


def _nobody_left(product: Product) -> Iterator[tuple[str, bool]]:
    ok = stopped(product)
    yield "nobody left behind" if ok else f"left behind: {product.survivors()}", ok


@row(2, "an environment's constructor always raises", "the run ends at once with its error",
     "<= 20 s, <= 5 restarts, the user's exception is told")  # fmt: skip
def crash_loop(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    began = time.monotonic()
    done = rillflow(*FAULTY, config(fault="init"), "--run-dir", str(folder), cwd=folder)
    took = time.monotonic() - began
    told = "RuntimeError" in done.stderr and "no licence for the simulator" in done.stderr
    soon = in_time(took, 20, strict=not quick)
    yield f"ends after {took:.1f} s, no restart", soon and done.returncode != 0
    yield "told: 'no licence for the simulator'" if told else done.stderr[-200:], told


@row(3, "an environment raises in a step, rarely",
     "that copy alone begins a new episode; the step before is marked as truncated",
     "others lose nothing; the goal in <= 1.3 times the steps")  # fmt: skip
def step_raises(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    goal, steps = 60 if quick else 150, {}
    for name, chance in (("clean", 0.0), ("hurt", 1e-3)):
        counts = []
        for seed in range(1 if quick else 3):
            where = folder / f"{name}{seed}"
            where.mkdir()
            settings = config(fault="raise", after=200, chance=chance)
            with Product(where, *FAULTY, settings, f"--until=return={goal}", LONG,
                         f"--seed={seed}") as product:  # fmt: skip
                code = product.end(110)
                yield f"{name}: exit {code}, {product.rows[-1][1]['steps']:,} steps", code == 0
                counts.append(product.rows[-1][1]["steps"])
        steps[name] = sorted(counts)[len(counts) // 2]
    ratio = steps["hurt"] / steps["clean"]
    yield f"return {goal} in {ratio:.2f} times the steps", ratio <= (3.0 if quick else 1.3)


@row(4, "an environment raises in resets", "tried again with new copies, five times at most",
     "no recursion, bounded")  # fmt: skip
def reset_raises(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    token = folder / "token"
    settings = config(fault="raise", after=100, token=str(token), resets=3)
    with training(folder, *FAULTY, settings, LONG) as product:
        product.until_steps(8000)
        token.touch()
        when = time.monotonic()
        noticed = product.until_said("that copy alone begins anew", since=when) - when
        product.until_rows(2)
        restarts = sum(w["restarts"] for w in product.status()["workers"])
        yield f"back after {noticed:.1f} s, {restarts} workers restarted", restarts == 0
        yield from _nobody_left(product)


@row(5, "an environment hangs", "its worker is replaced when --env-timeout is over",
     "noticed <= time-out + 1 s; others keep 90 % of their rate")  # fmt: skip
def hangs(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    for fault in ("sleep",) if quick else ("sleep", "busy", "pause"):
        where, token = folder / fault, folder / f"{fault}.token"
        where.mkdir()
        settings = config(fault=fault, after=50, token=str(token))
        words = ("train", "a3c", ENV, *SMALL, settings, LONG, "--env-timeout=2")
        with training(where, *words) as product:
            product.until_steps(4000)
            token.touch()
            product.until(lambda token=token: not token.exists(), "the fault")
            when = time.monotonic()
            late = product.until_said("env_timeout", since=when) - when - 2
            soon = in_time(late, 1, strict=not quick)
            yield f"{fault}: noticed {late:.2f} s after the time-out", soon
            product.until_rows(5)
            yield from _nobody_left(product)


@row(6, "an environment has children of its own", "they end with their worker",
     "nobody left 3 s after the end")  # fmt: skip
def children(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    log = folder / "children"
    with training(folder, *FAULTY, config(fault="child", log=str(log)), LONG) as product:
        product.kill("worker")
        product.until_said("was lost")
        product.until_rows(2)
        product.signal(signal.SIGINT)
        product.end()
        driver = product.process.pid
    # one copy is made in the driver, to be asked for its spaces, and closed there
    lines = [map(int, line.split()) for line in log.read_text().splitlines()]
    pids = [child for child, parent in lines if parent != driver]
    began = time.monotonic()
    while any(map(lives, pids)) and in_time(time.monotonic() - began, 3, strict=not quick):
        time.sleep(0.05)
    left = sum(map(lives, pids))
    yield f"{left} of {len(pids)} children left", left == 0


@row(7, "an environment leaks memory", "the worker is replaced after its rollout",
     "peak <= limit + 10 %, no finished episode lost")  # fmt: skip
def leaks(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    words = ("train", "ppo", ENV, "--num-workers=1", "--num-envs-per-worker=1",
             "--rollout-fragment-length=16", "--train-batch-size=64", "--sgd-minibatch-size=64",
             config(fault="leak"), LONG)  # fmt: skip
    limit = 300
    with training(folder, *words, f"--worker-memory={limit}MiB") as product:
        peak, recycled = 0.0, 0
        began = time.monotonic()
        while recycled < (1 if quick else 5) and not over(began, 90):
            for worker in product.status().get("workers", ()):
                peak = max(peak, _peak(worker["pid"]))
            recycled = sum("is made anew" in line for _, line in product.said)
            time.sleep(0.02)
        yield f"{recycled} times, peak {peak:.0f} MiB of {limit}", 0 < peak <= 1.1 * limit
        yield from _nobody_left(product)


def _peak(pid: int | None) -> float:
    """The most memory that a process ever had, in MiB."""
    try:
        with open(f"/proc/{pid}/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
            return int(line.split()[1]) / 1024
    except (OSError, StopIteration):
        return 0.0


def _broken_promise(fault: str, *words: str) -> Callable[..., Iterator[tuple[str, bool]]]:
    def measure(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
        token = folder / "token"
        settings = config(fault=fault, after=50, token=str(token))
        with training(folder, *FAULTY, settings, LONG) as product:
            product.until_steps(4000)
            token.touch()
            product.until(lambda: not token.exists(), "the fault")
            when = time.monotonic()
            code = product.end(110)
            took = product.until_said("environment", since=when) - when
            told = all(word in product.text for word in words)
            yield f"told after {took:.2f} s, exit {code}", told and code == 1
            if not told:
                yield product.text[-300:], False
        yield f"goes on: {goes_on(folder, 2000)}", True

    return measure


for _number, _fault, _name, _words in (
    (8, "an observation is not a number", "obs", ("(index ", "at step ", "nan")),
    (9, "a reward is not a number", "reward", ("(index ", "at step ", "reward")),
    (11, "an observation changes its shape", "shape", ("(index ", "expected shape (4,)")),
):
    row(_number, _fault, "the run ends, with its policy and a checkpoint; the message names the "
        "environment, the copy and the step", "caught in that step, nothing reaches the learner"
        )(_broken_promise(_name, *_words))  # fmt: skip


# -- learning --------------------------------------------------------------------------------------


@row(10, "a loss is not a number", "the step is skipped and counted; ten in a row end the run",
     "parameters unchanged")  # fmt: skip
def poisoned(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    words = (*PPO, "--update=faults_env:poisoned", "--until=steps=30000")
    with Product(folder, *words) as product:
        code = product.end(110)
    told = [line for _, line in product.said if "not finite" in line or "skipped" in line]
    yield f"exit {code}; {told[0][:90] if told else product.text!r}", code == 0 and bool(told)
    played = rillflow("evaluate", "run", "--episodes", "2", cwd=folder)
    yield "its policy plays", played.returncode == 0


@row(14, "the learner raises", "the run ends with its error, policy and checkpoint",
     "valid checkpoint, exit code not 0, <= 10 s")  # fmt: skip
def learner_raises(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    with Product(folder, *PPO, "--update=faults_env:raising", LONG) as product:
        code = product.end(110)
        when = product.until_said("ZeroDivisionError")
        took = when - product.rows[-1][0]
        soon = in_time(took, 10, strict=not quick)
        yield f"exit {code}, {took:.1f} s after the last row", code == 1 and soon
    trust = ("--trust", "faults_env:raising")
    played = rillflow("evaluate", "run", "--episodes", "2", *trust, cwd=folder)
    until = f"--until=steps={int(product.rows[-1][1]['steps']) + 500}"
    resumed = rillflow("resume", "run", until, "--quiet", *trust, cwd=folder)
    yield "evaluate and resume work", played.returncode == resumed.returncode == 0


@row(15, "the learner's process is killed or stopped", "a new one goes on from its last snapshot",
     "back <= 10 s, no version twice")  # fmt: skip
def learner_killed(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    words = ("train", "apex", "CartPole-v1", LONG, "--worker-timeout=3")
    with training(folder, *words) as product:
        product.until_rows(50)
        for number in (signal.SIGKILL,) if quick else (signal.SIGKILL, signal.SIGSTOP):
            time.sleep(2 if quick else 7)  # for a snapshot
            when = product.kill("learner", number)
            product.until_said("learner-0", "restarted", since=when)
            product.until_rows(5)
            took = time.monotonic() - when
            allowed = 10 if number == signal.SIGKILL else 13
            soon = in_time(took, allowed, strict=not quick)
            yield f"{number.name}: learns again after {took:.1f} s", soon
        balanced = product.status()["ledger"]["balanced"]
        yield "ledger balanced" if balanced else "ledger not balanced", balanced
        yield from _nobody_left(product)


@row(16, "a replay actor is killed", "a new one fills again; priorities of the old are ignored",
     "no crash, learning goes on")  # fmt: skip
def replay_killed(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    with training(folder, "train", "apex", "CartPole-v1", LONG) as product:
        product.until_rows(50)
        when = product.kill("replay")
        product.until_said("replay", "restarted", since=when)
        product.until_rows(50)
        yield f"50 updates within {time.monotonic() - when:.1f} s", True
        balanced = product.status()["ledger"]["balanced"]
        yield "ledger balanced" if balanced else "ledger not balanced", balanced
        yield from _nobody_left(product)


# -- environments that break their contract --------------------------------------------------------


@row(12, "an environment returns what it must not", "told by name: what came, what was expected",
     "25 of 25 have a message of their own")  # fmt: skip
def malformed(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    from faults_malformed import KINDS, message_of

    told = {name: message_of(make) for name, make in KINDS.items()}
    vague = [name for name, text in told.items() if "expected" not in text and "must" not in text]
    distinct = len(set(told.values()))
    yield f"{len(told) - len(vague)} of {len(told)} told, {distinct} messages", not vague
    if vague:
        yield f"vague: {vague}", False


@row(13, "an action lies outside its space", "clipped to the space; a wrong index is an error",
     "never silently wrapped")  # fmt: skip
def actions(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    import numpy as np

    from rillflow.envs.make import make_envs

    envs = make_envs("Pendulum-v1", 2)
    envs.reset()
    clipped = envs.to_env_actions(np.array([[9.0], [-9.0]], np.float32))
    yield f"9 and -9 become {clipped.ravel().tolist()}", clipped.ravel().tolist() == [2.0, -2.0]
    envs = make_envs("CartPole-v1", 2)
    envs.reset()
    try:
        envs.step(np.array([0, 7]))
        yield "action 7 of 2 was taken", False
    except Exception as error:
        yield f"action 7 of 2: {str(error).splitlines()[0][:80]}", True


# -- the run itself --------------------------------------------------------------------------------


@row(18, "the driver is killed (-9), also while it saves", "the newest whole checkpoint is there",
     "always resumable, workers gone <= 5 s")  # fmt: skip
def driver_killed(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    import random

    slowest, count = 0.0, 2 if quick else 10
    for attempt in range(count):
        where = folder / str(attempt)
        where.mkdir()
        with training(where, *PPO, LONG, "--checkpoint-steps=1000") as product:
            product.until_steps(3000)
            time.sleep(random.uniform(0, 1))
            when = product.signal(signal.SIGKILL)
            product.end()
            left = product.survivors()
            slowest = max(slowest, time.monotonic() - when)
        if left:
            yield f"workers left: {left}", False
        goes_on(where, 500)
    yield f"{count} of {count} resumed", True
    soon = in_time(slowest, 5, strict=not quick)
    yield f"workers gone after {slowest:.1f} s at most", soon


@row(19, "the disk is full", "told, tried again; what was saved stays; exit code not 0 at the end",
     "no file damaged, 3 failed saves survived")  # fmt: skip
def disk_full(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    from faults_disk import small_disk

    with small_disk(folder) as disk:
        if disk is None:
            yield "not measured: only root may make a small file system", True
            return
        with training(disk.path, *PPO, LONG, "--checkpoint-seconds=1") as product:
            product.until(lambda: list((product.run / "checkpoints").glob("*")), "a checkpoint")
            disk.fill()
            when = time.monotonic()
            product.until_said("note: ", "training goes on", since=when)
            time.sleep(3)
            disk.empty()
            product.until_rows(5)
            yield "goes on after 3 s of a full disk", True
            disk.fill()
            product.signal(signal.SIGTERM)
            code = product.end(110)
            yield f"full at the end: exit {code}", code not in (0, 143)
            disk.empty()
        yield f"goes on: {goes_on(disk.path, 1000)}", True


@row(23, "a checkpoint of another network or environment", "refused, with what differs",
     "every one loads or explains")  # fmt: skip
def other_checkpoint(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    import shutil

    short = ("--until=steps=3000", "--quiet", "--run-dir", str(folder))
    rillflow(*PPO, *short, "--name=run", cwd=folder)
    others = {"net": (*PPO, "--hidden=16"), "env": ("train", "ppo", "Acrobot-v1", *SMALL)}
    others["algorithm"] = ("train", "dqn", "CartPole-v1")
    for name, words in others.items():
        made = rillflow(*words, *short, f"--name={name}", cwd=folder)
        assert made.returncode == 0, made.stderr
        saved = folder / "run" / "checkpoints"
        shutil.rmtree(saved)
        shutil.copytree(folder / name / "checkpoints", saved)
        plain = rillflow("resume", "run", "--until=steps=9000", cwd=folder)
        taken = rillflow("resume", "run", "--until=steps=9000", "--adopt", cwd=folder)
        yield f"{name}: {_first(plain.stderr)}", plain.returncode != 0 and "--adopt" in plain.stderr
        told = "Traceback" not in taken.stderr and taken.returncode != 0
        yield f"{name}, adopted: {_first(taken.stderr)}", told


def _first(text: str) -> str:
    lines = [line for line in text.splitlines() if line and not line.startswith("note:")]
    return lines[0][:160] if lines else "nothing was told"


@row(28, "Ctrl-C once, twice; SIGTERM, SIGHUP", "once saves and ends, twice ends now",
     "once <= 10 s, twice <= 2 s, nobody left")  # fmt: skip
def interrupted(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    once = (signal.SIGINT,) if quick else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in once:
        where = folder / number.name
        where.mkdir()
        with training(where, *PPO, LONG) as product:
            when = product.signal(number)
            code = product.end(110)
            took = time.monotonic() - when
            ok = code == 128 + number and in_time(took, 10, strict=not quick)
            yield f"{number.name} once: {took:.1f} s", ok and not product.survivors()
        goes_on(where, 500)
    where = folder / "twice"
    where.mkdir()
    with training(where, *PPO, LONG) as product:
        product.signal(signal.SIGINT)
        time.sleep(0.05)
        when = product.signal(signal.SIGINT)
        code = product.end(110)
        took = time.monotonic() - when
        soon = in_time(took, 2, strict=not quick)
        yield f"twice: {took:.1f} s, exit {code}", soon and not product.survivors()
    where = folder / "hung"
    where.mkdir()
    with training(where, "train", "impala", "CartPole-v1", "--num-workers=3", LONG) as product:
        product.kill("worker", signal.SIGSTOP)
        product.until_rows(5)
        when = product.signal(signal.SIGTERM)
        code = product.end(110)
        took = time.monotonic() - when
        soon = in_time(took, 20, strict=not quick)
        yield f"SIGTERM while a worker is stopped: {took:.1f} s", code == 143 and soon
    goes_on(where, 2000)


@row(38, "a sink of metrics blocks or raises", "it is left behind; training goes on",
     "99 % of the speed")  # fmt: skip
def sink_blocks(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    from faults_sinks import speed_with

    seconds, pairs = (1.0, 3) if quick else (5.0, 4)
    ratios = sorted(speed_with("blocks", seconds) / speed_with("", seconds) for _ in range(pairs))
    middle = ratios[len(ratios) // 2]
    bar = 0.5 if quick else 0.9  # single runs of a shared machine differ by more than a percent
    yield f"a sink that blocks: {middle:.2f} of the speed (of {pairs} pairs)", middle >= bar
    speed = speed_with("raises", 2.0)
    yield f"one that raises: {speed:,.0f} steps/s", speed > 0


@row(40, "files of a later time, or of another run", "resume goes by the checkpoint alone",
     "never read")  # fmt: skip
def stale_files(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    import shutil

    short = ("--until=steps=20000", "--quiet", "--checkpoint-steps=3000", "--keep=20")
    done = rillflow(*PPO, *short, "--run-dir", str(folder), "--name=run", cwd=folder)
    assert done.returncode == 0, done.stderr
    saved = sorted((folder / "run" / "checkpoints").glob("*"))
    kept = [one for one in saved if one.is_dir()]
    for newer in kept[2:]:
        shutil.rmtree(newer)
    resumed = rillflow("resume", "run", "--until=steps=9000", "--quiet", cwd=folder)
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    steps = [one["steps"] for one in rows]
    yield f"resume: exit {resumed.returncode}", resumed.returncode == 0
    whole = steps == sorted(steps) and 9000 <= steps[-1] < 20000
    yield f"metrics end at {steps[-1]:,} of 20,000, in order", whole


@row(43, "all workers die at once", "all come back; if they cannot, the run ends and says so",
     "back, or the end <= the limit + 5 s")  # fmt: skip
def all_killed(folder: Path, quick: bool) -> Iterator[tuple[str, bool]]:
    with training(folder, *PPO, LONG) as product:
        import os

        pids = product.workers("worker")
        when = time.monotonic()
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        product.until_said("worker-0", "restarted", since=when)
        product.until_said("worker-1", "restarted", since=when)
        product.until_rows(3)
        yield f"all back after {time.monotonic() - when:.1f} s", True
        yield from _nobody_left(product)


def main() -> int:
    """Measure rows, tell them, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=sorted(ROWS), metavar="N")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, and no page")
    options = parser.parse_args()
    for number in options.rows:
        began = time.monotonic()
        found = ROWS[number]
        found.run(options.quick)
        took = time.monotonic() - began
        mark = "ok " if found.ok else "BAD"
        print(f"{mark} F{number:<2} {found.fault} ({took:.0f} s)", flush=True)
        for figure in found.figures:
            print(f"        {figure}", flush=True)
    measured = [ROWS[number] for number in options.rows]
    if not options.quick:
        faults_page.write(measured)
    return 0 if all(one.ok for one in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
