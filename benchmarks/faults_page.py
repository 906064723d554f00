"""`docs/faults.md` and `results/faults.json`, from what `faults.py` has measured."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, RESULTS = HERE.parent / "docs" / "faults.md", HERE / "results" / "faults.json"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(rows: list[Any]) -> None:
    """Rows that were measured replace what was measured of them before."""
    known = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    for row in rows:
        known[str(row.number)] = {
            "fault": row.fault,
            "happens": row.happens,
            "target": row.target,
            "figures": row.figures,
            "ok": row.ok,
        }
    known = dict(sorted(known.items(), key=lambda item: int(item[0])))
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    RESULTS.write_text(json.dumps({**machine, "rows": known}, indent=1) + "\n")
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n\n" + table(known) + "\n\n" + END + after)


def table(rows: dict[str, Any]) -> str:
    """As Markdown."""
    lines = ["| | fault | what happens | target | measured |", "|---|---|---|---|---|"]
    for number, row in rows.items():
        told = "; ".join(row["figures"]).replace("|", "\\|").replace("\n", " ")
        mark = "" if row["ok"] else "**missed:** "
        lines.append(
            f"| F{number} | {row['fault']} | {row['happens']} | {row['target']} | {mark}{told} |"
        )
    return "\n".join(lines)
