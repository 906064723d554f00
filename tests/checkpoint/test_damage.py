"""Every change to any file of a checkpoint is noticed."""

import numpy as np
import pytest

from rillflow.checkpoint import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointStore,
    limits,
    newest_checkpoint,
    read_checkpoint,
)
from tests.checkpoint.states import example, same

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A small checkpoint with several array files."""
    monkeypatch.setattr(limits, "CHUNK_BYTES", 500)
    with CheckpointStore(tmp_path) as store:
        return store.save(step=1, state=example(), facts={"algorithm": "ppo"})


def test_a_thousand_single_bits(path):
    """One bit of one file at a time, all files, the manifest included: found in each case."""
    files = sorted(path.iterdir())
    assert len(files) > 3
    contents = [file.read_bytes() for file in files]
    ends = np.cumsum([len(data) for data in contents])
    rng = np.random.default_rng(0)
    for position in rng.integers(0, ends[-1], 1000):
        which = int(np.searchsorted(ends, position, side="right"))
        data = bytearray(contents[which])
        data[position - ends[which]] ^= 1 << rng.integers(8)
        files[which].write_bytes(data)
        with pytest.raises(CheckpointDamaged, match=files[which].name):
            read_checkpoint(path)
        files[which].write_bytes(contents[which])
    assert same(read_checkpoint(path).state, example())


def test_every_bit_of_the_manifest(path):
    """Wherever it is: in a number, in a name, in its own hash, in white space."""
    file = path / "manifest.json"
    data = file.read_bytes()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        file.write_bytes(changed)
        with pytest.raises(CheckpointDamaged):
            read_checkpoint(path)


def test_truncated_and_extended(path):
    for file in sorted(path.iterdir()):
        data = file.read_bytes()
        for sixteenth in range(16):
            file.write_bytes(data[: len(data) * sixteenth // 16])
            with pytest.raises(CheckpointDamaged, match=file.name):
                read_checkpoint(path)
        file.write_bytes(data + b"\0")
        with pytest.raises(CheckpointDamaged, match=file.name):
            read_checkpoint(path)
        file.write_bytes(data)
    assert same(read_checkpoint(path).state, example())


def test_a_missing_file_is_named(path):
    for file in sorted(path.glob("*s*")):
        moved = file.rename(path.parent / "elsewhere")
        with pytest.raises(CheckpointError, match=rf"{file.name}: expected a file|no {file.name}"):
            read_checkpoint(path)
        moved.rename(file)


def test_files_that_nobody_listed_are_not_read(path):
    (path / "arrays-00099.safetensors").write_bytes(b"\x80\x04.")
    (path / ".DS_Store").write_bytes(b"x")
    assert same(newest_checkpoint(path.parent).state, example())
