"""Weights as one vector: equal to a dict of arrays, but one array on the way."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from rillflow.engines.packing import hand_over, pack
from rillflow.experience.named_vector import NamedVector, layout_of

SHAPES = {"trunk.weight": (3, 2), "trunk.bias": (3,), "log_std": ()}


def make() -> NamedVector:
    return NamedVector(np.arange(10, dtype=np.float32), layout_of(SHAPES))


def test_parts_are_views_in_order() -> None:
    named = make()
    assert list(named) == list(SHAPES)
    assert len(named) == 3
    assert named["trunk.weight"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert named["trunk.bias"].tolist() == [6, 7, 8]
    assert named["log_std"].shape == ()
    assert named["log_std"] == 9
    assert all(np.shares_memory(part, named.vector) for part in named.values())
    assert repr(named) == "NamedVector(trunk.weight [3, 2], trunk.bias [3], log_std [])"


def test_nobody_changes_it() -> None:
    named = make()
    with pytest.raises(ValueError, match="read-only"):
        named["trunk.bias"][0] = 1
    with pytest.raises(ValueError, match="read-only"):
        named.vector[0] = 1


def test_equal_layouts_are_the_same_one() -> None:
    assert layout_of(dict(SHAPES)) is layout_of(SHAPES)
    assert layout_of({**SHAPES, "log_std": (1,)}) is not layout_of(SHAPES)
    assert layout_of(dict(reversed(SHAPES.items()))) is not layout_of(SHAPES)


@pytest.mark.parametrize("by_value", [True, False])
def test_it_travels_as_one_array(by_value: bool) -> None:
    named = make()
    packed = pack({"policy": named}, by_value=by_value)
    assert [part.nbytes for part in packed.parts] == [named.vector.nbytes]
    other = packed.detached().get()["policy"]
    assert other.layout is named.layout
    assert np.array_equal(other.vector, named.vector)
    assert not other.vector.flags.writeable


def test_within_a_process_it_is_lent_as_it_is() -> None:
    named = make()
    assert hand_over(named).get() is named
    assert hand_over({"policy": named}).get()["policy"] is named


@pytest.mark.parametrize("again", [copy.deepcopy, lambda named: pickle.loads(pickle.dumps(named))])
def test_copies_are_equal(again: object) -> None:
    named = make()
    other = again(named)  # type: ignore[operator]
    assert other.layout is named.layout
    assert np.array_equal(other.vector, named.vector)
    assert other.vector is not named.vector


def test_it_is_made_of_arrays() -> None:
    named = make()
    again = NamedVector.of(dict(named))
    assert again.layout is named.layout
    assert np.array_equal(again.vector, named.vector)
