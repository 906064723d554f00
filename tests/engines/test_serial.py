"""Values as bytes, and values lent to a thread of the same process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from rillflow.batch import MultiAgentBatch, SampleBatch
from rillflow.engines.serial import Packed, PackedRef, ValueRef, lend, pack, unpack


def batch() -> SampleBatch:
    return SampleBatch({"rewards": np.ones((3, 2)), "actions": np.zeros((3, 2), int)})


def test_what_is_lent_shares_memory_and_cannot_be_changed_there() -> None:
    own = batch()
    ref = lend({"batch": own, "parts": [own["rewards"], 1], "pair": (own, "name")})
    assert isinstance(ref, ValueRef)
    there = ref.get()
    assert np.shares_memory(there["batch"]["rewards"], own["rewards"])
    with pytest.raises(ValueError, match="read-only"):
        there["batch"]["rewards"][0] = 5
    with pytest.raises(ValueError, match="read-only"):
        there["parts"][0][0] = 5
    own["rewards"][0] = 5  # the owner still can
    assert there["pair"][1] == "name"


def test_batches_of_several_policies_are_lent_like_those_of_one() -> None:
    own = MultiAgentBatch({"one": batch()})
    there = lend(own).get()
    assert isinstance(there, MultiAgentBatch)
    assert np.shares_memory(there["one"]["actions"], own["one"]["actions"])


class Unknown:
    def __init__(self, values: list[int]) -> None:
        self.values = values


def test_what_is_made_of_anything_else_is_copied() -> None:
    own = Unknown([1])
    ref = lend([own])
    assert isinstance(ref, PackedRef)
    (there,) = ref.get()
    own.values.append(2)
    assert there.values == [1]


@pytest.mark.parametrize("value", [batch(), MultiAgentBatch({"one": batch()}), {"b": batch()}])
def test_a_batch_of_arrays_needs_no_code_to_be_shipped(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick pickler takes it, towards actors too."""
    import rillflow.engines.serial as serial

    monkeypatch.setattr(serial.cloudpickle, "Pickler", None)
    again = unpack(pack(value))
    assert pickle.dumps(again) == pickle.dumps(value)


class Named(np.ndarray[Any, Any]):
    """An array of a class of its own."""


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
    "its own class": np.arange(3).view(Named),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("by_value", [True, False])
def test_any_array_arrives_as_it_was(name: str, by_value: bool) -> None:
    sent = ARRAYS[name]
    packed = pack({"array": sent}, by_value=by_value)
    there = unpack(Packed(bytes(packed.body), [bytes(buffer) for buffer in packed.buffers]))
    arrived = there["array"]
    assert type(arrived) is type(sent)
    assert (arrived.dtype, arrived.shape) == (sent.dtype, sent.shape)
    assert arrived.tolist() == sent.tolist()


def test_an_array_that_arrives_is_read_only_where_its_memory_is() -> None:
    packed = pack(np.zeros(3))
    assert not unpack(Packed(packed.body, [bytes(b) for b in packed.buffers])).flags.writeable
    assert unpack(Packed(packed.body, [bytearray(b) for b in packed.buffers])).flags.writeable


def test_a_value_is_sent_without_numpy_if_nobody_has_imported_it() -> None:
    code = """
import sys
from rillflow.engines.serial import pack, unpack
assert unpack(pack({"a": (1, "b")})) == {"a": (1, "b")}
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
