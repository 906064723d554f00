"""Training runs in processes of their own, as many at a time as there is room for.

`train --seeds` and `tune` train like this: each run is `rillflow train ... --json` in a process, so
one that fails, or is killed, costs the others nothing; each writes its own directory. Ctrl-C comes
to us alone, for the processes are a group of their own each; they are told, once to finish and
save, twice to stop now.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

_LONGEST_LINE = 1 << 20
_TAIL = 20
"""lines of what a process says that are kept for the case that it fails"""
_ENDS_WITH = "RILLFLOW_ENDS_WITH"
"""a variable with the process that a run ends with"""
_PR_SET_PDEATHSIG = 1
_GRACE = 30.0
"""seconds that processes have, once they were told to stop now"""
_LAST_WORDS = 2.0
"""seconds in which a process that has ended is listened to"""
_HEARD = "stopping after this update"
"""what each process says of Ctrl-C: we say it once for all"""


@dataclass
class Member:
    """One run among several."""

    name: str
    """for people: "seed 3", "trial 7"."""
    arguments: Sequence[str]
    """of `rillflow train`; `--json` is added"""
    state: str = "waiting"
    """then running, and as the run says: finished, stopped or failed"""
    run: str = ""
    """its directory"""
    row: dict[str, Any] = field(default_factory=dict)
    """the newest"""
    why: str = ""
    code: int | None = None
    """of its process, once it has ended"""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))
    """its last words on stderr"""
    seconds: float = 0.0
    """from its start to its end"""
    began: float = 0.0
    gone: float = 0.0
    process: subprocess.Popen[bytes] | None = None

    @property
    def failure(self) -> str:
        """Why it failed, in a line."""
        if self.code is not None and self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        return next(reversed(self.said), f"exit code {self.code}")

    def stop(self) -> None:
        """Tell it to finish its update, save and end; told again, it ends now.

        One that has not begun only loads its modules: SIGTERM ends that without a traceback.
        """
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGINT if self.run else signal.SIGTERM)


Hear = Callable[[Member, dict[str, Any]], None]


class SideBySide:
    """Runs members, taken one by one from an iterator when there is room; a `with` block.

    Args:
        at_once: how many may run at the same time.
        hear: told of each event: those of `--json`, and `said` for a line on stderr, `ended`.
        tick: called a few times a second.
    """

    def __init__(self, at_once: int, hear: Hear, tick: Callable[[], None] = lambda: None) -> None:
        self.at_once, self.hear, self.tick = at_once, hear, tick
        self.members: list[Member] = []
        """those that began"""
        self.wishes = 0
        """how often the user has asked to stop"""
        self.signal: int = signal.SIGINT
        self._selector = selectors.DefaultSelector()
        self._rest: dict[Any, bytes] = {}
        self._open: dict[int, int] = {}
        """pipes of a process that have not ended"""
        self._before: dict[int, Any] = {}
        self._last_wish = 0.0

    def run(self, members: Iterator[Member]) -> None:
        """All of them, or those that began before the user wanted to stop."""
        left: Iterator[Member] | None = members
        running: list[Member] = []
        try:
            while (left is not None and not self.wishes) or running:
                while left is not None and len(running) < self.at_once and not self.wishes:
                    following = next(left, None)
                    if following is None:
                        left = None
                        break
                    self._start(following)
                    running.append(following)
                    if self.wishes:
                        following.stop()  # the wish came while it was being started
                self._listen(0.25)
                running = [member for member in running if not self._over(member)]
                self._give_up(running)
                self.tick()
        finally:
            for member in running:
                self._kill(member)
            self._selector.close()

    # -- processes ------------------------------------------------------------------------------

    def _start(self, member: Member) -> None:
        program = [sys.executable, "-m", "rillflow", "train", *member.arguments, "--json"]
        process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            env={**os.environ, _ENDS_WITH: str(os.getpid())},
        )
        member.process, member.state, member.began = process, "running", time.monotonic()
        self.members.append(member)
        self._open[process.pid] = 2
        for stream, name in ((process.stdout, "out"), (process.stderr, "err")):
            assert stream is not None, "asked for"
            self._rest[stream] = b""
            self._selector.register(stream, selectors.EVENT_READ, (member, name))

    def _listen(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            member, name = key.data
            stream: Any = key.fileobj
            data = os.read(stream.fileno(), 1 << 16)
            *lines, rest = (self._rest[stream] + data).split(b"\n")
            self._rest[stream] = rest[-_LONGEST_LINE:]
            for line in lines:
                self._take(member, name, line.decode(errors="replace"))
            if not data:
                if rest:
                    self._take(member, name, rest.decode(errors="replace"))
                self._selector.unregister(stream)
                stream.close()
                del self._rest[stream]
                assert member.process is not None, "it has said something"
                self._open[member.process.pid] -= 1

    def _take(self, member: Member, name: str, line: str) -> None:
        event: Any = None
        if name == "out" and line.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line)
        if not isinstance(event, dict) or "event" not in event:
            if line.strip() and not line.startswith(_HEARD):
                member.said.append(line.rstrip())
                self.hear(member, {"event": "said", "line": line.rstrip()})
            return
        member.run = event.get("run") or member.run
        if event["event"] == "row":
            member.row = event
        if event["event"] == "end":
            member.state, member.why = str(event.get("state")), str(event.get("why") or "")
            member.row = event.get("row") or member.row
        self.hear(member, event)

    def _over(self, member: Member) -> bool:
        """Whether a process has ended, and all that it said was heard."""
        process = member.process
        assert process is not None, "it runs"
        if process.poll() is None:
            return False
        member.gone = member.gone or time.monotonic()
        if self._open[process.pid] and time.monotonic() - member.gone < _LAST_WORDS:
            return False
        self._forget(member)
        member.code, member.seconds = process.returncode, member.gone - member.began
        if member.state == "running":
            member.state = "stopped" if self.wishes else "failed"
        self.hear(member, {"event": "ended"})
        return True

    def _forget(self, member: Member) -> None:
        """Listen no more, though a process of its own may live on and hold a pipe."""
        for key in list(self._selector.get_map().values()):
            if key.data[0] is member:
                self._selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]

    def _give_up(self, running: Sequence[Member]) -> None:
        if self.wishes >= 2 and time.monotonic() - self._last_wish > _GRACE:
            for member in running:
                self._kill(member)

    def _kill(self, member: Member) -> None:
        process = member.process
        if process is None:
            return
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    # -- Ctrl-C ---------------------------------------------------------------------------------

    def __enter__(self) -> SideBySide:
        """From here on Ctrl-C, SIGTERM and SIGHUP are wishes to stop."""
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue  # `nohup`
                self._before[number] = signal.signal(number, self._wish)
        except ValueError:
            pass  # not the main thread
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _wish(self, number: int, frame: FrameType | None) -> None:
        self.wishes += 1
        self.signal, self._last_wish = number, time.monotonic()
        for member in self.members:
            if member.code is None:
                member.stop()


def end_with_parent() -> None:
    """In a process of ours: be told to stop if whoever began it is killed, and cannot say so.

    Linux does it; elsewhere the run goes on to its limits.
    """
    parent = os.environ.pop(_ENDS_WITH, None)  # workers of the run are no children of that one
    if parent is None or not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):  # it was killed before we asked
        raise KeyboardInterrupt


def room_for(engine: str, workers: int) -> int:
    """How many runs the cores of this machine can take at the same time.

    A run of `workers` on `local` is so many processes and the driver, which is mostly busy too.
    """
    cores = len(os.sched_getaffinity(0))
    if engine == "sim":
        return cores
    return max(1, cores // (workers + 1)) if engine == "local" else 1


def without(arguments: Sequence[str], flags: dict[str, int]) -> list[str]:
    """A command line without some flags, each of which takes so many values.

    >>> without(["ppo", "--seeds", "0-4", "--lr=1e-3", "--jobs=2", "--json"],
    ...         {"--seeds": 1, "--jobs": 1, "--json": 0})
    ['ppo', '--lr=1e-3']
    """
    kept: list[str] = []
    left = iter(arguments)
    for token in left:
        name, equals, _ = token.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name not in flags:
            kept.append(token)
        elif not equals:
            for _ in range(flags[name]):
                next(left, None)
    return kept
