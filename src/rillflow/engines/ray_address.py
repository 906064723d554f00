"""Whether a Ray answers at an address: asked in seconds, where Ray would try for minutes.

Ray's own connection writes raw lines of its transport meanwhile. The head of a cluster speaks gRPC
over HTTP/2: it begins with a frame of settings, and answers every call with status 200, be it one
that it refuses. A web server or a proxy answers with another status.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

PATIENCE = 5.0
"""seconds for a connection, and again for the first answer"""
_HEAD = 9
"""bytes in front of a frame: its length, kind, flags and stream"""
_SETTINGS, _HEADERS = 4, 1
_PADDED, _PRIORITY = 0x08, 0x20
_METHOD = b"/ray.rpc.NodeInfoGcsService/GetClusterId"
_MOST = 1 << 14


def why_silent(address: str, patience: float = PATIENCE) -> str | None:
    """Why nobody there is the head of a Ray cluster; None: somebody is, or Ray has to find out.

    >>> why_silent("auto"), why_silent("127.0.0.1:1") is not None
    (None, True)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return None  # a form that Ray judges
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("0", "false", ""):
        return None  # nobody there understands what is not encrypted
    try:
        place = host.strip("[]"), int(port)
        with socket.create_connection(place, timeout=patience) as connection:
            connection.settimeout(patience)
            connection.sendall(_call(address))
            return None if _is_ray(connection) else "what answers there is no Ray"
    except TimeoutError:
        return f"nothing answers within {patience:.0f} s"
    except (OSError, OverflowError) as error:
        return str(error)


def _call(address: str) -> bytes:
    """What opens HTTP/2, and a call that anybody may make; its headers are not compressed."""
    kind = b"\x0f\x10" + _text(b"application/grpc")  # by its number in the static table
    trailers = b"\x00" + _text(b"te") + _text(b"trailers")
    post_http = b"\x83\x86"
    headers = post_http + b"\x04" + _text(_METHOD) + b"\x01" + _text(address.encode()[:100])
    return b"".join(
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _frame(_SETTINGS, 0, 0, b""),
            _frame(_HEADERS, 0x04, 1, headers + kind + trailers),
            _frame(0, 0x01, 1, bytes(5)),  # the message: empty
        )
    )


def _text(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


def _is_ray(connection: socket.socket) -> bool:
    """Whether what is answered could be Ray's; in doubt Ray has to find out."""
    head = _read(connection, _HEAD)
    if len(head) < _HEAD or head[3] != _SETTINGS:
        return False
    try:
        while len(head) == _HEAD and (length := int.from_bytes(head[:3])) <= _MOST:
            content = _read(connection, length)
            if head[3] == _HEADERS:
                return not _another_status(content, head[4])
            head = _read(connection, _HEAD)
    except OSError:  # of one that speaks HTTP/2: too late an answer, or an end
        pass
    return True


def _another_status(headers: bytes, flags: int) -> bool:
    """Whether the first header, which is the status, is one that is not 200."""
    headers = headers[(1 if flags & _PADDED else 0) + (5 if flags & _PRIORITY else 0) :]
    while headers and headers[0] >> 5 == 1:  # how large a table of names may be: not said to us
        headers = headers[1:]
    # statuses of the static table behind 200, or one that is spelled out
    return bool(headers) and (0x89 <= headers[0] <= 0x8E or headers[0] in (0x08, 0x18, 0x48))


def remembered() -> str | None:
    """The cluster that Ray began last on this machine, which may be gone; None: there is none."""
    root = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"
    try:
        return root.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data
