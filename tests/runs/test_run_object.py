"""The object that `rf.train`, `rf.run` and `rf.resume` give: while it trains, and afterwards."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import a3c
from rillflow.cli.main import main
from rillflow.results import evaluate, evaluate_agents
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.train import ApplyGradients, ComputeGradients
from rillflow.rl.workers import create_rollout_workers
from rillflow.runs.directory import RunDirectory
from rillflow.runs.training_run import AROUND

SMALL: dict[str, Any] = {
    "hidden": (16,),
    "num_workers": 1,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 32,
}
FOREVER = {"steps": 10**9}


def short(**more: Any) -> rf.TrainingRun:
    how: dict[str, Any] = {"until": 256, "engine": "sim", **SMALL, **more}
    return rf.train("a2c", "CartPole-v1", **how)


def learning(**more: Any) -> rf.TrainingRun:
    """A run in a thread that has learned something."""
    run = short(until=FOREVER, wait=False, **more)
    ends = time.monotonic() + 60
    while not run.steps and time.monotonic() < ends:
        time.sleep(0.01)
    assert run.steps
    return run


# -- as a policy -----------------------------------------------------------------------------------


def test_a_run_acts_is_evaluated_and_saved_as_its_policy(tmp_path: Path) -> None:
    run = short()
    assert run.act([0.0] * 4) == run.policy.act([0.0] * 4)
    assert run.evaluate(3, seed=2) == list(evaluate(run, 3, seed=2).returns)
    assert run.weights.keys() == run.spec.weight_shapes.keys()
    assert run.history is run.policy.history
    run.save(tmp_path / "p.npz")
    assert rf.load(tmp_path / "p.npz").act([0.0] * 4) == run.act([0.0] * 4)
    assert not hasattr(run, "policies")
    assert not hasattr(run, "no_such_thing")


def test_whatever_takes_a_policy_takes_a_run(tmp_path: Path) -> None:
    """Also one that goes on: what it has then is what is filmed, exported, evaluated."""
    pytest.importorskip("onnx", reason="needs the onnx extra")
    pytest.importorskip("pygame", reason="CartPole is drawn by pygame")
    from rillflow.results import export_onnx, frame_strip

    with learning() as run:
        assert evaluate(run, 1).episodes == 1
        assert export_onnx(run, tmp_path / "p.onnx").exists()
        assert frame_strip(run, tmp_path / "p.png", 2, max_steps=500).exists()


def test_that_of_several_agents_does_so_too(tmp_path: Path) -> None:
    path = tmp_path / "run"
    how: dict[str, Any] = {**SMALL, "until": 256, "engine": "sim"}
    run = rf.train("ppo", "MultiAgentCartPole", policies="each", run_dir=path, **how)
    assert run.policies.keys() == set(run.agents.values())
    assert evaluate_agents(run, 1).keys() == run.policies.keys()
    loaded = rf.load(path)
    assert loaded.agents == run.agents
    seen = {agent: [0.0] * 4 for agent in run.agents}
    assert loaded.act(seen) == run.act(seen)
    assert repr(loaded) == f"<policies trained on MultiAgentCartPole: {', '.join(run.policies)}>"


def test_what_it_says_of_itself() -> None:
    run = short()
    assert (run.state, run.why, run.over) == ("finished", "the limit of steps is reached", True)
    assert repr(run) == f"<training run of a2c on CartPole-v1: finished after {run.steps} steps>"
    assert run.stats().operator("rollouts").items > 0
    assert run.steps == run.result["steps"] == run.history[-1]["steps"] >= 256


def test_a_policy_says_what_it_is(tmp_path: Path) -> None:
    run = short(run_dir=tmp_path / "run", eval_every=128, eval_episodes=2)
    assert repr(run.policy) == "<policy trained by a2c on CartPole-v1>"
    judged = run.best.judged
    assert repr(run.best) == (
        f"<policy trained by a2c on CartPole-v1: evaluation {judged['score']:,.1f} after "
        f"{judged['steps']:,} steps>"
    )
    assert repr(rf.load(tmp_path / "run")) == repr(run.policy)


def test_what_it_was_trained_with_is_given_back(tmp_path: Path) -> None:
    """A run that is over holds its policy and its figures: no learner, no replay, no workers."""
    import gc

    from rillflow.learning.learner_base import LearnerBase

    def learners() -> int:
        gc.collect()
        # by type: `isinstance` asks each object for its class, which some answer with a warning
        return sum(issubclass(type(one), LearnerBase) for one in gc.get_objects())

    before = learners()
    run = short(run_dir=tmp_path / "run", eval_every=128, eval_episodes=1)
    assert learners() <= before
    assert run.act([0.0] * 4) in (0, 1)


def test_its_figures_end_with_training_and_name_what_goes_on_around_it() -> None:
    """What waits for the last evaluation is no work of the driver, whose loop is not the user's."""
    seen: list[float] = []
    run = short(
        engine="local",
        eval_every=10**6,
        eval_episodes=1,
        on_evaluation=lambda run, _: seen.append(run.stats().seconds),
    )
    assert seen == [run.stats().seconds]
    names = [line.name for line in run.stats().times]
    assert AROUND in names
    assert "your loop" not in names
    assert repr(run.stats()) == str(run.stats()), "what is typed at a prompt is looked at"


