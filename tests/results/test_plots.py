from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import rillflow as rf
from rillflow.results import plot_runs
from rillflow.results.learning_curves import read_groups, read_run
from rillflow.results.plots import apart

SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def write(path: Path, rows: list[Any], **about: Any) -> Path:
    path.mkdir(parents=True)
    facts = {"algorithm": "ppo", "env": "CartPole-v1", "seed": 0, **about}
    (path / "run.json").write_text(json.dumps(facts))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def line(slope: float, end: int, begin: int = 0) -> list[dict[str, Any]]:
    """Rows on a straight line, the first without a return yet."""
    return [
        {"steps": x, "episodes": x // 20, "return": slope * x if x else None, "seconds": x / 100}
        for x in range(begin, end + 1, 10)
    ]


def test_a_run_is_read_without_what_is_not_a_number(tmp_path: Path) -> None:
    rows = [
        {"steps": 0, "return": None},
        {"steps": 10, "return": math.nan},
        {"steps": 20, "return": 5.0},
        {"steps": 20, "return": 6.0},
        {"steps": 30, "loss": 1.0},
        {"steps": 40, "return": 7.0},
    ]
    path = write(tmp_path / "a", rows, until={"return": 475}, label="wide")
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"steps": 50, "ret')  # the run is still going on
    run = read_run(path, "steps", "return")
    assert run.x.tolist() == [20, 40]
    assert run.y.tolist() == [6, 7], "of two rows at one place the newest"
    assert (run.name, run.env, run.goal) == ("ppo, wide", "CartPole-v1", 475)
    assert read_run(path, "steps", "loss").goal is None


def test_seeds_of_the_same_thing_are_a_group(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / "a", line(1, 100)),
        write(tmp_path / "b", line(1, 100), algorithm="dqn"),
        write(tmp_path / "c", line(1, 100), seed=1),
        write(tmp_path / "d", line(1, 100), env="Pendulum-v1"),
    ]
    groups = read_groups(runs, "steps", "return")
    assert [(g.env, g.name, len(g.runs)) for g in groups] == [
        ("CartPole-v1", "ppo", 2),
        ("CartPole-v1", "dqn", 1),
        ("Pendulum-v1", "ppo", 1),
    ]


def test_runs_of_two_learning_rates_are_two_lines(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / f"{lr}-{seed}", line(lr, 100), seed=seed, config={"lr": lr})
        for lr in (1, 3)
        for seed in range(2)
    ]
    groups = read_groups(runs, "steps", "return")
    assert [(group.name, len(group.runs)) for group in groups] == [("ppo lr=1", 2), ("ppo lr=3", 2)]
    text = plot_runs(runs, tmp_path / "plot.svg").read_text()
    assert "ppo lr=1" in text
    assert "ppo lr=3" in text
    (whole,) = read_groups(runs, "steps", "return", group_by=["algorithm"])
    assert len(whole.runs) == 4
    plot_runs(runs, tmp_path / "one.svg", group_by=["algorithm"])
    assert "mean of 4 runs of several settings" in (tmp_path / "one.svg").read_text()


def test_a_run_without_the_figure_is_left_out_and_said_so(tmp_path: Path) -> None:
    """One that was stopped before an episode ended, or that begins just now, hides no others."""
    bare = write(tmp_path / "bare", [{"steps": 10, "loss": 1.0}])
    begun = write(tmp_path / "begun", [])
    (begun / "metrics.jsonl").unlink()
    runs = [bare, write(tmp_path / "a", line(1, 50)), begun]
    with pytest.warns(UserWarning, match="left out:") as told:
        (group,) = read_groups(runs, "steps", "return", labels=["x", "y", "z"])
    assert (group.name, [run.path.name for run in group.runs]) == ("y", ["a"])
    assert {Path(name).name for one in told for name in str(one.message).split("'")[1:2]} == {
        "bare", "metrics.jsonl",
    }  # fmt: skip


def test_settings_to_group_by_are_known_by_their_other_names(tmp_path: Path) -> None:
    run = write(tmp_path / "a", line(1, 50), config={"lr": 1, "entropy_coef": 0.1})
    for typed, ours in (("learning_rate", "lr"), ("ent_coef", "entropy_coef")):
        with pytest.raises(rf.BuildError, match=f"no setting {typed!r} .*did you mean {ours!r}"):
            read_groups([run], "steps", "return", group_by=[typed])


def test_labels_name_lines_and_make_groups(tmp_path: Path) -> None:
    runs = [write(tmp_path / str(i), line(i + 1, 100), config={"lr": i}) for i in range(3)]
    labels = ["costs $1", "costs $1", "$x_1$ & <b>"]
    groups = read_groups(runs, "steps", "return", labels=labels)
    assert [(group.name, len(group.runs)) for group in groups] == [
        ("costs $1", 2), ("$x_1$ & <b>", 1),
    ]  # fmt: skip
    text = plot_runs(runs, tmp_path / "plot.svg", labels=labels).read_text()
    assert "costs $1" in text
    assert "$x_1$ &amp; &lt;b&gt;" in text
    with pytest.raises(rf.BuildError, match="2 labels for 3 runs"):
        plot_runs(runs, tmp_path / "plot.svg", labels=labels[:2])
    with pytest.raises(rf.BuildError, match="no setting 'lrr' to group by; did you mean 'lr'"):
        plot_runs(runs, tmp_path / "plot.svg", group_by=["lrr"])


