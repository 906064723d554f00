"""Files are replaced as a whole, and JSON is what every reader accepts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rillflow as rf
from rillflow.files import replaced, to_json, whole_file, write_json, write_text

SRC = Path(__file__).parents[2] / "src" / "rillflow"


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_has_the_old_or_the_new_text(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "status.json"
    write_text(path, "old", durable=durable)
    with replaced(path, durable=durable) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part.suffix == path.suffix, "a library that looks at endings writes the right kind"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_text("yesterday's")

    def interrupted() -> None:
        with replaced(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "yesterday's"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "made" / "film.mp4"
    with pytest.raises(rf.RunError, match=r"No space.*nothing of it is left"), whole_file(path):
        raise OSError(28, "No space left on device")
    assert path.parent.is_dir()


def test_json_is_strict_and_knows_numpy(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": [float("inf"), np.float32(2.0)], "b": np.int64(3)})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 2.0], "b": 3}
    assert to_json({"a": [1, 2]}, compact=True) == '{"a":[1,2]}'


def test_only_these_write_beside_a_file_and_rename() -> None:
    """One place for each promise: small files here, checkpoints in theirs."""
    allowed = {"files.py", "checkpoint", "policies"}
    writing = {
        path.relative_to(SRC).parts[0]
        for path in SRC.rglob("*.py")
        if any(word in path.read_text() for word in (".replace(path)", "os.replace(", "os.rename("))
    }
    assert writing <= allowed
