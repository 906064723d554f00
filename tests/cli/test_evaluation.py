"""Evaluation, the best policy and callbacks on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import rillflow as rf
from rillflow.results.learning_curves import read_run
from rillflow.runs.history import History
from rillflow.runs.metrics_file import FULL, MetricsFile
from rillflow.runs.progress.braille_curve import MARK, curve
from rillflow.runs.progress.display import Display
from tests.cli.conftest import QUICK

EVALUATED = ("--eval-every", "0.5k", "--eval-episodes", "2")


@pytest.fixture
def run(call: Any) -> Path:
    """A run with evaluations."""
    done = call(
        "train", "ppo", "CartPole-v1", *QUICK, *EVALUATED, "--name", "run", "--until", "steps=1500"
    )
    assert done.code == 0, done.err
    assert "evaluated" in done.out
    assert "best_policy.npz: evaluation" in done.out
    return Path("runs/run")


def test_the_best_policy_is_evaluated_filmed_and_exported(run: Path, call: Any) -> None:
    judged = json.loads((run / "run.json").read_text())["summary"]["best"]
    done = call("evaluate", str(run), "--best", "--episodes", "2", "--json")
    assert json.loads(done.out)["mean"] == judged["score"]
    assert f"after {judged['steps']:,} steps" in done.err
    done = call("export", str(run), "--best", "-o", "best.onnx")
    assert (done.code, Path("best.onnx").exists()) == (0, True)


def test_without_one_best_says_what_is_missing(run: Path, call: Any) -> None:
    (run / "best_policy.npz").unlink()
    done = call("evaluate", str(run), "--best")
    assert done.code == 2
    assert "has no best policy yet" in done.err


def test_a_finished_run_says_so_and_trains_nothing(run: Path, call: Any) -> None:
    before = (run / "metrics.jsonl").read_bytes(), (run / "policy.npz").read_bytes()
    done = call("resume", str(run))
    assert done.code == 0
    assert f"{run} is finished: it has reached steps=1500" in done.out
    assert "--until steps=4000" in done.out
    assert before == ((run / "metrics.jsonl").read_bytes(), (run / "policy.npz").read_bytes())
    end = json.loads(call("resume", str(run), "--json").out)
    assert (end["event"], end["state"]) == ("end", "finished")


def test_a_run_goes_on_with_another_interval(run: Path, call: Any) -> None:
    done = call("resume", str(run), "--until", "steps=2500", "--eval-every", "200")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    late = [row["eval_steps"] for row in rows if row["steps"] > 1900 and "eval_return" in row]
    assert len(late) >= 3


def test_the_curve_has_the_evaluations_at_their_steps(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    known = [[row["eval_steps"], row["eval_return"]] for row in rows if "eval_return" in row]
    assert read_run(run, "steps", "return").evaluated.tolist() == known
    alone = read_run(run, "steps", "eval_return")
    assert alone.x.tolist() == [steps for steps, _ in known]


def test_callbacks_are_named_as_module_and_function(call: Any) -> None:
    Path("my_callbacks.py").write_text(
        "def on_result(run, result):\n    print('heard', result['steps'])\n    return 'stop'\n\n\n"
        "def loud(run, episode):\n    raise ValueError('my own mistake')\n"
    )
    short = ("train", "ppo", "CartPole-v1", *QUICK, "--until", "steps=5000")
    done = call(*short, "--callback", "my_callbacks:on_result")
    assert done.code == 0, done.err
    assert "heard" in done.out
    assert "on_result said stop: return" in done.out
    done = call(*short, "--callback", "on_episode=my_callbacks:loud")
    assert done.code == 1
    first, second = done.err.splitlines()[:2]
    assert first.endswith("ValueError: my own mistake")
    assert "my_callbacks.py:7 in loud" in second
    policy = done.err.splitlines()[-1].partition("its policy so far: ")[2]
    assert len(rf.load(policy).evaluate(1)) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("my_module", "a callback is named as module:name"),
        ("json:dumps", "--callback on_result=json:dumps"),
        ("on_resul=json:dumps", "did you mean 'on_result'?"),
        ("json:on_result", "json has no 'on_result'"),
    ],
)
def test_a_wrong_callback_is_told_before_anything_starts(text: str, told: str, call: Any) -> None:
    done = call("train", "ppo", "CartPole-v1", "--callback", text)
    assert done.code == 2
    assert told in done.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--learning-rate", "did you mean --lr?"),
        ("--n-steps", "did you mean --rollout-fragment-length?"),
        ("--ent-coef", "did you mean --entropy-coef?"),
        ("--total-timesteps", "did you mean --until steps=50000?"),
        ("--n-envs", "did you mean --num-envs-per-worker?"),
        ("--batch-size", "did you mean --sgd-minibatch-size?"),
        ("--clip-range", "did you mean --clip-param?"),
        ("--gae-lambda", "did you mean --lambda?"),
    ],
)
def test_flags_of_others_are_understood(flag: str, told: str, call: Any) -> None:
    done = call("train", "ppo", "CartPole-v1", flag, "1")
    assert done.code == 2
    assert told in done.err


def test_an_evaluation_is_a_circle_beside_the_curve() -> None:
    lines = curve([0, 50, 100], [0, 5, 10], width=40, height=6, marks=[(100, 40.0), (0, 0.0)])
    assert lines[0].endswith(MARK), "the best is at the top, above the curve"
    assert lines[0].split()[0] == "40"
    assert MARK in lines[-1]


def test_the_display_shows_evaluations_and_few_episodes() -> None:
    console = Console(width=90, height=40, record=True)
    display = Display("ppo", {"eval_return": 475}, console=console)
    for steps in (100, 200, 300):
        row = {"steps": steps, "episodes": 7, "return": 20.0, "seconds": steps / 100}
        display.on_row({**row, "eval_return": 90.0, "eval_steps": 200.0})
    last, best = {"steps": 200, "return": 90.0}, {"by": "evaluation", "score": 95.0, "steps": 100}
    display._status = {
        "evaluation": {"last": last, "every": 100, "failed": 2, "under_way": 300, "seconds": 4.0},
        "best": best,
    }
    console.print(display.picture())
    text = console.export_text()
    assert "return 20 (7 episodes)" in text
    assert "evaluated 90 at 200   best 95 at 100   evaluating 300 for 4 s   2 failed" in text
    assert f"{MARK} evaluated" in text


def test_rows_with_evaluations_are_never_left_out(tmp_path: Path) -> None:
    """However long the run is, in its file and in memory."""
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"steps": 0}\n' * (FULL + 1))
    file, history = MetricsFile(path), History(most=4)
    for steps in range(9):
        row = {"steps": float(steps)} | ({"eval_return": 1.0} if steps in (4, 5) else {})
        file.add(row)
        history.append(row)
    file.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()[FULL + 1 :]]
    assert [row["steps"] for row in rows if "eval_return" in row] == [4, 5]
    assert len(rows) < 9
    kept = history.rows()
    assert [row["steps"] for row in kept if "eval_return" in row] == [4, 5]
    assert [row["steps"] for row in kept] == sorted(row["steps"] for row in kept)
