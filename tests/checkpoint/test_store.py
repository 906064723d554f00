"""The newest whole checkpoint is found, damaged ones are put aside, old ones are removed."""

import dataclasses
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from rillflow.checkpoint import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointNotSaved,
    CheckpointStore,
    CheckpointWarning,
    NoValidCheckpoint,
    StoreLocked,
    UnknownFormat,
    manifest,
    migrate,
    newest_checkpoint,
    read_checkpoint,
)
from rillflow.checkpoint import (
    hashed_files as files,
)
from rillflow.errors import BuildError

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture
def notes():
    return []


@pytest.fixture
def store(tmp_path, notes):
    with CheckpointStore(tmp_path / "run" / "checkpoints", on_note=notes.append) as store:
        yield store


def steps(store):
    return [manifest.step for _, manifest in store.checkpoints()]


def damage(path, file="state.json"):
    data = bytearray((path / file).read_bytes())
    data[len(data) // 2] ^= 1
    (path / file).write_bytes(data)


def test_saved_and_found(store):
    assert store.newest() is None
    path = store.save(step=120, state={"a": np.ones(3)}, facts={"algorithm": "ppo"})
    assert path.parent == store.directory
    assert path.name.startswith("000000120-")
    found = store.newest()
    assert (found.step, found.facts) == (120, {"algorithm": "ppo"})
    assert (found.path, found.notes) == (path, ())
    assert found.state["a"].tolist() == [1, 1, 1]
    assert (store.directory / "LATEST").read_text() == path.name + "\n"


def test_nothing_is_touched_before_it_is_used(tmp_path):
    store = CheckpointStore(tmp_path / "new")
    assert store.checkpoints() == []
    assert newest_checkpoint(tmp_path / "new") is None
    assert not (tmp_path / "new").exists()


def test_the_newest_few_are_kept(store):
    for step in range(6):
        store.save(step=step, state=step)
    assert steps(store) == [5, 4, 3]
    names = {path.name for path in store.directory.iterdir()}
    assert names == {path.name for path, _ in store.checkpoints()} | {"LATEST", ".lock"}


def test_all_are_kept_if_asked(tmp_path):
    with CheckpointStore(tmp_path, keep=None) as store:
        for step in range(6):
            store.save(step=step, state=step)
        assert steps(store) == [5, 4, 3, 2, 1, 0]


def test_keep_is_at_least_one(tmp_path):
    with pytest.raises(BuildError, match="at least 1"):
        CheckpointStore(tmp_path, keep=0)


def test_newest_is_the_one_written_last(store):
    """A run that goes on from an older step does not find its abandoned future."""
    for step in (100, 200, 300):
        store.save(step=step, state=step)
    store.save(step=150, state="went on from 100")
    assert store.newest().step == 150
    store.save(step=160, state=None)
    assert steps(store) == [160, 150, 300]


def test_the_same_step_twice(store):
    store.save(step=1, state="first")
    store.save(step=1, state="second")
    assert store.newest().state == "second"


def test_a_damaged_one_is_put_aside_and_the_one_before_is_used(store, notes):
    store.save(step=1, state="one")
    path = store.save(step=2, state="two")
    damage(path)
    found = store.newest()
    assert found.state == "one"
    assert len(found.notes) == 1
    assert found.notes == tuple(notes) == tuple(store.notes)
    assert "SHA-256" in notes[0]
    assert f"{path.name}/state.json" in notes[0]
    assert "moved to quarantine/" in notes[0]
    assert (store.directory / "quarantine" / path.name).is_dir()
    assert store.newest().notes == ()


def test_one_that_cannot_be_put_aside_is_passed_over(store, notes, monkeypatch):
    store.save(step=1, state="one")
    path = store.save(step=2, state="two")
    damage(path)

    def refuse(*args):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "rename", refuse)
    assert store.newest().state == "one"
    assert "could not be moved to quarantine/ (" in notes[0]
    assert path.exists()


def test_without_a_listener_a_note_is_a_warning(tmp_path):
    with CheckpointStore(tmp_path) as store:
        store.save(step=1, state="one")
        damage(store.save(step=2, state="two"))
        with pytest.warns(CheckpointWarning, match="quarantine"):
            store.newest()


def test_none_left_is_an_error_until_a_person_has_looked(store):
    """A run must not begin anew because its checkpoints are damaged, nor at the next try."""
    damage(store.save(step=1, state="one"))
    damage(store.save(step=2, state="two"), "manifest.json")
    with pytest.raises(NoValidCheckpoint, match=r"(?s)To start anew.*manifest.json.*state.json"):
        store.newest()
    with pytest.raises(NoValidCheckpoint, match=r"quarantine/000000001"):
        store.newest()
    store.save(step=3, state="three")
    assert store.newest().state == "three"


