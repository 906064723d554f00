"""A checkpoint from anybody can be read: nothing runs, it costs little, and the error is clear."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.proc


class Payload:
    """What a pickle of it does when it is loaded: it leaves a file behind."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


def tensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(shape=(2,), begin=0, end=2, dtype="U8"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def array(name="0", **more):
    return {"$": "array", "name": name, **more}


def write(folder, name, state=b"null", arrays=None, listed=None, manifest=None, **body):
    """A checkpoint whose sizes and hashes are all right, whatever is in it."""
    path = folder / name
    path.mkdir()
    state = state if isinstance(state, bytes) else json.dumps(state).encode()
    files = {"state.json": state}
    if arrays is not None:
        files["arrays-00000.safetensors"] = arrays
    for file, data in files.items():
        (path / file).write_bytes(data)
    records = {f: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()}
               for f, d in files.items()}  # fmt: skip
    whole = {"format": 1, "step": 1, "sequence": 1, "facts": {}, "files": records, **body}
    whole["files"] = whole["files"] if listed is None else {**records, **listed}
    if manifest is None:
        manifest = json.dumps(whole, indent=1).encode().removesuffix(b"\n}") + b",\n"
    end = hashlib.sha256(manifest).hexdigest()
    (path / "manifest.json").write_bytes(manifest + f' "sha256": "{end}"\n}}\n'.encode())
    return path


STATES = {
    "nan": (b"[NaN]", "not JSON"),
    "infinity": (b"[1e999]", "too large for a float"),
    "not json": (b"{", "expected JSON"),
    "not utf-8": (b'"\xff"', "expected JSON"),
    "twice": (b'{"a":1,"a":2}', "same name twice"),
    "deep lists": (b"[" * 500_000 + b"]" * 500_000, "at most 320 levels of JSON, found 500,000"),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "levels of JSON"),
    "deep in pieces": (b"[" * 300 + b"]" * 300, None),
    "deep at the end": (b"[" + b"1," * 600_000 + b"[" * 400 + b"]" * 401, "levels of JSON"),
    "brackets in text": (json.dumps("[{" * 600_000).encode(), None),
    "quotes in text": (json.dumps('\\"[' * 300_000).encode(), None),
    "quotes": (b'"' + b'\\"' * 2_000_000, "expected JSON"),
    "many values": (b"[" + b"1," * 1_100_000 + b"1]", "at most 700,000 values"),
    "all that is allowed": (b"[" + b",".join([b"[]"] * 349_000) + b"]", None),
    "huge number": (b"1" * 100_000, "expected JSON"),
    "huge hex": ({"$": "int", "hex": "0x" + "f" * 1_000_000}, None),
    "not hex": ({"$": "int", "hex": "__import__('os')"}, "a whole number"),
    "unknown tag": ({"$": "object"}, "a known tag at the top, found 'object'"),
    "tag of no type": ({"$": ["tuple"]}, "a known tag"),
    "more entries": ({"$": "tuple", "items": [], "x": 1}, "entries"),
    "items of no list": ({"$": "tuple", "items": "abc"}, "a list of items"),
    "unhashable key": ({"$": "dict", "items": [[[], 1]]}, "unhashable"),
    "no pairs": ({"$": "dict", "items": [[1, 2, 3]]}, "pairs of key and value"),
    "same key": ({"$": "dict", "items": [[1, 2], [1.0, 3]]}, "the same key twice"),
    "float of letters": ({"$": "float", "hex": "zz"}, "hexadecimal digits"),
    "float of no text": ({"$": "float", "hex": 7}, "hexadecimal digits"),
    "float of 3 bytes": ({"$": "float", "hex": "000000"}, "8 bytes"),
    "scalar of objects": ({"$": "scalar", "dtype": "|O", "hex": "00" * 8}, "array type '|O'"),
    "scalar of records": ({"$": "scalar", "dtype": "i4,i4", "hex": "00" * 8}, "array type"),
    "scalar of no time": ({"$": "scalar", "dtype": "<M8[zz]", "hex": "00" * 8}, "unit"),
    "array of nothing": (array(), "an array in the array files"),
    "name of no text": (array(name=[1]), "an array in the array files"),
    "os.system": ({"$": "value", "class": "os.system", "fields": {"c": "id"}}, "UnknownClass"),
    "class of no text": ({"$": "value", "class": {"a": 1}, "fields": {}}, "UnknownClass"),
    "fields of another": ({"$": "value", "class": "TrainStats", "fields": {"x": 1}}, "fields"),
    "fields of no object": ({"$": "value", "class": "TrainStats", "fields": 7}, "fields"),
    "no columns": ({"$": "value", "class": "SampleBatch", "fields": {"columns": 3}}, "made of"),
    "unhashable set": ({"$": "value", "class": "set", "fields": {"items": [[]]}}, "made of"),
}  # fmt: skip

