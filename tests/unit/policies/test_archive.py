"""Policy files from anybody: sizes are compared before memory is taken, and nothing is executed."""

from __future__ import annotations

import contextlib
import json
import struct
import tempfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from hypothesis import given
from hypothesis import strategies as st

from rillflow.errors import BuildError
from rillflow.policies.archive import read_arrays
from rillflow.policies.make import first_weights
from rillflow.policies.saved import load_policy, save_policy
from tests.unit.policies.parts import CONTINUOUS, IMAGE, VECTOR, few, make_spec

BOMB = 256 << 20
"""bytes that a file of a few kilobytes pretends to hold"""


def save(path: Path, **changes: Any) -> Path:
    """A policy whose spec says something else than its weights."""
    spec = make_spec(hidden=(8,))
    save_policy(path, spec, first_weights(spec), {})
    if changes:
        arrays = dict(np.load(path))
        head = json.loads(arrays["settings"].tobytes())
        head["spec"].update(changes)
        arrays["settings"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        with path.open("wb") as file:
            np.savez(file, **arrays)
    return path


def npy(shape: str, dtype: str = "'<f4'", data: bytes = b"", version: int = 1) -> bytes:
    """An array with whatever header."""
    head = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(head))
    return b"\x93NUMPY" + bytes([version, 0]) + length + head + data


