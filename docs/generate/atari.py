"""What `benchmarks/atari_gpu.py` has measured: tables, and curves as pictures in the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docs.generate.colours import INK, MISSED, OURS, THEIRS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "atari_gpu.json"
NOTHING = (
    "Nothing has been measured with these settings yet: `python benchmarks/atari_gpu.py --help` "
    "says how it is done."
)
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 420, 220, 46, 34
_COLOURS = (OURS, MISSED, THEIRS, "#009E73", "#CC79A7")

Part = dict[str, Any]


def page(path: Path = RESULTS) -> str:
    """Rates, trainings, evaluations and peers, as far as they were measured."""
    parts: list[Part] = json.loads(path.read_text())["parts"] if path.exists() else []
    if not parts:
        return NOTHING
    kinds = {
        kind: [part for part in parts if part["part"].startswith(kind)]
        for kind in ("rates", "throughput", "train", "evaluate", "peer")
    }
    pieces = [_machine(parts[0])]
    tables = (_rates, _throughput, _trainings, _evaluations, _peers)
    for found, table in zip(kinds.values(), tables, strict=True):
        if found:
            pieces.append(table(found))
    games = dict.fromkeys(part["game"] for part in kinds["train"] if part.get("curve"))
    pieces += [_picture(game, kinds["train"]) for game in games]
    return "\n\n".join(pieces)


def _machine(part: Part) -> str:
    here = part["machine"]
    return f"Measured on {here['cores']} cores ({here['cpu']}) with {here['gpu'] or 'no GPU'}."


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _rates(parts: list[Part]) -> str:
    """The environments alone."""
    rows = [
        [
            part["game"],
            f"{part['best']['steps_per_s']:,.0f}",
            f"{part['best']['processes']} x {part['best']['copies']} x {part['best']['threads']}",
        ]
        for part in parts
    ]
    return _table(["game alone, at random", "steps/s", "processes x games x threads"], rows)


def _throughput(parts: list[Part]) -> str:
    rows = [
        [
            part["algorithm"],
            part["game"].removeprefix("ALE/").removesuffix("-v5"),
            _number(part["steps_per_s"]),
            _number(part["own"]["steps_per_s"]),
            part["ratio"] if part["ratio"] is not None else "not measured",
            _number(part.get("mean_gpu"), " %"),
        ]
        for part in parts
    ]
    heads = ["training", "game", "steps/s", "the game's own", "ratio", "GPU busy"]
    return _table(heads, rows)


def _trainings(parts: list[Part]) -> str:
    rows = []
    for part in parts:
        last, reached = part["last"], part["reached"]
        goal = "" if part["target"] is None else "not reached"
        if reached:
            goal = f"after {reached['seconds']:,.0f} s, {reached['steps']:,.0f} steps"
        rows.append(
            [
                part["algorithm"],
                part["game"].removeprefix("ALE/").removesuffix("-v5"),
                _number(last.get("seconds")),
                _number(last.get("steps")),
                f"{last['return']:,.1f}" if "return" in last else "no game has ended",
                "" if part["target"] is None else f"{part['target']:g}: {goal}",
            ]
        )
    heads = ["training", "game", "seconds", "steps", "mean of 100 games", "goal"]
    return _table(heads, rows)


def _evaluations(parts: list[Part]) -> str:
    rows = [
        [part["run"], part["actions"], part["episodes"], f"{part['mean']:,.1f}", part["median"]]
        for part in parts
    ]
    return _table(["fresh games of", "actions", "games", "mean", "median"], rows)


def _peers(parts: list[Part]) -> str:
    rows = [
        [
            part["peer"],
            part["game"].removeprefix("ALE/").removesuffix("-v5"),
            _number(part["steps_per_s"]),
            part["return"],
            f"{part['reached']['seconds']} s" if part["reached"] else "not reached",
        ]
        for part in parts
    ]
    return _table(["peer", "game", "steps/s", "mean of 100 games", "goal"], rows)


def _number(value: float | None, unit: str = "") -> str:
    return "not measured" if value is None else f"{value:,.0f}{unit}"


def _picture(game: str, parts: list[Part]) -> str:
    """Mean returns over minutes of training, a line for each run."""
    curves = {
        part["part"].removeprefix("train-"): [
            (point["seconds"] / 60, point["return"]) for point in part["curve"] if "return" in point
        ]
        for part in parts
        if part["game"] == game and part.get("curve")
    }
    curves = {name: points for name, points in curves.items() if len(points) > 1}
    if not curves:
        return ""
    xs = [x for points in curves.values() for x, _ in points]
    ys = [y for points in curves.values() for _, y in points]
    most, low, high = max(xs), min(ys), max(max(ys), min(ys) + 1e-9)

    def place(x: float, y: float) -> str:
        across = _LEFT + (_WIDTH - _LEFT - 8) * x / most
        up = _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - 12) * (y - low) / (high - low)
        return f"{across:.1f},{up:.1f}"

    def text(x: float, y: float, words: str, anchor: str = "middle", fill: str = INK) -> str:
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}">{words}</text>'

    base = _HEIGHT - _BOTTOM
    drawn = [
        f'<path d="M{_LEFT},12V{base}H{_WIDTH - 8}" fill="none" stroke="{THEIRS}"/>',
        text(_LEFT - 6, base, f"{low:,.0f}", "end"),
        text(_LEFT - 6, 18, f"{high:,.0f}", "end"),
        text(_LEFT, base + 16, "0"),
        text(_WIDTH - 8, base + 16, f"{most:.1f} minutes", "end"),
    ]
    for index, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        line = " ".join(place(x, y) for x, y in points)
        drawn.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        )
        drawn.append(text(_WIDTH - 12, base - 10 - 14 * index, name, "end", colour))
    title = game.removeprefix("ALE/").removesuffix("-v5")
    return (
        f"**{title}**, mean of the last 100 games over minutes of training:\n\n"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" font-size="11" role="img" '
        f'aria-label="learning curves of {title}">' + "".join(drawn) + "</svg>"
    )
