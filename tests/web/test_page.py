"""The page in a real browser: everything is there, true, and goes with the files."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rillflow.web import serve
from tests.web.browser import Browser, Tab
from tests.web.flows import plain_flow
from tests.web.recorder import Recorder

PICTURES = os.environ.get("RILLFLOW_PICTURES")
"""a folder in which to leave pictures of the pages, to be looked at"""


@pytest.fixture
def show(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[..., Tab]]:
    """Open the view of a directory; afterwards nothing may have gone wrong or outside."""
    shown: list[tuple[Any, Tab]] = []

    def opened(directory: Path, **look: Any) -> Tab:
        view, tab = serve(directory), Tab(browser, **look)
        shown.append((view, tab))
        tab.open(view.url)
        return tab

    yield opened
    for view, tab in shown:
        if PICTURES:
            name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
            tab.shoot(Path(PICTURES) / f"{name}.png")
        troubles, requests = tab.troubles(), tab.requests()
        tab.close()
        view.close()
        own = view.url.split("?")[0]
        assert troubles == []
        assert [url for url in requests if not url.startswith((own, "data:"))] == []


def change(directory: Path, **changes: Any) -> dict[str, Any]:
    path = directory / "status.json"
    fresh = time.time() + 600  # however long the browser takes to look at it
    status = {**json.loads(path.read_text()), "pid": os.getpid(), "time": fresh, **changes}
    part = directory / "part"
    part.write_text(json.dumps(status))
    part.replace(path)
    return status


@pytest.mark.parametrize("name", ["ppo", "apex", "multi"])
def test_the_graph_is_drawn_with_live_figures(
    run_dir: Callable[[str], Path], show: Callable[..., Tab], name: str
) -> None:
    directory = run_dir(name)
    status = change(directory)
    tab = show(directory)
    graph = json.loads((directory / "graph.json").read_text())
    assert tab.js("document.querySelectorAll('#graph [data-box]').length") == len(graph["nodes"])
    assert tab.js("document.querySelectorAll('#graph [data-edge]').length") == len(graph["edges"])
    live = tab.js("[...document.querySelectorAll('#graph .live')].map((t) => t.textContent)")
    assert all("/s" in text for text in live)
    assert (
        len(status["operators"]) == tab.js("document.querySelector('#operators').rows.length") - 1
    )
    assert tab.js("document.querySelectorAll('#graph .hot').length") == (
        1 if status["bottleneck"] else 0
    )


def test_no_text_of_the_graph_leaves_its_box_or_meets_another(
    run_dir: Callable[[str], Path], show: Callable[..., Tab]
) -> None:
    directory = run_dir("apex")
    change(directory)
    tab = show(directory)
    outside = """[...document.querySelectorAll('#graph [data-box]')].flatMap((g) => {
      const box = g.querySelector('.body').getBoundingClientRect();
      const texts = [...g.querySelectorAll(':scope > text')].map((t) => t.getBoundingClientRect());
      return texts.filter((t, i) => t.width && (t.left < box.left || t.right > box.right
        || t.bottom > box.bottom || (i && t.top < texts[i - 1].bottom - 5)));
    }).length"""
    assert tab.js(outside) == 0


def test_the_numbers_are_those_of_the_files(
    run_dir: Callable[[str], Path], show: Callable[..., Tab]
) -> None:
    directory = run_dir("ppo")
    status = change(directory, state="finished", seconds=12.0, verdict="Bottleneck: driver.")
    last = json.loads((directory / "metrics.jsonl").read_text().splitlines()[-1])
    tab = show(directory)
    exact = tab.js("[...document.querySelectorAll('.tile b')].map((b) => b.title)")
    assert [exact[1], exact[3]] == [f"{last['steps']:,}", f"{last['episodes']:,}"]
    assert f"{last['return']:.1f}".removesuffix(".0") in tab.text("#tiles")
    assert tab.text("h1") == "ppo on CartPole-v1"
    assert tab.text("#state") == "finished"
    assert status["verdict"] in tab.text("#word")
    assert "goal 475" in tab.text("#curve")
    assert len(tab.js("document.querySelector('#curve .line0').getAttribute('d')")) > 30
    assert len(tab.js("document.querySelector('#speed .line0').getAttribute('d')")) > 10
    assert "policy_loss" in tab.text("#figures")
    assert "trained" in tab.text("#ledger")
    assert "balanced" in tab.text("#ledger-aside")
    assert "worker-0" in tab.text("#workers")
    assert "seed" in tab.text("#facts")


def test_several_policies_have_a_curve_each(
    run_dir: Callable[[str], Path], show: Callable[..., Tab]
) -> None:
    directory = run_dir("multi")
    change(directory)
    with (directory / "metrics.jsonl").open("a") as file:  # two more rows, with returns of both
        for steps in (9_000, 10_000):
            returns = {"return": 50.0, "PPO/return": 60.0, "DQN/return": 40.0 + steps / 1000}
            file.write(json.dumps({"steps": steps, "seconds": steps / 900, **returns}) + "\n")
    tab = show(directory)
    keys = tab.js("[...document.querySelectorAll('#curve-aside .key')].map((k) => k.innerText)")
    assert sorted(keys) == ["DQN 50", "PPO 60"]
    assert tab.js("document.querySelectorAll('#curve path').length") == 2


@pytest.mark.proc
def test_values_change_when_the_files_do_and_nothing_moves(
    tmp_path: Path, show: Callable[..., Tab]
) -> None:
    """With a real run that goes on while the page is open."""
    flow = plain_flow()
    recorder = Recorder(tmp_path / "run", flow, algorithm="plain", engine="local")
    stop = threading.Event()

    def train() -> None:
        with flow.run("local") as run:
            last = 0.0
            for row in run:
                if time.monotonic() - last > 0.25:
                    last = time.monotonic()
                    recorder.row(row)
                    recorder.status(run)
                if stop.wait(0.002):
                    break
            recorder.status(run, state="finished")

    training = threading.Thread(target=train)
    training.start()
    try:
        tab = show(tmp_path / "run")
        tab.until("document.body.dataset.state === 'running'")
        tab.until("document.querySelector('#curve path') && document.querySelector('#speed path')")
        first = tab.text("#tiles")
        boxes = """JSON.stringify([...document.querySelectorAll('.card, .tile')].map(
            (card) => [card.offsetTop, card.offsetHeight]))"""
        before = tab.js(boxes)
        tab.until(f"document.querySelector('#tiles').innerText !== {json.dumps(first)}")
        tab.until("document.querySelectorAll('.edge.flowing').length === 3")
        assert tab.js(boxes) == before
        stop.set()
        training.join()
        tab.until("document.body.dataset.state === 'finished'")
        assert "Finished after" in tab.text("#word")
        assert "ended" in tab.text("#workers")
        moving = "getComputedStyle(document.querySelector('.moving')).display"
        assert tab.js(moving) == "none"
    finally:
        stop.set()
        training.join()


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({"time": 0.0}, "stalled", "is still there"),
        ({"time": 0.0, "host": "elsewhere"}, "stalled", "cannot be seen from here"),
        ({"time": 0.0, "pid": 2**22 + 1}, "process gone", "did not say why"),
        ({"state": "failed", "error": "ValueError: <b>no</b>"}, "failed", "ValueError: <b>no</b>"),
        ({"state": "stopped"}, "stopped", "Stopped after"),
    ],
)
def test_the_end_of_a_run_is_said_clearly(
    run_dir: Callable[[str], Path], show: Callable[..., Tab], changes: dict[str, Any], state: str,
    words: str,
) -> None:  # fmt: skip
    directory = run_dir("ppo")
    change(directory, **changes)
    tab = show(directory)
    assert tab.text("#state") == state
    assert words in tab.text("#word")


def test_an_empty_directory_fills_up_while_it_is_watched(
    run_dir: Callable[[str], Path], tmp_path: Path, show: Callable[..., Tab]
) -> None:
    directory = tmp_path / "empty"
    directory.mkdir()
    tab = show(directory)
    assert tab.text("#state") == "starting"
    assert "has not been written" in tab.text("#graph")
    source = run_dir("apex")
    change(source)
    for path in source.iterdir():
        path.rename(directory / path.name)
    tab.until("document.querySelector('#graph [data-box]')")
    tab.until("document.body.dataset.state === 'running'")
    assert "learner.in" in tab.text("#queues")


def test_a_view_that_is_closed_says_so(run_dir: Callable[[str], Path], browser: Browser) -> None:
    directory = run_dir("ppo")
    change(directory, state="finished")
    with serve(directory) as view:
        tab = Tab(browser)
        tab.open(view.url)
    tab.until("document.body.dataset.state === 'offline'")
    assert tab.text("#state") == "view closed"
    tab.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_fits_every_screen_in_both_schemes(
    run_dir: Callable[[str], Path], show: Callable[..., Tab], width: int, dark: bool
) -> None:
    directory = run_dir("apex")
    change(directory)
    tab = show(directory, width=width, height=844, dark=dark)
    assert tab.js("document.documentElement.scrollWidth") <= width
    colour = tab.js("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(15, 20, 25)") is dark


def test_what_files_hold_is_text_and_never_markup(
    run_dir: Callable[[str], Path], show: Callable[..., Tab]
) -> None:
    evil = "</script><img src=x onerror='window.bad=1'><script>window.bad=1</script>"
    directory = run_dir("ppo")
    change(directory, verdict=evil, error=evil)
    run = {"algorithm": evil, "env": evil, "config": {evil: evil}, "machine": {evil: evil}}
    (directory / "run.json").write_text(json.dumps(run))
    graph = json.loads((directory / "graph.json").read_text())
    for node in graph["nodes"]:
        node["name"] = evil
    (directory / "graph.json").write_text(json.dumps(graph))
    with (directory / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"steps": 9_999, evil: 1.0}) + "\n")
    tab = show(directory)
    tab.browser.listen(1.5)
    assert tab.js("window.bad") is None
    assert tab.text("h1") == f"{evil} on {evil}"
    assert tab.js("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize(
    "rows",
    [
        [{"steps": 5}],
        [{"steps": 5, "seconds": 0.0, "return": 0.0, "loss": 1.0}] * 5,
        [{"steps": n, "seconds": n, "return": -n, "loss": n and 1e-9} for n in range(3)],
        [{"loss": 2.0}, {"loss": 3.0}],
        [{"steps": None, "seconds": None, "return": None}],
    ],
)
def test_odd_histories_are_shown_without_complaint(
    tmp_path: Path, show: Callable[..., Tab], rows: list[dict[str, Any]]
) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tab = show(tmp_path)
    text = tab.text("body")
    assert "NaN" not in text
    assert "Infinity" not in text
    assert "undefined" not in text
    assert tab.js("document.querySelector('main').innerHTML.includes('NaN')") is False


def test_evaluations_are_circles_at_the_steps_of_their_policies(
    run_dir: Callable[[str], Path], show: Callable[..., Tab]
) -> None:
    directory = run_dir("ppo")
    best = {"by": "evaluation", "score": 480.0, "steps": 1000}
    slow = {"on_result": {"calls": 100, "seconds": 1e6}}
    change(directory, evaluation={"failed": 2}, best=best, callbacks=slow)
    metrics = directory / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    for row, (steps, value) in zip(rows[-2:], [(1000.0, 480.0), (2000.0, 470.0)], strict=True):
        row |= {"eval_steps": steps, "eval_return": value, "eval_length": 9.0, "seconds": 100.0}
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tab = show(directory)
    assert tab.js("document.querySelectorAll('#curve circle').length") == 2
    assert "evaluated 470" in tab.text("#curve-aside")
    tiles = tab.text("#tiles")
    assert "Evaluated" in tiles
    assert "at 2,000 steps; best 480 at 1,000" in tiles
    assert "eval_length" in tab.text("#figures")
    assert "eval_steps" not in tab.text("#figures")
    assert "2 evaluations failed" in tab.text("#word")
    assert "Callback on_result takes" in tab.text("#word")


def test_a_mean_of_few_episodes_says_so(
    run_dir: Callable[[str], Path], show: Callable[..., Tab]
) -> None:
    directory = run_dir("ppo")
    change(directory)
    row = {"steps": 500, "episodes": 7, "return": 21.0, "seconds": 2.0}
    (directory / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert "mean of 7 episodes so far" in show(directory).text("#tiles")
