"""A run that was trained with code of one's own knows it again; a stranger's run does not."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.safety import own_code
from tests.cli.conftest import QUICK, environment

NETS = """
from pathlib import Path
import torch
from torch import nn

Path(__file__).with_name("imported").touch()

class Net(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(spec.observation_size, 16), nn.Tanh())
        self.actions = nn.Linear(16, spec.actions.width)
        self.value = nn.Linear(16, 1)

    def forward(self, obs):
        seen = self.body(obs)
        return self.actions(seen), self.value(seen).squeeze(-1)
"""
MAZE = """
import gymnasium

def make(render_mode=None, length=500):
    return gymnasium.make("CartPole-v1", render_mode=render_mode, max_episode_steps=length)
"""
RUN = "runs/ppo-my_maze-make-1"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run was trained with a network and an environment of one's own."""
    here = tmp_path_factory.mktemp("begun")
    (here / "my_nets.py").write_text(NETS)
    (here / "my_maze.py").write_text(MAZE)
    flags = [*QUICK, "--model=my_nets:Net", '--env-config={"length": 200}', "--until=steps=600"]
    done = program(here, "-m", "rillflow", "train", "ppo", "my_maze:make", "--plain", *flags)
    assert done.returncode == 0, done.stderr
    assert "--trust" not in done.stdout
    (here / "imported").unlink()
    return here


def program(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=here, env=environment(), text=True, capture_output=True,
        timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture
def trained(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same beside this test, as if it had been trained here."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    for name in ("my_nets", "my_maze"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    run = tmp_path / RUN
    about = json.loads((run / "run.json").read_text())
    assert about["consent"]["files"]["my_nets:Net"] == str(begun / "my_nets.py")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, str(tmp_path)])
        about["consent"] = own_code.sealed(about)
    (run / "run.json").write_text(json.dumps(about))
    return run


def edit(run: Path, **changes: Any) -> None:
    about = json.loads((run / "run.json").read_text())
    about["config"].update(changes)
    (run / "run.json").write_text(json.dumps(about))


def test_it_is_evaluated_recorded_and_resumed_without_naming_it_again(
    call: Any, trained: Path
) -> None:
    done = call("evaluate", RUN, "--episodes", "1")
    assert done.code == 0, done.err
    assert call("record", RUN, "-o", "strip.png", "--max-steps", "20").code == 0
    done = call("resume", RUN, "--until", "steps=900", "--quiet")
    assert done.code == 0, done.err
    (trained / "policy.npz").unlink()  # and from a checkpoint alone
    assert call("evaluate", RUN, "--episodes", "1").code == 0


def test_from_anywhere_and_after_it_was_moved(trained: Path, tmp_path: Path) -> None:
    """The module is the file that it was, wherever the user stands."""
    moved = tmp_path / "elsewhere" / "run"
    moved.parent.mkdir()
    shutil.move(trained, moved)
    code = f"import rillflow as rf; print(len(rf.load({str(moved)!r}).evaluate(2)))"
    found = program(moved.parent, "-c", code)
    assert found.stdout == "2\n", found.stderr


STRANGE = {
    "another user's key": lambda run, key: key.write_bytes(os.urandom(32)),
    "a key that others can read": lambda run, key: key.chmod(0o644),
    "no key": lambda run, key: key.unlink(),
    "settings that were changed": lambda run, key: edit(run, lr=1.0),
    "arguments that were changed": lambda run, key: edit(run, env_config={"length": 7}),
    "another module of that name": lambda run, key: _another(run.parents[1]),
    "the module is gone": lambda run, key: (run.parents[1] / "my_nets.py").unlink(),
}


def _another(here: Path) -> None:
    """Where a stranger's directory has a package of the name, which is found first."""
    (here / "my_nets").mkdir()
    (here / "my_nets" / "__init__.py").write_text(NETS)


@pytest.mark.parametrize("case", STRANGE)
def test_whatever_is_not_as_it_was_is_asked_for_with_the_command(
    call: Any, trained: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    shutil.copytree(os.environ["XDG_STATE_HOME"], state)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    STRANGE[case](trained, state / "rillflow" / "key")
    for words in (("evaluate", RUN), ("resume", RUN, "--until", "steps=900")):
        done = call(*words)
        assert done.code == 2
        assert "names code to run" in done.err
        assert done.err.count("\n") == 1
        told = shlex.split(done.err[done.err.index("`") + 1 : done.err.rindex("`")])
        assert told[: len(words) + 1] == ["rillflow", *words]
        assert told[-1] == "my_nets:Net" or "my_maze:make" in told
    assert not list(tmp_path.glob("**/imported"))


def test_a_policy_that_says_otherwise_than_its_run_is_a_strangers(call: Any, trained: Path) -> None:
    """What is sealed is run.json: a policy put beside it cannot borrow that."""
    from rillflow.policies.saved import about_policy
    from tests.results.policies import untrained

    found = untrained("CartPole-v1")
    found.config = type(found.config)(env="my_maze:make", env_config={"length": 3})
    found.save(trained / "policy.npz")
    assert about_policy(trained / "policy.npz")["settings"]["env_config"] == {"length": 3}
    assert call("evaluate", RUN).code == 2


def test_the_key_is_its_users_alone(trained: Path) -> None:
    key = Path(os.environ["XDG_STATE_HOME"]) / "rillflow" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_bytes()) == 32


def test_runs_that_name_no_code_need_no_key(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    rf.train("a2c", until=64, engine="sim", num_workers=1, run_dir=tmp_path / "run")
    assert not (tmp_path / "state").exists()
    assert own_code.consented(tmp_path / "run") == set()


def test_where_no_key_can_be_kept_nothing_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    about = {"id": "1", "algorithm": "ppo", "config": {"env": "gymnasium:make"}}
    assert own_code.sealed(about) is None
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert own_code.sealed(about) is not None
    assert own_code.sealed({**about, "config": {"env": "__main__:make"}}) is None
