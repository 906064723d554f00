"""What the page for those who come from elsewhere calls ours is ours; hints say the same."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import rillflow as rf
from docs.generate import public_names
from rillflow.learning.did_you_mean import our_name

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
CLI = Path(rf.__file__).parent / "cli"
ROWS = re.findall(
    r"^\| (?!there|the complaint|---)(.*) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M
)
SETTINGS = {name for names in public_names.settings().values() for name in names}
ARGUMENTS = {name for call in (rf.train, rf.resume) for name in inspect.signature(call).parameters}
NO_SETTINGS = {"policy_mapping", "worker", "steps"}
"""of `MultiAgentConfig`, of an algorithm of one's own, of `rf.Linear`"""


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_setting_and_flag_that_the_page_names_is_one() -> None:
    assert len(ROWS) > 80
    flags = "".join(path.read_text("utf-8") for path in CLI.rglob("*.py"))
    for _, ours in ROWS:
        text = " ".join(code(ours))
        for name in re.findall(r"\b([a-z_]+)=", text):
            assert name in SETTINGS | ARGUMENTS | NO_SETTINGS, name
        for flag in re.findall(r"--[a-z][a-z-]+", text):
            assert f'"{flag}"' in flags or flag[2:].replace("-", "_") in SETTINGS, flag


def test_the_hints_say_what_the_page_says() -> None:
    """Rows that translate name by name: who types the left one is told the right one."""
    seen = 0
    for theirs, ours in ROWS:
        left, right = (
            [name.removeprefix("--").replace("-", "_") for name in code(side)]
            for side in (theirs, ours)
        )
        if len(left) != len(right) or not set(right) <= SETTINGS:
            continue
        if not all(re.fullmatch("[a-z_]+", name) for name in left):
            continue
        for name, own in zip(left, right, strict=True):
            assert name == own or our_name(name, {own}), f"{name} is not understood as {own}"
            seen += 1
    assert seen > 25
