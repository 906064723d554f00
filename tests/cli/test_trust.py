"""A file cannot run its author's code: what it names is imported only if the user names it too."""

from __future__ import annotations

import dataclasses
import json
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.results.trained import Trained, TrainedAgents
from tests.cli.conftest import environment
from tests.results.policies import untrained

EVIL = "subprocess:check_output"
MAZE = """
from pathlib import Path
import gymnasium

Path(__file__).with_name("imported").touch()

def make(render_mode=None):
    return gymnasium.make("CartPole-v1", render_mode=render_mode)
"""


def hostile(env: str, **env_config: Any) -> Trained:
    """A policy whose file names an environment that it was never trained in."""
    trained = untrained("CartPole-v1")
    trained.config = dataclasses.replace(trained.config, env=env, env_config=env_config)
    return trained


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A policy that runs a command of its author's, if it is allowed to."""
    path = tmp_path / "evil.npz"
    hostile(EVIL, args=["touch", str(tmp_path / "PWNED")]).save(path)
    return path


@pytest.fixture
def maze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the user's, beside them, that leaves a mark when it is imported."""
    monkeypatch.delitem(sys.modules, "my_maze", raising=False)
    (tmp_path / "my_maze.py").write_text(MAZE)
    return tmp_path / "imported"


def edit(path: Path, **changes: Any) -> None:
    """Change a run.json: the settings by their names, `algorithm` beside them."""
    about = json.loads(path.read_text())
    about["algorithm"] = changes.pop("algorithm", about["algorithm"])
    about["config"].update(changes)
    path.write_text(json.dumps(about))


# -- policies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["evaluate", "record"])
def test_a_policy_runs_no_command(rillflow: Any, evil: Path, tmp_path: Path, command: str) -> None:
    done = rillflow(command, "evil.npz")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"names code to run: '{EVIL}', its environment, called with" in done.err
    assert f"`rillflow {command} evil.npz --trust {EVIL}`" in done.err
    assert not (tmp_path / "PWNED").exists()


def test_a_policy_is_exported_without_its_environment(call: Any, evil: Path) -> None:
    """What needs no environment needs no consent."""
    pytest.importorskip("onnx")
    assert call("export", "evil.npz").code == 0
    assert not evil.with_name("PWNED").exists()


def test_a_loaded_policy_acts_and_plays_nowhere(evil: Path) -> None:
    trained = rf.load(evil)
    assert trained.act(np.zeros(4, np.float32)).shape == ()
    assert trained.config.env is None
    with pytest.raises(rf.BuildError, match=rf"'{EVIL}', its env.*trust=\['{EVIL}'\]"):
        trained.evaluate(1)
    assert not evil.with_name("PWNED").exists()
    trained.save(evil)
    with pytest.raises(rf.BuildError, match=EVIL):
        rf.load(evil).evaluate(1)


@pytest.mark.parametrize(
    ("env", "env_config", "named"),
    [
        ("my_maze:make", {}, "my_maze:make"),
        ("my_maze:CartPole-v1", {}, "my_maze:CartPole-v1"),
        ("my_maze.sub", {}, "my_maze.sub"),
        ("GymV26Environment-v0", {"env_id": "my_maze:Env-v0"}, "my_maze:Env-v0"),
        ("CartPole-v1", {"kind": ["os.system"]}, "os.system"),
    ],
)
def test_every_way_to_name_code_is_refused(
    call: Any, maze: Path, tmp_path: Path, env: str, env_config: Any, named: str
) -> None:
    """A module and a name, Gymnasium's and PettingZoo's forms, and arguments that are imported."""
    hostile(env, **env_config).save(tmp_path / "p.npz")
    done = call("evaluate", "p.npz")
    assert (done.code, done.out) == (2, "")
    assert f"`rillflow evaluate p.npz --trust {named}`" in done.err
    assert not maze.exists()


@pytest.mark.parametrize("flag", ["--trust", "--env"])
def test_the_user_may_name_it(rillflow: Any, maze: Path, tmp_path: Path, flag: str) -> None:
    """The module may be a file beside the user, as it was when they trained."""
    hostile("my_maze:make").save(tmp_path / "p.npz")
    refused = rillflow("evaluate", "p.npz", "--episodes", "1")
    assert refused.code == 2
    assert not maze.exists()
    done = rillflow("evaluate", "p.npz", "--episodes", "1", flag, "my_maze:make")
    assert done.code == 0, done.err
    assert "1 episode" in done.out
    assert maze.exists()


