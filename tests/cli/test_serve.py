"""`serve` as a program: what it prints is enough to ask it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment

pytestmark = pytest.mark.proc


def test_the_printed_command_is_answered_and_ctrl_c_ends_it(finished: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rillflow", "serve", str(finished)], cwd=tmp_path,
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url, token, command = (process.stdout.readline().strip() for _ in range(3))
        words = shlex.split(command)
        assert words[0] == "curl"
        assert url.startswith("http://127.0.0.1:")
        assert words[-1] == f"{url}/act"
        assert token.split()[1] in words[2]
        name, _, value = words[2].partition(": ")
        request = urllib.request.Request(words[-1], words[4].encode(), {name: value})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["action"] in (0, 1)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_mistakes_are_one_line(call: Any, finished: Path) -> None:
    for arguments, told in [
        (["serve", "missing"], "there is no run and no file 'missing'"),
        (["serve", str(finished), "--token", "short"], "a token has 16 to 200"),
        (["serve", str(finished), "--host", "0.0.0.0"], "needs a `token` of your own"),
        (["serve", str(finished), "--window", "5000"], "a window is 0 to 1 seconds"),
    ]:
        done = call(*arguments)
        assert done.code == 2
        assert told in done.err.splitlines()[-1]