def test_a_damaged_manifest_is_put_aside_when_the_next_is_saved(store, notes):
    damage(store.save(step=1, state="one"), "manifest.json")
    path = store.save(step=1, state="one")  # it would get the very name of the damaged one
    assert store.newest().state == "one"
    assert "manifest.json" in notes[0]
    damage(path)
    with pytest.raises(NoValidCheckpoint):
        store.newest()
    aside = sorted(store.directory.glob("quarantine/*"))
    assert [kept.name[:18] for kept in aside] == [path.name] * 2


def test_one_of_a_newer_format_is_put_aside_safe_from_removal(store, notes):
    store.save(step=1, state="one")
    path = store.save(step=2, state="two")
    newer = dataclasses.replace(manifest.read_manifest(path), format=99)
    data, name = manifest.manifest_bytes(newer)
    (path / "manifest.json").write_bytes(data)
    path = path.rename(path.with_name(name))
    with pytest.raises(UnknownFormat, match=r"has format 99.*up to 1: read it with the version"):
        read_checkpoint(path)
    assert store.newest().state == "one"
    assert "format 99" in notes[0]


def test_a_hint_that_names_nothing_is_said(store, notes):
    store.save(step=1, state="one")
    (store.directory / "LATEST").write_text("000000009-01234567\n")
    assert store.newest().state == "one"
    assert notes == [f"LATEST names '000000009-01234567', which is not there; "
                     f"{store.checkpoints()[0][0].name} is used."]  # fmt: skip


def test_left_overs_of_a_killed_writer_are_removed(tmp_path):
    (tmp_path / ".tmp-0123").mkdir()
    (tmp_path / ".tmp-0123" / "state.json").write_text("{")
    (tmp_path / ".tmp-4567").write_text("x")
    with CheckpointStore(tmp_path) as store:
        assert store.newest() is None
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


# -- reading by path -------------------------------------------------------------------------------


def test_a_renamed_checkpoint_is_readable(store):
    path = store.save(step=1, state="one")
    assert read_checkpoint(path.rename(path.with_name("best"))).state == "one"


def test_a_manifest_of_another_checkpoint_is_refused(store):
    one, two = store.save(step=1, state="one"), store.save(step=2, state="two")
    (one / "manifest.json").replace(two / "manifest.json")
    with pytest.raises(CheckpointDamaged, match=f"expected the manifest of {two.name}, found that"):
        read_checkpoint(two)


def test_errors_name_file_expected_and_found(store):
    path = store.save(step=1, state={"a": np.ones(3)})
    file = path / "arrays-00000.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    size = file.stat().st_size
    with pytest.raises(CheckpointDamaged) as caught:
        read_checkpoint(path)
    assert str(caught.value) == f"{file}: expected {size + 1:,} bytes, found {size:,}."
    file.unlink()
    with pytest.raises(CheckpointDamaged, match=r"safetensors: expected a file, found none"):
        read_checkpoint(path)


def test_what_is_not_a_checkpoint(store, tmp_path):
    path = store.save(step=1, state=1)
    with pytest.raises(CheckpointError, match="no such directory"):
        read_checkpoint(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=f"name one of them: {path.name}"):
        read_checkpoint(store.directory)
    with pytest.raises(CheckpointError, match=r"no manifest.json, which is written last"):
        read_checkpoint(tmp_path)


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_read_is_not_damaged(store):
    path = store.save(step=1, state=1)
    (path / "state.json").chmod(0)
    with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
        store.newest()
    assert path.exists()


def test_one_larger_than_the_memory_is_refused_before_it_is_read(store, monkeypatch):
    path = store.save(step=1, state=np.ones(1000))
    monkeypatch.setattr("rillflow.checkpoint.limits.available_memory", lambda: 5000)
    with pytest.raises(CheckpointError, match="5,000 bytes of memory are available"):
        read_checkpoint(path)


# -- older formats ---------------------------------------------------------------------------------


def test_an_older_format_is_migrated_step_by_step(store, monkeypatch):
    path = store.save(step=1, state={"old": [1, 2]})
    first = migrate.Migration(
        manifest=lambda body: {**body, "facts": {"from": 1}}, state=lambda s: {"new": s["old"]}
    )
    second = migrate.Migration(manifest=lambda body: body, state=lambda s: {**s, "added": None})
    ways = {1: first, 2: second}
    monkeypatch.setattr(migrate, "MIGRATIONS", ways)
    monkeypatch.setattr(migrate, "FORMAT", 3)
    found = read_checkpoint(path)
    assert (found.state, found.facts) == ({"new": [1, 2], "added": None}, {"from": 1})
    del ways[2]
    with pytest.raises(UnknownFormat, match="no way from format 2 to 3"):
        read_checkpoint(path)


