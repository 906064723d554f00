"""What is loaded is what was saved, in type and in every bit."""

import itertools
import json
import math
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from rillflow.checkpoint import (
    CheckpointStore,
    UnknownClass,
    UnsavableState,
    limits,
    read_checkpoint,
    register,
)
from rillflow.checkpoint import (
    registered_classes as kinds,
)
from rillflow.errors import BuildError
from rillflow.experience.batch import SampleBatch
from rillflow.learning.results import TrainStats
from tests.checkpoint.states import example, same

pytestmark = pytest.mark.usefixtures("no_fsync")

_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.datetime64_dtypes(endianness="<"),
    hnp.unicode_string_dtypes(endianness="<", max_len=5),
)
_arrays = hnp.arrays(_dtypes, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
_numbers = _dtypes.filter(lambda dtype: dtype.kind != "U").flatmap(hnp.from_dtype)
_views = st.tuples(_arrays, st.permutations(range(4))).map(
    lambda pair: pair[0].transpose([axis for axis in pair[1] if axis < pair[0].ndim])
)
_text = st.text(st.characters(), max_size=8)
_keys = st.one_of(
    _text, st.integers(), st.booleans(), st.none(), st.binary(max_size=4), st.floats(),
    st.tuples(st.integers(), _text), st.just("$"),
)  # fmt: skip
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**200), 2**200), st.floats(),
    st.complex_numbers(), _text, st.binary(max_size=20), _arrays, _views, _numbers,
)  # fmt: skip
states = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(_text, inner, max_size=4),
        st.dictionaries(_keys, inner, max_size=4),
        st.dictionaries(_text, _arrays, max_size=2).map(SampleBatch),
        st.builds(deque, st.lists(inner, max_size=3)),
        st.builds(TrainStats, st.integers(), st.dictionaries(_text, st.floats(), max_size=2)),
    ),
    max_leaves=12,
)


def through(directory, state):
    with CheckpointStore(directory, keep=1) as store:
        return read_checkpoint(store.save(step=0, state=state)).state


@given(state=states)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_nested_state_comes_back_exactly(tmp_path, state):
    assert same(through(tmp_path, state), state)


@pytest.mark.parametrize("chunk", [64 << 20, 100, 0])
def test_one_of_everything(tmp_path, monkeypatch, chunk):
    """In one array file, in several, and with a file for each array."""
    monkeypatch.setattr(limits, "CHUNK_BYTES", chunk)
    assert same(through(tmp_path, example()), example())


def test_few_arrays_per_file(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "TENSORS_PER_FILE", 3)
    assert same(through(tmp_path, example()), example())


def test_large_arrays(tmp_path):
    """Larger than the pieces in which files are written and read."""
    rng = np.random.default_rng(0)
    state = [rng.random(n) for n in (1 << 17, 3, 3_000_000)] + [b"x" * 3_000_000]
    assert same(through(tmp_path, state), state)


def test_the_same_state_gives_the_same_files(tmp_path):
    paths = [CheckpointStore(tmp_path / name).save(step=7, state=example()) for name in "ab"]
    assert paths[0].name == paths[1].name
    for file in paths[0].iterdir():
        assert file.read_bytes() == (paths[1] / file.name).read_bytes()


def test_one_array_in_two_places_is_saved_once_and_stays_one(tmp_path):
    """The weights that every worker was sent are one array on the disk and in memory."""
    weights = np.ones(1000)
    state = {f"worker-{i}": {"weights": weights} for i in range(50)}
    with CheckpointStore(tmp_path) as store:
        path = store.save(step=0, state=state)
    assert sum(file.stat().st_size for file in path.iterdir()) < 20_000
    loaded = read_checkpoint(path).state
    assert loaded["worker-0"]["weights"] is loaded["worker-49"]["weights"]


def test_arrays_are_readable_with_the_safetensors_library(tmp_path):
    """Names say where in the state an array was."""
    with CheckpointStore(tmp_path) as store:
        path = store.save(step=0, state=example())
    found = load_file(path / "arrays-00000.safetensors")
    name = next(name for name in found if name.endswith("weights.policy_0_weight"))
    assert same(found[name], example()["weights"]["policy.0.weight"])


def test_structure_is_readable_json(tmp_path):
    with CheckpointStore(tmp_path) as store:
        path = store.save(step=5, state={"a": [1, (2.5, "x")]}, facts={"algorithm": "ppo"})
    state = json.loads((path / "state.json").read_text())
    assert state == {"a": [1, {"$": "tuple", "items": [2.5, "x"]}]}
    manifest = json.loads((path / "manifest.json").read_text())
    assert (manifest["step"], manifest["facts"]) == (5, {"algorithm": "ppo"})


# -- classes ---------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: int
    right: object


@dataclass
class Point:
    x: float
    y: object = None


@pytest.fixture
def registered():
    before = dict(kinds._BY_NAME), dict(kinds._BY_CLASS)
    register(Pair)
    register(Point, "geometry.Point")
    yield
    kinds._BY_NAME, kinds._BY_CLASS = before


