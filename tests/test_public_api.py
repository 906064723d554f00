"""The public face: small, explicit, light, and with examples that run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import rillflow as rf
from rillflow.deprecated import MODULES

PUBLIC = [
    "ActorHandle",
    "ActorInfo",
    "ActorStartError",
    "Actors",
    "Adaptive",
    "Algorithm",
    "Background",
    "BuildError",
    "CheckError",
    "Concurrently",
    "Context",
    "DeadlockError",
    "Dequeue",
    "DeviceLost",
    "EndOfStream",
    "Engine",
    "EngineError",
    "Enqueue",
    "FailurePolicy",
    "Flow",
    "Linear",
    "Local",
    "Modules",
    "NotReady",
    "Operator",
    "OperatorError",
    "ParallelFlow",
    "Piecewise",
    "Queue",
    "RayEngine",
    "Recycle",
    "Ref",
    "RillflowError",
    "Rows",
    "Run",
    "RunError",
    "Sim",
    "Step",
    "TrainingRun",
    "TypeMismatch",
    "Union",
    "WorkerLost",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
    "load",
    "resume",
    "run",
    "simulate",
    "train",
]


def test_the_public_names_are_these_and_no_others() -> None:
    """A name is public because somebody decided so."""
    modules = {name for _, name, _ in pkgutil.iter_modules(rf.__path__)}
    old = {name.split(".")[1] for name in MODULES}  # there once somebody has used them
    hidden = modules | old | {"TYPE_CHECKING", "Any"}
    assert sorted(n for n in dir(rf) if not n.startswith("_") and n not in hidden) == sorted(PUBLIC)
    assert all(getattr(rf, name) is not None for name in PUBLIC)


def test_importing_rillflow_imports_nothing_heavy() -> None:
    """Neither Ray nor torch nor numpy is loaded before it is needed."""
    code = "import rillflow, sys; print(*{'ray', 'torch', 'numpy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def modules() -> list[str]:
    return [m.name for m in pkgutil.walk_packages(rf.__path__, "rillflow.")
            if m.name != "rillflow.engines.local_worker"]  # fmt: skip


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run(name: str) -> None:
    """What a docstring shows is what happens."""
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_every_extra_has_versions_that_are_pinned() -> None:
    """What `pip install 'rillflow[mujoco,box2d]'` needs is in the constraints."""
    import re
    import tomllib
    from pathlib import Path

    root = Path(__file__).parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {"atari", "box2d", "mujoco", "multiagent", "onnx", "plot", "video"} <= extras.keys()
    pinned = {
        re.split(r"[=<>!~\[ ]", line)[0].lower().replace("_", "-")
        for line in (root / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    for name in ("box2d", "mujoco", "pygame-ce", "imageio-ffmpeg", "matplotlib", "ipykernel"):
        assert name in pinned, name
