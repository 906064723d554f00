"""Settings shared by all tests, and the one Ray. Other fixtures live next to their tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Machines differ in speed, so no deadline per example: the timeout per test is the limit.
settings.register_profile("rillflow", deadline=None, print_blob=True)
settings.load_profile("rillflow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a Ray come last: its processes and threads are not beside the others'."""
    items.sort(key=lambda item: item.get_closest_marker("ray") is not None)


@pytest.fixture(scope="session")
def _no_ray_is_left() -> Iterator[None]:
    yield
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


@pytest.fixture
def users_ray(_no_ray_is_left: None) -> Any:
    """A small Ray, as if the user had started it: the same for all tests, which leave it running.

    It takes seconds to start. A test that needs another one takes this one down first.
    """
    ray = pytest.importorskip("ray")
    if not ray.is_initialized():
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=200 * 2**20,
        )
    return ray