def test_the_command_in_the_refusal_is_the_one_that_works(
    call: Any, maze: Path, tmp_path: Path
) -> None:
    hostile("my_maze:make").save(tmp_path / "a policy.npz")
    told = call("evaluate", "a policy.npz", "--episodes", "1").err
    words = shlex.split(told[told.index("`") + 1 : told.rindex("`")])
    assert words[0] == "rillflow"
    assert call(*words[1:]).code == 0


def test_trust_is_of_one_name_alone(call: Any, evil: Path) -> None:
    for name in ("subprocess", "subprocess:run", "os:system", "*", ""):
        assert call("evaluate", "evil.npz", "--trust", name).code == 2
    assert not evil.with_name("PWNED").exists()


def test_another_environment_does_not_excuse_the_arguments(call: Any, tmp_path: Path) -> None:
    """They stand in the file, whoever chose the environment."""
    hostile(EVIL, id="my_maze:Env-v0").save(tmp_path / "p.npz")
    done = call("evaluate", "p.npz", "--env", "gymnasium:make")
    assert done.code == 2
    assert "--env gymnasium:make --trust my_maze:Env-v0`" in done.err
    assert EVIL not in done.err


def test_policies_of_several_agents_are_no_better(call: Any, maze: Path, tmp_path: Path) -> None:
    agents = TrainedAgents({"one": hostile("my_maze:make")}, {"a": "one"}, [])
    agents.save(tmp_path / "several")
    done = call("evaluate", "several")
    assert done.code == 2
    assert "`rillflow evaluate several --trust my_maze:make`" in done.err
    with pytest.raises(rf.BuildError, match=r"trust=\['my_maze:make'\]"):
        TrainedAgents.load(tmp_path / "several").evaluate(1)
    assert not maze.exists()


def test_agents_are_looked_for_in_their_directory_alone(tmp_path: Path) -> None:
    untrained("CartPole-v1").save(tmp_path / "elsewhere.npz")
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "agents.json").write_text(
        json.dumps({"agents": {"a": "../elsewhere"}, "history": []})
    )
    with pytest.raises(rf.BuildError, match=r"'\.\./elsewhere' is no name of a policy"):
        TrainedAgents.load(tmp_path / "several")


