"""Mistakes of newcomers: one line that says what to do, an exit code, no traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

TRAIN = ["train", "ppo", "CartPole-v1"]

CASES = [
    # what was typed, what the line says
    (["trian", "ppo"], "no command 'trian'; did you mean `rillflow train`?"),
    (["--verbose"], "no flag '--verbose'"),
    (["play", "runs/x"], "did you mean `rillflow record`?"),
    (["train", "CartPole-v1"], "is an environment, and the algorithm comes first: ppo CartPole-v1"),
    (["train", "CartPole-v1", "ppo"], "the algorithm comes first, as in ppo CartPole-v1"),
    (["train", "d4pg", "Pendulum-v1"], "Did you mean 'ddpg'?"),
    (["train", "ppo", "breakout"], "did you mean 'ALE/Breakout-v5'?"),
    ([*TRAIN, "--steps", "1000"], "did you mean --until steps=50000?"),
    ([*TRAIN, "--logdir", "x"], "did you mean --run-dir?"),
    ([*TRAIN, "--gpu"], "did you mean --num-gpus?"),
    ([*TRAIN, "--capture-video"], "did you mean --record-every?"),
    ([*TRAIN, "--learning_rate", "1"], "did you mean --lr?"),
    (["train"], "which algorithm? As in `rillflow train ppo CartPole-v1`"),
    (["train", "pp0", "CartPole-v1"], "unknown algorithm 'pp0'; there are a2c"),
    (["train", "pp0", "CartPole-v1"], "Did you mean 'ppo'?"),
    (["train", "ppo", "CartPol-v1"], "did you mean 'CartPole-v1'"),
    (["train", "ppo", "nowhere:make"], "no module named 'nowhere'"),
    (["train", "nowhere:plan", "CartPole-v1"], "there is no module 'nowhere'"),
    (["train", "math:sqr", "CartPole-v1"], "math has no 'sqr'; did you mean 'math:sqrt'?"),
    (
        ["train", "math:sqrt", "CartPole-v1"],
        "does not name an algorithm (it is no Algorithm). It is one of",
    ),
    (["train", "dqn", "Pendulum-v1"], "cannot enumerate the continuous actions"),
    ([*TRAIN, "--policies", "each"], "environment 'CartPole-v1' has one"),
    (["train", "ppo", "MultiAgentCartPole", "--policies", "eech"], "got 'eech'"),
    (["train", "ppo", "MultiAgentCartPole", "--policies", '{"a":'], "is not JSON"),
    ([*TRAIN, "extra"], "unexpected 'extra'"),
    ([*TRAIN, "--run", "dqn"], "two algorithms are named"),
    ([*TRAIN, "--env", "Bandit"], "two environments are named"),
    ([*TRAIN, "--num-worker", "2"], "unknown flag --num-worker, did you mean --num-workers?"),
    ([*TRAIN, "--gama=0.9", "--lrr=1"], "did you mean --gamma?; unknown flag --lrr, did you mean"),
    ([*TRAIN, "--num-workers"], "--num-workers: expected one argument"),
    (
        [*TRAIN, "--num-workers", "two", "--lr", "x"],
        "num_workers must be a whole number, got 'two'",
    ),
    ([*TRAIN, "--num-workers", "two", "--lr", "x"], "lr must be a number, got 'x'"),
    ([*TRAIN, "--num-workers", "-1"], "num_workers must be at least 0, got -1"),
    ([*TRAIN, "--hidden", "64,big"], "hidden must be a tuple of whole numbers"),
    ([*TRAIN, "--update", "crash"], "update must be a function or None, got 'crash'"),
    ([*TRAIN, "--env-config", "{size: 3}"], "--env-config: value '{size: 3}' is not JSON"),
    ([*TRAIN, "--num-gpus", "64"], "set num_gpus="),
    ([*TRAIN, "--config", "{num_workers: 4}"], "is not JSON"),
    ([*TRAIN, "--config", "[4]"], "must be an object of JSON"),
    ([*TRAIN, "--config", '{"num_worker": 4}'], "did you mean 'num_workers'?"),
    ([*TRAIN, "--config", "missing.json"], "--config missing.json: No such file"),
    ([*TRAIN, "--until", "reward=475"], "no limit 'reward', did you mean 'return'?"),
    ([*TRAIN, "--until", "475"], "'475' is not of the form name=number"),
    ([*TRAIN, "--until", "steps=many"], "steps must be a number above 0, got 'many'"),
    ([*TRAIN, "--seed", "x"], "--seed: must be a whole number of at least 0, got 'x'"),
    ([*TRAIN, "--engine", "locl"], "Did you mean 'local'?"),
    ([*TRAIN, "--engine", "sim", "--address", "h:1"], "--address is that of a Ray cluster"),
    ([*TRAIN, "--address", "127.0.0.1:1"], "no Ray cluster answers at --address 127.0.0.1:1"),
    ([*TRAIN, "--redis-address", "127.0.0.1:1"], "`ray start --head` starts a cluster"),
    ([*TRAIN, "--name", "a/b"], "without slashes; got 'a/b'"),
    ([*TRAIN, "--name", "taken"], "exists and is not empty: choose another name, or go on"),
    ([*TRAIN, "--run-dir", "a-file"], "choose a directory of your own with --run-dir"),
    ([*TRAIN, "--view", "--view-port", "99999"], "a port is a number from 0 to 65535"),
    ([*TRAIN, "--view", "--view-port", "PORT"], "is in use; choose another, or 0"),
    ([*TRAIN, "--wandb"], "pip install 'rillflow[wandb]'"),
    ([*TRAIN, "--tensorboard"], "pip install 'rillflow[tensorboard]'"),
    (["tune", "ppo", "Bandit"], "pip install 'rillflow[tune]'"),
    (["tune", "ppo", "Bandit", "--pruner", "best"], "--pruner is one of median, hyperband, none"),
    (["resume", "missing"], "there is no run 'missing'; `rillflow list runs`"),
    (["resume", "."], "is no run: it has no run.json"),
    (["resume", "RUN", "--algorithm", "dqn"], "is a run of ppo, and goes on with that"),
    (["resume", "RUN", "--algorithm", "dqm"], "Did you mean 'dqn'?"),
    (["resume", "RUN", "--until", "step=3"], "did you mean 'steps'?"),
    (["evaluate"], "missing: RUN"),
    (["evaluate", "missing"], "there is no run and no file 'missing'"),
    (["evaluate", "."], "is no run"),
    (["evaluate", "taken"], "has no policy yet"),
    (["evaluate", "a-file"], "is not a policy saved by rillflow"),
    (["evaluate", "RUN", "--episodes", "0"], "must be a whole number of at least 1, got '0'"),
    (["record", "RUN", "-o", "film.avi"], "found 'film.avi'"),
    (["record", "RUN", "--fps", "-1"], "must be a number above 0"),
    (["plot", "missing"], "there is no run 'missing'"),
    (["plot", "RUN", "-o", "curve.doc"], "curve.doc"),
    (["export", "missing"], "there is no run and no file 'missing'"),
    (["view", "missing"], "there is no run directory 'missing'"),
    (["view", "RUN", "--host", "0.0.0.0"], "needs a `token`"),
    (["explain"], "which algorithm?"),
    (["explain", "ppo", "--format", "png"], "--format is one of text, mermaid, svg, json"),
    (["explain", "ppo", "-o", "missing/flow.svg"], "No such file or directory"),
    (["simulate", "ppo", "--workers", "1,x"], "'x' is no number of workers"),
    (["simulate", "ppo", "--workers", "4,2"], "must rise"),
    (["simulate", "ppo", "--cores", "some"], "--cores is a number, `needed` or `here`"),
    (["simulate", "ppo", "--num-workers", "0"], "nothing to vary"),
    (["list", "algoritms"], "did you mean 'algorithms'?"),
    (["bench", "corr"], "did you mean 'core'?"),
]


@pytest.mark.parametrize(("arguments", "told"), CASES, ids=[" ".join(c[0]) for c in CASES])
def test_a_mistake_is_one_line_that_says_what_to_do(
    arguments: list[str],
    told: str,
    call,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "a-file").write_text("nothing of ours\n")
    (tmp_path / "runs" / "taken").mkdir(parents=True)
    (tmp_path / "runs" / "taken" / "run.json").write_text("{}")
    (tmp_path / "taken").symlink_to(tmp_path / "runs" / "taken")
    if "rillflow[" in told:
        _uninstall(monkeypatch, told)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        places = {"RUN": str(finished), "PORT": str(busy.getsockname()[1])}
        done = call(*(places.get(word, word) for word in arguments))
    assert done.code in (1, 2), done
    assert done.out == ""
    assert told in done.err
    assert done.err.count("\n") == 1, done.err
    assert done.err.startswith("rillflow")
    # a run that never began leaves nothing
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["taken"]


def _uninstall(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    """As if an extra were not there."""
    import importlib.util
    import sys

    library = {"tune": "optuna"}.get(extra := told.split("[")[1].split("]")[0], extra)
    real = importlib.util.find_spec
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("importlib.util", "rillflow.runs.wandb"):
        monkeypatch.setattr(
            f"{module}.find_spec", lambda name, *_: None if name == library else real(name)
        )


def test_as_a_program_too_there_is_no_traceback(rillflow) -> None:
    done = rillflow("train", "ppo", "CartPol-v1")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("rillflow train: unknown environment 'CartPol-v1'")
    assert done.err.count("\n") == 1


def test_debug_shows_the_traceback(rillflow) -> None:
    done = rillflow("train", "ppo", "CartPol-v1", RILLFLOW_DEBUG="1")
    assert done.code == 1
    assert "Traceback" in done.err
    assert "BuildError: unknown environment" in done.err


def test_an_error_in_code_of_ones_own_shows_that_code(call, tmp_path: Path) -> None:
    (tmp_path / "broken_env.py").write_text(
        "import gymnasium\n"
        "class Env(gymnasium.wrappers.TimeLimit):\n"
        "    def __init__(self):\n"
        "        super().__init__(gymnasium.make('CartPole-v1'), 10)\n"
        "    def step(self, action):\n"
        "        return super().step(action) / 0\n"
    )
    done = call("train", "ppo", "broken_env:Env", "--engine", "sim", "--quiet")
    assert done.code == 1
    assert "broken_env.py:6 in step" in done.err
    assert "Traceback" not in done.err


def test_an_unexpected_error_is_one_line_too(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rillflow.cli.commands.list.algorithms", lambda: 1 / 0)
    done = call("list")
    assert done.code == 1
    assert "ZeroDivisionError: division by zero" in done.err
    assert "RILLFLOW_DEBUG=1 shows the traceback" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("env", "library", "extra"),
    [("LunarLander-v3", "Box2D", "box2d"), ("Hopper-v5", "mujoco", "mujoco")],
)
def test_a_library_that_an_environment_misses_is_named_by_our_extra(
    env: str, library: str, extra: str, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gymnasium's own advice compiles, or installs without what else is needed."""
    import sys

    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.", library))]:
        if "box2d" in name or "mujoco" in name or name.startswith(library):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    done = call("train", "ppo", env, "--engine", "sim", "--until", "1k")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"pip install 'rillflow[{extra}]'" in done.err
