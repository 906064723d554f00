"""A run in a notebook: a real kernel draws it while it goes on, and keeps it when interrupted."""

from __future__ import annotations

import queue
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest

import rillflow as rf
from rillflow.runs.progress.curve_svg import CurvePicture
from rillflow.runs.progress.html import run_html

jupyter = pytest.importorskip("jupyter_client", reason="a kernel is part of the dev extra")


class Notebook:
    """Cells run in a kernel of their own; what each has shown comes back."""

    def __init__(self) -> None:
        self.manager, self.client = jupyter.manager.start_new_kernel(
            kernel_name="python3", startup_timeout=60
        )

    def begin(self, code: str) -> None:
        self.client.execute(code)

    def rest(self, seconds: float = 90.0) -> list[dict[str, Any]]:
        """Messages of the cell until it is done."""
        found, ends = [], time.monotonic() + seconds
        while time.monotonic() < ends:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            found.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return found
        raise TimeoutError(found[-3:])

    def run(self, code: str) -> list[dict[str, Any]]:
        self.begin(code)
        return self.rest()

    def until_drawn(self, times: int) -> None:
        """Wait until the cell has shown its display so often."""
        seen, ends = 0, time.monotonic() + 60
        while seen < times and time.monotonic() < ends:
            message = self.client.get_iopub_msg(timeout=30)
            seen += message["msg_type"] in ("display_data", "update_display_data")
        assert seen == times

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    found = Notebook()
    found.run("import rillflow as rf")
    yield found
    found.close()


def of_kind(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [message["content"] for message in messages if message["msg_type"] == kind]


def no_error(messages: list[dict[str, Any]]) -> None:
    assert not of_kind(messages, "error")


TRAIN = 'rf.train("a2c", until={until}, num_workers=1, seed=1, wait={wait}{more})'


@pytest.mark.proc
def test_a_cell_shows_a_live_picture_and_only_one(notebook: Notebook) -> None:
    messages = notebook.run(TRAIN.format(until=30_000, wait=True, more=""))
    no_error(messages)
    (first,) = of_kind(messages, "display_data")
    updates = of_kind(messages, "update_display_data")
    assert len(updates) >= 2
    ids = {one["transient"]["display_id"] for one in [first, *updates]}
    assert len(ids) == 1
    last = updates[-1]["data"]["text/html"]
    assert "finished" in last
    assert "width:100.0%" in last
    assert "<polyline" in last
    assert "ApplyGradients" in last or "TrainOneStep" in last
    # the cell's own value is the run, which is drawn right above: no second picture
    (result,) = of_kind(messages, "execute_result")
    assert result["data"].keys() == {"text/plain"}


@pytest.mark.proc
def test_an_interrupt_keeps_everything_and_gives_the_run(notebook: Notebook) -> None:
    notebook.begin("run = " + TRAIN.format(until=10**9, wait=True, more=""))
    notebook.until_drawn(3)
    notebook.manager.interrupt_kernel()
    no_error(notebook.rest())
    messages = notebook.run("print(run.state, run.act([0.0] * 4).shape, len(run.history) > 1)")
    no_error(messages)
    assert of_kind(messages, "stream")[0]["text"] == "stopped () True\n"


@pytest.mark.proc
def test_a_run_in_a_thread_leaves_the_next_cells_free(notebook: Notebook) -> None:
    no_error(notebook.run("run = " + TRAIN.format(until=10**9, wait=False, more="")))
    code = "import time\nwhile run.steps < 3000: time.sleep(0.05)\nprint(run.state); run"
    messages = notebook.run(code)
    no_error(messages)
    assert of_kind(messages, "update_display_data")  # drawn meanwhile, where it began
    assert of_kind(messages, "stream")[0]["text"] == "running\n"
    (result,) = of_kind(messages, "execute_result")
    assert "<polyline" in result["data"]["text/html"]
    assert "<summary>dataflow" in result["data"]["text/html"]
    no_error(notebook.run("run.stop()"))
    messages = notebook.run("print(run.wait().state)")
    assert of_kind(messages, "stream")[-1]["text"] == "stopped\n"


@pytest.mark.proc
def test_flows_curves_and_tables_are_drawn(notebook: Notebook) -> None:
    kinds = {"run.flow": "image/svg+xml", "run.curve": "image/svg+xml", "run.stats()": "text/html"}
    for value, kind in kinds.items():
        messages = notebook.run(value)
        no_error(messages)
        assert kind in of_kind(messages, "execute_result")[0]["data"], value


# -- the pictures, without a kernel ----------------------------------------------------------------


def rows(count: int, **more: float) -> list[dict[str, float]]:
    return [
        {"steps": 100.0 * i, "return": float(i), "episodes": float(i), "seconds": 0.1 * i, **more}
        for i in range(count)
    ]


def test_a_curve_is_well_formed_and_inside_its_frame() -> None:
    history = [*rows(5000), {"steps": 5e5, "return": 90.0, "eval_return": 99.0, "eval_steps": 4e5}]
    tree = ET.fromstring(CurvePicture(history, goal=120.0).svg)
    line = next(one for one in tree.iter() if one.tag.endswith("polyline"))
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert len(points) <= 400
    assert all(0 <= x <= 640 and 0 <= y <= 220 for x, y in points)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert sum(one.tag.endswith("circle") for one in tree.iter()) == 1


@pytest.mark.parametrize("history", [[], rows(1), [{"steps": 1.0, "return": float("nan")}] * 3])
def test_there_is_a_picture_before_there_is_a_curve(history: list[dict[str, float]]) -> None:
    ET.fromstring(CurvePicture(history).svg)
    shown = [{**row, "episodes": 0.0, "seconds": 0.0} for row in history]
    assert "<div" in run_html("a2c on X", "running", shown)


def test_words_are_escaped() -> None:
    shown = run_html("<script>", "running", rows(2), notes=["<b>&"])
    assert "<script>" not in shown
    assert "&lt;b&gt;&amp;" in shown


def test_a_run_is_drawn_with_its_flow() -> None:
    run = rf.train("a2c", until=2000, engine="sim", num_workers=1)
    shown = run._repr_html_()
    assert shown is not None
    for word in ("finished: the limit of steps", "<polyline", "TrainOneStep", "<summary>dataflow"):
        assert word in shown
