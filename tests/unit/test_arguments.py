"""Counts are refused with one sentence, wherever they are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.arguments import check_count, is_count, path_ending_in
from rillflow.checkpoint import CheckpointStore


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(1)])
def test_whole_numbers_are_counts(value: Any) -> None:
    assert is_count(value)
    check_count("episodes", value)


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, np.float32(2), np.array([1, 2])])
def test_nothing_else_is(value: Any) -> None:
    assert not is_count(value)
    with pytest.raises(rf.BuildError, match="episodes must be a whole number of at least 1, got"):
        check_count("episodes", value)


def test_the_least_may_be_another() -> None:
    assert is_count(0, least=0)
    assert not is_count(1, least=2)


def test_who_counts_asks_here(tmp_path: Path) -> None:
    """Values that each of these once looked at in a way of its own."""
    with pytest.raises(rf.BuildError, match="at least 1"):
        rf.Actors.of(object, True)
    with pytest.raises(rf.BuildError, match="at least 1"):
        CheckpointStore(tmp_path, keep=True)
    with pytest.raises(rf.BuildError, match="workers must be a whole number of at least 1, got 0"):
        rf.simulate(rf.from_range(3).gather_sync(), workers=[0])


def test_the_ending_of_a_path_says_how_to_write_it() -> None:
    assert path_ending_in("a.SVG", (".svg",), "a picture") == Path("a.SVG")
    with pytest.raises(rf.BuildError, match=r"a picture is written as \.svg or \.png, found 'a\.p"):
        path_ending_in("a.pdf", (".svg", ".png"), "a picture")
