"""The other commands, each on something real."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path

import pytest

from rillflow.cli.commands.simulate import expand


def test_evaluate_reports_returns(call, finished: Path) -> None:
    done = call("evaluate", str(finished), "--episodes", "3")
    assert done.code == 0
    assert "ppo on CartPole-v1: 3 episodes" in done.out
    data = json.loads(call("evaluate", str(finished / "policy.npz"), "--episodes", "3",
                           "--json").out)  # fmt: skip
    assert len(data["returns"]) == 3


def test_record_films(call, finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    for name in ("film.gif", "strip.png"):
        done = call("record", str(finished), "-o", name)
        assert (done.code, done.out) == (0, f"{name}\n"), done.err
        assert (tmp_path / name).stat().st_size > 1000


def test_plot_draws(call, finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = call("plot", str(finished), "-o", "curve.svg", "-y", "policy_loss")
    assert (done.code, done.out) == (0, "curve.svg\n"), done.err
    assert "<svg" in (tmp_path / "curve.svg").read_text()


def test_export_writes_onnx(call, finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    done = call("export", str(finished), "-o", "policy.onnx")
    assert (done.code, done.out) == (0, "policy.onnx\n"), done.err
    assert (tmp_path / "policy.onnx").stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "begins"),
    [("text", "5 operators"), ("mermaid", "flowchart"), ("svg", "<svg"), ("json", "{")],
)
def test_explain_writes_every_format(call, tmp_path: Path, name: str, begins: str) -> None:
    shown = call("explain", "ppo", "--num-workers", "256", "--format", name)
    assert shown.code == 0
    assert begins in shown.out[:400]
    ending = {"text": "txt", "mermaid": "mmd"}.get(name, name)
    assert call("explain", "ppo", "--num-workers", "256", "-o", f"flow.{ending}").code == 0
    assert (tmp_path / f"flow.{ending}").read_text() == shown.out


def test_explain_and_train_tell_of_schedules(call, tmp_path: Path) -> None:
    """With what they are now, and what is missing; a run's directory holds them as text."""
    assert "scheduled: lr 0.002:0.0" in call("explain", "ppo", "--lr", "2e-3:0").out
    shown = call("explain", "ppo", "--lr", "2e-3:0@500", "--modules").out
    assert "scheduled: lr 0.002:0.0@500" in shown
    endless = ("train", "ppo", "CartPole-v1", "--lr", "2e-3:0", "--until", "return=475")
    refused = call(*endless)
    assert refused.code == 2
    assert "train until steps=N, or say its own" in refused.err
    run = (
        "--until",
        "steps=1500",
        "--engine",
        "sim",
        "--num-workers",
        "1",
        "--quiet",
        "--name",
        "r",
    )
    done = call("train", "ppo", "CartPole-v1", "--lr", "2e-3:0", *run)
    assert done.code == 0, done.err
    about = json.loads((tmp_path / "runs" / "r" / "run.json").read_text())
    assert about["config"]["lr"] == "0.002:0.0"
    longer = call("resume", "runs/r", "--until", "steps=2500", "--quiet")
    assert longer.code == 0, longer.err


def test_the_list_names_everything_there_is(call, finished: Path) -> None:
    from rillflow.algorithms import NAMES
    from rillflow.envs.registry import BUILT_IN

    data = json.loads(call("list", "--json", "--run-dir", str(finished.parent)).out)
    assert list(data["algorithms"]) == list(NAMES)
    assert all(data["algorithms"].values())
    assert list(data["environments"]) == list(BUILT_IN)
    assert list(data["engines"]) == ["sim", "local", "ray"]
    (run,) = data["runs"]
    assert (run["run"], run["state"], run["algorithm"]) == (str(finished), "finished", "ppo")
    assert run["steps"] >= 4000
    text = call("list", "runs", "--run-dir", str(finished.parent)).out
    assert f"{finished}  finished" in text
    assert "CartPole-v1" in call("list", "environments").out.split()
    assert "none in runs/ yet: rillflow train ppo CartPole-v1" in call("list").out


def test_bench_says_what_there_is(call) -> None:
    assert "core " in call("bench").out


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("1,2,4,...,256", [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        ("1,…,5", [1, 2, 4, 5]),
        ("3", [3]),
        ("2, 8", [2, 8]),
    ],
)
def test_dots_go_on_by_doubling(text: str, counts: list[int]) -> None:
    assert expand(text) == counts


@pytest.mark.proc
def test_simulate_measures_and_predicts(call) -> None:
    quick = ("a3c", "CartPole-v1", "--num-workers", "1", "--measure", "0.5", "--updates", "20",
             "--workers", "1,2,4", "--num-envs-per-worker", "4")  # fmt: skip
    done = call("simulate", *quick)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "measuring a3c on CartPole-v1 for 0.5 s ..."
    table = [line.split() for line in lines if line.split()[:1] in (["1"], ["2"], ["4"])]
    assert [row[0] for row in table[:3]] == ["1", "2", "4"]
    assert "steps/s" in lines
    assert any(line.startswith("1 worker: ") for line in lines)


@pytest.mark.proc
def test_simulate_draws_a_synchronous_plan_whose_rounds_grow(call, tmp_path: Path) -> None:
    picture = tmp_path / "scaling.png"
    done = call("simulate", "a2c", "CartPole-v1", "--measure", "0.3", "--workers", "1,64",
                "--json", "--plot", str(picture))  # fmt: skip
    assert done.code == 0, done.err
    few, many = map(json.loads, done.out.splitlines())
    assert many["resources"]["driver"] > few["resources"]["driver"]
    assert many["throughput"] < few["throughput"]  # of 32 times as many rows each
    assert min(few["steps"], many["steps"]) > 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_view_serves_a_finished_run_until_it_is_interrupted(
    call, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rillflow.web.server import View

    pages: list[int] = []

    def look(view: View) -> None:
        # the address gives a cookie, and with it the page
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(view.url) as page:
            pages.append(page.status)
        raise KeyboardInterrupt

    monkeypatch.setattr(View, "wait", look)
    done = call("view", str(finished))
    assert done.code == 0
    assert done.out.startswith("http://127.0.0.1:")
    assert pages == [200]
    assert "view" not in {thread.name for thread in threading.enumerate()}


def test_tune_searches_and_prints_a_command_line(call, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    search = ("tune", "a2c", "Bandit", "--engine", "sim", "--num-workers", "1", "--trials", "2",
              "--steps", "600", "--num-envs-per-worker", "4", "--hidden", "16",
              "--storage", "trials.log")  # fmt: skip
    done = call(*search)
    assert done.code == 0, done.err
    assert "hidden" not in done.out.splitlines()[0].split("varying")[1]
    words = done.out.splitlines()[-1].split()
    assert words[:4] == ["rillflow", "train", "a2c", "Bandit"]
    assert words[words.index("--hidden") + 1] == "16"
    again = call(*search)
    assert "best of 4 trials" in again.out  # the storage remembers


def test_a_run_goes_on_where_it_ended(call, finished: Path, tmp_path: Path) -> None:
    """In its own directory, to the new limit, with its rows before and after."""
    import json
    import shutil

    shutil.copytree(finished, tmp_path / "again")
    before = (finished / "metrics.jsonl").read_text().splitlines()
    steps = json.loads(before[-1])["steps"]
    done = call("resume", "again", "--until", f"steps={steps + 500}", "--quiet")
    assert (done.code, done.out) == (0, "again\n"), done.err
    after = (tmp_path / "again" / "metrics.jsonl").read_text().splitlines()
    assert after[: len(before)] == before
    assert json.loads(after[-1])["steps"] >= steps + 500
