"""Every example runs as it is, and so does the listing of the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONG = {"simulated_cluster", "own_algorithm", "own_environment", "two_policies"}
"""examples that train or measure for long"""
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else [])
    for path in sorted((ROOT / "examples").glob("*.py"))
]
pytestmark = pytest.mark.proc


def run(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    """A file of the examples folder needs nothing but to be started."""
    assert run(str(example), cwd=tmp_path)


def test_the_picture_of_the_readme_is_the_flow_of_the_example(tmp_path: Path) -> None:
    """A drawn flow is never out of date."""
    run(str(ROOT / "examples" / "apex_shape.py"), "apex.svg", cwd=tmp_path)
    drawn = (tmp_path / "apex.svg").read_text()
    assert drawn == (ROOT / "docs" / "pictures" / "apex.svg").read_text()


def test_the_listing_of_the_readme_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """The first code block runs as written and prints the block after it."""
    code, shown = re.findall(r"```(?:python)?\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[
        :2
    ]
    (tmp_path / "listing.py").write_text(code)
    assert shown.strip() in run("listing.py", cwd=tmp_path)


def test_the_first_command_of_the_readme_trains(tmp_path: Path) -> None:
    """As `make train` does: progress, then the policy, the flow's picture, the curve, what next."""
    train = ("train", "ppo", "CartPole-v1", "--until", "steps=5000", "--num-workers", "2")
    output = run("-m", "rillflow", *train, cwd=tmp_path)
    written = {path.name for path in (tmp_path / "runs" / "ppo-CartPole-v1-1").iterdir()}
    assert {"policy.npz", "graph.svg", "curve.png", "metrics.jsonl", "checkpoints"} <= written
    assert "rillflow evaluate" in output
