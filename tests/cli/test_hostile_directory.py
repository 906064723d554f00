"""A directory of somebody else's: files in it are not taken for installed packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rillflow.safety.safe_path import asked_for_us
from tests.cli.conftest import Done, environment
from tests.results.policies import untrained

NAMES = (
    "numpy", "torch", "gymnasium", "cloudpickle", "rich", "ray", "wandb", "optuna", "onnx",
    "imageio_ffmpeg", "matplotlib", "ale_py", "pettingzoo", "PIL", "json", "typing", "dataclasses",
    "socket", "selectors", "subprocess", "argparse", "difflib", "zipfile", "tempfile", "random",
)  # fmt: skip
"""of packages, installed or not, and of modules that Python has not loaded when ours begin"""
TRAIN = ("train", "ppo", "CartPole-v1", "--until", "steps=600", "--num-workers", "1", "--quiet")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory in which every file leaves a mark when it is imported."""
    here = tmp_path / "elsewhere"
    here.mkdir()
    for name in NAMES:
        plant(here, name)
    untrained("CartPole-v1").save(here / "pole.npz")
    return here


def plant(here: Path, name: str) -> None:
    mark = here.parent / "PWNED"
    (here / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write('{name} ')")


def command(way: str, tmp_path: Path) -> list[str]:
    if way == "module":
        return [sys.executable, "-m", "rillflow"]
    script = tmp_path / "bin" / "rillflow"  # as pip installs it
    script.parent.mkdir(exist_ok=True)
    script.write_text("import sys\nfrom rillflow.cli.main import main\nsys.exit(main())\n")
    return [sys.executable, str(script)]


def run(words: list[str], here: Path, **more: str) -> Done:
    done = subprocess.run(
        words, cwd=here, env=environment(**more), capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("way", ["command", "module"])
@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "pole.npz", "--episodes", "1"),
        ("record", "pole.npz", "--max-steps", "3"),
        ("export", "pole.npz"),
        ("list", "environments"),
        ("explain", "ppo"),
        TRAIN,  # in worker processes
        ("train", "ppo", "CartPole-v1", "--wandb"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_files_here_are_not_imported(
    elsewhere: Path, tmp_path: Path, way: str, words: tuple[str, ...]
) -> None:
    done = run([*command(way, tmp_path), *words], elsewhere)
    assert not (tmp_path / "PWNED").exists(), (tmp_path / "PWNED").read_text()
    missing = "not installed" in done.err or "pip install" in done.err
    assert done.code == 0 or missing, done.err


def test_files_here_are_not_taken_for_what_python_itself_needs(
    elsewhere: Path, tmp_path: Path
) -> None:
    """`python -m` imports these before any line of ours, from the current directory."""
    for name in ("collections", "contextlib", "functools", "importlib", "operator", "warnings"):
        plant(elsewhere, name)
    run([*command("command", tmp_path), *TRAIN], elsewhere)
    assert not (tmp_path / "PWNED").exists()


OWN = """
import json, sys
import gymnasium, numpy
from pathlib import Path

def make():
    where = {"numpy": numpy.__file__, "path": sys.path}
    Path(__file__).with_name("seen.json").write_text(json.dumps(where))
    return gymnasium.make("CartPole-v1")
"""


@pytest.mark.parametrize("way", ["command", "module"])
def test_what_the_user_names_is_found_here_and_last(
    elsewhere: Path, tmp_path: Path, way: str
) -> None:
    """Also in worker processes; beside it NumPy is still NumPy."""
    (elsewhere / "own_env.py").write_text(OWN)
    words = ["train", "ppo", "own_env:make", *TRAIN[3:]]
    done = run([*command(way, tmp_path), *words], elsewhere)
    assert done.code == 0, done.err
    assert not (tmp_path / "PWNED").exists(), (tmp_path / "PWNED").read_text()
    seen = json.loads((elsewhere / "seen.json").read_text())
    assert not seen["numpy"].startswith(str(elsewhere))
    assert seen["path"][-1] == str(elsewhere)
    assert seen["path"].count(str(elsewhere)) == 1


def test_an_installed_module_is_preferred_to_one_here(elsewhere: Path, tmp_path: Path) -> None:
    """And then nothing is looked for here."""
    code = (
        "import sys; from rillflow.cli.flags.current_directory import look_here; "
        "look_here('numpy:zeros'); look_here('CartPole-v1'); look_here('ppo'); print(sys.path)"
    )
    done = run([sys.executable, "-P", "-c", code], elsewhere)
    assert str(elsewhere) not in done.out


@pytest.mark.parametrize(
    ("argv", "orig", "ours"),
    [
        (["-m", "train"], ["python", "-m", "rillflow", "train"], True),
        (["-m"], ["python", "-X", "dev", "-m", "rillflow"], True),
        (["-m", "3", "4"], ["python", "-m", "rillflow.engines.local_worker", "3", "4"], True),
        (["-m", "train"], ["python", "-mrillflow", "train"], True),
        (["-m", "train"], ["python", "-Bmrillflow", "train"], True),
        (["-m", "rillflow"], ["python", "-m", "their.program", "rillflow"], False),
        (["-m"], ["python", "-m", "rillflow_extras"], False),
        (["/usr/bin/rillflow", "train"], ["python", "/usr/bin/rillflow", "train"], False),
        (["-c"], ["python", "-c", "import rillflow"], False),
        ([""], ["python"], False),
        ([], ["python"], False),
    ],
)
def test_only_our_own_program_loses_the_current_directory(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], orig: list[str], ours: bool
) -> None:
    """Somebody else's `python -m` that imports rillflow keeps its path."""
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig)
    assert asked_for_us() == ours


def test_a_program_of_the_users_keeps_its_path(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("import rillflow\n")
    (tmp_path / "theirs" / "__main__.py").write_text("import beside\n")
    (tmp_path / "beside.py").write_text("print('found')\n")
    done = run([sys.executable, "-m", "theirs"], tmp_path)
    assert (done.code, done.out) == (0, "found\n"), done.err


def test_a_path_without_the_current_directory_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing was put first, so what is first there is needed: here, rillflow itself."""
    done = run([sys.executable, "-P", "-m", "rillflow", "train", "ppo", "--help"], tmp_path)
    assert done.code == 0, done.err
