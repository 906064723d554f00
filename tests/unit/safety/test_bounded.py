"""Files from anybody: what is too large or too deep is refused before it takes memory."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from rillflow.safety import bounded
from rillflow.safety.bounded import parse_json, read_bytes, read_json


def test_what_we_write_is_read(tmp_path: Path) -> None:
    rows = [{"steps": i, "return": float("inf"), 'a "quoted" \\': "[{,"} for i in range(20_000)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert read_json(tmp_path / "a.json") == rows


@pytest.mark.parametrize("depth", [20_000, 200_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_bounded(depth: int, begin: str, end: str) -> None:
    """By counting where a text is long, and by the parser where it is short."""
    with pytest.raises(ValueError, match="levels"):
        parse_json((begin * depth + "1" + end * depth).encode())


def test_the_number_of_values_is_bounded_before_any_is_made() -> None:
    """Empty objects are 24 times as large in memory as in the text."""
    text = b"[" + b"{}," * (bounded.JSON_VALUES + 1) + b"{}]"
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"8,000,00\d values of JSON, and at most 4,000,000"):
        parse_json(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(text)


def test_commas_and_brackets_in_strings_are_not_counted() -> None:
    text = json.dumps([",[{" * 2_000_000 + '\\"'])
    assert parse_json(text.encode()) == json.loads(text)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room on the disk
    with pytest.raises(ValueError, match=r"1,099,511,627,776 bytes, and at most 67,108,864"):
        read_bytes(tmp_path / "large")


@pytest.mark.parametrize("name", ["pipe", "folder", "/dev/zero"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    """A pipe would be waited for, and a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
        read_bytes(tmp_path / name)
