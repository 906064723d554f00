"""Learning curves, drawn: one panel for each environment, one line for each algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rillflow.arguments import path_ending_in
from rillflow.errors import BuildError
from rillflow.files import whole_file
from rillflow.results.learning_curves import Group, read_groups
from rillflow.results.optional_libraries import needs

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""told apart by colour-blind eyes too (Okabe and Ito 2008)"""
_STYLES = ("-", "--", ":")
"""when there are more lines than colours"""
_AXES = {"steps": "environment steps", "seconds": "training time", "episodes": "episodes"}
_INK, _FAINT = "#222222", "#767676"
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#BBBBBB",
    "axes.labelcolor": _INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E6E6E6",
    "xtick.color": "#BBBBBB",
    "ytick.color": "#BBBBBB",
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rillflow",  # the same runs give the same file
    "pdf.fonttype": 42,
}


def plot_runs(
    run_dirs: Iterable[str | Path] | str | Path,
    path: str | Path,
    *,
    x: str = "steps",
    y: str = "return",
    labels: Sequence[str] = (),
    group_by: Sequence[str] = (),
) -> Path:
    """Draw the learning curves of some runs: `plot_runs(["runs/a", "runs/b"], "curves.png")`.

    Runs that differ in their seed alone are one line: the mean, in a band that holds it with 95%
    confidence (bootstrap over seeds; that of three reaches from the worst to the best), as far as
    all of them got; each run is drawn thinly. A line is named by what differs between the lines.
    There is a panel for each environment, and a dashed line at the return that was to be reached.

    Args:
        run_dirs: directories with a `metrics.jsonl` and, to know what it was, a `run.json`.
        path: a `.png`, `.svg` or `.pdf`.
        x: `steps`, `seconds` or `episodes`.
        y: `return`, or any other figure of the rows, such as `entropy`.
        labels: one for each run: runs of one label are one line of that name.
        group_by: settings, or `algorithm`, `label`, `engine`, `seed`, `run`: runs that agree in
            these are one line, whatever else differs.
    """
    path = path_ending_in(path, (".png", ".svg", ".pdf"), "a plot")
    if x not in _AXES:
        raise BuildError(f"plot: x is one of {', '.join(_AXES)}, found {x!r}.")
    matplotlib = needs("matplotlib", "plot", "a plot")
    given = [run_dirs] if isinstance(run_dirs, str | Path) else run_dirs
    groups = read_groups(given, x, y, labels=labels, group_by=group_by)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        figure = _figure(groups, x, y)
        with whole_file(path) as part:
            told = {"Date": None} if path.suffix.lower() == ".svg" else None
            figure.savefig(part, dpi=150, facecolor="white", metadata=told)
    return path


