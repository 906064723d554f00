"""Settings shared by all tests, and the one Ray. Other fixtures live next to their tests."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import alone

# Tests run two at a time, and are no faster with threads that wait for each other's cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The key that seals what a user has named is that of these tests, not of whoever runs them.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="rillflow-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# A shell that runs the suite in the background, or `nohup`, lets it ignore signals that some tests
# send to themselves and to their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Machines differ in speed, so no deadline per example: the timeout per test is the limit.
settings.register_profile("rillflow", deadline=None, print_blob=True)
settings.load_profile("rillflow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need a Ray come last: its processes and threads are not beside the others'."""
    alone.name_alike(items)
    items.sort(key=lambda item: item.get_closest_marker("ray") is not None)
    alone.tell(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """With `-n`: one of the processes that run tests."""
    alone.configure(node, _note(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`: whole files to each process, and some tests alone at the end."""
    return alone.AloneLast(config, log, _note(config))


def _note(config: pytest.Config) -> Path:
    return Path(config._tmp_path_factory.getbasetemp()) / "alone.json"  # type: ignore[attr-defined]


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
