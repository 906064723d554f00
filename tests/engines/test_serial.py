"""Values as bytes, and values lent to a thread of the same process."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from rillflow.batch import MultiAgentBatch, SampleBatch
from rillflow.engines.serial import PackedRef, ValueRef, lend, pack, unpack


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