# -- while it trains -------------------------------------------------------------------------------


def test_a_run_in_a_thread_is_looked_at_and_stopped(tmp_path: Path) -> None:
    run = learning(run_dir=tmp_path / "run")
    assert run.state == "running"
    before = run.policy
    assert before.act([0.0] * 4) in (0, 1)
    assert "TrainOneStep" in str(run.stats())
    assert run.wait(0.01) is run
    run.stop()
    assert run.wait().state == "stopped"
    assert run.why == "you stopped it"
    assert run.policy is run.policy is not before
    assert RunDirectory(run.directory).status["state"] == "stopped"
    assert rf.load(tmp_path / "run").act([0.0] * 4) == run.act([0.0] * 4)
    assert not [t for t in threading.enumerate() if t.name in ("training", "status")]


def test_its_policy_does_not_change_behind_your_back() -> None:
    with learning() as run:
        policy, steps = run.policy, run.steps
        weights = {name: array.copy() for name, array in policy.weights.items()}
        while run.steps < steps + 1000:
            time.sleep(0.01)
        assert all((policy.weights[name] == array).all() for name, array in weights.items())
        assert any((run.policy.weights[n] != array).any() for n, array in weights.items())
    assert run.state == "stopped"


def test_leaving_its_block_ends_it_and_hides_no_error() -> None:
    with pytest.raises(ZeroDivisionError), learning() as run:
        raise ZeroDivisionError
    assert run.over


def test_what_it_fails_with_is_raised_where_it_is_waited_for(tmp_path: Path) -> None:
    def on_result(run: Any, row: Any) -> None:
        raise KeyError("my own mistake")

    def fail() -> rf.TrainingRun:
        run = short(wait=False, callbacks=[on_result], run_dir=tmp_path / "run")
        while not run.over or any(t.name == "training" for t in threading.enumerate()):
            time.sleep(0.01)
        return run

    with pytest.warns(UserWarning, match=r"failed in its thread .*run.wait\(\) raises"):
        run = fail()
    assert run.state == "failed"
    for _ in range(2):
        with pytest.raises(KeyError, match="my own mistake"):
            run.wait()
    assert run.act([0.0] * 4) in (0, 1)
    assert rf.load(tmp_path / "run").act([0.0] * 4) == run.act([0.0] * 4)


def test_the_algorithm_comes_first_and_that_is_told() -> None:
    with pytest.raises(rf.BuildError, match=r"comes first: rf\.train\('ppo', 'CartPole-v1', "):
        rf.train("CartPole-v1", "ppo")
    with pytest.raises(rf.BuildError, match="as on_result=my_function"):
        short(callbacks=[lambda run, row: None])


def test_a_mistake_is_told_at_once_not_in_the_thread() -> None:
    with pytest.raises(rf.BuildError, match="did you mean 'lr'"):
        short(wait=False, learning_rate=1)


