"""Threads of NumPy's linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from rillflow.policies.blas import blas_threads
from rillflow.policies.initial import orthogonal


def threads() -> set[int]:
    """How many each library of linear algebra may use."""
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_threads_are_as_many_as_asked_for_inside_and_as_before_behind() -> None:
    with threadpool_limits(2, user_api="blas"):
        with blas_threads(1):
            assert threads() == {1}
        assert threads() == {2}


def test_large_first_weights_are_made_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    factorise, seen = np.linalg.qr, []

    def watched(matrix: Any) -> Any:
        seen.append(threads())
        return factorise(matrix)

    monkeypatch.setattr(np.linalg, "qr", watched)
    with threadpool_limits(2, user_api="blas"):
        orthogonal((128, 128), 1.0, 0)
        assert threads() == {2}
    assert seen == [{1}]
