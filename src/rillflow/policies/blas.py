"""How many threads NumPy's linear algebra may use."""

from __future__ import annotations

from functools import cache
from typing import Any


class blas_threads:  # noqa: N801 - used as a function is
    """Inside, products of matrices and their factorisations use so many threads.

    >>> with blas_threads(1):
    ...     pass

    Those of small networks are over before a second thread has woken up: with more than one they
    are many times slower.
    """

    __slots__ = ("_before", "_number")

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        # as `ThreadpoolController.limit`, which takes five times as long; a learner asks each time
        self._before = [(library, library.get_num_threads()) for library in _libraries()]
        for library, threads in self._before:
            if threads != self._number:
                library.set_num_threads(self._number)

    def __exit__(self, *_: object) -> None:
        for library, threads in self._before:
            if threads != self._number:
                library.set_num_threads(threads)


@cache
def _libraries() -> list[Any]:
    """The libraries that are loaded; to find them takes milliseconds: once is enough."""
    from threadpoolctl import ThreadpoolController  # 2 ms, which most workers never need

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
