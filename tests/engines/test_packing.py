"""Values as a layout and bytes, and values handed over within one process."""

from __future__ import annotations

import marshal
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from rillflow.engines import packing
from rillflow.engines.packing import PackedRef, ValueRef, hand_over, pack
from rillflow.experience.batch import MultiAgentBatch, SampleBatch
from rillflow.experience.named_vector import NamedVector
from rillflow.learning.results import TrainStats


def batch() -> SampleBatch:
    return SampleBatch({"rewards": np.ones((3, 2)), "actions": np.zeros((3, 2), int)})


def frozen(batch: SampleBatch) -> SampleBatch:
    for column in batch.values():
        column.flags.writeable = False
    return batch


def test_what_nobody_can_change_is_handed_over_without_a_copy() -> None:
    own = frozen(batch())
    ref = hand_over({"batch": own, "parts": [own["rewards"], 1], "pair": (own, "name")})
    assert isinstance(ref, ValueRef)
    there = ref.get()
    assert there["batch"]["rewards"] is own["rewards"]
    assert there["parts"][0] is own["rewards"]
    assert there["pair"][1] == "name"


def test_batches_of_several_policies_are_handed_over_like_those_of_one() -> None:
    own = MultiAgentBatch({"one": frozen(batch())})
    there = hand_over(own).get()
    assert isinstance(there, MultiAgentBatch)
    assert there["one"]["actions"] is own["one"]["actions"]


class Unknown:
    def __init__(self, values: list[int]) -> None:
        self.values = values


def test_what_is_made_of_anything_else_is_copied() -> None:
    own = Unknown([1])
    ref = hand_over([own])
    assert isinstance(ref, PackedRef)
    (there,) = ref.get()
    own.values.append(2)
    assert there.values == [1]


def test_what_an_actor_gives_away_is_copied_unless_nobody_can_change_it() -> None:
    """A buffer that its owner fills again does not change what was given away before."""
    buffer = np.zeros(3)
    given = hand_over({"a": buffer}).get()
    buffer[:] = 7
    assert given["a"].tolist() == [0, 0, 0]
    frozen = np.arange(3)
    frozen.flags.writeable = False
    assert hand_over(frozen).get() is frozen
    view = buffer[:2]
    view.flags.writeable = False  # its owner can still write to it
    assert not np.shares_memory(hand_over(view).get(), buffer)


def test_what_cannot_be_copied_stays_what_it_is_within_a_process() -> None:
    lock = threading.Lock()
    assert hand_over(lock).get() is lock


@pytest.mark.parametrize(
    "value",
    [
        batch(),
        MultiAgentBatch({"one": batch()}),
        {"b": batch(), "n": 3, "words": ["x", None]},
        NamedVector.of({"a": np.ones(2), "b": np.zeros((1, 1))}),
        TrainStats(3, {"loss": 0.5}),
    ],
)
def test_a_value_of_known_kinds_needs_no_pickle(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its layout and its bytes are enough; equal shapes have equal layouts."""
    monkeypatch.setattr(packing, "_pickled", None)
    packed = pack(value)
    again = packed.detached().get()
    assert type(again) is type(value)
    assert pickle.dumps(again) == pickle.dumps(value)
    assert marshal.loads(marshal.dumps(packed.layout)) == packed.layout
    assert hash(packed.layout) == hash(pack(value).layout)


ARRAYS = {
    "plain": np.arange(6.0).reshape(2, 3),
    "empty": np.zeros((0, 4), np.float32),
    "a number": np.array(7, np.int16),
    "flags": np.array([[True, False]]),
    "complex": np.array([1 + 2j]),
    "big-endian": np.arange(3, dtype=">i4"),
    "times": np.array(["2026-01-02", "NaT"], "M8[D]"),
    "columns first": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "every other": np.arange(10)[::2],
    "a record": np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
    "words": np.array(["ab", "c"]),
    "objects": np.array([None, "x"], object),
    "masked": np.ma.MaskedArray([1.0, 2.0], mask=[False, True]),
    "lists in it": np.array([[1, 2], None], object),
    "records by name": np.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("by_value", [True, False])
def test_any_array_arrives_as_it_was(name: str, by_value: bool) -> None:
    sent = ARRAYS[name]
    for value in ({"array": sent}, {"array": sent, "other": Unknown([])}):
        packed = pack(value, by_value=by_value)
        arrived = packed.detached().get()["array"]
        assert type(arrived) is type(sent)
        assert (arrived.dtype, arrived.shape) == (sent.dtype, sent.shape)
        assert arrived.tolist() == sent.tolist()
        assert not arrived.flags.writeable


def test_a_value_is_sent_without_numpy_if_nobody_has_imported_it() -> None:
    code = """
import sys
from rillflow.engines.packing import pack
packed = pack({"a": (1, "b")})
assert packed.detached().get() == {"a": (1, "b")}
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_arrays_are_sent_without_loading_masked_ones_if_nobody_has() -> None:
    code = """
import sys
import numpy as np
from rillflow.engines.packing import pack
packed = pack({"a": np.arange(3.0), "b": np.array([None, "x"], object)})
assert packed.detached().get()["a"].tolist() == [0, 1, 2]
assert "numpy.ma" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
