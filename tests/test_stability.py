"""What the last release promised still holds: each of its public names works, or says the new one.

docs/stability.md has the rule; docs/releases/ has what was public in each release.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from docs.generate import public_names
from rillflow import deprecated
from rillflow.learning.config import RENAMED
from rillflow.learning.suited_settings import SAME

CHANGELOG = (Path(__file__).parents[1] / "CHANGELOG.md").read_text("utf-8")
RELEASE, PROMISED = public_names.last_release()


def found(module: str, name: str) -> tuple[Any, list[str]]:
    """What a name stands for, and what using it warned of."""
    for known in [known for known in sys.modules if known in deprecated.MODULES]:
        del sys.modules[known]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scope: dict[str, Any] = {}
        exec(f"from {module} import {name} as found" if name else f"import {module}", scope)
    return scope.get("found"), [str(one.message) for one in told]


@pytest.mark.parametrize("module", PROMISED["names"])
def test_every_name_of_the_last_release_works_or_says_the_new_one(module: str) -> None:
    for name in PROMISED["names"][module] or [""]:
        if f"{module}.{name}" in deprecated.GONE:
            with pytest.raises(ImportError, match="is gone: "):
                found(module, name)
            assert "gone" in CHANGELOG
            continue
        thing, told = found(module, name)
        moved = deprecated.MODULES.get(module) or deprecated.MODULES.get(f"{module}.{name}")
        assert thing is not None or not name
        if moved:
            assert any(f"is called {moved} now" in text for text in told), (module, name, told)
        else:
            assert not told


@pytest.mark.parametrize("algorithm", PROMISED["settings"])
def test_every_setting_of_the_last_release_is_one_or_has_a_new_name(algorithm: str) -> None:
    now = set(public_names.settings()[algorithm])
    for name in set(PROMISED["settings"][algorithm]) - now:
        new = SAME.get(name) or RENAMED.get(name)
        assert new in now, f"{algorithm}: {name} is neither there nor has it a new name"
        assert f"`{name}`" in CHANGELOG


def test_every_command_and_flag_of_the_last_release_is_there() -> None:
    now = public_names.commands()
    for command, flags in PROMISED["commands"].items():
        assert set(flags) <= set(now.get(command, ())), f"rillflow {command} has lost flags"


def test_old_names_go_when_they_were_said_to() -> None:
    """They live through one release, whose number is that of this source or of the next."""
    import rillflow

    def number(release: str) -> list[int]:
        return [int(part) for part in release.split(".")[:2]]

    assert number(rillflow.__version__) < number(deprecated.LAST), "take the old names out"
    assert number(RELEASE) <= number(rillflow.__version__)


def test_the_warning_points_at_the_line_that_uses_an_old_name(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("x = 1\nfrom rillflow.rl.config import AlgorithmConfig\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert f"{script}:2: DeprecationWarning: rillflow.rl.config is called" in done.stderr


def test_a_module_that_never_was_is_still_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("rillflow.rl.confg")


def test_the_record_of_a_release_can_be_written(tmp_path: Path) -> None:
    """It holds what the pages, the examples and the command line show today."""
    record = json.loads(json.dumps(public_names.public()))
    assert "train" in record["names"]["rillflow"]
    assert "TrainOneStep" in record["names"]["rillflow.rl.train"]
    assert "lr" in record["settings"]["ppo"]
    assert "--until" in record["commands"]["train"]