def test_a_checkpoint_of_the_first_format_stays_readable(tmp_path):
    """The bytes of format 1, as they were released."""
    state = b'{"a":{"$":"tuple","items":[1,{"$":"array","name":"0.a.1"}]}}'
    arrays = b'{"0.a.1":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    arrays = (64).to_bytes(8, "little") + arrays.ljust(64) + b"\1\2"
    (tmp_path / "old").mkdir()
    records = {}
    for name, data in {"state.json": state, "arrays-00000.safetensors": arrays}.items():
        records[name] = files.write_file(tmp_path / "old" / name, [data])
    data, name = manifest.manifest_bytes(manifest.Manifest(1, 7, 1, {"b": 2}, records))
    assert name == "000000007-3fae0b52"
    path = (tmp_path / "old").rename(tmp_path / name)
    (path / "manifest.json").write_bytes(data)
    found = read_checkpoint(path)
    assert (found.step, found.facts, found.state["a"][0]) == (7, {"b": 2}, 1)
    assert found.state["a"][1].tolist() == [1, 2]


# -- two processes ---------------------------------------------------------------------------------


def test_a_second_writer_is_refused(store):
    store.save(step=1, state=1)
    code = (
        "import sys, rillflow.checkpoint as c\n"
        "try: c.CheckpointStore(sys.argv[1]).newest()\n"
        "except c.StoreLocked as e: print(e.pid, str(e))"
    )
    command = [sys.executable, "-c", code, str(store.directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pid, message = done.stdout.split(" ", 1)
    assert int(pid) == os.getpid()
    assert message.count("\n") == 1
    assert f"process {os.getpid()} writes checkpoints there" in message


def test_a_second_writer_in_the_same_process_is_refused(store):
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        CheckpointStore(store.directory).save(step=1, state=1)
    store.close()
    with CheckpointStore(store.directory) as other:
        other.save(step=1, state=1)
    assert store.save(step=2, state=2).exists()


@pytest.mark.parametrize(
    ("holder", "who"),
    [
        ("", "another process writes"),
        ("999999999 {host}", "a process that was started by process 999999999, which is gone,"),
        ("12 elsewhere", "process 12 on elsewhere writes"),
    ],
)
def test_whoever_holds_the_lock_is_named_as_well_as_possible(tmp_path, holder, who):
    lock = tmp_path / ".lock"
    lock.write_text(holder.format(host=socket.gethostname()))
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked, match=who):
            CheckpointStore(tmp_path).open()


def test_readers_need_no_lock_and_change_nothing(store):
    store.save(step=1, state="one")
    path = store.save(step=2, state="two")
    damage(path)
    found = newest_checkpoint(store.directory)
    assert found.state == "one"
    assert path.name in found.notes[0]
    assert path.exists()
    damage(found.path)
    with pytest.raises(NoValidCheckpoint):
        newest_checkpoint(store.directory)


def test_a_reader_beside_a_writer_always_finds_one(tmp_path):
    with CheckpointStore(tmp_path, keep=1) as store:
        store.save(step=0, state=0)
        done = threading.Event()

        def write():
            for step in range(1, 60):
                store.save(step=step, state=step)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen = []
        while not done.is_set():
            seen.append(newest_checkpoint(tmp_path).state)
        writer.join()
    assert seen == sorted(seen)


def test_the_package_knows_no_pickle():
    """Nor anything else that runs code from a file; checks are not asserts, which -O removes."""
    import ast
    from pathlib import Path

    import rillflow.checkpoint

    banned = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "torch", "importlib"}
    calls = {"eval", "exec", "compile", "__import__", "load", "loads"}
    for file in Path(rillflow.checkpoint.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert not banned & {alias.name.split(".")[0] for alias in node.names}, file
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in banned, file
            assert not isinstance(node, ast.Assert), file
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                own = node.func.id == "load" and file.name in ("read.py", "search.py")
                assert node.func.id not in calls or own, file
            if isinstance(node, ast.Attribute) and node.attr in calls:
                assert ast.unparse(node) in ("json.loads", "re.compile"), (file, ast.unparse(node))


def test_a_place_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="cannot be used for checkpoints: "):
        CheckpointStore(tmp_path / "file" / "store").newest()


def test_a_failed_save_is_counted(store, monkeypatch):
    def fail(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    for count in (1, 2):
        with pytest.raises(CheckpointNotSaved, match=r"No space left on device; it takes [\d,]+ b"):
            store.save(step=1, state=json.dumps([1]))
        assert store.failures == count
    monkeypatch.undo()
    store.save(step=1, state=1)
    assert store.failures == 0
