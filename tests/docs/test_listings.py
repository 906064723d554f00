"""Every Python listing of the documentation runs, and prints what the page says it prints.

The listings of a page are one program, run from top to bottom. A comment before a listing changes
that:

<!-- test: slow -->     takes long: this listing runs in `make test-slow` alone
<!-- test: setup -->    needed by the test, not by a reader who is elsewhere
<!-- test: output -->   before a ```text block: printed by the listing before it
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts)
_BLOCK = re.compile(
    r"(?:<!-- test: (\w+) -->\n)?^```(python|text)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL
)
pytestmark = pytest.mark.proc


@dataclass
class Listing:
    """One block of code and what it is said to print."""

    code: str
    slow: bool
    prints: list[str] = field(default_factory=list)


def listings(page: Path) -> list[Listing]:
    """Those of a page, in order; listings that come from files are tested there."""
    found: list[Listing] = []
    for note, language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        assert note in ("", "slow", "setup", "output"), f"{page}: unknown note {note!r}"
        if language == "python":
            found.append(Listing(text, note == "slow"))
        elif note == "output":
            found[-1].prints.append(text)
    return found


KERNELS = {"OPENBLAS_CORETYPE": "Haswell"} if platform.machine() == "x86_64" else {}
"""what the pages print was made with these: those of other processors round otherwise"""
QUICK = {"index.md", "quickstart.md", "debugging.md", "engines.md", "concepts.md"}
"""pages whose listings take little; all are run by `make test-slow`"""


def programs() -> list[object]:
    """Each page once without its slow listings, and once with them if it has any."""
    params: list[object] = []
    for page in PAGES:
        name = str(page.relative_to(ROOT / "docs"))
        parts = listings(page)
        if any(not part.slow for part in parts):
            marks = [] if name in QUICK else [pytest.mark.slow]
            params.append(pytest.param(page, False, id=name, marks=marks))
        if any(part.slow for part in parts):
            params.append(pytest.param(page, True, id=f"{name}-slow", marks=pytest.mark.slow))
    return params


def commands(page: Path, language: str) -> list[list[str]]:
    """The lines of a page's blocks that begin with `rillflow`."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("rillflow ")]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_of_the_quickstart_run(tmp_path: Path) -> None:
    """From nothing to a trained agent with a picture, as printed."""
    for arguments in commands(ROOT / "docs" / "quickstart.md", "sh"):
        program = [sys.executable, "-m", "rillflow", *arguments]
        subprocess.run(program, cwd=tmp_path, check=True, timeout=280, capture_output=True)
    assert {"curve.png", "strip.png"} <= {path.name for path in tmp_path.iterdir()}


def test_commands_that_train_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `rillflow train` that a page shows names things that exist."""
    from rillflow.cli.commands.train import add_run_flags
    from rillflow.cli.flags.parser import Parser
    from rillflow.cli.request import add_request_flags, parse_request

    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.delitem(sys.modules, "own_algorithm", raising=False)  # another test's, of that name
    seen = 0
    for page in PAGES:
        for command, *arguments in [*commands(page, "sh"), *commands(page, "text")]:
            if command == "train" and "my_module:MyEnv" not in arguments and "..." not in arguments:
                parser = Parser("train", "")
                add_request_flags(parser)
                add_run_flags(parser)
                assert parse_request(parser, arguments).config, arguments
                seen += 1
    assert seen > 10


@pytest.mark.parametrize(("page", "slow"), programs())
@pytest.mark.timeout(300)
def test_listings_run(page: Path, slow: bool, tmp_path: Path) -> None:
    """What a reader can copy works."""
    parts = [part for part in listings(page) if slow or not part.slow]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    program = tmp_path / "page.py"
    program.write_text("\n".join(part.code for part in parts), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=KERNELS | os.environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = plain(done.stdout)
    for part in parts:
        for expected in part.prints:
            assert plain(expected) in printed


def plain(text: str) -> str:
    """Without differences that nobody sees: blanks at the ends of lines, and how wide gaps are."""
    return re.sub(r"[ \t]+", " ", "\n".join(line.rstrip() for line in text.strip().splitlines()))
