"""How long does a learner take for a batch of pictures, and where does the time go?

    python benchmarks/device_updates.py --out updates.json
    python benchmarks/device_updates.py --devices cpu --batches 1 --rows 256

PPO learns from fragments of stacked frames of Atari's size: 4 passes in minibatches. Compared are
updates that are recorded as CUDA graphs, updates whose operations are asked for one by one,
convolutions in bf16, and the same rows with whole observations in place of single frames. Rounds of
all of them take turns; told is the median of each. Nobody samples meanwhile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from rillflow.algorithms import ppo
from rillflow.experience.batch import SampleBatch
from rillflow.experience.stacked_frames import Stacks
from rillflow.learning.torch_learner import TorchLearner

TIME, PASSES = 32, 4
CASES: dict[str, dict[str, Any]] = {
    "recorded": {},
    "one by one": {"record_updates": False},
    "bf16": {"learner_precision": "bf16"},
    "whole rows": {},
}


def fragment(rows: int, seed: int) -> SampleBatch:
    """`rows` steps of games that do not end, four frames of 84x84 in each observation."""
    rng = np.random.default_rng(seed)
    envs = max(1, rows // TIME)
    frames = rng.integers(0, 255, ((TIME + 4) * envs, 1, 84, 84), np.uint8)
    at = np.arange(TIME + 1)[:, None, None] + np.arange(4)
    places = (at * envs + np.arange(envs)[None, :, None]).astype(np.int32)
    shape = (TIME, envs)
    columns = {
        "actions": rng.integers(0, 6, shape),
        "logp": np.full(shape, -np.log(6), np.float32),
        "rewards": rng.normal(size=shape).astype(np.float32),
        "terminated": np.zeros(shape, bool),
        "truncated": np.zeros(shape, bool),
    }
    seen = Stacks(frames, places[:-1])
    return SampleBatch({**columns, "obs": seen, "bootstrap_obs": seen.at(places[-1])})


def learner(device: str, settings: dict[str, Any]) -> TorchLearner:
    config = ppo.Config(env="ALE/Pong-v5", framework="torch", num_learner_threads=1, **settings)
    spec = config.policy_spec(Box(0, 255, (4, 84, 84), np.uint8), Discrete(6))
    return TorchLearner(spec, config, 0, (device,))


def measured(device: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Of each case: milliseconds of an update and of a batch, and what the device's clock says."""
    cases = {
        name: settings
        for name, settings in CASES.items()
        if device != "cpu" or name in ("one by one", "whole rows")
    }
    learners = {name: learner(device, settings) for name, settings in cases.items()}
    updates = PASSES * max(1, options.rows // options.minibatch)
    took: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(options.batches + 1):
        joined = SampleBatch.concat(
            [fragment(options.rows // options.parts, number * 100 + part)
             for part in range(options.parts)]
        )  # fmt: skip
        for name, one in learners.items():
            batch = SampleBatch(dict(joined)) if name == "whole rows" else joined
            began = time.perf_counter()
            one.train(batch, PASSES, options.minibatch)
            if number:  # the first one records, and cuDNN finds out
                took[name].append(1000 * (time.perf_counter() - began))
    return {
        name: {
            "batch_ms": round(statistics.median(times), 3),
            "update_ms": round(statistics.median(times) / updates, 4),
            **{key: round(value, 3) for key, value in learners[name].clock.told.items()},
        }
        for name, times in took.items()
    }


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    found = ["cuda:0"] if torch.cuda.is_available() else ["cpu"]
    parser.add_argument("--devices", nargs="+", default=found)
    parser.add_argument("--rows", type=int, default=16_384, help="in a batch")
    parser.add_argument("--minibatch", type=int, default=1024)
    parser.add_argument("--parts", type=int, default=16, help="fragments in a batch")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    document = {
        "settings": {name: getattr(options, name) for name in ("rows", "minibatch", "batches")},
        "torch": torch.__version__,
        "devices": {device: measured(device, options) for device in options.devices},
    }
    print(json.dumps(document, indent=2))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
