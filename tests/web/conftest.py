"""Run directories of real flows, made once, and a browser if there is one."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from tests.web.browser import CHROMIUM, Browser, chromium
from tests.web.flows import apex_flow, multi_agent_flow, ppo_flow
from tests.web.recorder import Recorder


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a run of the named flow, which is run when first asked for."""
    root, made = tmp_path_factory.mktemp("recorded"), {}
    flows: dict[str, tuple[Callable[[], rf.Flow[Any]], dict[str, Any], int]] = {
        "ppo": (ppo_flow, {"env": "CartPole-v1", "until": {"return": 475}}, 8),
        "apex": (apex_flow, {"env": "CartPole-v1"}, 40),
        "multi": (multi_agent_flow, {"algorithm": "ppo + dqn", "env": "poles"}, 60),
    }

    def directory(name: str) -> Path:
        if name not in made:
            build, about, rows = flows[name]
            flow = build()
            recorder = Recorder(root / name, flow, **{"algorithm": name, **about})
            recorder.record(flow, rows=rows)
            made[name] = recorder.directory
        return made[name]

    return directory


@pytest.fixture
def run_dir(recorded: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a recorded directory that a test may change."""
    numbers = itertools.count()

    def copy(name: str) -> Path:
        return shutil.copytree(recorded(name), tmp_path / f"{name}-{next(numbers)}")

    return copy


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with chromium() as running:
        yield running
