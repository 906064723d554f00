"""Pictures and films are sent whole or in part, to whoever has the token, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rillflow.web import View, serve
from tests.web.runs import make_run
from tests.web.test_server import ask

FILM = bytes(range(256)) * 4


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    run = make_run(tmp_path / "runs", "a")
    (run / "film.mp4").write_bytes(FILM)
    (run / "film.html").write_text("<script>alert(1)</script>")
    with serve(tmp_path / "runs") as view:
        yield view


def address(view: View) -> str:
    import json

    (key,) = json.loads(ask(view)[2])["order"]
    return f"/run/{key}"


def test_a_film_is_sent_as_what_it_is_and_may_run_nothing(view: View) -> None:
    status, headers, body = ask(view, f"{address(view)}/file?name=film.mp4")
    assert (status, body) == (200, FILM)
    assert headers["content-type"] == "video/mp4"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert ask(view, f"{address(view)}/file?name=film.mp4", "HEAD")[2] == b""


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-9", 206, FILM[:10]),
        ("bytes=1000-", 206, FILM[1000:]),
        ("bytes=-5", 206, FILM[-5:]),
        ("bytes=1000-99999", 206, FILM[1000:]),
        ("bytes=5-1", 416, b""),
        ("bytes=2000-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=0-1,5-6", 200, FILM),
        ("lines=1-2", 200, FILM),
        ("bytes=" + "9" * 400 + "-", 200, FILM),
    ],
)
def test_a_part_is_sent_where_one_is_asked_for(
    view: View, asked: str, status: int, expected: bytes
) -> None:
    answer = ask(view, f"{address(view)}/file?name=film.mp4", headers={"Range": asked})
    assert (answer[0], answer[2]) == (status, expected)


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "film.html",
        "../a/film.mp4",
        "%2e%2e/a/film.mp4",
        "/etc/passwd",
        "",
        "film.mp4%00",
    ],
)
def test_other_names_are_nothing(view: View, name: str) -> None:
    assert ask(view, f"{address(view)}/file?name={name}")[0] == 404
    assert ask(view, "/file?name=film.mp4")[0] == 404, "the table has none of its own"


def test_without_the_token_there_is_no_film(view: View) -> None:
    assert ask(view, f"{address(view)}/file?name=film.mp4", token=None)[0] == 403
    assert ask(view, f"{address(view)}/data", token="x" * 32)[0] == 403
