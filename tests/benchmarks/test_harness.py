"""What the benchmarks share: ratios of pairs, reports, drivers that leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
for folder in (BENCHMARKS, BENCHMARKS / "peers"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # they are scripts: they find each other by their folder

import _common  # noqa: E402
import _driver  # noqa: E402
import _drivers  # noqa: E402
import _left  # noqa: E402
import suite  # noqa: E402


def test_a_ratio_is_the_median_of_the_pairs() -> None:
    found = _common.ratio("speed", [30.0, 28.0, 90.0], [10.0, 14.0, 10.0], "x", ">= 2")
    assert found is not None
    assert (found.value, found.ok, found.details["pairs"]) == (3.0, True, [3.0, 2.0, 9.0])


def test_a_ratio_leaves_out_pairs_that_are_not_whole() -> None:
    found = _common.ratio("speed", [30.0, None, 8.0], [10.0, 1.0], "x")
    assert found is not None
    assert found.details["pairs"] == [3.0]
    assert _common.ratio("speed", [None], [1.0], "x") is None


def test_a_report_tells_what_is_missing() -> None:
    report = _common.Report("speed", "How fast?")
    report.measured("ours", round=0, seconds=1.0)
    report.add(None, otherwise="speed_vs_peer")
    report.lacks("peer", "cannot be installed")
    report.lacks("peer", "a later reason")
    document = json.loads(json.dumps(report.document()))
    assert document["missing"] == {
        "speed_vs_peer": "there is no pair of measurements",
        "peer": "cannot be installed",
    }
    assert "missing: peer: cannot be installed" in report.table()
    assert report.values("ours", "seconds") == [1.0]


def test_a_question_prints_its_document_and_saves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "deep" / "speed.json"
    script = tmp_path / "speed.py"
    script.write_text('"""How fast?"""\n')
    monkeypatch.setattr(sys, "argv", ["speed.py", "--quick", "--save", str(saved), "--peers", "a"])

    def ask(report: _common.Report) -> None:
        report.add(_common.figure("speed", 3.0, "x", ">= 2", who=report.options.peers))

    assert _common.script(str(script), ask) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(saved.read_text())
    assert json.loads(printed.out)["asks"] == "How fast?"
    assert "speed" in printed.err


def test_every_question_says_what_it_asks_and_how_long_it_takes() -> None:
    known = suite.questions()
    assert {"ppo_cartpole", "sampling", "pong", "dqn_cartpole", "growth"} <= known.keys()
    for name in known:
        first = (BENCHMARKS / f"{name}.py").read_text().splitlines()[0]
        assert first.startswith('"""'), name
        assert "?" in first, f"{name}: the first line of its docstring is its question"


def test_unknown_questions_are_refused() -> None:
    with pytest.raises(SystemExit, match="no benchmark sped; there are speed"):
        suite.chosen("sped", {"speed": 1.0})
    assert suite.chosen("b, a", {"a": 1.0, "b": 2.0}) == ["b", "a"]


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for drivers of one's own."""
    (tmp_path / "peers").mkdir()
    monkeypatch.setattr(_drivers, "HERE", tmp_path)
    return tmp_path / "peers"


@pytest.mark.proc
def test_a_driver_runs_in_a_fresh_process_and_its_memory_is_sampled(drivers: Path) -> None:
    (drivers / "fine.py").write_text(
        "import json, os, sys, time\n"
        "held = bytearray(64 << 20)\n"
        "time.sleep(0.5)\n"
        "print('noise')\n"
        "print(json.dumps({'peer': 'us', 'pid': os.getpid(), 'flags': sys.argv[1:]}))\n"
    )
    found = _drivers.Driver("rillflow", "fine.py", {"two_words": 1}, memory=True).run(seed=3)
    assert found["pid"] != os.getpid()
    assert found["flags"] == ["--two-words=1", "--seed=3"]
    assert 64 < found["peak_mb"] < 400


@pytest.mark.proc
def test_a_driver_that_hangs_is_ended_with_all_it_started(drivers: Path, tmp_path: Path) -> None:
    """Also what left its process group, as Ray's servers do."""
    pid = tmp_path / "pid"
    (drivers / "hangs.py").write_text(
        "import subprocess, sys, time\n"
        "code = 'import time; time.sleep(60)'\n"
        "child = subprocess.Popen([sys.executable, '-c', code], start_new_session=True)\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    began = time.monotonic()
    with pytest.raises(_drivers.DriverError, match="no result within 2 s"):
        _drivers.Driver("rillflow", "hangs.py", limit=2).run()
    assert time.monotonic() - began < 20
    assert _drivers.pss(int(pid.read_text())) == 0


@pytest.mark.proc
def test_a_question_that_is_terminated_ends_its_driver(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "sleeps.py").write_text(
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    )
    script = tmp_path / "question.py"
    script.write_text(
        '"""How long?"""\n'
        f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "import _common, _drivers\n"
        f"_drivers.HERE = Path({str(tmp_path)!r})\n"
        "_common.script(__file__, lambda _: _drivers.Driver('rillflow', 'sleeps.py').run())\n"
    )
    question = subprocess.Popen([sys.executable, str(script)])
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    question.terminate()
    assert question.wait(30) == 128 + signal.SIGTERM
    assert _drivers.pss(int(pid.read_text())) == 0


@pytest.mark.proc
def test_a_driver_that_fails_is_reported_and_not_tried_again(drivers: Path) -> None:
    (drivers / "fails.py").write_text("raise SystemExit('no such thing')\n")
    report = _common.Report("speed", "How fast?", _common.Options(repeats=3))
    _drivers.rounds(report, {"peer": _drivers.Driver("rillflow", "fails.py")})
    assert "exit code 1: no such thing" in report.missing["peer"]
    assert len(report.measurements) == 1


@pytest.mark.proc
def test_a_peer_that_cannot_be_installed_is_missing_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_drivers, "VENVS", tmp_path)
    with pytest.raises(_drivers.DriverError, match="no such peer: nobody"):
        _drivers.Driver("nobody", "fails.py").run()