@pytest.mark.parametrize("wait", [True, False])
def test_so_is_what_cannot_begin(wait: bool, tmp_path: Path) -> None:
    """A port that is taken, for one; nothing is left of the run."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(rf.RunError, match="is in use; choose another"):
            short(wait=wait, view=True, view_port=port, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert short(run_dir=tmp_path / "run").state == "finished"


def test_a_run_that_has_learned_nothing_says_so() -> None:
    run = rf.TrainingRun(None, {}, None)
    with pytest.raises(rf.RunError, match="has not begun"):
        run.act([0.0] * 4)
    assert not hasattr(run, "weights")


def test_a_second_thread_may_train_and_wait() -> None:
    """Nothing of it needs the main thread: signals are not touched elsewhere."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(short().state))
    thread.start()
    thread.join(60)
    assert found == ["finished"]


def program(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


WATCHED = """
    import sys
    import rillflow as rf
    def say(text):  # in one piece, whichever thread says it
        sys.stdout.write(text + "\\n")
        sys.stdout.flush()
    run = rf.train("a2c", until=10**9, num_workers=1, wait={wait}, run_dir={path!r},
                   on_progress=lambda row: row["steps"] < 9000 or say("row"))
    {then}
    say(f"{{run.state}} {{run.act([0.0] * 4).shape}}")
"""


@pytest.mark.proc
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_and_gives_the_run_back(
    wait: bool, number: signal.Signals, tmp_path: Path
) -> None:
    """A signal that ends programs ends this one, when all is saved."""
    path = tmp_path / "run"
    process = program(WATCHED.format(wait=wait, path=str(path), then="" if wait else "run.wait()"))
    assert process.stdout is not None
    assert process.stdout.readline() == "row\n"
    os.killpg(process.pid, number)
    out, errors = process.communicate(timeout=60)
    if number == signal.SIGINT:
        assert out.splitlines()[-1] == "stopped ()"
        assert process.returncode == 0
    else:
        assert process.returncode == -signal.SIGTERM
    assert "Traceback" not in errors
    assert RunDirectory(path).status["state"] == "stopped"
    assert rf.load(path).act([0.0] * 4).shape == ()


@pytest.mark.proc
def test_a_program_that_ends_saves_what_still_trains(tmp_path: Path) -> None:
    path = tmp_path / "run"
    then = "import time\n    while run.steps < 9000: time.sleep(0.05)"
    process = program(WATCHED.format(wait=False, path=str(path), then=then))
    out, errors = process.communicate(timeout=60)
    assert "running ()" in out.splitlines()
    assert (process.returncode, "Traceback" in errors) == (0, False)
    assert RunDirectory(path).status["state"] == "stopped"
    assert rf.load(path).history[-1]["steps"] >= 9000


# -- its directory ---------------------------------------------------------------------------------


def test_it_writes_what_the_command_line_writes(tmp_path: Path) -> None:
    run = short(run_dir=tmp_path / "run", tensorboard=True, checkpoint_steps=128, keep=2)
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert written >= {
        "run.json", "graph.json", "graph.svg", "metrics.jsonl", "status.json", "policy.npz",
        "curve.png", "checkpoints", "tensorboard",
    }  # fmt: skip
    assert len(list((tmp_path / "run" / "checkpoints").glob("0*"))) == 2
    assert RunDirectory(run.directory).about["exactness"] == "exact"


def test_a_view_is_served_while_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    run = learning(run_dir=tmp_path / "run", view=True)
    assert run.url is not None
    url = urlsplit(run.url)
    connection = HTTPConnection(url.netloc, timeout=20)
    connection.request("GET", f"{url.path}?{url.query}")
    assert connection.getresponse().status < 400
    connection.close()
    assert f"view it at {run.url}" in capsys.readouterr().err
    run.stop()
    assert run.wait().url is None


@pytest.mark.parametrize("how", [{"view": True}, {"tensorboard": True}, {"checkpoint_steps": 9}])
def test_what_needs_files_says_so(how: dict[str, Any]) -> None:
    with pytest.raises(rf.BuildError, match=r"give it a directory, run_dir="):
        short(**how)


class Broken(gymnasium.Env[Any, Any]):
    """Cannot be stepped."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **how: Any) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        raise OSError("no display")


def test_a_run_that_never_began_leaves_nothing(tmp_path: Path) -> None:
    how: dict[str, Any] = {**SMALL, "until": 256, "engine": "sim", "on_failure": "raise"}
    with pytest.raises(OSError, match="no display"):
        rf.train("a2c", Broken, run_dir=tmp_path / "run", **how)
    assert not (tmp_path / "run").exists()


def test_nor_does_one_that_is_interrupted_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rillflow.runs.directory.RunDirectory.write_graph", interrupted)
    with pytest.raises(KeyboardInterrupt):
        short(run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    assert short(run_dir=tmp_path / "run").state == "finished"


# -- going on --------------------------------------------------------------------------------------


def test_a_run_goes_on_from_its_directory_as_one_that_was_not_stopped(tmp_path: Path) -> None:
    whole = short(until=512)
    short(until=256, run_dir=tmp_path / "run")
    run = rf.resume(tmp_path / "run", until=512, progress=False)
    assert run.steps == whole.steps
    assert all((run.weights[name] == array).all() for name, array in whole.weights.items())
    assert [row["steps"] for row in run.history] == [row["steps"] for row in whole.history]


def test_a_finished_run_says_so_and_is_given_back(tmp_path: Path) -> None:
    first = short(run_dir=tmp_path / "run")
    with pytest.warns(UserWarning, match="nothing was trained") as told:
        run = rf.resume(tmp_path / "run")
    assert run.state == "finished"
    way = str(told[0].message).partition("give a limit beyond: ")[2]
    assert way == f"rf.resume({str(tmp_path / 'run')!r}, until={{'steps': 1000}})"
    assert run.steps == first.steps
    assert run.act([0.0] * 4) == first.act([0.0] * 4)


def test_who_goes_on_again_need_not_say_the_limits_again(tmp_path: Path) -> None:
    short(until=256, run_dir=tmp_path / "run")
    rf.resume(tmp_path / "run", until=2048, callbacks=[on_result], progress=False)
    assert rf.load(tmp_path / "run").history[-1]["steps"] < 2048
    assert rf.resume(tmp_path / "run", progress=False).steps >= 2048
    with pytest.warns(UserWarning, match="it has reached steps=2048"):
        rf.resume(tmp_path / "run")


def on_result(run: rf.TrainingRun, result: dict[str, float]) -> str:
    """Of a user who has seen enough."""
    return "stop"


def test_other_settings_of_a_run_are_its_own(tmp_path: Path) -> None:
    short(run_dir=tmp_path / "run")
    with pytest.raises(rf.BuildError, match="goes on with its own lr"):
        rf.resume(tmp_path / "run", until=512, lr=1.0)


# -- a flow of one's own ---------------------------------------------------------------------------


def own(**settings: Any) -> tuple[Any, Any]:
    workers = create_rollout_workers(a3c.Config(env="CartPole-v1", **{**SMALL, **settings}))
    gradients = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return gradients.for_each(ApplyGradients(workers)), workers


def test_a_flow_of_ones_own_gives_the_same_object(tmp_path: Path) -> None:
    flow, workers = own()
    run = rf.run(flow, workers, until=256, engine="sim", run_dir=tmp_path / "run", eval_every=128,
                 eval_episodes=1)  # fmt: skip
    assert (run.state, run.title) == ("finished", "a3c on CartPole-v1")
    assert any("eval_return" in row for row in run.history)
    assert rf.load(tmp_path / "run").act([0.0] * 4) == run.act([0.0] * 4)
    flow, workers = own()
    again = rf.resume(tmp_path / "run", flow=flow, workers=workers, until=512)
    assert again.steps >= 512
    assert again.history[0] == run.history[0]


def told_by_the_command(run: Path) -> str:
    """What `rillflow resume` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["resume", str(run)]) == 0
    return out.getvalue()


