"""The page of contracts: numbered without a gap, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rillflow.testing.conformance import CHECKS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")
_HEADING = re.compile(r"^## (C\d+)\. ", re.MULTILINE)
_HELD_BY = re.compile(r"^- (.*)$", re.MULTILINE)
CONTRACTS = {
    number: _HELD_BY.findall(text)
    for number, text in zip(_HEADING.findall(PAGE), _HEADING.split(PAGE)[2::2], strict=True)
}
"""by number: the names of what holds it, as they are written"""
NAMES = sorted({name for names in CONTRACTS.values() for name in names})


@cache
def functions_of(path: Path) -> set[str]:
    """The names of the functions of a file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_contracts_are_numbered_from_one_to_twenty_and_held() -> None:
    assert list(CONTRACTS) == [f"C{number}" for number in range(1, 21)]
    assert all(CONTRACTS.values())


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_a_contract_exists(name: str) -> None:
    """A check of the conformance suite, or a test by file and name."""
    found = re.fullmatch(r"`(?:(tests/\S+\.py)::)?((?:test|check)_\w+)`", name)
    assert found, f"{name} is neither a check nor a test"
    file, function = found.groups()
    if file is None:
        assert function in {check.__name__ for check in CHECKS}
    else:
        assert (ROOT / file).is_file(), f"no file {file}"
        assert function in functions_of(ROOT / file), f"no {function} in {file}"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_check_is_named_where_its_docstring_says(check: Callable[..., Any]) -> None:
    """A check of the conformance suite begins its docstring with the number of its contract."""
    number = re.match(r"(C\d+): ", check.__doc__ or "")
    assert number, f"{check.__name__} names no contract"
    assert f"`{check.__name__}`" in CONTRACTS[number[1]]
