"""A policy behind HTTP: `POST /act` answers observations with actions, `GET /` says what it takes.

It binds to this machine alone unless told otherwise, and answers only who shows the token and names
it as its host. Whatever is wrong with a request is told in one JSON object with an `error`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import TimeoutError as Late
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

import numpy as np

from rillflow.errors import BuildError, RunError
from rillflow.files import to_json
from rillflow.listening import Door, why_not
from rillflow.safety.bounded import JSON_DEPTH, parse_json
from rillflow.serving.batching import MOST_ROWS, Batcher, FullError, Question
from rillflow.serving.observations import (
    BadRequestError,
    Encoder,
    actions_to_json,
    described,
    shown,
)

if TYPE_CHECKING:
    from rillflow.results.trained import Trained

BODY_BYTES = 16 << 20
"""of one request"""
_SECONDS = 30.0
"""a connection may be silent, and a request may take, so long"""
_CONNECTIONS = 256
_DRAIN_BYTES, _DRAIN_SECONDS = 64 << 20, 2.0
_SESSION_LETTERS = 200
_KNOWN = ("observation", "observations", "action_mask", "action_masks", "session", "sessions",
          "start", "starts")  # fmt: skip


class Served:
    """A policy that is being served. Close it, or leave its `with` block."""

    def __init__(self, server: _Server, url: str) -> None:
        self.url, self.token = url, server.door.token.decode()
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.25}, name="serve", daemon=True
        )
        self._thread.start()

    @property
    def batcher(self) -> Batcher:
        """Who acts: how often, and on how many observations."""
        return self._server.batcher

    def wait(self) -> None:
        """Serve until somebody closes it, or interrupts."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop listening. Safe to call twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server.batcher.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    trained: Trained,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    *,
    window: float = 0.001,
    sampled: bool = False,
) -> Served:
    """Answer observations with the actions of a policy, from threads of this process.

    Args:
        trained: what `train` or `load` returned.
        host: the address to listen on. Anything but this machine's own needs a `token`, and is
            not encrypted: `ssh -L` is the better way.
        port: 0 takes any that is free.
        token: what a client has to show; a random one by default.
        window: seconds in which requests are gathered into one pass of the network.
        sampled: draw actions; by default they are the most likely ones.
    """
    door = Door("serve", host, token)
    if not 0 <= window <= 1:
        raise BuildError(f"serve: a window is 0 to 1 seconds, got {window!r}.")
    batcher = Batcher(trained.spec, trained.weights, window, sampled=sampled)
    try:
        server = _Server(door, port, batcher)
    except OSError as error:
        batcher.close()
        raise RunError(f"serve: {why_not(error, host, port)}") from error
    except OverflowError:
        batcher.close()
        raise BuildError(f"serve: a port is a number from 0 to 65535, got {port!r}.") from None
    return Served(server, f"http://{door.shown}:{server.server_address[1]}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_port = False
    request_queue_size = 128

    def __init__(self, door: Door, port: int, batcher: Batcher) -> None:
        self.door, self.batcher = door, batcher
        self.encoder = Encoder(batcher.spec)
        self.about = described(batcher.spec)
        self.free = threading.Semaphore(_CONNECTIONS)
        if ":" in door.host:
            self.address_family = socket.AF_INET6
        super().__init__((door.host, port), _Handler)

    def server_bind(self) -> None:
        """As any server; the one for HTTP looks up its own name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """One more than there may be is turned away at once."""
        if not self.free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                                b"Connection: close\r\n\r\n")  # fmt: skip
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The room of a connection is free again when it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's business."""


class _RefusedError(Exception):
    """A request that is not answered, and why."""

    def __init__(self, code: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.code = code


class _Handler(BaseHTTPRequestHandler):
    """Requests of one connection, which may be many."""

    server: _Server
    protocol_version, server_version, sys_version = "HTTP/1.1", "rillflow", ""
    timeout = _SECONDS
    disable_nagle_algorithm = True

    def _go(self) -> None:
        try:
            self._check_who()
            code, answer = HTTPStatus.OK, self._answer()
        except _RefusedError as refused:
            code, answer = refused.code, {"error": str(refused)}
        except BadRequestError as wrong:
            code, answer = HTTPStatus.BAD_REQUEST, {"error": str(wrong)}
        except FullError:
            code = HTTPStatus.SERVICE_UNAVAILABLE
            answer = {"error": "too many observations wait for their actions; ask again later"}
        except (Late, RunError) as error:
            code, answer = (
                HTTPStatus.SERVICE_UNAVAILABLE,
                {"error": str(error) or "it took too long"},
            )
        except OSError:
            self.close_connection = True  # the client has gone, or is too slow
            return
        except Exception as error:  # of the network: one's own may raise anything
            code = HTTPStatus.INTERNAL_SERVER_ERROR
            answer = {"error": f"the policy failed: {type(error).__name__}: {error}"[:500]}
        self._reply(code, answer)
        if self.close_connection:
            self._drain()

    do_GET = do_POST = _go  # noqa: N815 - the names that `http.server` looks for

    def _drain(self) -> None:
        """Take in some of what is not read: who is still sending would not hear the answer."""
        until, taken = time.monotonic() + _DRAIN_SECONDS, 0
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_DRAIN_SECONDS)
            while taken < _DRAIN_BYTES and time.monotonic() < until:
                piece = self.connection.recv(1 << 16)
                if not piece:
                    return
                taken += len(piece)

    def _check_who(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self.server.door.allows(hosts[0]):
            raise self._last(HTTPStatus.FORBIDDEN, "this is not the host of the server")
        if self.headers.get("Origin") is not None:
            raise self._last(HTTPStatus.FORBIDDEN, "web pages are not answered")
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not self.server.door.opens_for(value.strip()):
            why = "show the token that was printed, in a header: Authorization: Bearer TOKEN"
            raise self._last(HTTPStatus.UNAUTHORIZED, why)

    def _last(self, code: HTTPStatus, why: str) -> _RefusedError:
        """A refusal after which the connection ends: what follows in it is not read."""
        self.close_connection = True
        return _RefusedError(code, why)

    def _answer(self) -> dict[str, Any]:
        batcher = self.server.batcher
        match self.command, self.path:
            case "GET", "/":
                seen = {"passes": batcher.passes, "observations": batcher.rows}
                return {**self.server.about, "limits": _LIMITS, "answered": seen}
            case "POST", "/act":
                return self._act(self._body())
            case "POST", "/forget":
                session = self._body().get("session")
                return {"forgotten": batcher.forget(_session(session))}
            case _, "/" | "/act" | "/forget":
                raise self._last(HTTPStatus.METHOD_NOT_ALLOWED, _METHODS)
        raise self._last(HTTPStatus.NOT_FOUND, "there is nothing here but /, /act and /forget")

    def _body(self) -> dict[str, Any]:
        """The object in a request, which is read only if it is as long as it may be."""
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or len(length) > 15:
            why = "a request says in Content-Length how many bytes it has"
            raise self._last(HTTPStatus.LENGTH_REQUIRED, why)
        if self.headers.get("Transfer-Encoding") is not None:
            raise self._last(HTTPStatus.LENGTH_REQUIRED, "requests in chunks are not read")
        if int(length) > BODY_BYTES:
            why = f"a request has at most {BODY_BYTES:,} bytes, and this one {int(length):,}"
            raise self._last(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        data = self.rfile.read(int(length))
        try:
            body = parse_json(data)
        except ValueError as error:
            raise BadRequestError(f"this is not JSON that is read here: {error}"[:300]) from None
        if not isinstance(body, dict):
            raise BadRequestError('a request is an object, such as {"observation": [...]}')
        return body

    def _act(self, body: dict[str, Any]) -> dict[str, Any]:
        unknown = [name for name in body if name not in _KNOWN]
        if unknown:
            raise BadRequestError(f"unknown {unknown[0][:60]!r}; there are {', '.join(_KNOWN)}")
        several = "observations" in body
        if several == ("observation" in body):
            raise BadRequestError("give an observation, or a list of observations")
        observations = _listed(body, "observation", several)
        if not observations:
            return {"actions": []}
        if len(observations) > MOST_ROWS:
            raise BadRequestError(f"at most {MOST_ROWS:,} observations in one request")
        masks = _beside(body, "action_mask", several, len(observations), None)
        row = self.server.encoder.row
        rows = np.stack([row(one, mask) for one, mask in zip(observations, masks, strict=True)])
        question = Question(rows, *self._whose(body, several, len(rows)))
        actions = self.server.batcher.ask(question).result(_SECONDS)
        found = actions_to_json(self.server.batcher.spec, actions)
        return {"actions": found} if several else {"action": found[0]}

    def _whose(self, body: dict[str, Any], several: bool, count: int) -> tuple[Any, Any]:
        """Of a policy that remembers: sessions, and where episodes start."""
        if not self.server.batcher.spec.recurrent:
            return (), ()
        sessions = [_session(one) for one in _beside(body, "session", several, count, None)]
        starts = _beside(body, "start", several, count, False)
        if len(set(sessions)) < count:
            raise BadRequestError("two observations of one session in one request: ask one by one")
        if not all(isinstance(start, bool) for start in starts):
            raise BadRequestError("start is true where an episode begins, else false")
        return sessions, starts

    def _reply(self, code: HTTPStatus, answer: dict[str, Any]) -> None:
        body = (to_json(answer) + "\n").encode()
        with contextlib.suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            if code == HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parser of requests says of one it cannot read; in our own words."""
        self.command = getattr(self, "command", None) or ""
        self.close_connection = True
        known = HTTPStatus(code) != HTTPStatus.NOT_IMPLEMENTED
        why = "this is not a request that can be read" if known else _METHODS
        self._reply(HTTPStatus(code), {"error": why})
        self._drain()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to whoever serves."""


_METHODS = "there are GET /, POST /act and POST /forget"
_LIMITS = {"bytes": BODY_BYTES, "observations": MOST_ROWS, "levels": JSON_DEPTH}


def _listed(body: dict[str, Any], name: str, several: bool) -> list[Any]:
    """What is said once for one, or in a list for several."""
    if not several:
        return [body[name]]
    found = body[f"{name}s"]
    if not isinstance(found, list):
        raise BadRequestError(f"{name}s is a list, with one for each")
    return found


def _beside(body: dict[str, Any], name: str, several: bool, count: int, usual: Any) -> list[Any]:
    """The same for what stands beside the observations."""
    wrong, right = (name, f"{name}s") if several else (f"{name}s", name)
    if wrong in body:
        raise BadRequestError(f"{wrong!r} belongs to {'one observation' if several else 'a list'}")
    if right not in body:
        return [usual] * count
    found = _listed(body, name, several)
    if len(found) != count:
        raise BadRequestError(f"{right} has {len(found)} entries for {count} observations")
    return found


def _session(value: Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= _SESSION_LETTERS:
        return value
    raise BadRequestError(
        "this policy remembers, so each request says whose episode it goes on with: "
        '"session": a text of 1 to 200 letters, and "start": true where an episode begins'
    )


def example(served: Served) -> str:
    """A command that asks it, to be copied; with an observation of zeros."""
    spec = served.batcher.spec
    body: dict[str, Any] = {"observation": zeros(spec)}
    if spec.recurrent:
        body |= {"session": "one", "start": True}
    said = json.dumps(body)
    said = said if len(said) < 400 else '{"observation": ...}'
    return f"curl -H 'Authorization: Bearer {served.token}' -d '{said}' {served.url}/act"


def zeros(spec: Any) -> Any:
    """An observation of this policy, as JSON."""
    from rillflow.envs.layout import MASK, rebuilt

    if spec.layout is None:
        return _zero(shown(spec.observation_space))
    parts = spec.layout.parts
    found = rebuilt(spec.layout.tree, lambda path: _zero(parts[path].raw))
    if spec.layout.mask_inside:
        found = {**found, MASK: [1] * spec.layout.mask_size}
    return found


def _zero(space: Any) -> Any:
    kind = float if np.dtype(space.dtype).kind == "f" else int
    return (np.zeros(space.shape or (), kind) + getattr(space, "start", 0)).tolist()