HEADERS = {
    "empty file": (b"", "header"),
    "three bytes": (b"abc", "header"),
    "header of 8 EiB": (tensors(b"{}", length=2**63 - 1), "a header of at most"),
    "header beyond the file": (tensors(b"{}", length=50), "a header of at most 2 bytes, found 50"),
    "header of 17 MiB": (tensors(b"{}".ljust(17 << 20)), "a header of at most 16,777,216"),
    "header of 100,000": (tensors({str(i): entry((0,), 0, 0) for i in range(100_000)}), "objects"),
    "header of a list": (tensors([1]), "a header that is an object, found list"),
    "header of nesting": (tensors(b"[" * 100_000), "levels of JSON"),
    "header with nan": (tensors(b'{"0": NaN}'), "not JSON"),
    "same tensor twice": (tensors(b'{"0":1,"0":2}'), "same name twice"),
    "entry of no object": (tensors({"0": [1]}), "other fields"),
    "entry with more": (tensors({"0": {**entry(), "x": 1}}, b"ab"), "other fields"),
    "metadata": (tensors({"__metadata__": {"a": "b"}}), "the name '__metadata__'"),
    "path in a name": (tensors({"../../0": entry()}, b"ab"), "the name '../../0'"),
    "absolute name": (tensors({"/etc/passwd": entry()}, b"ab"), "the name"),
    "type object": (tensors({"0": entry(dtype="O")}, b"ab"), "the type 'O'"),
    "type of no text": (tensors({"0": entry(dtype=[1])}, b"ab"), "the type"),
    "negative size": (tensors({"0": entry((-2,))}, b"ab"), "something other than a size"),
    "size of 1.0": (tensors({"0": entry((2.0,))}, b"ab"), "something other than a size"),
    "size of true": (tensors({"0": entry((True, 2))}, b"ab"), "something other than a size"),
    "huge shape": (tensors({"0": entry((2**40, 2**40))}, b"ab"), "too large"),
    "overflow to 2": (tensors({"0": entry((2**32, 2**32, 2))}, b"ab"), "too large"),
    "huge and empty": (tensors({"0": entry((0, 2**61, 2**61), 0, 0)}), "too large"),
    "10 GB in 2 bytes": (tensors({"0": entry((10**10,), 0, 10**10)}, b"ab"), "arrays of 2 bytes"),
    "99 dimensions": (tensors({"0": entry((1,) * 99, 0, 1)}, b"a"), "at most 32 numbers"),
    "overlap": (tensors({"0": entry(), "1": entry((2,), 1, 3)}, b"abc"), "1 to begin at 2"),
    "hole": (tensors({"0": entry((1,), 1, 2)}, b"ab"), "0 to begin at 0, found 1"),
    "beyond the end": (tensors({"0": entry((3,), 0, 3)}, b"ab"), "arrays of 2 bytes, found 3"),
    "not all": (tensors({"0": entry((1,), 0, 1)}, b"ab"), "arrays of 2 bytes, found 1"),
    "negative offset": (tensors({"0": entry((2,), -2, 0)}, b"ab"), "bytes for 0"),
    "offsets reversed": (tensors({"0": entry((2,), 2, 0)}, b"ab"), "bytes for 0"),
    "one offset": (tensors({"0": {**entry(), "data_offsets": [2]}}, b"ab"), "not two numbers"),
    "unused": (tensors({"0": entry(), "1": entry((1,), 2, 3)}, b"abc"), "a use for every array"),
}  # fmt: skip

NOTES = {
    "objects": (array(dtype="|O", shape=[1]), "array type '|O'"),
    "code": (array(dtype="__import__('os')", shape=[2]), "array type"),
    "wrong shape": (array(dtype="<U1", shape=[5]), "a description of its array"),
    "huge shape": (array(dtype="|S2", shape=[2**61, 2**61]), "too large"),
    "no shape": (array(dtype="|S2"), "a description of its array"),
    "axes": (array(axes=[0, 0]), "axes"),
    "axes of text": (array(axes="ab"), "axes"),
    "two descriptions": ([array(), array(read_only=True)], "two that differ"),
    "bytes": ([array(), {"$": "bytes", "name": "0"}], "two that differ"),
}