def test_the_mean_is_on_a_grid_that_all_seeds_cover(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", line(1, 200)), write(tmp_path / "b", line(3, 120, begin=30))]
    (group,) = read_groups(runs, "steps", "return")
    grid, mean, low, high = group.mean()
    assert (grid[0], grid[-1]) == (30, 120)
    assert np.allclose(mean, 2 * grid)
    assert np.allclose(low, grid)
    assert np.allclose(high, 3 * grid)
    assert group.end == (120, pytest.approx(240))


def test_seeds_that_never_overlap_have_no_mean(tmp_path: Path) -> None:
    runs = [write(tmp_path / "a", line(1, 40)), write(tmp_path / "b", line(1, 120, begin=80))]
    (group,) = read_groups(runs, "steps", "return")
    assert len(group.mean()[0]) == 0
    assert group.end == (120, 120)
    plot_runs(runs, tmp_path / "plot.svg")
    assert "no stretch that all of them cover" in (tmp_path / "plot.svg").read_text()


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_runs_are_drawn_in_the_format_of_the_ending(tmp_path: Path, ending: str) -> None:
    runs = [
        write(tmp_path / f"{algorithm}{seed}", line(slope + seed, 200), algorithm=algorithm,
              until={"return": 475})
        for algorithm, slope in (("ppo", 2), ("dqn", 1))
        for seed in range(3)
    ]  # fmt: skip
    path = plot_runs(runs, tmp_path / "new" / f"plot{ending}", x="seconds")
    assert path.read_bytes().startswith(SIGNATURES[ending])
    if ending == ".png":
        with Image.open(path) as image:
            assert image.size == (1200, 705)
            colours = {tuple(c) for c in np.asarray(image.convert("RGB")).reshape(-1, 3)}
        assert {(0, 114, 178), (213, 94, 0)} <= colours, "two lines of different colours"
    if ending == ".svg":
        text = path.read_text()
        for told in ("ppo", "dqn", "goal 475", "CartPole-v1", "mean of 3 seeds", "training time"):
            assert told in text, told
        again = plot_runs(runs, tmp_path / "again.svg", x="seconds")
        assert again.read_bytes() == path.read_bytes()


def test_one_run_and_many_environments(tmp_path: Path) -> None:
    one = write(tmp_path / "one", line(1, 50))
    assert plot_runs(one, tmp_path / "one.png").exists()
    many = [write(tmp_path / f"e{i}", line(1, 50), env=f"Env{i}-v0") for i in range(3)]
    text = plot_runs(many, tmp_path / "many.svg").read_text()
    assert all(f"Env{i}-v0" in text for i in range(3))
    (one / "run.json").unlink()
    assert "one" in plot_runs([one], tmp_path / "bare.svg").read_text()


@given(st.lists(st.floats(0, 200), min_size=1, max_size=12))
def test_labels_keep_apart_and_inside(wanted: list[float]) -> None:
    places = apart(wanted, 15, 200)
    ordered = sorted(places)
    assert all(b - a >= 15 - 1e-6 for a, b in pairwise(ordered))
    assert ordered[0] >= 7.5 - 1e-6
    assert ordered[-1] <= 192.5 + 1e-6
    by_wish = [places[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])]
    assert by_wish == ordered, "in the order of the lines"


def test_mistakes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path / "a", line(1, 50))
    out = tmp_path / "plot.png"
    with pytest.raises(rf.BuildError, match="no row with both 'steps' and 'los'; it has episodes"):
        plot_runs(run, out, y="los")
    with pytest.raises(rf.BuildError, match="x is one of steps, seconds, episodes"):
        plot_runs(run, out, x="time")
    with pytest.raises(rf.BuildError, match=r"a run directory has a metrics\.jsonl"):
        plot_runs(tmp_path, out)
    with pytest.raises(rf.BuildError, match="no run to plot"):
        plot_runs([], out)
    with pytest.raises(rf.BuildError, match=r"written as \.png or \.svg or \.pdf"):
        plot_runs(run, tmp_path / "plot.jpg")
    rows = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text("{" + rows)
    with pytest.raises(rf.BuildError, match=r"line 1 of .* is not JSON"):
        plot_runs(run, out)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(rf.BuildError, match=r"needs matplotlib: pip install 'rillflow\[plot\]'"):
        plot_runs(run, out)
    assert not out.exists()


def test_importing_the_results_imports_no_library_of_an_extra() -> None:
    code = (
        "import rillflow.results, sys; "
        "print(*{'torch', 'matplotlib', 'onnx', 'onnxruntime', 'imageio_ffmpeg', 'PIL', 'pygame'}"
        " & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
