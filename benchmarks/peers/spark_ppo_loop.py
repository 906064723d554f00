"""Spark: the PPO loop of the paper's appendix A.1.

Replicate the states to the workers, sample in parallel, collect, train, save the states to a file,
whose detection begins the next iteration. Three forms:

    dstream          a stream of binary records, as in the appendix
    dstream-guarded  the same, but an empty micro-batch starts no job
    rdd              a loop in the driver over plain jobs; it reads the file itself
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import ppo_loop_work as work
from _driver import arguments, emit, quit_now

RECORD = 1 << 18
"""bytes of a file of states: a stream of binary records needs one length"""
PARTS = 2


def restored(raw: bytes) -> tuple[Any, Any, dict[str, Any]]:
    """Networks, optimiser and states, made anew: Spark keeps none of them between tasks."""
    state = pickle.loads(raw)
    net = work.networks()
    optimizer = work.optimizer_of(net)
    if state.get("net"):
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
    return net, optimizer, state


def sample(raw: bytes, rows: int) -> dict[str, Any]:
    """The task of a worker."""
    began = work.clock()
    net, _, _ = restored(raw)
    envs, obs = work.make_envs()
    ready = work.clock()
    columns, _, episodes = work.rollout(net, envs, obs, rows)
    took = work.clock() - ready
    return {
        "raw": raw,
        "parts": [columns],
        "episodes": episodes,
        "init": ready - began,
        "sampling": took,
    }


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Collect; of times the longer one counts."""
    return {
        "raw": one["raw"],
        "parts": one["parts"] + other["parts"],
        "episodes": one["episodes"] + other["episodes"],
        "init": max(one["init"], other["init"]),
        "sampling": max(one["sampling"], other["sampling"]),
    }


def trained(sampled: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The task of the trainer: new states, and how long everything took."""
    began = work.clock()
    net, optimizer, _ = restored(sampled["raw"])
    ready = work.clock()
    rows = work.train(net, optimizer, sampled["parts"])
    done = work.clock()
    raw = pickle.dumps({"net": net.state_dict(), "optimizer": optimizer.state_dict()})
    init = sampled["init"] + (ready - began) + (work.clock() - done)
    times = {"sampling": sampled["sampling"], "training": done - ready, "init": init}
    return raw, {**times, "rows": rows, "episodes": sampled["episodes"]}


def save(raw: bytes, folder: Path, name: str) -> None:
    """In one piece, so that nobody detects half of it."""
    hidden = folder / f".{name}"
    hidden.write_bytes(raw.ljust(RECORD, b"\0"))
    hidden.rename(folder / name)


def stream(context: Any, form: str, folder: Path, rows: int, iterations: int) -> list[Any]:
    """The loop as a stream that feeds itself."""
    import spark_ppo_loop as tasks  # by this name the workers import it
    from pyspark.streaming import StreamingContext

    streaming = StreamingContext(context, 0.5)
    states = streaming.binaryRecordsStream(f"file://{folder}", RECORD)
    enough, log = threading.Event(), []

    def sampled(states: Any) -> Any:
        replicated = states.flatMap(lambda raw: [(i, bytes(raw)) for i in range(PARTS)])
        split = replicated.partitionBy(PARTS, lambda key: key)
        return split.map(lambda pair: tasks.sample(pair[1], rows // PARTS))

    def save_states(rdd: Any) -> None:
        for raw, entry in rdd.collect():
            log.append({**entry, "done": work.clock()})
            if len(log) > iterations:
                enough.set()
            else:
                save(raw, folder, f"states{len(log)}")

    def guarded(rdd: Any) -> None:
        if rdd.getNumPartitions():
            collected = sampled(rdd).reduce(tasks.merged)
            save_states(context.parallelize([collected], 1).map(tasks.trained))

    if form == "dstream":
        sampled(states).reduce(tasks.merged).map(tasks.trained).foreachRDD(save_states)
    else:
        states.foreachRDD(guarded)
    streaming.start()
    time.sleep(1.0)
    save(pickle.dumps({}), folder, "states0")
    enough.wait()
    streaming.stop(stopSparkContext=False, stopGraceFully=False)
    return log


def plain(context: Any, folder: Path, rows: int, iterations: int) -> list[Any]:
    """The loop as a loop; states go through the file all the same."""
    import spark_ppo_loop as tasks

    log = []
    save(pickle.dumps({}), folder, "states0")
    for iteration in range(iterations + 1):
        raw = (folder / f"states{iteration}").read_bytes()
        split = context.parallelize([raw] * PARTS, PARTS)
        collected = split.map(lambda raw: tasks.sample(raw, rows // PARTS)).reduce(tasks.merged)
        ((new, entry),) = context.parallelize([collected], 1).map(tasks.trained).collect()
        save(new, folder, f"states{iteration + 1}")
        log.append({**entry, "done": work.clock()})
    return log


def spark() -> Any:
    """A context on two cores of this machine, with this Python."""
    from pyspark import SparkConf, SparkContext

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
    }
    conf = SparkConf().setMaster(f"local[{PARTS}]").setAppName("ppo").setAll(settings.items())
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    for name in ("spark_ppo_loop.py", "ppo_loop_work.py", "_driver.py"):
        context.addPyFile(str(Path(__file__).with_name(name)))
    return context


if __name__ == "__main__":
    options = arguments(form="dstream", batch=20_000, iterations=6)
    import pyspark

    before = work.clock()
    context = spark()
    started = work.clock() - before
    folder = Path(tempfile.mkdtemp(prefix="states-"))
    try:
        if options.form == "rdd":
            log = plain(context, folder, options.batch, options.iterations)
        else:
            log = stream(context, options.form, folder, options.batch, options.iterations)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = work.summary(log)
    emit("spark", version=pyspark.__version__, start_s=round(started, 2), **told)
    quit_now()
