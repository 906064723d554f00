"""Who gets an answer and who does not: the table of fault F33."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rillflow.errors import BuildError, RunError
from rillflow.web import View, serve

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(scope="module")
def view(recorded: Callable[[str], Path]) -> Iterator[View]:
    with serve(recorded("ppo")) as served:
        yield served


def place(view: View) -> tuple[str, int, str]:
    parts = urlsplit(view.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port, parts.query.removeprefix("token=")


def ask(view: View, path: str = "/data", method: str = "GET", *, token: str | None = "",
        headers: dict[str, str] | None = None) -> Answer:  # fmt: skip
    """`token`: the right one by default, none at all if None."""
    host, port, right = place(view)
    sent = dict(headers or {})
    if token is not None:
        sent.setdefault("Authorization", f"Bearer {token or right}")
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def raw(view: View, data: bytes, *, wait: float = 8.0) -> bytes:
    host, port, _ = place(view)
    with socket.create_connection((host, port), timeout=wait) as connection:
        try:
            connection.sendall(data)
            answer = b""
            while piece := connection.recv(65_536):
                answer += piece
        except (ConnectionError, TimeoutError):
            pass
    return answer


def test_the_address_opens_the_page_and_leaves_the_token_behind(view: View) -> None:
    _, _, token = place(view)
    status, headers, _ = ask(view, f"/?token={token}", token=None)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    status, headers, body = ask(view, "/", token=None, headers={"Cookie": cookie.split(";")[0]})
    assert status == 200
    assert b"<title>rillflow</title>" in body
    assert token.encode() not in body


def test_data_is_json_and_head_has_no_body(view: View) -> None:
    status, headers, body = ask(view)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body)["run"]["algorithm"] == "ppo"
    status, headers, body = ask(view, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1000


@pytest.mark.parametrize("path", ["/", "/data", "/?token=", "/?token=wrong", "/nothing", "/%2e%2e"])
@pytest.mark.parametrize("token", [None, "wrong", "x" * 1000, "é"])
def test_without_the_token_there_is_nothing(view: View, path: str, token: str | None) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}".encode().decode("latin")}
    status, sent, body = ask(view, path, token=None, headers=headers)
    assert status == 403
    assert "set-cookie" not in sent
    assert len(body) < 100


@pytest.mark.parametrize("header", ["Cookie", "Authorization"])
@pytest.mark.parametrize("value", ["{}=", "{}=x; {}=y", "=;=;;", "Basic eDp5", "bearer", ""])
def test_a_malformed_token_is_a_wrong_one(view: View, header: str, value: str) -> None:
    assert ask(view, token=None, headers={header: value.format("rillflow", "a")})[0] == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example",
     "169.254.169.254", "10.0.0.1", "", "127.0.0.1@evil.example", "[::1", "localhost:99999999",
     "2130706433"],
)  # fmt: skip
def test_a_foreign_host_is_refused_even_with_the_token(view: View, host: str) -> None:
    assert ask(view, headers={"Host": host})[0] == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:80"])
def test_this_machine_under_its_names_is_answered(view: View, host: str) -> None:
    """Through a forwarded port the number is another one."""
    assert ask(view, headers={"Host": host})[0] == 200


def test_no_host_or_two_are_refused(view: View) -> None:
    _, _, token = place(view)
    line = f"GET /data HTTP/1.1\r\nAuthorization: Bearer {token}\r\n".encode()
    assert b" 403 " in raw(view, line + b"\r\n").split(b"\r\n")[0]
    two = b"Host: localhost\r\nHost: localhost\r\n\r\n"
    assert b" 403 " in raw(view, line + two).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_another_site_is_refused_even_with_the_token(view: View, headers: dict[str, str]) -> None:
    status, sent, _ = ask(view, headers=headers)
    assert status == 403
    assert not [name for name in sent if name.startswith("access-control")]


def test_the_page_itself_is_no_other_site(view: View) -> None:
    host, port, _ = place(view)
    assert ask(view, headers={"Origin": f"http://{host}:{port}"})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
@pytest.mark.parametrize("path", ["/", "/data", "/run.json"])
def test_nothing_but_reading_is_allowed(view: View, method: str, path: str) -> None:
    status, headers, _ = ask(view, path, method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    ["/run.json", "/status.json", "/../run.json", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
     "/..%2f..%2fetc/passwd", "//etc/passwd", "/page/view.js", "/data/../run.json", "/data/",
     "http://evil.example/data", "/\\..\\run.json", "/data%00", "/etc/passwd", "/http://[x/"],
)  # fmt: skip
def test_no_path_is_a_file(view: View, path: str) -> None:
    status, _, body = ask(view, path)
    assert status == (403 if path.startswith("http:") else 404)
    assert b"root:" not in body


def test_every_answer_forbids_framing_sniffing_and_keeping(view: View) -> None:
    for answer in (ask(view), ask(view, "/"), ask(view, token=None), ask(view, "/x")):
        headers = answer[1]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "python" not in headers["server"].lower()


def test_a_header_of_a_megabyte_is_refused_and_hurts_nobody(view: View) -> None:
    long = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n"
    assert b" 431 " in raw(view, long).split(b"\r\n")[0]
    many = b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(1000)) + b"\r\n"
    assert raw(view, many).split(b" ")[1] in (b"431", b"400")
    assert ask(view)[0] == 200


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"\0" * 100 + b"\r\n\r\n", b"GET\r\n\r\n",
                                  b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                                  b"\x16\x03\x01\x02\x00\x01\r\n\r\n"])  # fmt: skip
def test_what_is_no_request_gets_no_page(view: View, data: bytes) -> None:
    answer = raw(view, data)
    assert b"200" not in answer[:20]
    assert b"rillflow</title>" not in answer
    assert ask(view)[0] == 200


def readers() -> int:
    """How many connections have a thread."""
    return sum(thread.name.endswith("(process_request_thread)") for thread in threading.enumerate())


def until(come_true: Callable[[], bool]) -> None:
    """Wait for it, as long as a busy machine may take."""
    begin = time.monotonic()
    while not come_true():
        assert time.monotonic() - begin < 60.0
        time.sleep(0.01)


def test_too_many_slow_readers_make_room_for_others(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred connections that say nothing, and might for ever: the oldest are let go."""
    monkeypatch.setattr("rillflow.web.handler._HEAD_SECONDS", 1000.0)
    host, port, _ = place(view)
    slow = [socket.create_connection((host, port)) for _ in range(100)]
    try:
        assert [ask(view)[0] for _ in range(5)] == [200] * 5
        until(lambda: readers() <= 48)
        assert readers() > 40, "and the others may stay"
    finally:
        for connection in slow:
            connection.close()
    until(lambda: readers() == 0)


