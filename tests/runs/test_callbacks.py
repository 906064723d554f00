"""Functions of the user's that hear of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rillflow as rf
from rillflow.errors import BuildError, OperatorError
from rillflow.runs.callbacks import Callbacks, slow_ones
from rillflow.runs.directory import RunDirectory
from rillflow.runs.saved_job import resume_job
from tests.runs.test_evaluate_while_training import SMALL, due


def test_everybody_hears_of_what_happened(tmp_path: Path) -> None:
    heard: list[tuple[str, Any]] = []

    def on_result(run: Any, result: Any) -> None:
        heard.append(("result", result["steps"]))
        assert run.steps == result["steps"]
        assert run.history[-1] is result

    def on_evaluation(run: Any, evaluation: Any) -> None:
        heard.append(("evaluation", evaluation.steps))
        assert run.evaluation is evaluation

    how: dict[str, Any] = {"callbacks": [on_result, on_evaluation], "eval_every": 512}
    trained = rf.train(
        "ppo",
        until=1024,
        engine="sim",
        eval_episodes=2,
        on_episode=lambda run, episode: heard.append(("episode", episode["return"])),
        on_checkpoint=lambda run, path: heard.append(("checkpoint", path.is_dir())),
        run_dir=tmp_path / "run",
        **how,
        **SMALL,
    )
    results = [what for event, what in heard if event == "result"]
    assert results == [row["steps"] for row in trained.history]
    assert [what for event, what in heard if event == "evaluation"] == due(trained, 512)
    episodes = [what for event, what in heard if event == "episode"]
    assert len(episodes) == trained.history[-1]["episodes"]
    assert sum(episodes[-100:]) / len(episodes[-100:]) == trained.history[-1]["return"]
    assert ("checkpoint", True) in heard


def test_episodes_of_several_agents_name_their_policy() -> None:
    seen = set()
    rf.train(
        "ppo",
        "MultiAgentCartPole",
        until=600,
        engine="sim",
        policies="each",
        on_episode=lambda run, episode: seen.add(episode["policy"]),
        **SMALL,
    )
    assert len(seen) > 1


@pytest.mark.parametrize("event", ["on_result", "on_episode", "on_evaluation", "on_checkpoint"])
def test_one_that_says_stop_ends_the_run(event: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {event: lambda run, what: "stop", "run_dir": tmp_path / "run"}
    how["eval_every"] = 256 if event == "on_evaluation" else None
    trained = rf.train("ppo", until={"seconds": 60}, eval_episodes=1, **how, **SMALL)
    assert trained.history[-1]["seconds"] < 60
    assert (tmp_path / "run" / "policy.npz").exists()
    assert RunDirectory(tmp_path / "run").status["state"] == "finished"


def test_the_run_can_be_stopped_and_asked_for_its_policy() -> None:
    def on_result(run: Any, result: Any) -> None:
        assert run.policy.act([0.0] * 4) in (0, 1)
        assert "TrainOneStep" in str(run.stats())
        run.stop()

    trained = rf.train("ppo", until=5000, engine="sim", callbacks=[on_result], **SMALL)
    assert len(trained.history) == 1


def test_one_that_raises_ends_the_run_with_what_was_learned(tmp_path: Path) -> None:
    """Its own line comes first, its exception can be caught as it is, and the run goes on later."""

    def on_result(run: Any, result: Any) -> None:
        if result["steps"] > 500:
            raise KeyError("my own mistake")

    path = tmp_path / "run"
    with pytest.raises(KeyError, match="my own mistake") as error:
        rf.train("ppo", until=5000, engine="sim", callbacks=[on_result], run_dir=path, **SMALL)
    assert isinstance(error.value, OperatorError)
    first, second = str(error.value).splitlines()[:2]
    assert first == "KeyError: 'my own mistake'"
    assert "test_callbacks.py" in second
    assert "callback on_result" in str(error.value)
    assert RunDirectory(path).status["state"] == "failed"
    assert (path / "policy.npz").exists()
    with RunDirectory.open(path) as directory:
        assert resume_job(directory, until={"steps": 800}).trained.history[-1]["steps"] >= 800


@pytest.mark.parametrize("answer", [True, False, "Stop", "continue"])
def test_an_answer_that_could_mean_anything_is_refused(answer: Any) -> None:
    with pytest.raises(BuildError, match="returns None, or 'stop'"):
        rf.train("ppo", until=256, engine="sim", on_result=lambda run, row: answer, **SMALL)


def on_results(run: Any, result: Any) -> None:
    """Of no event's name."""


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"callbacks": [on_results]}, "did you mean 'on_result'"),
        ({"callbacks": on_results}, "a list of functions"),
        ({"callbacks": [7]}, "callbacks are functions"),
        ({"on_result": lambda result: None}, r"called with \(run, result\)"),
        ({"on_checkpoint": lambda run, path: None}, "run_dir="),
        ({"on_result": 7}, "is a function"),
    ],
)
def test_wrong_callbacks_are_refused_before_anything_starts(given: Any, match: str) -> None:
    with pytest.raises(BuildError, match=match):
        rf.train("ppo", until=256, engine="sim", **given)


def test_slow_ones_are_named() -> None:
    callbacks = Callbacks([("on_result", lambda run, row: sum(range(10**6)))])
    callbacks.tell("on_result", None, {})
    facts = callbacks.facts()
    assert facts["on_result"]["calls"] == 1
    assert facts["on_result"]["seconds"] > 0
    assert slow_ones({"on_result": {"calls": 1, "seconds": 0.5}}, 2.0) == [
        "callback on_result takes 25% of the time: 500 ms a call"
    ]
    assert slow_ones({"on_result": {"calls": 1, "seconds": 0.05}}, 2.0) == []