def test_only_its_author_can_build_a_flow_again(tmp_path: Path) -> None:
    flow, workers = own()
    rf.run(flow, workers, until=64, engine="sim", run_dir=tmp_path / "own")
    with pytest.raises(rf.BuildError, match=r"rf\.resume\(.*flow=flow, workers=workers\)"):
        rf.resume(tmp_path / "own", until=512)
    assert "in Python, rf.resume" in told_by_the_command(tmp_path / "own")
    again = own()
    with pytest.warns(
        UserWarning, match=r"rf\.resume\(.*workers=workers, until=\{'steps': 300\}\)"
    ):
        rf.resume(tmp_path / "own", flow=again[0], workers=again[1])
    short(run_dir=tmp_path / "other")
    with pytest.raises(rf.BuildError, match="builds its own flow"):
        rf.resume(tmp_path / "other", flow=flow, workers=workers, until=512)


def test_mistakes_about_flows_are_told() -> None:
    flow, workers = own()
    with pytest.raises(rf.BuildError, match="takes the workers whose policy"):
        rf.run(flow, [1], until=64)  # type: ignore[arg-type]
    with pytest.raises(rf.BuildError, match=r"found str; for an algorithm by its name.*rf\.train"):
        rf.run("ppo", workers, until=64)
    with pytest.raises(rf.BuildError, match="lr: the settings of this run are those of its worker"):
        rf.run(flow, workers, until=64, lr=1.0)
    with pytest.raises(rf.RunError, match="results are TrainStats"):
        rf.run(rf.from_range(3).gather_async(), workers, until=64, engine="sim")


