"""A headless Chromium, driven through its pipe; keeps what the console and the network said."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)  # fmt: skip
_FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-component-update", "--disable-background-networking",
    "--disable-sync", "--disable-default-apps", "--hide-scrollbars", "--mute-audio",
    "--remote-debugging-pipe",
]  # fmt: skip


class BrowserError(Exception):
    """What the browser answers instead of a result."""


class Browser:
    """One process of Chromium with one tab at a time."""

    def __init__(self, profile: str) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # the browser reads commands from descriptor 3 and answers on 4
        shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", str(CHROMIUM), *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._ids = itertools.count(1)
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Ask the browser and wait for its answer; events meanwhile are kept."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message(60.0)
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(str(answer["error"]))
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def listen(self, seconds: float) -> None:
        """Take in events for a while."""
        until = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while (left := until - time.monotonic()) > 0:
                self.events.append(self._message(left))

    def _message(self, timeout: float) -> dict[str, Any]:
        until = time.monotonic() + timeout
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)  # type: ignore[no-any-return]

    def close(self) -> None:
        with contextlib.suppress(AssertionError, TimeoutError, OSError):
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)


class Tab:
    """One page, with a size and a colour scheme of its own."""

    def __init__(
        self, browser: Browser, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        self.browser = browser
        browser.events.clear()
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        made = browser.call("Target.createTarget", url="about:blank", browserContextId=context)
        self.target = made["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def until(self, expression: str, seconds: float = 60.0) -> None:
        """Wait for something to become true in the page."""
        end = time.monotonic() + seconds
        while not self._true(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            self.browser.listen(0.1)

    def _true(self, expression: str) -> bool:
        """Whether it is true now; it is not while one page makes room for another."""
        try:
            return bool(self.js(f"!!({expression})"))
        except BrowserError as error:
            if "navigated" not in str(error):
                raise
            return False

    def _events(self) -> list[dict[str, Any]]:
        """Those of this page: the last words of the one before may come late."""
        return [event for event in self.browser.events if event.get("sessionId") == self.session]

    def troubles(self) -> list[str]:
        """What the page complained about: exceptions, console errors, refused requests."""
        found = []
        for event in self._events():
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"].get("exception", params)))
            if event.get("method") == "Runtime.consoleAPICalled" and params["type"] != "log":
                found.append(str(params["args"]))
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Every address the page asked for."""
        return [event["params"]["request"]["url"] for event in self._events()
                if event.get("method") == "Network.requestWillBeSent"]  # fmt: skip

    def shoot(self, path: Path, *, whole: bool = True) -> None:
        """A picture of the page, all of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        params: dict[str, Any] = {"format": "png"}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params["clip"] = {
                "x": 0,
                "y": 0,
                "scale": 1,
                **{k: size[k] for k in ("width", "height")},
            }
            params["captureBeyondViewport"] = True
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **params)["data"]))

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            yield browser
        finally:
            browser.close()
