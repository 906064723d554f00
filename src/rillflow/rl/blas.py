"""How many threads NumPy's matrix products may use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def blas_threads(number: int) -> AbstractContextManager[Any]:
    """Inside, matrix products use so many threads.

    Those of small networks are over before a second thread has woken up: with more than one they
    are many times slower.
    """
    return _controller().limit(limits=number, user_api="blas")  # type: ignore[no-any-return]


@cache
def _controller() -> ThreadpoolController:
    """Finds the libraries that are loaded, which takes milliseconds: once is enough."""
    return ThreadpoolController()