def archive(path: Path, entries: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return path


def refused(path: Path) -> str:
    """Why a file is refused; it takes next to no memory until then."""
    size = path.stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(BuildError, match="is not a policy saved by rillflow") as told:
            load_policy(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * size + (8 << 20)
    return str(told.value)


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    arrays = {
        "rows": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "empty": np.zeros((0, 3)),
        "one": np.float16(3),
        "flags": np.array([True, False]),
        "large": np.random.default_rng(0).standard_normal((3, 700_000)),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_a_zip_bomb(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", **{"weights/x": np.zeros(BOMB, np.uint8)})
    assert "is compressed" in refused(tmp_path / "a.npz")


def test_entries_that_overlap(tmp_path: Path) -> None:
    """A thousand names for the same megabyte."""
    data = archive(tmp_path / "a.npz", {"x.npy": npy("(1048576,)", "'|u1'", bytes(1 << 20))})
    content = data.read_bytes()
    begin = content.rindex(b"PK\x01\x02")
    end = content.rindex(b"PK\x05\x06")
    entry, count = content[begin:end], 1000
    table = b"".join(entry.replace(b"x.npy", b"%05d" % i) for i in range(count))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(table), begin, 0)
    data.write_bytes(content[:begin] + table + tail)
    assert "arrays of 1,048," in refused(data)


def test_a_table_of_contents_without_end(tmp_path: Path) -> None:
    """It is refused before its entries are made into objects."""
    archive(tmp_path / "a.npz", {f"{i:0200}": b"" for i in range(20_000)})
    assert "table of contents" in refused(tmp_path / "a.npz")


def test_too_many_arrays(tmp_path: Path) -> None:
    archive(tmp_path / "a.npz", {f"{i}.npy": b"" for i in range(10_001)})
    assert "10,001 arrays" in refused(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (npy("(1000000000, 1000000000)"), "is said to be float32 [1000000000, 1000000000]"),
        (npy("(268435456,)", data=bytes(64)), "in 64 bytes"),
        (npy("(-1, -16)", data=bytes(64)), "has the shape"),
        (npy("(1,)", "'|O'", bytes(8)), "only numbers are read"),
        (npy("()", "[('a', '|O')]", bytes(8)), "only numbers are read"),
        (npy("()", "('<f4', (4,))", bytes(16)), "only numbers are read"),
        (npy("(1,)", "'<U16'", bytes(64)), "only numbers are read"),
        (npy("(" + "1," * 40 + ")", data=bytes(4)), "has the shape"),
        (npy("(1,)", data=bytes(4), version=2), "no array as we write it"),
        (npy("__import__('os')", data=bytes(4)), ""),
        (b"cos\nsystem\n(S'true'\ntR.", ""),
    ],
)
def test_arrays_that_are_not_what_they_say(tmp_path: Path, content: bytes, told: str) -> None:
    archive(tmp_path / "a.npz", {"weights/x.npy": content})
    assert told in refused(tmp_path / "a.npz")


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("x.npy", npy("(0,)"))
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("x.npy", npy("(0,)"))
    assert "two arrays of one name" in refused(tmp_path / "a.npz")


def test_a_file_with_a_hole_in_it(tmp_path: Path) -> None:
    """A terabyte that takes no room on the disk is more than there is memory."""
    hole, name = 1 << 40, b"x.npy"
    sizes = struct.pack("<HHQQ", 1, 16, hole, hole)
    entry = struct.pack(
        "<4s4B4HL2L5H2L", b"PK\x01\x02", 45, 3, 45, 0, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF,
        len(name), len(sizes), 0, 0, 0, 0, 0,
    ) + name + sizes  # fmt: skip
    ends = [
        struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(entry), hole),
        struct.pack("<4sLQL", b"PK\x06\x07", 0, hole + len(entry), 1),
        struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(entry), 0xFFFFFFFF, 0),
    ]
    with (tmp_path / "a.npz").open("wb") as file:
        file.seek(hole)
        file.write(entry + b"".join(ends))
    with pytest.raises(BuildError, match=r"arrays of 1,099,511,627,776 bytes, and .* are left"):
        load_policy(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": [10**9, 10**9]},
        {"hidden": [10**9]},
        {"hidden": [1] * 1_000_000},
        {"action_space": {"kind": "multidiscrete", "nvec": [2] * 1_000_000}, "head": "q"},
        {"action_space": {"kind": "discrete", "n": 10**12}},
        {"model": "lstm", "lstm_size": 10**6},
        {"memory": "gru", "memory_size": 10**6},
        {"observation_space": {"kind": "box", "low": 0, "high": 1, "shape": [10**6, 10**6],
                               "dtype": "float32"}},
        {"observation_space": {"kind": "box", "low": 0, "high": 255, "shape": [4, 2000, 2000],
                               "dtype": "uint8"}, "model": "cnn"},
    ],
)  # fmt: skip
def test_a_network_larger_than_its_weights(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The network is not made before its weights are found to fit."""
    path = save(tmp_path / "a.npz", **changes)
    pytest.importorskip(
        "rillflow.policies.make_model"
    )  # what torch itself takes is not the file's doing
    tracemalloc.start()
    with pytest.raises(BuildError):
        load_policy(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20


def test_a_network_of_ones_own_larger_than_its_weights(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", model={"own": "Net"}, hidden=[100_000, 100_000])
    with pytest.raises(BuildError, match=r"layers of 10,000,000,000 weights.*and \d+ weights"):
        load_policy(path, model=lambda spec: pytest.fail("it was made"))


@pytest.mark.parametrize("model", ["mlp", "cnn", "lstm"])
@pytest.mark.parametrize("head", ["actor_critic", "q"])
def test_what_was_saved_fits(tmp_path: Path, model: Any, head: Any) -> None:
    space = IMAGE if model == "cnn" else VECTOR
    spec = make_spec(space, model=model, head=head, hidden=(8,), memory_size=4, dueling=head == "q")
    save_policy(tmp_path / "a", spec, first_weights(spec), {"who": "cares"})
    found, weights, about = load_policy(tmp_path / "a")
    assert (found, about) == (spec, {"who": "cares"})
    assert weights.keys() == first_weights(spec).keys()


def test_bounds_come_back_as_they_were(tmp_path: Path) -> None:
    uneven = Box(np.array([-1, -np.inf, 0, 2], np.float32), np.float32(3), dtype=np.float32)
    for space in (VECTOR, uneven):
        spec = make_spec(space, CONTINUOUS, hidden=())
        save_policy(tmp_path / "a", spec, first_weights(spec), {})
        assert load_policy(tmp_path / "a")[0] == spec


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return save(tmp_path_factory.mktemp("sound") / "a.npz").read_bytes()


@few
@given(data=st.data())
def test_a_damaged_file_is_told_and_nothing_else(sound: bytes, data: st.DataObject) -> None:
    """Whatever happens to the bytes, it is read or refused in words."""
    changed = bytearray(sound)
    places = st.one_of(
        st.integers(0, len(sound) - 1), st.integers(len(sound) - 900, len(sound) - 1)
    )
    for place in data.draw(st.lists(places, min_size=1, max_size=6)):
        changed[place] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        path.write_bytes(changed)
        with contextlib.suppress(BuildError):
            load_policy(path)
