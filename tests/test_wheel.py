"""What users install: a wheel, built, put into an environment without this source, that trains."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.proc


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the source."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__")
    )
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--no-index", "-w", out, source], check=True, timeout=100)
    (found,) = out.glob("rillflow-*.whl")
    return found


def alone() -> dict[str, str]:
    """An environment without a path to this source."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def trains(environment: Path, tmp_path: Path) -> None:
    """The command and the Python interface of what is installed there, from an empty folder."""
    python, program = environment / "bin" / "python", environment / "bin" / "rillflow"
    where = "import rillflow; print(rillflow.__file__)"
    run = {"cwd": tmp_path, "env": alone(), "check": True, "timeout": 100}
    done = subprocess.run([python, "-c", where], capture_output=True, text=True, **run)
    assert done.stdout.startswith(str(environment)), "another rillflow was found"
    subprocess.run(
        [program, "train", "ppo", "CartPole-v1", "--until", "steps=4000", "--quiet"], **run
    )
    subprocess.run([program, "evaluate", "runs/ppo-CartPole-v1-1", "--episodes", "2"], **run)
    code = "import rillflow as rf; rf.load('runs/ppo-CartPole-v1-1').act([0.0, 0.0, 0.0, 0.0])"
    subprocess.run([python, "-c", code], **run)


def test_the_wheel_holds_the_package_and_what_it_shows(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"rillflow/py.typed", "rillflow/web/page/view.js"} <= set(names)
    tops = {name.split("/")[0] for name in names}
    assert tops == {"rillflow", next(top for top in tops if top.endswith(".dist-info"))}
    source = {
        path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/rillflow/**/*.py")
    }
    assert source <= set(names), "modules are missing from the wheel"


def test_the_installed_wheel_trains(wheel: Path, tmp_path: Path) -> None:
    """Beside the libraries that are installed here, and without this source."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    # libraries are found; what is installed there in place, as this source is, is not
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install"]
    quick = ["-q", "--no-deps", "--no-index", "--ignore-installed", wheel]
    subprocess.run([*install, *quick], check=True, env=alone(), timeout=100)
    trains(environment, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_wheel_brings_all_that_it_needs(wheel: Path, tmp_path: Path) -> None:
    """Into an environment with nothing in it, from the package index."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q"]
    done = subprocess.run(
        [*pip, "-c", ROOT / "constraints.txt", wheel],
        env=alone(),
        capture_output=True,
        text=True,
        timeout=1000,
    )
    if "No matching distribution" in done.stderr or "Failed to establish" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    trains(environment, tmp_path)