def test_time_to_the_threshold_leaves_evaluations_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(_driver.time, "time", lambda: clock[0])
    returns = iter([100.0, 480.0])

    def evaluated(act: object) -> float:
        clock[0] += 50.0
        return next(returns)

    monkeypatch.setattr(_driver, "greedy_return", evaluated)
    tracker = _driver.Tracker(budget=30.0)
    for steps in (500, 900, 1500):
        clock[0] += 1.0
        tracker.mark(steps)
        tracker.evaluate(lambda obs: obs, steps)
    fields = tracker.fields()
    assert (fields["solved"], fields["train_s"], fields["env_steps"]) == (True, 3.0, 1500)
    assert fields["evaluating_s"] == 100.0


def test_the_mean_of_a_hundred_episodes_decides() -> None:
    tracker = _driver.Tracker(budget=30.0)
    for number in range(99):
        tracker.episode(500.0, number)
    assert not tracker.done
    tracker.episode(500.0, 99)
    assert tracker.done
    assert tracker.fields()["env_steps"] == 99


def test_the_rate_of_updates_begins_with_the_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps before learning starts would make whoever samples slowly look slow at learning."""
    clock = [1000.0]
    monkeypatch.setattr(_driver.time, "time", lambda: clock[0])
    tracker = _driver.Tracker(budget=30.0)
    for number in range(10):
        clock[0] += 1.0
        tracker.mark(100 * number, max(0, number - 7) * 50)
    assert (tracker.rate(), tracker.rate(2)) == (100.0, 50.0)


def test_a_greedy_evaluation_plays_whole_episodes() -> None:
    """A pole that is always pushed to one side falls within ten steps or so."""
    assert 8 <= _driver.greedy_return(lambda obs: (obs[:, 0] > -9).astype(int)) <= 11


def test_what_an_ended_run_has_left_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is found by all of its key; what failed is measured again."""
    monkeypatch.setattr(_left, "BUILD", tmp_path)
    asked: list[float] = []

    def measure() -> dict[str, Any]:
        asked.append(len(asked))
        return {"score": asked[-1]} if asked[-1] else {"failed": "at first"}

    key = {"env": "Hopper-v5", "seeds": (1, 2)}
    found = [_left.left_or_new("some", key, measure) for _ in range(3)]
    assert found == [{"failed": "at first"}, {"score": 1}, {"score": 1}]
    assert _left.left_or_new("some", {**key, "seeds": (1, 3)}, measure) == {"score": 2}
    assert _left.left_or_new("other", key, measure) == {"score": 3}


def test_rows_measured_elsewhere_are_taken_for_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part writes the rows it is asked for; taken twice, they are there once."""
    monkeypatch.setattr(_left, "BUILD", tmp_path / "build")
    rows = [("ppo", "Hopper-v5", 101), ("sac", "Hopper-v5", 101), ("ppo", "Ant-v5", 101)]
    asked: list[tuple[str, str, int]] = []

    def row(*one: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        asked.append(one)
        return dict(zip(("algorithm", "env", "seed"), one, strict=True)), {"score": float(one[2])}

    out = tmp_path / "some" / "part.jsonl"
    monkeypatch.setattr(
        sys, "argv", ["some", "--only", "ppo:Hopper-v5,Ant-v5", "--seeds=7,8", "--out", str(out)]
    )
    assert _left.parts("some", rows, row) == 0
    hopper, ant = ("ppo", "Hopper-v5"), ("ppo", "Ant-v5")
    assert asked == [(*hopper, 7), (*hopper, 8), (*ant, 7), (*ant, 8)]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["some", "--take", str(out), "--quick"])
        assert _left.parts("some", rows, row) is None
        assert sys.argv == ["some", "--quick"]
    assert len(_left.rows_in(tmp_path / "build" / "some.jsonl")) == 4
    kept = _left.left("some", {"algorithm": "ppo", "env": "Ant-v5", "seed": 8})
    assert kept is not None
    assert kept["score"] == 8.0


def test_a_part_names_rows_that_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part without a file, or of an environment that the question does not measure."""
    rows = [("ppo", "Hopper-v5", 101)]
    for given, reason in (
        (["--only", "Hopper-v5"], "needs --out FILE"),
        (["--only", "Pong", "--out", str(tmp_path / "x")], "--only Pong names none of the rows"),
    ):
        monkeypatch.setattr(sys, "argv", ["some", *given])
        with pytest.raises(SystemExit):
            _left.parts("some", rows, lambda *one: ({}, {"failed": "never asked"}))
        assert reason in capsys.readouterr().err


def test_a_question_can_be_answered_from_what_is_measured_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_left, "BUILD", tmp_path)
    monkeypatch.setenv("ONLY_MEASURED", "0")
    _left.keep(tmp_path / "some.jsonl", {"seed": 1}, {"score": 3.0})
    monkeypatch.setattr(sys, "argv", ["some", "--measured"])
    assert _left.parts("some", [], lambda *one: ({}, {})) is None

    def never() -> dict[str, Any]:
        raise AssertionError("measured")

    assert _left.left_or_new("some", {"seed": 1}, never) == {"score": 3.0}
    assert _left.left_or_new("some", {"seed": 2}, never) == {"failed": _left.LACKING}
