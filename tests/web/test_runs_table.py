"""The table of runs follows its files, whatever is in the directory."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rillflow.web import media as media_of
from rillflow.web.media import Media
from rillflow.web.runs_table import RunsTable
from rillflow.web.site import Site
from tests.web.runs import add_rows, change, make_run


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories are looked at each time, not once a second."""
    monkeypatch.setattr("rillflow.web.runs_table._EVERY", 0.0)
    monkeypatch.setattr("rillflow.web.media._EVERY", 0.0)


def follow(table: RunsTable) -> Callable[[], dict[str, Any]]:
    """A reader who asks for the news again and again."""
    known: dict[str, str] = {}

    def ask() -> dict[str, Any]:
        news = table.data(known)
        json.dumps(news, allow_nan=False)
        known.update(session=news["session"], since=news["since"])
        return news

    return ask


def names(news: dict[str, Any]) -> set[str]:
    return {row["name"] for row in news["runs"].values()}


def test_each_run_has_a_row_a_group_and_a_curve(tmp_path: Path) -> None:
    make_run(tmp_path, "a", seed=0)
    make_run(tmp_path, "b", seed=1)
    make_run(tmp_path, "c", config={"lr": 0.01})
    make_run(tmp_path, "tune-1/trial-0", state="running")
    news = RunsTable(tmp_path).data({})
    assert names(news) == {"a", "b", "c", "tune-1/trial-0"}
    rows = {row["name"]: row for row in news["runs"].values()}
    assert rows["a"]["group"] == rows["b"]["group"] == "ppo lr=0.001"
    assert rows["c"]["group"] == "ppo lr=0.01"
    assert news["settings"] == ["lr"]
    assert rows["c"]["settings"] == ["0.01"]
    assert rows["tune-1/trial-0"]["state"] == "running"
    assert rows["a"]["bottleneck"] == {"name": "driver", "utilisation": 0.9}
    assert rows["a"]["goal"] == 475
    assert rows["a"]["last"]["steps"] == 20_000
    key = next(key for key, row in news["runs"].items() if row["name"] == "a")
    assert news["curves"][key]["steps"][-1] == 20_000
    assert news["machines"][key]["time"][1] == 1.8e9 + 5


def test_only_what_has_changed_is_told_again(tmp_path: Path) -> None:
    a, b = make_run(tmp_path, "a", state="running"), make_run(tmp_path, "b")
    ask = follow(RunsTable(tmp_path))
    assert names(ask()) == {"a", "b"}
    assert ask()["runs"] == ask()["curves"] == {}
    add_rows(a, 5, begin=20)
    news = ask()
    assert names(news) == {"a"}
    assert len(news["curves"]) == 1
    change(b, state="failed", error="ValueError: no")
    news = ask()
    (row,) = news["runs"].values()
    assert (row["name"], row["state"], row["error"]) == ("b", "failed", "ValueError: no")
    make_run(tmp_path, "c", config={"lr": 1.0})
    news = ask()
    assert names(news) == {"a", "b", "c"}, "names of groups have changed with it"
    assert len(news["order"]) == 3
    for file in sorted(b.iterdir()):
        file.unlink()
    b.rmdir()
    assert len(ask()["order"]) == 2


