"""One request to the view: who asks, for what, and the answer. One request per connection."""

from __future__ import annotations

import contextlib
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
from rillflow.web.run_files import RunFiles

if TYPE_CHECKING:
    from rillflow.web.server import Server

_HEAD_BYTES, _HEAD_SECONDS = 16_384, 5.0
"""what a request may take to say what it wants, all in all"""
_SEND_SECONDS = 10.0
_DRAIN_BYTES = 4_000_000
_PIECE = 1 << 18
_SAFE = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NOTHING_ALLOWED = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_OWN_FILES = "connect-src 'self'; img-src 'self' data:; media-src 'self'"


class Page:
    """A page as one document: its style, its script and the first data are inside."""

    def __init__(self, name: str) -> None:
        folder = files("rillflow.web") / "page"
        text = (folder / name).read_text("utf-8")
        self._page = re.sub(
            r"\{\{(\w+\.(?:css|js))\}\}", lambda m: (folder / m[1]).read_text("utf-8"), text
        )

    def render(self, data: dict[str, Any]) -> tuple[str, str]:
        """The text, and the policy under which nothing but its own script and style is run."""
        nonce = secrets.token_urlsafe(16)
        # no tag can end inside the data, whatever the files of the run hold
        parts = {"nonce": nonce, "data": _encode(data).replace("<", "\\u003c")}
        text = re.sub(r"\{\{(nonce|data)\}\}", lambda m: parts[m[1]], self._page)
        own = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        return (
            text,
            f"{_NOTHING_ALLOWED}; {own}; {_OWN_FILES}",
        )


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
            return
        place = self.server.site.find(path)
        first = {key: values[0] for key, values in query.items()}
        if place is None:
            self._reply(HTTPStatus.NOT_FOUND, "There is nothing here.")
        elif place.part == "page":
            text, policy = self.server.pages[place.kind].render(place.source.data({}))
            headers = {"Content-Security-Policy": policy}
            self._reply(HTTPStatus.OK, text, "text/html; charset=utf-8", headers)
        elif place.part == "data":
            self._reply(HTTPStatus.OK, _encode(place.source.data(first)), "application/json")
        else:
            self._send_file(place.source, first.get("name", ""))

    def _send_file(self, source: object, name: str) -> None:
        """A picture or a film, or the part of it that a player asks for."""
        found = source.media.open(name) if isinstance(source, RunFiles) else None
        if found is None:
            self._reply(HTTPStatus.NOT_FOUND, "There is nothing here.")
            return
        file, size, kind = found
        with file:
            asked = asked_range(self.headers.get("Range", ""), size)
            if asked is None:
                headers = {"Content-Range": f"bytes */{size}"}
                self._reply(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "", headers=headers)
                return
            begin, end = asked
            whole = (begin, end) == (0, size)
            self.send_response(HTTPStatus.OK if whole else HTTPStatus.PARTIAL_CONTENT)
            about = {"Content-Security-Policy": _NOTHING_ALLOWED, **_SAFE, "Content-Type": kind}
            about |= {"Content-Length": str(end - begin), "Connection": "close"}
            about |= {"Accept-Ranges": "bytes", "Cache-Control": "private, max-age=60"}
            if not whole:
                about["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
            for header, value in about.items():
                self.send_header(header, value)
            self.end_headers()
            file.seek(begin)
            left = end - begin if self.command != "HEAD" else 0
            while left > 0 and (piece := file.read(min(left, _PIECE))):
                self.wfile.write(piece)
                left -= len(piece)

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        try:
            parts = urlsplit(self.path)
            return parts.path if not parts.netloc else "", parse_qs(parts.query, max_num_fields=16)
        except ValueError:
            return "", {}

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        """Why this request is not answered; None if it is."""
        hosts = getattr(self, "headers", {}) and self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self.server.door.allows(hosts[0]):
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
        return any(self.server.door.opens_for(one) for one in shown)

    def _welcome(self) -> None:
        """Keep the token in a cookie, and out of the address bar and the history."""
        cookie = f"{self.server.cookie}={self.server.door.token.decode()}"
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


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """The bytes that a request wants, begin and end; None if there are no such.

    >>> asked_range("bytes=10-", 100), asked_range("bytes=-10", 100), asked_range("", 100)
    ((10, 100), (90, 100), (0, 100))
    """
    match = re.fullmatch(r"bytes=(\d{0,15})-(\d{0,15})", header.strip())
    if match is None or match.groups() == ("", ""):
        return 0, size  # none, several, or something else: all of it is a right answer
    first, last = match.groups()
    if not first:
        return (max(0, size - int(last)), size) if int(last) else None
    begin, end = int(first), min(size, int(last) + 1 if last else size)
    return (begin, end) if begin < end else None


def _encode(data: dict[str, Any]) -> str:
    return to_json(data, compact=True)
