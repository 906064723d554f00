"""Whether a Ray answers at an address: asked in seconds, where Ray would try for minutes.

Ray's own connection writes raw lines of its transport meanwhile. The head of a cluster speaks
HTTP/2, and whoever does begins with a frame of settings.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

PATIENCE = 5.0
"""seconds for a connection, and again for the first answer"""
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""the preface of HTTP/2 and an empty frame of settings"""
_HEAD, _SETTINGS = 9, 4


def why_silent(address: str, patience: float = PATIENCE) -> str | None:
    """Why nobody there is the head of a Ray cluster; None: somebody is, or Ray has to find out.

    >>> why_silent("auto"), why_silent("127.0.0.1:1") is not None
    (None, True)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return None  # a form that Ray judges
    try:
        place = host.strip("[]"), int(port)
        with socket.create_connection(place, timeout=patience) as connection:
            connection.settimeout(patience)
            connection.sendall(_HELLO)
            head = _read(connection, _HEAD)
    except TimeoutError:
        return f"nothing answers within {patience:.0f} s"
    except (OSError, OverflowError) as error:
        return str(error)
    if len(head) < _HEAD or head[3] != _SETTINGS:
        return "what answers there is no Ray"
    return None


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
