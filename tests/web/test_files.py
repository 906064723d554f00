"""Reading a run directory: whatever is in it, and while it is being written."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rillflow.pictures.live import draw
from rillflow.web.curve import Curve
from rillflow.web.run_files import RunFiles, judge


def write(directory: Path, name: str, text: str) -> None:
    part = directory / "part"
    part.write_text(text)
    part.replace(directory / name)


def rows(directory: Path, numbers: range) -> None:
    with (directory / "metrics.jsonl").open("a") as file:
        for n in numbers:
            file.write(json.dumps({"steps": n, "return": None if n < 3 else n / 2}) + "\n")


def test_an_empty_directory_is_a_run_that_has_not_begun(tmp_path: Path) -> None:
    news = RunFiles(tmp_path).data({})
    assert news["view"]["state"] == "starting"
    assert news["curve"]["rows"] == 0


def test_a_run_whose_process_ended_before_it_said_a_word_has_died(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid, state in ((os.getpid(), "starting"), (gone.pid, "died")):
        (tmp_path / ".lock").write_text(f"{pid} {socket.gethostname()}\n")
        assert RunFiles(tmp_path).data({})["view"]["state"] == state
    (tmp_path / ".lock").write_text(f"{gone.pid} elsewhere\n")  # nobody here can tell
    assert RunFiles(tmp_path).data({})["view"]["state"] == "starting"
    (tmp_path / ".lock").write_text("what is this\n")
    assert RunFiles(tmp_path).data({})["view"]["state"] == "starting"


def test_only_what_a_reader_does_not_have_is_sent(run_dir: Callable[[str], Path]) -> None:
    directory = run_dir("ppo")
    files = RunFiles(directory)
    first = files.data({})
    assert {"run", "graph", "status", "curve"} <= set(first)
    again = files.data(first["versions"])
    assert not {"run", "graph", "status", "curve"} & set(again)
    rows(directory, range(2))
    assert {"curve"} == {"run", "graph", "status", "curve"} & set(files.data(first["versions"]))


def test_rows_are_followed_as_they_are_written(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    rows(tmp_path, range(5))
    assert files.data({})["curve"]["columns"] == {
        "steps": [0, 1, 2, 3, 4],
        "return": [None, None, None, 1.5, 2],
    }
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"steps": 5, "ret')
        file.flush()
        assert files.data({})["curve"]["rows"] == 5
        file.write('urn": 7}\n')
    assert files.data({})["curve"]["last"] == {"steps": 5, "return": 7}


def test_a_file_that_begins_again_is_read_again(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    rows(tmp_path, range(50))
    files.data({})
    write(tmp_path, "metrics.jsonl", '{"steps": 1}\n')
    assert files.data({})["curve"]["columns"] == {"steps": [1]}


def test_a_million_steps_are_a_few_hundred_points() -> None:
    curve = Curve()
    for n in range(100_000):
        curve.add({"steps": n, "loss": 1.0})
    columns = curve.columns()
    assert 300 <= len(columns["steps"]) <= 601
    assert columns["steps"] == sorted(columns["steps"])  # type: ignore[type-var]
    assert columns["steps"][-1] == 99_999
    assert set(columns["loss"]) == {1.0}


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", "NaN", "\xff", "[" * 100_000, '{"nodes": 3}', '{"x": 1e999}']
)
@pytest.mark.parametrize("name", ["run.json", "graph.json", "status.json", "metrics.jsonl"])
def test_a_broken_file_breaks_nothing_else(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text + "\n")
    news = RunFiles(tmp_path).data({})
    json.dumps(news, allow_nan=False)
    rows(tmp_path, range(4))
    assert RunFiles(tmp_path).data({})["curve"]["last"]["steps"] == 3


def test_a_broken_replacement_leaves_what_was_known(run_dir: Callable[[str], Path]) -> None:
    directory = run_dir("ppo")
    files = RunFiles(directory)
    files.data({})
    write(directory, "run.json", '{"algorithm": ')
    assert files.data({})["run"]["algorithm"] == "ppo"


def test_a_row_may_hold_anything(tmp_path: Path) -> None:
    huge = "9" * 400
    odd = '{"steps": NaN, "a": "x", "b": [1], "c": true, "d": 1e999, "f": 2, "e": '
    write(tmp_path, "metrics.jsonl", odd + huge + "}\n")
    assert RunFiles(tmp_path).data({})["curve"]["last"] == {"f": 2}
    wide = {str(n): n for n in range(1000)}
    write(tmp_path, "metrics.jsonl", json.dumps(wide) + "\n")
    assert len(RunFiles(tmp_path).data({})["curve"]["last"]) == 64


def test_a_line_without_end_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "metrics.jsonl", '{"steps": "' + "x" * 3_000_000 + '"}\n{"steps": 8}\n')
    files = RunFiles(tmp_path)
    assert files.data({})["curve"]["last"] == {"steps": 8}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_plain_files_are_opened(tmp_path: Path, kind: str) -> None:
    """A link out of the directory is not followed, and a pipe does not hang the view."""
    run, secret = tmp_path / "run", tmp_path / "secret.json"
    run.mkdir()
    secret.write_text('{"algorithm": "secret"}')
    path = run / "run.json"
    {"link": lambda: path.symlink_to(secret), "pipe": lambda: os.mkfifo(path),
     "folder": path.mkdir}[kind]()  # fmt: skip
    assert RunFiles(run).data({})["run"] == {}


def gone() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("status", "age", "state"),
    [
        ({"state": "running"}, 1, "running"),
        ({"state": "running", "host": "elsewhere", "pid": 1}, 60, "stalled"),
        ({"state": "running", "host": socket.gethostname(), "pid": os.getpid()}, 60, "stalled"),
        ({"state": "running", "host": socket.gethostname(), "pid": "gone"}, 60, "died"),
        ({"state": "running", "host": socket.gethostname(), "pid": "gone"}, 1, "running"),
        ({"state": "finished", "host": socket.gethostname(), "pid": "gone"}, 9e9, "finished"),
        ({"state": "failed"}, 60, "failed"),
        ({"state": "running"}, -60, "running"),  # a clock that is ahead of ours
    ],
)
def test_silence_is_judged_by_whether_the_process_is_there(
    status: dict[str, Any], age: float, state: str
) -> None:
    pid = gone() if status.get("pid") == "gone" else status.get("pid")
    assert judge({**status, "pid": pid, "time": 1e9}, now=1e9 + age)["state"] == state


@pytest.mark.parametrize("name", ["ppo", "apex", "multi"])
def test_every_box_and_edge_of_the_graph_is_drawn(
    recorded: Callable[[str], Path], name: str
) -> None:
    graph = json.loads((recorded(name) / "graph.json").read_text())
    picture = draw(graph)
    assert picture["svg"].count("data-box=") == len(graph["nodes"]) == len(picture["boxes"])
    assert picture["svg"].count("data-edge=") == len(graph["edges"]) == len(picture["edges"])


def test_names_are_quoted_in_the_drawing(recorded: Callable[[str], Path]) -> None:
    graph = json.loads((recorded("ppo") / "graph.json").read_text())
    graph["nodes"][0]["name"] = "<script>alert(1)</script>"
    assert "<script" not in draw(graph)["svg"]


def test_a_long_history_is_read_in_several_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that none takes long."""
    monkeypatch.setattr("rillflow.web.followed_files.BUDGET", 0.0001)
    line = json.dumps({"steps": 1, "loss": 0.25, "text": "x" * 60}) + "\n"
    (tmp_path / "metrics.jsonl").write_text(line * 30_000)
    files = RunFiles(tmp_path)
    shares = [files.data({})["read"]]
    while shares[-1] < 1:
        shares.append(files.data({})["read"])
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert files.data({})["curve"]["rows"] == 30_000
