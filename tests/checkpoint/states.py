"""States to save, and equality that looks at types and bits."""

from __future__ import annotations

import math
import struct
from collections import Counter, deque
from typing import Any

import numpy as np

from rillflow.checkpoint.registered_classes import kind_of
from rillflow.experience.batch import MultiAgentBatch, SampleBatch
from rillflow.experience.named_vector import NamedVector
from rillflow.learning.results import Gradients, Learned, RowStats, TrainStats
from rillflow.types import Source


def same(a: Any, b: Any) -> bool:
    """Whether two states are the same in type and in every bit, arrays in memory order too."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (
            (a.dtype.str, a.shape, a.flags.writeable) == (b.dtype.str, b.shape, b.flags.writeable)
            and a.tobytes() == b.tobytes()
            and a.tobytes("A") == b.tobytes("A")
        )
    if isinstance(a, np.generic):
        return a.dtype.str == b.dtype.str and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, set | frozenset):
        return a == b
    kind = kind_of(a)
    if kind is not None:
        return same(kind.take(a), kind.take(b))
    return bool(a == b)


def example() -> dict[str, Any]:
    """A small state with one of everything, and three array files if chunks are small."""
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    frozen = np.arange(5, dtype=np.int64)
    frozen.flags.writeable = False
    batch = SampleBatch({"rewards": np.ones((3, 2), np.float32), "obs": np.zeros((3, 2, 4))})
    rng = np.random.default_rng(7).bit_generator.state
    return {
        "weights": {"policy.0.weight": weights, "again": weights},
        "rng": rng,
        "mixed": [1, 1.5, -0.0, math.nan, math.inf, True, None, "text \ud800 \n", b"\0raw", 2**200],
        "tuple": (1, (2, [3, ()])),
        "keys": {1: "int", "1": "str", (1, "a"): "tuple", None: 0, b"b": 1, "$": 2},
        "$": {"$": "int"},
        "named": NamedVector.of({"weight": weights, "bias": weights[0]}),
        "numpy": [np.float32(0.1), np.int64(-3), np.bool_(True), np.float64(math.nan)],
        "arrays": [
            weights.T,
            frozen,
            np.array(2.5),
            np.empty((0, 3), np.float32),
            np.asfortranarray(np.ones((2, 3, 4))),
            np.arange(24.0).reshape(2, 3, 4).swapaxes(0, 1),
            np.arange(10)[::2],
            np.array([1 + 2j]),
            np.array([1, 2], ">i4"),
            np.array(["a", "bcd"]),
            np.array([b"a"]),
            np.array(["2026-01-02"], "datetime64[s]"),
        ],
        "values": [
            batch,
            MultiAgentBatch({"left": batch}),
            Gradients({"w": weights}, 3, {"loss": 0.5}),
            TrainStats(4, {"loss": 1.0}, policy="left"),
            RowStats(5, {}, {"td": frozen}),
            Learned(6, {}, {"td": frozen}, {"w": weights}, 7),
            Source("worker-0", 1, 2, 3),
            deque([1, 2], maxlen=3),
            Counter({"drops": 2}),
            {1, 2, 3},
            frozenset(("a",)),
            3 - 4j,
        ],
    }
