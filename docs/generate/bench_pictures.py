"""Pictures of benchmarks, each drawn from one saved document."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs.generate import curve_panels
from docs.generate.colours import INK, MISSED, OURS, THEIRS

Document = dict[str, Any]
Series = dict[str, list[float]]
WIDE = 30
"""from this ratio of the largest to the smallest number on, an axis is logarithmic"""


def draw(document: Document, path: Path) -> bool:
    """The picture of a question; False if there is nothing to draw."""
    import matplotlib

    from rillflow.results.plots import STYLE

    matplotlib.use("Agg")
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        figure = PICTURES_OF.get(document["question"], ratios)(document)
        if figure is None:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, facecolor="white", metadata={"Date": None}, bbox_inches="tight")
    return True


def strips(panels: list[tuple[str, Series]]) -> Any:
    """Horizontal bars at the median, a dot for each single measurement; ours in blue."""
    from matplotlib.figure import Figure

    panels = [(title, {k: v for k, v in series.items() if v}) for title, series in panels]
    panels = [(title, series) for title, series in panels if series]
    if not panels:
        return None
    sizes = [len(series) for _, series in panels]
    figure = Figure(figsize=(8.0, sum(0.4 * size + 0.95 for size in sizes)))
    axes = figure.subplots(
        len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": [n + 1.2 for n in sizes]}
    ).ravel()
    for ax, (title, series) in zip(axes, panels, strict=True):
        _strip(ax, title, series)
    figure.tight_layout(h_pad=1.4)
    return figure


def _strip(ax: Any, title: str, series: Series) -> None:
    everything = [value for values in series.values() for value in values]
    low, wide = min(everything) / 2, max(everything) > WIDE * max(min(everything), 1e-9)
    for place, (label, values) in enumerate(series.items()):
        middle = statistics.median(values)
        colour = OURS if label.startswith("rillflow") else THEIRS
        if wide:  # a bar has no beginning on a logarithmic axis
            ax.hlines(place, low, middle, color=colour, lw=2)
            ax.plot([middle], [place], "o", color=colour, ms=8)
        else:
            ax.barh(place, middle, color=colour, height=0.62)
        ax.plot(values, [place] * len(values), "o", color=INK, ms=3, alpha=0.7, zorder=4)
        _tell(ax, _short(middle), max(values), place)
    if wide:
        ax.set_xscale("log")
    ax.set_xlim(low if wide else 0, max(everything) * (3 if wide else 1.15))
    ax.xaxis.set_major_formatter(lambda value, _: _short(value))
    ax.set_ylim(-0.6, len(series) - 0.4)
    _rows(ax, list(series), title)


def _tell(ax: Any, text: str, x: float, place: int) -> None:
    """Right of a point."""
    ax.annotate(text, (x, place), xytext=(9, 0), textcoords="offset points", va="center",
                fontsize=9.5, color=INK)  # fmt: skip


def _rows(ax: Any, labels: list[str], title: str) -> None:
    """Named rows from the top, with strokes from top to bottom below everything."""
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_axisbelow(True)
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)
    ax.tick_params(length=0, which="both")
    ax.set_title(title, loc="left", fontsize=11.5, fontweight="bold", color=INK)


def ratios(document: Document) -> Any:
    """Every ratio that has a bar, and the bar as a stroke: right of it is better, or left of it."""
    from matplotlib.figure import Figure

    found = [figure for figure in document["figures"] if figure["bar"] is not None]
    if not found:
        return None
    figure = Figure(figsize=(8.0, 0.42 * len(found) + 1.0))
    ax = figure.subplots()
    for place, item in enumerate(found):
        limit, pairs = float(item["bar"].split()[1]), item["details"].get("pairs", [])
        ax.plot(pairs, [place] * len(pairs), "o", color=INK, ms=3, alpha=0.7, zorder=4)
        ax.plot([item["value"]], [place], "o", color=OURS if item["ok"] else MISSED, ms=9)
        ax.plot([limit], [place], "|", color=INK, ms=18, mew=1.6)
        rightmost = max([item["value"], limit, *pairs])
        _tell(ax, f"{item['value']:g} ({item['bar']})", rightmost, place)
    ax.margins(x=0.25)
    ax.set_ylim(-0.6, len(found) - 0.4)
    _rows(ax, [item["benchmark"] for item in found], "figures (dots) and bars (strokes)")
    return figure


def by_case(*panels: tuple[str, str, Callable[[str], bool]]) -> Callable[[Document], Any]:
    """Panels of one number each, for the cases that are wanted in it."""

    def made(document: Document) -> Any:
        rows = document["measurements"]
        cases = dict.fromkeys(row["case"] for row in rows)
        found = []
        for title, name, wanted in panels:
            series: Series = {}
            for case in filter(wanted, cases):
                label, values = _values([row for row in rows if row["case"] == case], name)
                series[case.removesuffix(" memory").removesuffix(" updates") + label] = values
            found.append((title, series))
        return strips(found)

    return made


def _values(rows: list[dict[str, Any]], name: str) -> tuple[str, list[float]]:
    """One number of each run; of a run that did not get there, the time it took in vain."""
    if name not in ("train_s", "wall_s"):
        return "", [row[name] for row in rows if row.get(name) is not None]
    values = [row.get(name, row.get("run_s")) for row in rows if "run_s" in row]
    missed = sum(name not in row for row in rows if "run_s" in row)
    return (f"\n{missed} of {len(values)} not there yet" if missed else ""), values


def sampling(document: Document) -> Any:
    """Single environments, each side with its best number of copies; defaults; the bare loop."""
    panels: dict[str, Series] = {}
    for row in document["measurements"]:
        case, rates = row["case"], row.get("rates", {})
        if " x" in case:
            panels.setdefault("CartPole-v1, 512 native copies a worker: steps/s", {}).setdefault(
                case, []
            ).extend(rates.values())
            continue
        for env in ("CartPole-v1", "Walk-v0", "MountainCar-v0", "Acrobot-v1"):
            single = ("sync", "single")  # what is native is shown beside the bare loop
            own = {c: r for c, r in rates.items() if c.endswith(env) and c.startswith(single)}
            if own:
                title = f"{env} as single environments, two workers: steps/s"
                panels.setdefault(title, {}).setdefault(case, []).append(max(own.values()))
        for name, rate in rates.items():
            if name.startswith("default"):
                title = "CartPole-v1, default settings: steps/s"
                panels.setdefault(title, {}).setdefault(case, []).append(rate)
    return strips(list(panels.items()))


def growth(document: Document) -> Any:
    """A small curve for each thing that grows."""
    from matplotlib.figure import Figure

    curves: dict[str, list[dict[str, Any]]] = {}
    for item in document["figures"]:
        curves.setdefault(item["details"]["curve"], []).append(item)
    if not curves:
        return None
    figure = Figure(figsize=(9.6, 5.6))
    axes = figure.subplots(2, 3).ravel()
    for ax, (name, items) in zip(axes, curves.items(), strict=False):
        sizes = [item["details"]["size"] for item in items]
        values = [item["value"] for item in items]
        ax.plot(sizes, values, "o-", color=OURS, ms=5)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [_short(size) for size in sizes])
        ax.minorticks_off()
        ax.set_ylim(0, 1.2 * max(values))
        ax.set_title(name.replace("_", " "), loc="left", fontsize=11, fontweight="bold", color=INK)
        ax.set_xlabel(_wrapped(items[0]["unit"]), fontsize=8.5)
        ax.tick_params(labelsize=9, length=3)
    for ax in axes[len(curves) :]:
        ax.set_visible(False)
    figure.tight_layout(h_pad=2.0)
    return figure


def _wrapped(text: str) -> str:
    return text.replace(", ", ",\n", 1)


def _short(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _plain(case: str) -> bool:
    return " " not in case


PICTURES_OF: dict[str, Callable[[Document], Any]] = {
    "ppo_cartpole": by_case(
        ("seconds of training to a mean return of 475", "train_s", _plain),
        ("seconds with process start and imports", "wall_s", _plain),
        ("env steps per second while training", "steps_per_s", _plain),
        ("peak memory of all processes, MB", "peak_mb", lambda case: case.endswith("memory")),
    ),
    "pong": by_case(
        ("IMPALA on Pong, env steps/s while training", "steps_per_s", lambda c: "impala" in c),
        ("PPO on Pong, env steps/s while training", "steps_per_s", lambda c: "ppo" in c),
    ),
    "dqn_cartpole": by_case(
        ("seconds of training until 20 greedy episodes reach 475", "train_s", _plain),
        ("updates per second, 256 x 256, batch 64", "updates_per_s", lambda c: "updates" in c),
    ),
    "sampling": sampling,
    "growth": growth,
    "generality": curve_panels.generality,
    "mujoco_million": curve_panels.mujoco_million,
    "simple_spread": curve_panels.simple_spread,
}
