"""The index of decisions, from the headings of their files."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "decisions"


def index() -> str:
    """A line for each, with its first sentence."""
    rows = ["| | decision | in a sentence |", "|---|---|---|"]
    for path in sorted(FOLDER.glob("0*.md")):
        heading, _, text = path.read_text(encoding="utf-8").partition("\n")
        number, _, title = heading.removeprefix("# ").partition(". ")
        sentence = " ".join(text.strip().split("\n\n")[0].split()).partition(". ")[0]
        rows.append(f"| {number} | [{title}](decisions/{path.name}) | {sentence.rstrip('.:')}. |")
    return "\n".join(rows)