# -- loading ---------------------------------------------------------------------------------------


def test_the_best_policy_of_a_run_is_loaded(tmp_path: Path) -> None:
    run = short(run_dir=tmp_path / "run", eval_every=128, eval_episodes=2)
    best = rf.load(tmp_path / "run", best=True)
    assert best.judged == run.best.judged
    with pytest.raises(rf.BuildError, match="is a file"):
        rf.load(tmp_path / "run" / "policy.npz", best=True)
    with pytest.raises(rf.BuildError, match="there is no file and no run"):
        rf.load(tmp_path / "nothing")
    with pytest.raises(rf.BuildError, match="no run that has saved a policy"):
        rf.load(tmp_path)


def test_the_policy_of_a_run_that_goes_on_is_loaded(tmp_path: Path) -> None:
    with learning(run_dir=tmp_path / "run", checkpoint_steps=64) as run:
        while not list((tmp_path / "run" / "checkpoints").glob("0*")):
            time.sleep(0.01)
        assert rf.load(tmp_path / "run").act([0.0] * 4) in (0, 1)
    assert run.over


def test_policies_of_several_algorithms_come_of_one_flow(tmp_path: Path) -> None:
    """The paper's composition: PPO and DQN learn from one stream, and are one run."""
    from rillflow.algorithms import dqn, ppo
    from rillflow.rl.multi_agent import MultiAgentConfig, MultiAgentWorkers, Select

    def build() -> tuple[Any, Any]:
        workers = MultiAgentWorkers(
            MultiAgentConfig(
                policies={"left": ppo.Config(hidden=(16,)), "right": dqn.Config(hidden=(16,))},
                policy_mapping={"agent_0": "left", "agent_1": "right"},
                num_envs_per_worker=4,
                num_workers=1,
            )
        )
        one, other = ParallelRollouts(workers).split()
        plans = (
            ppo.plan(Select(one, policy="left"), workers),
            dqn.plan(Select(other, policy="right"), workers),
        )
        return rf.Union(*plans), workers

    flow, workers = build()
    run = rf.run(flow, workers, until=1000, engine="sim", run_dir=tmp_path / "run")
    assert run.agents == {"agent_0": "left", "agent_1": "right"}
    kinds = {name: type(own.config) for name, own in rf.load(tmp_path / "run").policies.items()}
    assert kinds == {"left": ppo.Config, "right": dqn.Config}
    flow, workers = build()
    again = rf.resume(tmp_path / "run", flow=flow, workers=workers, until=2000)
    assert again.steps >= 2000