# -- runs --------------------------------------------------------------------------------------


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A run of somebody else's, in which code can be named."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.mark.parametrize(
    "changes",
    [
        {"env": "my_maze:make"},
        {"update": "my_maze:make"},
        {"prepare": "my_maze:make"},
        {"model": "my_maze:make"},
        {"algorithm": "my_maze:make"},
        {"env_config": {"x": "my_maze:make"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_run_runs_no_code_when_it_is_resumed(
    call: Any, maze: Path, run: Path, changes: dict[str, Any]
) -> None:
    edit(run / "run.json", **changes)
    done = call("resume", "run", "--until", "steps=9000")
    assert (done.code, done.out) == (2, "")
    assert "`rillflow resume run --until steps=9000 --trust my_maze:make`" in done.err
    assert not maze.exists()


@pytest.mark.parametrize("command", ["evaluate", "record", "export"])
@pytest.mark.parametrize("setting", ["env", "model", "algorithm"])
def test_a_run_without_a_policy_runs_no_code_either(
    call: Any, maze: Path, run: Path, command: str, setting: str
) -> None:
    """What is played then comes from a checkpoint, and its environment from run.json."""
    (run / "policy.npz").unlink()
    edit(run / "run.json", **{setting: "my_maze:make"})
    done = call(command, "run")
    assert (done.code, done.out) == (2, "")
    assert f"`rillflow {command} run --trust my_maze:make`" in done.err
    assert not maze.exists()


def test_another_environment_is_the_users_choice(call: Any, maze: Path, run: Path) -> None:
    """What a file names and nobody uses needs no consent."""
    (run / "policy.npz").unlink()
    edit(run / "run.json", env="my_maze:make")
    flags = ("--env", "CartPole-v1", "--episodes", "1")
    assert call("evaluate", "run", *flags).code == 0
    assert not maze.exists()


@pytest.mark.parametrize("setting", ["update", "prepare"])
def test_what_only_training_needs_is_not_imported_to_act(
    call: Any, maze: Path, run: Path, setting: str
) -> None:
    (run / "policy.npz").unlink()
    edit(run / "run.json", **{setting: "my_maze:make"})
    assert call("evaluate", "run", "--episodes", "1").code == 0
    assert not maze.exists()


@pytest.mark.parametrize("command", ["plot", "view", "list"])
def test_to_look_at_a_run_imports_nothing_of_its_own(
    call: Any, maze: Path, run: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rillflow.web.server.View.wait", lambda view: None, raising=False)
    edit(run / "run.json", env="my_maze:make", algorithm="my_maze:make", update="my_maze:make")
    words = {"plot": ["run"], "view": ["run"], "list": ["runs", "--run-dir", "."]}[command]
    assert call(command, *words).code == 0
    assert not maze.exists()


# -- files of settings -------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "explain", "tune", "simulate", "bench --profile"])
@pytest.mark.parametrize("setting", ["env", "loss", "model", "nonsense"])
def test_a_file_of_settings_runs_no_code(
    call: Any, maze: Path, tmp_path: Path, command: str, setting: str
) -> None:
    (tmp_path / "s.json").write_text(json.dumps({setting: "my_maze:make"}))
    done = call(*command.split(), "ppo", "--config", "s.json")
    assert (done.code, done.out) == (2, "")
    assert f"`rillflow {command} ppo --config s.json --trust my_maze:make`" in done.err
    assert not maze.exists()


def test_settings_that_the_user_types_are_theirs(call: Any, maze: Path, tmp_path: Path) -> None:
    given = json.dumps({"env": "my_maze:make"})
    assert call("explain", "ppo", "--config", given).code == 0
    (tmp_path / "s.json").write_text(given)
    assert call("explain", "ppo", "--config", "s.json", "--trust", "my_maze:make").code == 0


# -- memory ------------------------------------------------------------------------------------


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


@pytest.fixture(scope="module")
def zip_bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three megabytes that would be three gigabytes: seconds of work, so it is made once."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.npz"
    untrained("CartPole-v1").save(path)
    arrays = dict(np.load(path))
    zeros = np.broadcast_to(np.float32(0), (3 << 28,))
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays, **{"weights/bomb": zeros})
    assert path.stat().st_size < 4_000_000
    return path


@pytest.mark.parametrize("command", ["evaluate", "record", "export"])
def test_a_zip_bomb_takes_no_memory(zip_bomb: Path, command: str) -> None:
    """It is refused, in a process that has two gigabytes."""
    done = subprocess.run(
        [sys.executable, "-m", "rillflow", command, "bomb.npz"],
        cwd=zip_bomb.parent, env=environment(), capture_output=True, text=True, timeout=100,
        check=False, preexec_fn=little_memory,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "is compressed" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["plot", "evaluate"])
def test_a_run_json_that_is_too_large_is_refused(call: Any, run: Path, command: str) -> None:
    (run / "policy.npz").unlink()
    with (run / "run.json").open("r+b") as file:
        file.truncate(1 << 40)
    done = call(command, "run")
    assert done.code == 2
    assert "at most 16,777,216 are read" in done.err


def test_runs_that_cannot_be_read_are_listed_all_the_same(call: Any, run: Path) -> None:
    with (run / "run.json").open("r+b") as file:
        file.truncate(1 << 40)
    (run / "status.json").write_text("[" * 50_000)
    (run / "metrics.jsonl").write_text('{"steps": "many", "return": [1]}\n' + "[" * 50_000)
    assert call("list", "runs", "--run-dir", ".").code == 0


def test_a_long_history_is_saved_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what was saved can always be read, and its last row is the last."""
    monkeypatch.setattr("rillflow.results.trained.policy._FIGURES", 100)
    trained = untrained("CartPole-v1")
    trained.history = [{"steps": i, "return": 1.0} for i in range(1000)]
    trained.save(tmp_path / "p.npz")
    found = rf.load(tmp_path / "p.npz").history
    assert (len(found), found[-1]["steps"]) == (50, 999)