def test_registered_classes_come_back(tmp_path, registered):
    state = [Pair(1, Point(2.0, (3,))), Point(math.inf)]
    assert through(tmp_path, state) == state


def test_a_class_that_is_not_registered_is_named(tmp_path, registered):
    with CheckpointStore(tmp_path) as store:
        path = store.save(step=0, state={"here": Point(1.0)})
    kinds._BY_NAME.pop("geometry.Point")
    with pytest.raises(UnknownClass, match=r"here is a 'geometry.Point'.*Import the module"):
        read_checkpoint(path)


def test_registering(registered):
    register(Point, "geometry.Point")  # a notebook cell that is run again

    @dataclass
    class Other:
        x: int

    with pytest.raises(BuildError, match="taken by"):
        register(Other, "geometry.Point")
    with pytest.raises(BuildError, match="a dataclass or a NamedTuple; found int"):
        register(int)


# -- what cannot be saved --------------------------------------------------------------------------


class Mode(IntEnum):
    ON = 1


def deep(levels):
    state = []
    for _ in range(levels):
        state = [state]
    return state


def circle():
    state = {}
    state["self"] = state
    return state


UNSAVABLE = {
    "function": (lambda: None, "the function", "leave it out in get_state"),
    "bound method": ([].append, "the function", "leave it out"),
    "object": (object(), "a object", "get_state and set_state"),
    "class": (int, "a type", "get_state"),
    "tensor": (torch.zeros(2), "a torch.Tensor", r"cpu\(\).numpy\(\)"),
    "generator": (np.random.default_rng(0), "Generator", "get_state"),
    "objects": (np.array([None]), "an array of type object", "save numbers"),
    "records": (np.zeros(2, [("a", "f4")]), "an array of type", "an array for each"),
    "long double": (np.zeros(2, np.longdouble), "an array of type", "numbers"),
    "long double number": (np.longdouble(1), "longdouble", "plain data"),
    "matrix": (np.ma.masked_array([1]), "MaskedArray", "plain data"),
    "enum": (Mode.ON, "Mode", r"save int\(value\)"),
    "named tuple": (Pair(1, 2), "Pair", r"checkpoint.register\(Pair\)"),
    "dataclass": (Point(1.0), "Point", r"register\(Point\)"),
    "iterator": (itertools.count(), "a itertools.count", "get_state"),
    "too deep": (deep(200), "more than 100 levels", "flatter"),
    "circle": (circle(), "a container inside itself", "circle"),
}


@pytest.mark.parametrize("name", UNSAVABLE)
def test_what_cannot_be_saved_is_named_before_anything_is_written(tmp_path, name):
    value, found, way_out = UNSAVABLE[name]
    state = {"operators": {"for_each(Mine)": {"state": {"foo": value}}}}
    where = r"operators/for_each\(Mine\)/state/foo"
    with pytest.raises(UnsavableState, match=rf"{where}.*: found .*{found}.*{way_out}"):
        CheckpointStore(tmp_path / "store").save(step=0, state=state)
    assert not (tmp_path / "store").exists()


def test_too_many_values_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "JSON_NODES", 100)
    with pytest.raises(UnsavableState, match="keep numbers in NumPy arrays"):
        CheckpointStore(tmp_path / "store").save(step=0, state=list(range(1000)))
    assert not (tmp_path / "store").exists()


def test_the_deepest_state_that_is_saved_is_also_loaded(tmp_path):
    for wrap in (lambda s: [s], lambda s: (s,), lambda s: {1: s}, lambda s: {"a": s}):
        state = 0
        for _ in range(limits.STATE_DEPTH):
            state = wrap(state)
        assert through(tmp_path, state) == state


@pytest.mark.parametrize(
    ("facts", "where"),
    [
        ({"a": {"b": (1,)}}, "facts/a/b: found a tuple"),
        ({"a": [1, math.nan]}, "facts/a/1: found nan"),
        ({1: 2}, "facts: found the key 1"),
        ({"a": np.float64(1)}, "facts/a: found a float64"),
        ({"a": 2**70}, "more than 64 bits"),
        ({"a": deep(30)}, "more than 20 levels"),
        ({"a": "x" * (1 << 20)}, "facts: found 1,0.* bytes"),
    ],
)
def test_facts_are_plain_json(tmp_path, facts, where):
    with pytest.raises(UnsavableState, match=where):
        CheckpointStore(tmp_path).save(step=0, state=None, facts=facts)
    assert not [path for path in tmp_path.iterdir() if path.name != ".lock"]


@pytest.mark.parametrize("step", [-1, 1.0, True, 10**18, "3"])
def test_a_step_is_a_whole_number(tmp_path, step):
    with pytest.raises(UnsavableState, match="a step is a whole number"):
        CheckpointStore(tmp_path).save(step=step, state=None)