def _figure(groups: list[Group], x: str, y: str) -> Any:
    # the figure itself, without pyplot: no window, and nothing of the caller's is touched
    from matplotlib.figure import Figure

    envs = list(dict.fromkeys(group.env for group in groups))
    names = list(dict.fromkeys(group.name for group in groups))
    columns = min(len(envs), 2)  # with more of them, letters are too small on a page
    rows = -(-len(envs) // columns)
    figure = Figure(figsize=(8.0, 4.7) if columns == 1 else (10.6, 4.1 * rows))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, (ax, env) in enumerate(zip(axes, envs, strict=False)):
        here = [group for group in groups if group.env == env]
        _panel(ax, env, here, names, x)
        if place % columns == 0:
            ax.set_ylabel(_meaning("eval_return" if _from_data(groups) else y))
    for ax in axes[len(envs) :]:
        ax.set_visible(False)
    figure.tight_layout(w_pad=2.0, h_pad=2.0)
    return figure


def _panel(ax: Any, env: str, groups: Sequence[Group], names: list[str], x: str) -> None:
    unit, scale = _unit(x, groups)
    colours = []
    for group in groups:
        place = names.index(group.name)
        colours.append(COLOURS[place % len(COLOURS)])
        style = _STYLES[place // len(COLOURS) % len(_STYLES)]
        _curve(ax, group, colours[-1], style, scale, crowded=len(groups) > 3)
    goals = sorted({group.goal for group in groups if group.goal is not None})
    for goal in goals:
        ax.axhline(goal, color="#555555", lw=1.1, ls=(0, (5, 4)), zorder=2.5)
    ax.margins(x=0.01, y=0.06)
    low, high = ax.get_xlim()
    ax.set_xlim(left=0 if low < 0.25 * high else None)
    ax.set_title(env, loc="left", fontsize=12.5, color=_INK, fontweight="bold", pad=22,
                 parse_math=False)  # fmt: skip
    told = _subtitle(groups)
    ax.annotate(told, (0, 1), xycoords="axes fraction", xytext=(0, 8), color=_FAINT,
                textcoords="offset points", fontsize=9.5)  # fmt: skip
    ax.set_xlabel(unit)
    ax.xaxis.set_major_formatter(short)
    if max(map(abs, ax.get_ylim())) >= 10_000:
        ax.yaxis.set_major_formatter(short)
    ax.tick_params(length=3)
    for goal in goals:
        _tell_goal(ax, goal)
    _label(ax, groups, colours)


def _curve(ax: Any, group: Group, colour: str, style: str, scale: float, crowded: bool) -> None:
    grid, mean, low, high = group.mean()
    if len(group.runs) > 1:
        # without a stretch that all of them cover, the runs themselves are all there is to see
        thin = {"lw": 0.9, "alpha": 0.15 if crowded else 0.3} if len(grid) else {"lw": 1.6}
        for run in group.runs:
            ax.plot(run.x / scale, run.y, color=colour, zorder=2, **thin)
        ax.fill_between(grid / scale, low, high, color=colour, alpha=0.18, lw=0, zorder=1.5)
    ax.plot(grid / scale, mean, style, color=colour, lw=2.2, zorder=3, solid_capstyle="round")
    for run in group.runs:
        if len(run.evaluated):
            x, y = run.evaluated.T
            alone = {"alpha": 1.0 if len(group.runs) == 1 else 0.5}
            ax.plot(
                x / scale, y, "o:", color=colour, lw=1.3, ms=4, mfc="white", zorder=2.8, **alone
            )


def _subtitle(groups: Sequence[Group]) -> str:
    counts = sorted({len(group.runs) for group in groups})
    evaluated = any(len(run.evaluated) for group in groups for run in group.runs)
    return _of_runs(groups, counts) + ("; circles: evaluated greedily" if evaluated else "")


def _of_runs(groups: Sequence[Group], counts: list[int]) -> str:
    if counts == [1]:
        return "one run each" if len(groups) > 1 else "one run"
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    mixed = any(len(group.kinds) > 1 for group in groups)
    if mixed:
        return f"mean of {seeds} runs of several settings in its 95% interval; thin: each run"
    if not any(len(group.mean()[0]) for group in groups):
        return f"each of {seeds} seeds; no stretch that all of them cover"
    return f"mean of {seeds} seeds in its 95% interval; thin: each seed"


def _tell_goal(ax: Any, goal: float) -> None:
    ax.annotate(
        f"goal {goal:g}",
        (0, goal),
        xycoords=ax.get_yaxis_transform(),
        xytext=(4, 3),
        textcoords="offset points",
        color=_FAINT,
        fontsize=9.5,
    )


def _label(ax: Any, groups: Sequence[Group], colours: Sequence[str]) -> None:
    """Each line's name at its end, in its colour, pushed apart where they would overlap."""
    figure = ax.figure
    height = ax.get_position().height * figure.get_figheight() * 72
    low, high = ax.get_ylim()
    wanted = [(group.end[1] - low) / (high - low) * height for group in groups]
    for group, colour, at in zip(groups, colours, apart(wanted, 15.0, height), strict=True):
        ax.annotate(
            group.name,
            (1, at / height),
            xycoords="axes fraction",
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=11,
            fontweight="bold",
            annotation_clip=False,
            parse_math=False,  # a dollar in a label is a dollar
        )


def apart(wanted: Sequence[float], size: float, height: float) -> list[float]:
    """Places near the wanted ones, between 0 and `height`, with room of `size` for each.

    >>> apart([10, 12, 99], 10, 100)
    [6.0, 16.0, 95.0]
    """

    def bottom(block: list[int]) -> float:
        middle = sum(wanted[i] for i in block) / len(block)
        room = size * len(block)
        return max(0.0, min(middle - room / 2, height - room))

    blocks: list[list[int]] = []  # of things that touch; each around the mean of what it wants
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        blocks.append([i])
        while len(blocks) > 1 and bottom(blocks[-2]) + size * len(blocks[-2]) > bottom(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    places = [0.0] * len(wanted)
    for block in blocks:
        for number, i in enumerate(block):
            places[i] = bottom(block) + size * (number + 0.5)
    return places


def _unit(x: str, groups: Sequence[Group]) -> tuple[str, float]:
    """What the axis is called, and what its values are divided by."""
    if x == "steps" and _from_data(groups):
        return "rows learned from", 1.0
    if x != "seconds":
        return _AXES[x], 1.0
    longest = max(float(run.x[-1]) for group in groups for run in group.runs)
    for name, seconds in (("hours", 3600.0), ("minutes", 60.0)):
        if longest >= 2 * seconds:
            return f"{_AXES[x]} ({name})", seconds
    return f"{_AXES[x]} (seconds)", 1.0


def _from_data(groups: Sequence[Group]) -> bool:
    """Whether all of them learned from recorded data: steps are rows, and evaluations the curve."""
    return all(run.from_data for group in groups for run in group.runs)


def _meaning(y: str) -> str:
    known = {"return": "mean return of 100 episodes", "eval_return": "mean return when evaluated"}
    return known.get(y, y.replace("_", " "))


def short(value: float, _: object = None) -> str:
    """A tick's value as people say it.

    >>> [short(v) for v in (0, 0.25, 500, 5000, 1500000)]
    ['0', '0.25', '500', '5k', '1.5M']
    """
    letter, size = next((p for p in (("M", 1e6), ("k", 1e3)) if abs(value) >= p[1]), ("", 1.0))
    return f"{value / size:g}{letter}".replace("-", "\N{MINUS SIGN}")
