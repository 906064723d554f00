"""The live display, on a terminal that is read as a person would read it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, environment

pexpect = pytest.importorskip("pexpect")
pyte = pytest.importorskip("pyte")


class Terminal:
    """A terminal of so many lines and columns in which a program runs."""

    def __init__(self, folder: Path, *arguments: str, lines: int = 40, columns: int = 100) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.child = pexpect.spawn(
            sys.executable, ["-m", "rillflow", *arguments], cwd=str(folder),
            env=environment(TERM="xterm-256color", COLUMNS="", LINES=""),
            dimensions=(lines, columns),
        )  # fmt: skip
        self.raw = b""

    def read_until(self, done=lambda text: False, seconds: float = 60) -> str:
        import time

        until = time.monotonic() + seconds
        while time.monotonic() < until and not done(self.text):
            try:
                data = self.child.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                self.child.close()
                break
            self.raw += data
            self._stream.feed(data)
        return self.text

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()


@pytest.mark.proc
def test_the_display_shows_the_run(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "train", "ppo", "CartPole-v1", *QUICK, "--engine", "local",
                        "--until", "seconds=5")  # fmt: skip

    def whole(text: str) -> bool:
        """All there is to see, which is drawn piece by piece."""
        curve = any("\u2801" <= character <= "\u28ff" for character in text)
        verdict = "Bottleneck: " in text or "Nothing is saturated" in text
        shown = ("┤", "steps/s", "left", "for_each(TrainOneStep)",
                 "Ctrl-C finishes the update, saves and stops")  # fmt: skip
        return curve and verdict and all(part in text for part in shown)

    during = terminal.read_until(whole)
    assert whole(during), during
    assert during.startswith(
        "ppo on CartPole-v1, engine local, seed 0, into runs/ppo-CartPole-v1-1"
    )
    after = terminal.read_until()
    assert terminal.child.exitstatus == 0
    assert " is reached: return " in after
    assert after.count("ppo on CartPole-v1") == 1  # drawn over, not again and again
    assert "Ctrl-C" not in after
    assert after.splitlines()[-1].strip().startswith("rillflow resume runs/ppo")


@pytest.mark.proc
def test_the_display_fits_a_small_terminal_and_hears_ctrl_c(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "train", "apex", "CartPole-v1", "--num-workers", "1",
                        "--until", "steps=1e9", lines=24, columns=80)  # fmt: skip
    shown = ("background(learner)", "┤", "Ctrl-C finishes the update")
    during = terminal.read_until(lambda text: all(part in text for part in shown))
    assert all(part in during for part in shown), during
    assert during.splitlines()[0].startswith("apex on CartPole-v1")  # nothing scrolled away
    terminal.child.sendintr()
    after = terminal.read_until()
    assert terminal.child.exitstatus == 130
    assert "stopped by you: " in after
    assert b"Traceback" not in terminal.raw
    assert terminal.raw.count(b"\x1b[?25l") == terminal.raw.count(
        b"\x1b[?25h"
    )  # the cursor is back


def test_the_curve_of_a_long_run_stays_small() -> None:
    from rillflow.runs.progress.display import Curve

    curve = Curve()
    for step in range(100_000):
        curve.add(step, float(step))
    assert 900 < len(curve.xs) <= 2001
    assert curve.xs[-1] > 99_000
