"""Serves the view of a run, or of many: pages and their data, read-only, to whoever has the token.

Nothing listens unless `serve` is called. It binds to this machine alone unless told otherwise;
answers only requests that name it as their host, so that a page elsewhere cannot reach it through a
name of its own; and makes no path into the name of a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from rillflow.errors import BuildError, RunError
from rillflow.listening import Door, why_not
from rillflow.web.handler import Handler, Page
from rillflow.web.site import Site

_CONNECTIONS = 48
"""that may be open without having said what they want"""


class View:
    """A view that is being served; `url` opens it. Close it, or leave its `with` block."""

    def __init__(self, server: Server, url: str) -> None:
        self.url = url
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.25}, name="view", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Serve until somebody closes the view, or interrupts."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # a join without a limit cannot be interrupted everywhere

    def close(self) -> None:
        """Stop listening. Safe to call twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    run_dir: str | Path, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> View:
    """Show the run whose files are in a directory, or its runs, from a thread of this process.

    Args:
        run_dir: the run's directory; it may be running, finished, or not have begun. Or one with
            directories of runs.
        host: the address to listen on. Anything but this machine's own needs a `token`, and is
            not encrypted: `ssh -L` is the better way to look at a run elsewhere.
        port: 0 takes any that is free.
        token: what a reader has to show; a random one by default.
    """
    directory = Path(run_dir)
    if not directory.is_dir():
        raise BuildError(f"view: there is no run directory {str(run_dir)!r}.")
    door = Door("view", host, token)
    try:
        server = Server(door, port, Site(directory))
    except OSError as error:
        raise RunError(f"view: {why_not(error, host, port)}") from error
    except OverflowError:
        raise BuildError(f"view: a port is a number from 0 to 65535, got {port!r}.") from None
    return View(
        server, f"http://{door.shown}:{server.server_address[1]}/?token={door.token.decode()}"
    )


class Server(ThreadingHTTPServer):
    """Knows who may ask, and what there is to tell; `Handler` does the talking."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_port = False
    request_queue_size = 64

    def __init__(self, door: Door, port: int, site: Site) -> None:
        self.site, self.door = site, door
        # cookies are shared by all ports of a host; this name is not shared by two views
        self.cookie = "rillflow-" + hashlib.sha256(door.token).hexdigest()[:12]
        self.pages = {"run": Page("page.html"), "runs": Page("runs.html")}
        self.waiting: dict[int, socket.socket] = {}
        """connections that have not said yet what they want, the oldest first"""
        self.guard = threading.Lock()
        if ":" in door.host:
            self.address_family = socket.AF_INET6
        super().__init__((door.host, port), Handler)

    def server_bind(self) -> None:
        """As any server; the one for HTTP looks up its own name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Whoever is slow to say what it wants makes room for the next when there are too many."""
        with self.guard:
            if len(self.waiting) >= _CONNECTIONS:
                oldest = self.waiting.pop(next(iter(self.waiting)))
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self.waiting[id(request)] = request
        super().process_request(request, client_address)

    def heard(self, request: Any) -> None:
        """A connection has said what it wants, or has ended."""
        with self.guard:
            self.waiting.pop(id(request), None)

    def shutdown_request(self, request: Any) -> None:
        """The end of a connection."""
        self.heard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is none of the run's business."""
