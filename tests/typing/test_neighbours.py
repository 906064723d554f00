"""Neighbours whose types disagree are refused when a flow is written or checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import rillflow as rf
from tests.typing import parts
from tests.typing.table import ACCEPTED, REFUSED


def built(code: str) -> Any:
    """What the code makes: a flow, or several."""
    return eval(code, dict(vars(parts)))


def problems(code: str) -> list[str]:
    """What is wrong with the types in a flow, found without running it."""
    try:
        made = built(code)
    except rf.BuildError as error:
        return [str(error)]
    flows: Iterable[Any] = made if isinstance(made, list | tuple) else [made]
    return [problem for flow in flows if isinstance(flow, rf.Flow) for problem in flow.check()]


@pytest.mark.parametrize("case", REFUSED)
def test_a_mismatch_is_refused_with_a_way_out(case: str) -> None:
    """Both neighbours, their types and what to do are in the message."""
    refused = REFUSED[case]
    found = problems(refused.code)
    assert any(refused.says in problem for problem in found), found


@pytest.mark.parametrize("case", ACCEPTED)
def test_neighbours_that_agree_are_accepted(case: str) -> None:
    """Nothing is said against what a type checker accepts."""
    readers = ("a stream has one reader", "every child of a split")
    assert [p for p in problems(ACCEPTED[case]) if not p.startswith(readers)] == []