RECORD = {"bytes": 4, "sha256": hashlib.sha256(b"null").hexdigest()}
MANIFESTS = {
    "path up": ({"listed": {"../../secret": RECORD}}, "file names like"),
    "absolute path": ({"listed": {"/etc/passwd": RECORD}}, "file names like"),
    "backslash": ({"listed": {"..\\arrays-00000.safetensors": RECORD}}, "file names like"),
    "new line": ({"listed": {"state.json\n": RECORD}}, "file names like"),
    "manifest itself": ({"listed": {"manifest.json": RECORD}}, "file names like"),
    "no files": ({"files": {}}, "a record of state.json"),
    "files of no object": ({"files": ["state.json"]}, "a record of state.json"),
    "record of no object": ({"listed": {"state.json": 7}}, "'bytes' and 'sha256'"),
    "size of text": ({"listed": {"state.json": {**RECORD, "bytes": "4"}}}, "a size"),
    "size of 1 TB": ({"listed": {"state.json": {**RECORD, "bytes": 10**12}}}, "bytes"),
    "hash of text": ({"listed": {"state.json": {**RECORD, "sha256": "x"}}}, "a SHA-256"),
    "format of text": ({"format": "1"}, "the number of a format"),
    "format 2": ({"format": 2}, "UnknownFormat"),
    "format 0": ({"format": 0}, "UnknownFormat"),
    "step of text": ({"step": "1"}, "a whole number as 'step'"),
    "step below 0": ({"step": -1}, "a whole number as 'step'"),
    "facts of text": ({"facts": "x"}, "an object as 'facts'"),
    "nothing": ({"manifest": b"{"}, "the number of a format, found None"),
    "not json": ({"manifest": b'{"a"'}, "expected JSON"),
    "list": ({"manifest": b"["}, "expected JSON"),
    "large": ({"manifest": b"{" + b" " * (2 << 20)}, "at most 1,048,576 bytes"),
    "deep": ({"manifest": b'{"a":' + b"[" * 100_000}, "levels of JSON"),
}


def special_files(folder, canary):
    """Things that are not files, and pickles under every name."""
    write(folder, "special: pipe")
    os.unlink(folder / "special: pipe/state.json")
    os.mkfifo(folder / "special: pipe/state.json")
    path = write(folder, "special: link")
    os.rename(path / "state.json", folder.parent / "secret")
    os.symlink(folder.parent / "secret", path / "state.json")
    path = write(folder, "special: directory")
    os.unlink(path / "state.json")
    (path / "state.json").mkdir()
    path = write(folder, "special: sparse", listed={"state.json": {**RECORD, "bytes": 1 << 40}})
    os.truncate(path / "state.json", 1 << 40)
    for protocol in (0, 2, 5):
        data = pickle.dumps(Payload(canary), protocol)
        write(folder, f"pickle {protocol}: state", data)
        write(folder, f"pickle {protocol}: arrays", [array()], data)
        path = folder / f"pickle {protocol}: everything"
        path.mkdir()
        for name in ("manifest.json", "state.json", "arrays-00000.safetensors", "data.pkl",
                     "__init__.py", "model.pt", "state.pickle"):  # fmt: skip
            (path / name).write_bytes(data)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    folder, canary = root / "checkpoints", root / "canary"
    folder.mkdir()
    write(folder, "harmless", [array()], tensors({"0": entry()}, b"ab"))
    for name, (state, _) in STATES.items():
        write(folder, f"state: {name}", state)
    for name, (data, _) in HEADERS.items():
        write(folder, f"header: {name}", [array()], data)
    for name, (node, _) in NOTES.items():
        write(folder, f"note: {name}", node, tensors({"0": entry()}, b"ab"))
    for name, (changes, _) in MANIFESTS.items():
        write(folder, f"manifest: {name}", **changes)
    special_files(folder, canary)
    command = [sys.executable, "-m", "tests.checkpoint.hostile_child", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not canary.exists()
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_nothing_runs(rows):
    """No import, no code, no process, no file written, none read but the checkpoint's own."""
    assert len(rows) > 100
    assert {name: row["events"] for name, row in rows.items() if row["events"]} == {}


def test_it_costs_little(rows):
    assert {n: row["seconds"] for n, row in rows.items() if row["seconds"] > 1.0} == {}
    assert {n: row["megabytes"] for n, row in rows.items() if row["megabytes"] > 64} == {}


CASES = [
    (f"{group}: {name}", message)
    for group, corpus in
    {"state": STATES, "header": HEADERS, "note": NOTES, "manifest": MANIFESTS}.items()
    for name, (_, message) in corpus.items()
]  # fmt: skip
CASES += [
    ("special: pipe", "a plain file"),
    ("special: link", "a plain file"),
    ("special: directory", "a plain file"),
    ("special: sparse", "bytes of memory are available"),
    *((f"pickle {p}: state", "expected JSON") for p in (0, 2, 5)),
    *((f"pickle {p}: arrays", "header") for p in (0, 2, 5)),
    *((f"pickle {p}: everything", "manifest") for p in (0, 2, 5)),
]


@pytest.mark.parametrize(("name", "message"), CASES)
def test_the_error_is_clear(rows, name, message):
    row = rows[name]
    if message is None:
        assert row["error"] is None
    else:
        assert row["error"] in ("CheckpointDamaged", "CheckpointError", message), row
        assert message == row["error"] or message in row["message"]
        assert len(row["message"]) < 700
