"""What our servers have in common: they listen on this machine alone, and know who may ask.

A token says who; the host that a request names says how it got here: a page elsewhere can lead a
browser to an address of ours, but only under a name of its own.
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
import re
import secrets
import socket

from rillflow.errors import BuildError

_SHORTEST_TOKEN = 16
_NAMES = {"localhost", "127.0.0.1", "::1"}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Door:
    """Where a server listens, and whom it lets in.

    Args:
        who: of our servers, for messages: "view", "serve".
        host: the address. Any but this machine's own needs a token.
        token: what must be shown; None: a random one.
    """

    def __init__(self, who: str, host: str, token: str | None) -> None:
        self.host, self.loopback = host, is_loopback(host)
        if token is None and not self.loopback:
            raise BuildError(
                f"{who}: {host!r} can be reached from other machines, so it needs a `token` of "
                "your own; or leave `host` as it is and look through `ssh -L`."
            )
        token = secrets.token_urlsafe(24) if token is None else token
        if not re.fullmatch(rf"[A-Za-z0-9_-]{{{_SHORTEST_TOKEN},200}}", token):
            raise BuildError(
                f"{who}: a token has {_SHORTEST_TOKEN} to 200 letters, digits, '-' or '_'; "
                "`secrets.token_urlsafe(24)` makes a good one."
            )
        self.token = token.encode()
        address = _address(host)
        self.wildcard = address is not None and address.is_unspecified
        self._names = _NAMES | {host.lower()}
        if not self.loopback:
            self._names.add(socket.gethostname().lower())

    @property
    def shown(self) -> str:
        """The host as part of an address to open."""
        shown = socket.gethostname() if self.wildcard else self.host
        return f"[{shown}]" if ":" in shown else shown

    def allows(self, host: str) -> bool:
        """Whether a request may name this host: a name that leads here, not one that was bent to.

        An address cannot be bent, so any will do where other machines are meant to reach us.
        """
        match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?", host)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        return name in self._names or (not self.loopback and _address(name) is not None)

    def opens_for(self, shown: str) -> bool:
        """Whether this is the token; how long it takes to tell says nothing of it."""
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self.token)


def why_not(error: OSError, host: str, port: int) -> str:
    """Why nobody can listen there, as a sentence."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use; choose another, or 0 for any that is free."
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by this user; choose one above 1023, or 0."
    return f"cannot listen on {host}, port {port}: {error.strerror or error}."


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