def test_a_reader_of_another_view_gets_everything(tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    table = RunsTable(tmp_path)
    table.data({})
    assert names(table.data({"session": "other", "since": "99"})) == {"a"}
    assert names(table.data({"session": table.data({})["session"], "since": "x"})) == {"a"}


EVIL = "</script><img src=x onerror=alert(1)>\x1b[2J"


@pytest.mark.parametrize("text", ["", "[1]", "{", "\xff", "[" * 100_000, '{"config": 3, "env": []}',
                                  '{"algorithm": {"a": 1}, "until": 7, "seed": [1]}',
                                  '{"state": 7, "bottleneck": 3, "resources": 4, "time": "x"}',
                                  '{"bottleneck": {"name": [1]}, "resources": [3, {"name": [1]}]}',
                                  json.dumps({"env": EVIL, "config": {EVIL: EVIL}})])  # fmt: skip
@pytest.mark.parametrize("name", ["run.json", "status.json", "metrics.jsonl", "machine.jsonl"])
def test_a_run_of_anything_breaks_no_other(tmp_path: Path, name: str, text: str) -> None:
    make_run(tmp_path, "good")
    bad = make_run(tmp_path, "bad")
    (bad / name).write_text(text + "\n")
    news = RunsTable(tmp_path).data({})
    json.dumps(news, allow_nan=False)
    assert "good" in names(news)
    for row in news["runs"].values():
        assert "\x1b" not in json.dumps(row, ensure_ascii=False)


def test_links_pipes_and_odd_names_lead_nowhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "runs", tmp_path / "outside"
    make_run(outside, "secret")
    good = make_run(root, "good")
    (root / "link").symlink_to(outside / "secret")
    (root / "links").symlink_to(outside)
    (root / "..x").mkdir()
    os.mkfifo(root / "pipe")
    (root / "fifo").mkdir()
    os.mkfifo(root / "fifo" / "run.json")
    (root / "file").write_text("x")
    (good / "film.mp4").symlink_to("/etc/passwd")
    os.mkfifo(good / "pipe.png")
    (good / "note.txt").write_text("x")
    (good / "linked").symlink_to(outside / "secret")
    (outside / "secret" / "own.png").write_bytes(b"x")
    odd = os.fsencode(root) + b"/\xff\x1b[2J"
    os.mkdir(odd)
    with open(odd + b"/metrics.jsonl", "w") as file:
        file.write('{"steps": 1}\n')
    news = RunsTable(root).data({})
    json.dumps(news, allow_nan=False).encode()
    assert {"good", "fifo"} < names(news)
    assert len(news["order"]) == 3
    assert not any("secret" in name or "link" in name for name in names(news))
    (row,) = [row for row in news["runs"].values() if row["name"] == "good"]
    assert row["media"] == []


def test_of_very_many_runs_the_newest_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rillflow.web.runs_table._RUNS", 5)
    for number in range(8):
        path = make_run(tmp_path, f"run-{number}", rows=1)
        os.utime(path / "run.json", ns=(number, number))
    news = RunsTable(tmp_path).data({})
    assert names(news) == {f"run-{number}" for number in range(3, 8)}
    assert news["left_out"] == 3


def test_an_enormous_file_starves_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rillflow.web.runs_table.BUDGET", 0.002)
    big = make_run(tmp_path, "big")
    line = json.dumps({"steps": 1, "text": "x" * 200}) + "\n"
    (big / "metrics.jsonl").write_text(line * 60_000)
    for number in range(5):
        make_run(tmp_path, f"run-{number}")
    table = RunsTable(tmp_path)
    shares = [table.data({})["read"] for _ in range(200)]
    assert shares[-1] == 1.0
    rows = {row["name"]: row for row in table.data({})["runs"].values()}
    assert all(rows[f"run-{number}"]["last"]["steps"] == 20_000 for number in range(5))


def test_pictures_and_films_are_found_and_opened_by_name_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    (run / "films").mkdir()
    (run / "films" / "step-100.mp4").write_bytes(b"film")
    (run / "strip.png").write_bytes(b"picture")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "x.png").write_bytes(b"x")
    (run / "empty.png").write_bytes(b"")
    media = Media(run)
    media.refresh()
    assert set(media.names) == {"films/step-100.mp4", "strip.png"}
    found = media.open("films/step-100.mp4")
    assert found is not None
    file, size, kind = found
    with file:
        assert (file.read(), size, kind) == (b"film", 4, "video/mp4")
    for name in ["run.json", "../a/strip.png", "/etc/passwd", "films/../strip.png", "", "films"]:
        assert media.open(name) is None
    (run / "strip.png").unlink()
    (run / "strip.png").symlink_to("/etc/passwd")
    assert media.open("strip.png") is None


def test_an_empty_directory_becomes_what_is_put_into_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    place = site.find("/data")
    assert place is not None
    assert place.source.data({})["kind"] == "run"
    make_run(tmp_path, "a")
    place = site.find("/data")
    assert place is not None
    news = place.source.data({})
    assert news["kind"] == "runs"
    (key,) = news["runs"]
    inner = site.find(f"/run/{key}/data")
    assert inner is not None
    assert inner.source.data({})["run"]["algorithm"] == "ppo"
    for path in [
        "/run/",
        f"/run/{key}/",
        f"/run/{key}/x",
        "/run/0123456789abcdef",
        f"/run/{key}/../",
    ]:
        assert site.find(path) is None
    other = Site(make_run(tmp_path, "b")).find(f"/run/{key}")
    assert other is None, "a run's own view has no other runs"


def test_films_that_are_asked_for_at_one_time_are_all_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request does not look into a list that the first one is still making."""
    (tmp_path / "a.mp4").write_bytes(b"film")
    looking, go_on = threading.Event(), threading.Event()
    listed = media_of._media_in

    def slowly(folder: Path, prefix: str) -> list[tuple[int, str]]:
        looking.set()
        assert go_on.wait(60)
        return listed(folder, prefix)

    monkeypatch.setattr(media_of, "_EVERY", 60.0)
    monkeypatch.setattr(media_of, "_media_in", slowly)
    media, found = Media(tmp_path), []
    asked = [threading.Thread(target=lambda: found.append(media.open("a.mp4"))) for _ in range(2)]
    asked[0].start()
    assert looking.wait(60)
    asked[1].start()
    asked[1].join(0.2)  # without waiting for the first it would have its wrong answer by now
    go_on.set()
    for thread in asked:
        thread.join(60)
    assert [one is not None for one in found] == [True, True]
    for one in found:
        one[0].close()
