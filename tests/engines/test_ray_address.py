"""A Ray that is not there is told in seconds, without a line of Ray's transport."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rillflow.engines.ray_address import remembered, why_silent
from rillflow.errors import EngineError

Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Somebody who listens, and does with each connection what is said."""
    open_now: list[socket.socket] = []

    def begin(answer: Callable[[socket.socket], None]) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        open_now.append(listening)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                open_now.append(connection)
                answer(connection)

        threading.Thread(target=accept, daemon=True).start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield begin
    for one in open_now:
        one.close()


def test_whoever_is_no_ray_is_told_apart(serve: Serve) -> None:
    silent = serve(lambda connection: None)
    assert why_silent(silent, patience=0.2) == "nothing answers within 0 s"
    web = serve(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert why_silent(web) == "what answers there is no Ray"
    closes = serve(lambda connection: connection.shutdown(socket.SHUT_RDWR))
    assert why_silent(closes) is not None
    begins = serve(lambda connection: connection.sendall(SETTINGS))
    assert why_silent(begins, patience=0.2) is None, "it speaks HTTP/2: it may be busy"


def test_forms_that_ray_judges_are_left_to_it() -> None:
    assert all(why_silent(form) is None for form in ("auto", "local", "ray://here:1", "host"))


def test_the_cluster_that_ray_remembers_is_read(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert remembered() is None
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:6379\n")
    assert remembered() == "127.0.0.1:6379"


def test_a_stale_address_is_told_in_seconds(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever has taken the port since may say nothing at all."""
    pytest.importorskip("ray", reason="needs the ray extra")
    import rillflow as rf
    from rillflow.cli.main import main

    monkeypatch.setattr("rillflow.engines.ray_address.why_silent.__defaults__", (0.5,))
    address = serve(lambda connection: None)
    began = time.monotonic()
    assert main(["train", "ppo", "--address", address]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"no Ray cluster answers at --address {address} (nothing answers within" in err
    with pytest.raises(EngineError, match=r"no Ray cluster answers at .*`ray start --head`"):
        rf.from_range(3).gather_sync().run(rf.RayEngine(address)).start()
    assert time.monotonic() - began < 60
    assert "rpc" not in capfd.readouterr().err
    assert "ray" in sys.modules


SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
STATUS_200, STATUS_404 = b"\x88", b"\x8d"


def headers(content: bytes, flags: int = 0x05) -> bytes:
    """A frame of HTTP/2 that begins with a status."""
    return bytes([0, 0, len(content), 1, flags, 0, 0, 0, 1]) + content


@pytest.mark.parametrize(
    ("answer", "is_ray"),
    [
        (headers(STATUS_200 + b"@"), True),
        (headers(b"\x20\x88"), True),  # behind a change of the table
        (headers(b"\x03" + bytes(5) + STATUS_200, flags=0x2D), True),  # padded, with a priority
        (headers(STATUS_404), False),
        (headers(b"\x20\x8d"), False),
        (headers(b"\x48\x03503"), False),  # spelled out
        (bytes([0, 0, 0, 7, 0, 0, 0, 0, 0]), True),  # it goes away: let Ray find out
        (b"\xff\xff\xff\x01", True),
    ],
)
def test_a_web_server_that_speaks_http2_is_no_ray(
    serve: Serve, answer: bytes, is_ray: bool
) -> None:
    """A proxy in front of nothing answers 404, for which Ray's own lines would go on for long."""
    address = serve(lambda connection: connection.sendall(SETTINGS + SETTINGS + answer))
    said = why_silent(address, patience=0.2)
    assert said == (None if is_ray else "what answers there is no Ray")


def test_a_cluster_that_encrypts_is_left_to_ray(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    closes = serve(lambda connection: connection.shutdown(socket.SHUT_RDWR))
    monkeypatch.setenv("RAY_USE_TLS", "1")
    assert why_silent(closes) is None


def test_an_interrupt_while_ray_begins_ends_ray_and_leaves_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has begun is ended in order, before the interpreter is."""
    ray = pytest.importorskip("ray", reason="needs the ray extra")
    import rillflow as rf

    ended = []

    def handler(*_: Any) -> None: ...

    before = signal.signal(signal.SIGTERM, handler)

    def init(**options: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        raise KeyboardInterrupt

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    monkeypatch.setattr("rillflow.engines.ray_address.remembered", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    engine = rf.RayEngine()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine._init()
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    engine.close()
    assert ended == [True]