def ended(connection: socket.socket) -> bool:
    """Whether the other side has, after one more byte."""
    try:
        connection.sendall(b"G")
        return connection.recv(100) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_slow_reader_does_not_stay(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it sends a byte now and then: the limit is on the whole."""
    monkeypatch.setattr("rillflow.web.handler._HEAD_SECONDS", 0.5)
    host, port, _ = place(view)
    with socket.create_connection((host, port)) as slow:
        slow.settimeout(0.05)
        until(lambda: ended(slow))
    until(lambda: readers() == 0)


def test_a_port_in_use_is_one_clear_error(view: View, tmp_path: Path) -> None:
    _, port, _ = place(view)
    with pytest.raises(RunError, match=rf"port {port} of 127\.0\.0\.1 is in use; choose another"):
        serve(tmp_path, port=port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_other_machines_are_let_in_only_with_a_token_of_ones_own(host: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="needs a `token`"):
        serve(tmp_path, host=host)


def test_with_a_token_other_machines_come_by_address(tmp_path: Path) -> None:
    with serve(tmp_path, host="0.0.0.0", token="a-token-of-my-own") as view:
        assert socket.gethostname() in view.url
        parts = urlsplit(view.url)
        local = View.__new__(View)
        local.url = f"http://127.0.0.1:{parts.port}/?{parts.query}"
        for host, status in [("10.1.2.3", 200), (socket.gethostname(), 200), ("evil.org", 403)]:
            assert ask(local, headers={"Host": host})[0] == status


@pytest.mark.parametrize("token", ["", "short", "with a space in the middle", "a" * 201])
def test_a_weak_token_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(BuildError, match="a token has 16 to 200"):
        serve(tmp_path, token=token)


def test_a_missing_directory_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="there is no run directory"):
        serve(tmp_path / "no")
    with pytest.raises(BuildError, match="a port is a number"):
        serve(tmp_path, port=70_000)


def test_closing_frees_the_port_and_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    view = serve(tmp_path)
    _, port, _ = place(view)
    assert ask(view)[0] == 200
    view.close()
    view.close()
    with serve(tmp_path, port=port) as again:
        assert ask(again)[0] == 200
    until(lambda: set(threading.enumerate()) <= before)


def test_an_answer_takes_little_time_of_the_processor(view: View) -> None:
    """Once a second, less than a hundredth: below 10 ms for an answer with everything in it."""

    def seconds() -> float:
        begin = time.process_time()
        for _ in range(5):
            ask(view)
        return (time.process_time() - begin) / 5

    assert min(seconds() for _ in range(6)) < 0.010
