"""The page of many runs in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rillflow.results.mp4_writer import write_mp4
from rillflow.web import serve
from tests.web.browser import Browser, Tab
from tests.web.runs import add_rows, change, make_run
from tests.web.test_page import show as show


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    for seed in range(3):
        make_run(root, f"slow-{seed}", seed=seed, slope=1 + seed / 10)
        make_run(root, f"fast-{seed}", seed=seed, slope=3 + seed / 10, config={"lr": 0.01})
    live = make_run(root, "live", state="running", algorithm="impala", slope=2)
    Image.new("RGB", (40, 20), "red").save(live / "strip.png")
    return root


def texts(tab: Tab, selector: str) -> list[str]:
    found = tab.js(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)"
    )
    return [str(text) for text in found]


def column(tab: Tab, name: str) -> list[str]:
    head = texts(tab, "#runs th")
    return texts(tab, f"#runs tbody td:nth-child({head.index(name) + 1})")


def complete(tab: Tab) -> Tab:
    """With all curves: on a busy machine some files are read only when the page asks again."""
    tab.until("document.querySelectorAll('#curves .thin').length === 6")
    return tab


def test_runs_are_a_table_and_groups_are_lines(runs: Path, show: Callable[..., Tab]) -> None:
    tab = complete(show(runs))
    assert len(column(tab, "run")) == 7
    assert column(tab, "run")[0] == "live", "those that run come first"
    assert column(tab, "bottleneck")[0] == "driver 90%"
    assert "7 runs · 1 running · 6 finished" in tab.text("#about")
    legend = " ".join(texts(tab, ".legend-line > span"))
    for told in ("ppo lr=0.001", "ppo lr=0.01", "\N{MULTIPLICATION SIGN}3", "impala"):
        assert told in legend
    assert tab.js("document.querySelectorAll('#curves .mean').length") == 3
    assert tab.js("document.querySelectorAll('#curves .band').length") == 2
    assert "goal 475" in tab.text("#curves")
    settings = tab.text("#settings")
    assert "lr" in settings
    assert "0.01" in settings
    assert tab.text("#settings td.best").startswith("62")
    assert "Processors" in tab.text("#machine")
    drawn = """[...document.querySelectorAll('.plot')].map(
        (one) => one.viewBox.baseVal.width - one.parentElement.clientWidth)"""
    assert set(tab.js(drawn)) == {0}, "each as wide as its place, so letters are as large as others"
    tab.js("document.querySelector('#media img').scrollIntoView()")
    tab.until("document.querySelector('#media img').naturalWidth === 40")


def test_a_film_shows_a_picture_before_it_is_played(runs: Path, show: Callable[..., Tab]) -> None:
    """Of one that stands at its very beginning browsers draw nothing but a grey field."""
    pytest.importorskip("imageio_ffmpeg", reason="a film in .mp4 needs the extra `video`")
    films = runs / "live" / "films"
    films.mkdir()
    frame = np.full((64, 96, 3), (200, 30, 30), np.uint8)
    write_mp4(films / "step-100.mp4", iter([frame] * 30), 30)
    tab = show(runs)
    film = "document.querySelector('#media video')"
    tab.until(film)
    tab.js(f"{film}.scrollIntoView()")
    tab.until(f"{film}.readyState >= 2 && {film}.currentTime > 0")
    assert tab.js(f"{film}.paused") is True
    assert tab.text("#media figcaption a").startswith("films/step-100.mp4")


def test_new_runs_appear_and_running_ones_move(runs: Path, show: Callable[..., Tab]) -> None:
    tab = show(runs)
    before = tab.js("document.querySelector('#curves .mean').getAttribute('d')")
    add_rows(runs / "live", 30, slope=2, begin=20)
    tab.until("document.querySelector('#runs tbody td:nth-child(8)').innerText === '50k'")
    assert tab.js("document.querySelector('#curves .mean').getAttribute('d')") != before
    make_run(runs, "tune/trial-0", state="running")
    tab.until("document.querySelectorAll('#runs tbody tr').length === 8")
    change(runs / "live", state="failed", error="ValueError: <b>no</b>")
    tab.until("document.querySelector('#runs .pill.failed')")
    assert "ValueError: <b>no</b>" in tab.text("#runs")


def test_an_error_of_many_words_takes_no_column_away(runs: Path, show: Callable[..., Tab]) -> None:
    words = (
        "ValueError: my own mistake; your code: train.py:13 in boom; operator: callback on_result"
    )
    change(runs / "fast-0", state="failed", error=words)
    tab = show(runs)
    tab.until("document.querySelector('#runs .pill.failed')")
    table = "document.querySelector('#runs-scroll')"
    assert tab.js(f"{table}.scrollWidth <= {table}.clientWidth"), "CPU and memory are in view"
    phone = show(runs, width=390)
    phone.until("document.querySelector('#runs .pill.failed')")
    assert "bottleneck ValueError" not in phone.text("#runs")
    assert "ValueError: my own" in phone.text("#runs")


def test_curves_are_zoomed_smoothed_and_shown_one_by_one(
    runs: Path, show: Callable[..., Tab]
) -> None:
    tab = complete(show(runs))

    def drag(begin: float, end: float) -> None:
        box = tab.js("""(() => { const r = document.querySelector('.plot').getBoundingClientRect();
            return [r.left, r.top, r.width, r.height]; })()""")
        left, top, width, height = box
        for kind, share in [("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)]:
            tab.call("Input.dispatchMouseEvent", type=kind, x=left + width * share,
                     y=top + height / 2, button="left", clickCount=1)  # fmt: skip

    ticks = "[...document.querySelectorAll('.plot text')].map((t) => t.textContent).join()"
    whole = tab.js(ticks)
    drag(0.3, 0.5)
    tab.until("document.querySelector('.panel button')")
    assert tab.js(ticks) != whole
    tab.js("document.querySelector('.panel button').click()")
    assert tab.js(ticks) == whole
    line = "document.querySelector('#curves .mean').getAttribute('d')"
    rough = tab.js(line)
    set_to = (
        "const e = document.getElementById('{}'); e.value = '{}'; e.dispatchEvent(new Event('{}'))"
    )
    tab.js(f"{{ {set_to.format('smooth', '0.9', 'input')} }}")
    assert tab.js(line) != rough
    tab.js(f"{{ {set_to.format('as', 'run', 'change')} }}")
    assert tab.js("document.querySelectorAll('#curves .mean').length") == 7
    tab.js(f"{{ {set_to.format('figure', 'entropy', 'change')} }}")
    assert "entropy" in tab.text("#curves h3")
    tab.js(f"{{ {set_to.format('filter', 'fast', 'input')} }}")
    assert tab.js("document.querySelectorAll('#runs tbody tr').length") == 3
    tab.js("document.querySelector('#runs input').click()")
    assert tab.js("document.querySelectorAll('#curves .mean').length") == 2


def test_headings_sort_and_a_name_opens_the_run(runs: Path, show: Callable[..., Tab]) -> None:
    tab = complete(show(runs))
    tab.js(
        "[...document.querySelectorAll('#runs th')].find((t) => t.innerText === 'return').click()"
    )
    assert column(tab, "run")[:3] == ["fast-2", "fast-1", "fast-0"]
    tab.js(
        "[...document.querySelectorAll('#runs th')].find((t) => t.innerText === 'return').click()"
    )
    assert column(tab, "run")[:2] == ["slow-0", "slow-1"]
    tab.js("[...document.querySelectorAll('#runs a')].find((a) => a.innerText === 'live').click()")
    tab.until("(document.querySelector('h1') || {}).innerText === 'impala on CartPole-v1'")
    tab.until("document.querySelector('#cpu path')")
    tab.js("document.querySelector('#media img').scrollIntoView()")
    tab.until("document.querySelector('#media img').naturalWidth === 40")
    tab.js("document.getElementById('all').click()")
    tab.until("document.querySelectorAll('#runs tbody tr').length === 7")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_a_phone_shows_the_bottleneck(
    runs: Path, show: Callable[..., Tab], width: int, dark: bool
) -> None:
    tab = show(runs, width=width, height=844, dark=dark)
    assert tab.js("document.documentElement.scrollWidth") <= width
    colour = tab.js("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(15, 20, 25)") is dark
    seen = """[...document.querySelectorAll('#runs tbody tr:first-child *')].filter((e) =>
        e.children.length === 0 && e.textContent.includes('driver 90%')).map((e) => {
        const r = e.getBoundingClientRect();
        return r.width > 0 && r.left >= 0 && r.right <= innerWidth; })"""
    assert tab.js(seen).count(True) == 1


def test_on_a_phone_the_bottleneck_of_a_run_is_in_sight(
    run_dir: Callable[[str], Path], show: Callable[..., Tab]
) -> None:
    """Its box is in the part of the drawing that is seen, though the drawing is far wider."""
    from tests.web.test_page import change as news

    directory = run_dir("apex")
    status = json.loads((directory / "status.json").read_text())
    kind = {"kind": "background", "name": "learner"}
    names = [line["name"] for line in status["resources"] if line["kind"] == "background"]
    news(
        directory,
        bottleneck={**kind, "name": names[0]},
        verdict=f"Bottleneck: {names[0]}.",
        seconds=9,
    )
    tab = show(directory, width=390, height=844)
    tab.until("document.querySelector('.box.hot')")
    box, host = (
        tab.js(f"""(() => {{ const r = document.querySelector('{which}').getBoundingClientRect();
            return [r.left, r.right]; }})()""")
        for which in (".box.hot .body", "#graph")
    )
    assert tab.js("document.getElementById('graph').scrollWidth") > 390
    assert host[0] - 1 <= box[0]
    assert box[1] <= host[1] + 1
    assert names[0] in tab.text("#word")


def test_what_runs_hold_is_text_and_never_markup(tmp_path: Path, show: Callable[..., Tab]) -> None:
    evil = "</script><img src=x onerror='window.bad=1'><script>window.bad=1</script>"
    root = tmp_path / "runs"
    bad = make_run(root, "<img src=x onerror=bad()>", algorithm=evil, env=evil, label=evil,
                   seed=evil, config={evil: evil})  # fmt: skip
    make_run(root, "other", algorithm=evil, env=evil, config={evil: "x"})
    change(bad, state=evil, error=evil, verdict=evil, bottleneck={"name": evil})
    with (bad / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"steps": 1, evil: 3.0}) + "\n")
    tab = show(root)
    tab.browser.listen(1.5)
    assert tab.js("window.bad") is None
    assert tab.js("document.querySelectorAll('img').length") == 0
    assert "<img src=x onerror" in tab.text("#runs")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"steps": 5}],
        [{"steps": 5, "seconds": 0.0, "return": 0.0}] * 5,
        [{"steps": -n, "seconds": n, "return": -n} for n in range(3)],
        [{"loss": 2.0}, {"loss": 3.0}],
        [{"steps": None, "seconds": None, "return": None}],
    ],
)
def test_odd_histories_are_shown_without_complaint(
    tmp_path: Path, show: Callable[..., Tab], rows: list[dict[str, Any]]
) -> None:
    for name in ("a", "b"):
        path = make_run(tmp_path / "runs", name, rows=0)
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (path / "machine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tab = show(tmp_path / "runs")
    html = tab.js("document.querySelector('main').innerHTML")
    for word in ("NaN", "Infinity", "undefined"):
        assert word not in html


def test_an_empty_directory_becomes_the_table(tmp_path: Path, show: Callable[..., Tab]) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    tab = show(root)
    assert tab.text("#state") == "starting"
    make_run(root, "first")
    tab.until("document.querySelector('#runs tbody tr')")
    assert "first" in tab.text("#runs")


def test_a_view_that_is_closed_says_so(runs: Path, browser: Browser) -> None:
    with serve(runs) as view:
        tab = Tab(browser)
        tab.open(view.url)
    tab.until("document.body.dataset.state === 'offline'")
    assert "has been closed" in tab.text("#word")
    tab.close()
