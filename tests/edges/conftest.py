"""Engines, placements, and a bell that an actor rings in the middle of a test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edges.parts import ELSEWHERE, Bell

PLACES = [
    pytest.param((engine, placement), id=f"{engine}-{placement}", marks=marks)
    for engine, marks in (("sim", ()), ("local", pytest.mark.proc))
    for placement in ("process", "thread", "driver")
]


@pytest.fixture(params=["sim", pytest.param("local", marks=pytest.mark.proc)])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An engine, and where its actors live."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    bell = Bell(tmp_path / "bell")
    yield bell
    bell.close()


@pytest.fixture(autouse=True)
def no_module_of_an_actor_stays() -> Iterator[None]:
    """The module that only an actor has is nobody's after the test."""
    yield
    sys.modules.pop(ELSEWHERE, None)
