"""One request to the view: who asks, for what, and the answer. One request per connection."""

from __future__ import annotations

import contextlib
import hmac
import io
import re
import secrets
import socket
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from rillflow.files import to_json

if TYPE_CHECKING:
    from rillflow.web.server import Server

_HEAD_BYTES, _HEAD_SECONDS = 16_384, 5.0
"""what a request may take to say what it wants, all in all"""
_SEND_SECONDS = 10.0
_DRAIN_BYTES = 4_000_000
_SAFE = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NOTHING_ALLOWED = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class Page:
    """The page as one document: its style, its script and the first data are inside."""

    def __init__(self) -> None:
        folder = files("rillflow.web") / "page"
        parts = {name: (folder / name).read_text("utf-8") for name in ("style.css", "view.js")}
        self._page = (folder / "page.html").read_text("utf-8")
        self._page = re.sub(r"\{\{(style\.css|view\.js)\}\}", lambda m: parts[m[1]], self._page)

    def render(self, data: dict[str, Any]) -> tuple[str, str]:
        """The text, and the policy under which nothing but its own script and style is run."""
        nonce = secrets.token_urlsafe(16)
        # no tag can end inside the data, whatever the files of the run hold
        parts = {"nonce": nonce, "data": _encode(data).replace("<", "\\u003c")}
        text = re.sub(r"\{\{(nonce|data)\}\}", lambda m: parts[m[1]], self._page)
        own = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        return text, f"{_NOTHING_ALLOWED}; {own}; connect-src 'self'; img-src data:"


class Handler(BaseHTTPRequestHandler):
    """Reads one request within limits, checks it, answers, and ends the connection."""

    server: Server
    server_version, sys_version = "rillflow", ""

    def handle(self) -> None:
        """One request."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            head = self._read_head()
            self.server.heard(self.connection)
            self.connection.settimeout(_SEND_SECONDS)
            if head is None:
                return
            self.rfile.close()
            self.rfile = io.BufferedReader(io.BytesIO(head))
            self.raw_requestline = self.rfile.readline()
            if self.parse_request():
                self._answer()

    def _read_head(self) -> bytes | None:
        """The request up to the empty line; None if it is too slow, too long, or ends before.

        Time and size are limited for the whole of it, however it is cut into pieces.
        """
        head, until = b"", time.monotonic() + _HEAD_SECONDS
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self.connection.settimeout(left)
            piece = self.connection.recv(4096)
            if not piece:
                return None
            head += piece
            if len(head) > _HEAD_BYTES:
                self._refuse_long()
                return None
        return head

    def _refuse_long(self) -> None:
        """Say so, and take in some of the rest: who is still sending would not hear it."""
        self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
        self._reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too long.")
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(0.5)
        taken, until = 0, time.monotonic() + 1.0
        while taken < _DRAIN_BYTES and time.monotonic() < until:
            piece = self.connection.recv(65_536)
            if not piece:
                return
            taken += len(piece)

    def _answer(self) -> None:
        refusal = self._refusal()
        if refusal is not None:
            self._reply(*refusal)
            return
        path, query = self._asked()
        if path == "/" and "token" in query:
            self._welcome()
        elif path == "/":
            text, policy = self.server.page.render(self.server.run.data({}))
            headers = {"Content-Security-Policy": policy}
            self._reply(HTTPStatus.OK, text, "text/html; charset=utf-8", headers)
        elif path == "/data":
            data = self.server.run.data({key: values[0] for key, values in query.items()})
            self._reply(HTTPStatus.OK, _encode(data), "application/json")
        else:
            self._reply(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        try:
            parts = urlsplit(self.path)
            return parts.path if not parts.netloc else "", parse_qs(parts.query, max_num_fields=16)
        except ValueError:
            return "", {}

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        """Why this request is not answered; None if it is."""
        hosts = getattr(self, "headers", {}) and self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self.server.allows(hosts[0]):
            return HTTPStatus.FORBIDDEN, "This is not the host of the view."
        if self.command not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, "The view is read-only."
        origins = self.headers.get_all("Origin", [])
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return HTTPStatus.FORBIDDEN, "Another site may not read the view."
        embedded = self.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"
        site = self.headers.get("Sec-Fetch-Site", "none")
        if embedded and site not in ("none", "same-origin"):
            return HTTPStatus.FORBIDDEN, "Another site may not read the view."
        if not self._has_token():
            return HTTPStatus.FORBIDDEN, "Open the address that was printed: it has the token."
        return None

    def _has_token(self) -> bool:
        shown = list(self._asked()[1].get("token", [])[:1])
        for cookies in self.headers.get_all("Cookie", []):
            for cookie in cookies.split(";"):
                name, _, value = cookie.strip().partition("=")
                if name == self.server.cookie:
                    shown.append(value)
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            shown.append(value.strip())
        encoded = [one.encode("utf-8", "replace") for one in shown]
        return any(hmac.compare_digest(one, self.server.token) for one in encoded)

    def _welcome(self) -> None:
        """Keep the token in a cookie, and out of the address bar and the history."""
        cookie = f"{self.server.cookie}={self.server.token.decode()}"
        headers = {
            "Location": "/",
            # lax, for with `strict` a browser sent here by a link would not show it at once
            "Set-Cookie": f"{cookie}; Path=/; HttpOnly; SameSite=Lax",
        }
        self._reply(HTTPStatus.SEE_OTHER, "", headers=headers)

    def _reply(
        self,
        code: HTTPStatus,
        text: str,
        kind: str = "text/plain; charset=utf-8",
        headers: dict[str, str] | None = None,
    ) -> None:
        body = text.encode() + (b"\n" if text and code != HTTPStatus.OK else b"")
        self.send_response(code)
        about = {"Content-Security-Policy": _NOTHING_ALLOWED, **_SAFE, **(headers or {})}
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            about["Allow"] = "GET, HEAD"
        about |= {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in about.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parser of requests says of one it cannot read; in our own words and headers."""
        self.command = getattr(self, "command", None) or ""
        self._reply(HTTPStatus(code), "This is not a request that can be read.")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to the run."""


def _encode(data: dict[str, Any]) -> str:
    return to_json(data, compact=True)
