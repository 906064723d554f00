"""What is printed is readable on 40 columns, and is printed in any encoding."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rillflow.cli.output.fitted_lines import fitted
from rillflow.runs.few_rows import AT_FIRST, FewRows
from rillflow.runs.progress.display import Display
from rillflow.runs.progress.operator_table import operator_table
from rillflow.runs.progress.plain_terminal import plain
from rillflow.runs.progress.time_left import Forecast
from tests.cli.conftest import QUICK, environment

LINES = [
    {"name": "rollouts", "where": "64 actors", "items": 1_234_567, "rate": 2345.6,
     "busy": 3.0, "utilisation": 0.93},
    {"name": "for_each(UpdateReplayPriorities)", "where": "driver", "items": 12, "rate": 0.5,
     "busy": 0.1, "utilisation": 0.01},
]  # fmt: skip


def drawn(renderable: Any, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=40, color_system=None)
    console.print(renderable)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 50, 56, 75, 76, 80, 120])
def test_names_and_figures_of_operators_are_whole(width: int) -> None:
    head, *lines = drawn(operator_table({"operators": LINES}, width, 10), width)
    assert all(len(line.rstrip()) <= width for line in [head, *lines])
    count, other = (r"1\.23M +", "12 +") if width >= 48 else ("", "")
    assert re.search(rf"operator .*{'items +' if count else ''}items/s +busy", head)
    assert re.search(rf"rollouts .*{count}2,346 +93%", lines[0])
    assert re.search(rf"^(for_each\()?UpdateReplayPriorities\)? .*{other}0\.5 +1%", lines[1])
    assert ("where" in head) == (width >= 76)
    assert ("━" in lines[0]) == (width >= 56)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_display_tears_no_figure(width: int) -> None:
    display = Display("ppo on CartPole-v1, engine local, seed 0, into runs/ppo-CartPole-v1-1",
                      {"steps": 10**6, "return": 475}, ["settings that suit it: --lr 0.002"],
                      Console(file=io.StringIO(), width=width, height=40))  # fmt: skip
    display._begin -= 5
    for second in range(1, 20):
        display.on_row({"seconds": float(second), "steps": 12_345.0 * second, "episodes": 400.0,
                        "return": 20.0 * second})  # fmt: skip
    text = drawn(display.picture(), width)
    assert all(len(line.rstrip()) <= width for line in text)
    for whole in ("return 380", "234,555 steps", "12,345 steps/s", "19 s", "about 5 s left"):
        assert any(whole in line for line in text), (whole, text)
    joined = " ".join(line.strip() for line in text)
    assert display.title in joined
    assert "Ctrl-C finishes the update, saves and stops" in joined


def test_last_lines_are_broken_between_words() -> None:
    told = ["the limit of steps is reached: return 122.6 (30 episodes) after 30,395 steps in 3 s",
            "  policy  runs/ppo-CartPole-v1-1/policy.npz",
            "  next    rillflow evaluate runs/ppo-CartPole-v1-1"]  # fmt: skip
    assert fitted(told, 120) == told
    lines = fitted(told, 40)
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(told).split())
    assert fitted(told) == told  # no terminal: as it is


# -- encodings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_no_encoding_ends_a_command(tmp_path: Path, encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rillflow", "explain", "apex"], cwd=tmp_path, capture_output=True,
        env=environment(PYTHONIOENCODING=encoding, LANG="C", LC_ALL="C"), timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "`- gather_async" in done.stdout.decode(encoding)
    assert b"?" not in done.stdout


SCRIPT = """
import rillflow as rf
run = rf.train("ppo", "CartPole-v1", until={"seconds": 2}, engine="sim", num_workers=1)
print(run.why)
"""
PROGRAMS = {
    "command": ["-m", "rillflow", "train", "ppo", "CartPole-v1", *QUICK, "--until", "seconds=2"],
    "script": ["-c", SCRIPT],
}


@pytest.mark.proc
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_display_is_drawn_in_ascii(program: str, tmp_path: Path) -> None:
    """As a terminal: what is read back has no byte above 127."""
    own, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *PROGRAMS[program]],
        cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(PYTHONIOENCODING="ascii", LANG="C", TERM="xterm", COLUMNS="60",
                        LINES="30"),
    )  # fmt: skip
    os.close(theirs)
    data = bytearray()
    while True:
        try:
            piece = os.read(own, 65536)
        except OSError:  # the program has ended
            break
        data += piece
    os.close(own)
    assert process.wait(60) == 0, data.decode()
    assert max(data) < 128
    text = data.decode()
    assert "UnicodeEncodeError" not in text
    assert "seconds is reached" in text
    assert "ppo on CartPole-v1" in text


def test_whatever_is_drawn_is_told_in_ascii() -> None:
    assert plain("a\u2502b") == "a|b"
    assert plain("\u28ff\u2801 ") == "#. "
    assert plain("\u6f22") == "?"
    assert plain("caf\u00e9 \u00d7 \u2026") == "cafe x ..."


# -- pictures of flows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("x.png", "a picture is an .svg, which every browser shows; -o x.svg"),
        ("x.pdf", "-o x.svg"),
        ("x.foo", "not .foo"),
        ("x", "not a file without an ending"),
    ],
)
def test_explain_writes_no_file_that_is_not_what_its_ending_says(
    call: Any, tmp_path: Path, out: str, told: str
) -> None:
    done = call("explain", "a2c", "-o", out)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert not (tmp_path / out).exists()
    assert call("explain", "a2c", "-o", "x.foo", "--format", "svg").code == 0
    assert call("explain", "a2c", "-o", "x.svg", "--modules").code == 2


# -- how often, how long ---------------------------------------------------------------------------


def test_a_fast_run_tells_a_few_rows_a_second() -> None:
    few = FewRows()
    rows = [{"seconds": number / 2000, "number": number} for number in range(60_000)]
    told = [row for row in rows if few.passes(row)]
    assert told[:AT_FIRST] == rows[:AT_FIRST]  # those of a short run are all there
    assert len(told) <= AT_FIRST + 4 * 30
    late = [row for row in told if row["seconds"] >= 10]
    assert 3.5 <= len(late) / 20 <= 4.5
    assert few.left == rows[-1]
    assert few.passes({"seconds": 30.0, "eval_return": 1.0})
    slow = FewRows()
    assert all(slow.passes({"seconds": 0.3 * number}) for number in range(2000))


def test_a_run_writes_few_rows_and_its_last(tmp_path: Path, monkeypatch: Any) -> None:
    import rillflow as rf
    from rillflow.runs.metrics_file import rows_in

    monkeypatch.setattr("rillflow.runs.few_rows.AT_FIRST", 3)
    monkeypatch.setattr("rillflow.runs.few_rows.A_SECOND", 0.0)  # however slow the machine is
    run = rf.train("a2c", until=4000, engine="sim", num_workers=1, num_envs_per_worker=2,
                   rollout_fragment_length=8, run_dir=tmp_path / "run")  # fmt: skip
    written = list(rows_in(tmp_path / "run" / "metrics.jsonl"))
    steps = [row["steps"] for row in run.history]
    assert len(steps) > 4
    assert [row["steps"] for row in written] == [*steps[:3], run.steps]


def row(seconds: float, steps: float, value: float) -> dict[str, float]:
    return {"seconds": seconds, "steps": steps, "return": value, "episodes": 200}


def test_first_guesses_are_not_wild() -> None:
    """The first result has waited for processes; a flat beginning is no trend."""
    forecast = Forecast({"steps": 100_000, "return": 475.0})
    for seconds, steps in ((2.0, 1000), (2.3, 9000)):
        forecast.see(row(seconds, steps, 20.0))
        assert forecast.left() is None
    for step in range(40):
        forecast.see(row(2.5 + step / 4, 9000 + 1000 * step, 20.0 + step / 1000))
        left = forecast.left()
        assert left is None or left[1] == "steps"
        assert left is None or left[0] < 60


def test_a_simulation_is_told_in_lines_where_a_table_has_no_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from rillflow.cli.output.simulation_table import Printer

    made = SimpleNamespace(workers=2, resources={"driver": 0.38, "worker": 0.4}, steps=134_149.0,
                           throughput=262.0, lag_mean=1.5, limit="worker")  # fmt: skip
    report = SimpleNamespace(cores=2, source="latencies measured on 'local'")
    for width in (40, 120):
        monkeypatch.setattr("rillflow.cli.output.simulation_table.columns", lambda w=width: w)
        Printer().print(made, report)
        lines = capsys.readouterr().out.splitlines()
        assert all(len(line) <= width for line in lines[2:]), lines
        words = [line.split() for line in lines]
        assert (["steps/s", "134,149"] in words) == (width == 40)
