"""The benchmark of Atari on a GPU: its pieces leave their figures, whatever ends them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))  # they are scripts: they find each other by their folder

import _atari_rates  # noqa: E402
import _atari_training  # noqa: E402
import atari_gpu  # noqa: E402


def row(steps: int, seconds: float, mean: float, episodes: int) -> dict[str, float]:
    return {"steps": steps, "seconds": seconds, "return": mean, "episodes": episodes}


def test_setups_fill_the_cores_and_are_read_as_they_are_written() -> None:
    setups = _atari_rates.usual(16)
    assert all(how.processes * how.threads == 16 for how in setups)
    assert all(how.processes * how.copies == 512 for how in setups)
    assert [_atari_rates.setup(str(how)) for how in setups] == setups
    assert _atari_rates.usual(1) == [(1, 32, 1)]


def test_a_curve_goes_on_in_the_next_sitting(tmp_path: Path) -> None:
    """And a target that was reached stays reached: by the mean of a hundred games, not of a few."""
    path = tmp_path / "curve.jsonl"
    first = _atari_training.Curve(path, 18.0)
    first.note(row(100, 1.0, 20.0, 3))
    assert first.reached is None
    first.note(row(900, 9.0, 18.5, 150))
    assert first.reached == row(900, 9.0, 18.5, 150)
    second = _atari_training.Curve(path, 18.0)
    assert (second.reached, second.last["seconds"]) == (first.reached, 9.0)
    second.note(row(1000, 10.0, 19.0, 160))
    assert second.reached == first.reached
    assert len(path.read_text().splitlines()) == 3


def test_a_mean_of_no_game_is_left_out_of_the_file(tmp_path: Path) -> None:
    curve = _atari_training.Curve(tmp_path / "curve.jsonl", None)
    curve.note(row(100, 1.0, float("nan"), 0))
    assert "return" not in json.loads(curve.path.read_text())


def test_a_rate_is_of_the_time_after_the_first_seconds(tmp_path: Path) -> None:
    curve = _atari_training.Curve(tmp_path / "curve.jsonl", None)
    curve.marks = [(0.0, 0), (1.0, 10), (5.0, 100), (6.0, 300), (7.0, 500)]
    assert curve.rate(warm=5.0) == (200.0, 2.0)


def test_a_sitting_that_was_too_short_tells_the_rate_of_its_later_half(tmp_path: Path) -> None:
    curve = _atari_training.Curve(tmp_path / "curve.jsonl", None)
    curve.marks = [(float(t), 100.0 * max(0, t - 3)) for t in range(8)]
    assert curve.rate(warm=60.0) == (100.0, 3.0)
    curve.marks = [(0.0, 0), (1.0, 10)]
    assert curve.rate(warm=60.0) == (None, 0.0)


def test_what_a_run_took_of_the_machine_is_that_of_its_later_part(tmp_path: Path) -> None:
    lines = [{"cpu": 0.0, "gpu": 0}, {"cpu": 2.0, "gpu": 50}, {"cpu": 4.0, "gpu": 70}]
    (tmp_path / "machine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert _atari_training.used(tmp_path) == {"mean_cpu": 3.0, "mean_gpu": 60.0}
    assert _atari_training.used(tmp_path / "none") == {}


@pytest.mark.proc
def test_a_window_is_of_a_run_that_is_warm(tmp_path: Path) -> None:
    """It ends by itself, and its shares are those of the time after the warm-up."""
    told = _atari_training.sitting(
        "impala",
        "CartPole-v1",
        tmp_path / "run",
        seconds=60.0,
        settings={"num_workers": 1, "num_envs_per_worker": 4},
        warm=0.5,
        window=1.0,
    )
    assert told["error"] is None
    assert 0.5 <= told["rate_seconds"] <= 10.0
    assert told["last"]["seconds"] < 55.0
    assert told["verdict"]
    assert told["times"]


@pytest.mark.proc
def test_training_stops_at_its_time_and_goes_on(tmp_path: Path) -> None:
    """In two sittings, with a small environment in the place of a game."""
    settings: dict[str, Any] = {"num_workers": 1, "num_envs_per_worker": 4}
    how: dict[str, Any] = {"seconds": 4.0, "settings": settings, "warm": 0.5}
    first = _atari_training.sitting("impala", "CartPole-v1", tmp_path / "run", **how)
    assert first["error"] is None
    assert not first["resumed"]
    assert first["steps_per_s"] > 0
    second = _atari_training.sitting("impala", "CartPole-v1", tmp_path / "run", **how)
    assert second["resumed"]
    assert second["last"]["steps"] > first["last"]["steps"]
    assert second["last"]["seconds"] >= 7.0
    atari_gpu.main(["evaluate", str(tmp_path / "run"), "--episodes", "3"])
    told = json.loads((tmp_path / "evaluate-run-sampled.json").read_text())
    assert (told["episodes"], told["actions"], len(told["returns"])) == (3, "sampled", 3)
    assert told["least"] <= told["median"] <= told["most"]


def test_a_setting_that_there_is_not_is_told_in_the_figures(tmp_path: Path) -> None:
    told = _atari_training.sitting(
        "impala", "CartPole-v1", tmp_path / "run", seconds=1.0, settings={"lrr": 1}
    )
    assert "unknown setting 'lrr'" in told["error"]
    assert told["steps_per_s"] is None


def test_all_figures_become_one_document(tmp_path: Path) -> None:
    folder = tmp_path / "train-ppo-Pong-0"
    atari_gpu.write(tmp_path, folder.name, {"algorithm": "ppo", "times": [1, 2]})
    folder.mkdir()
    points = [row(n, n / 10, 0.0, 1) for n in range(1000)]
    (folder / "curve.jsonl").write_text("\n".join(map(json.dumps, points)))
    (tmp_path / "other.json").write_text("{}")
    atari_gpu.main(["collect", "--out", str(tmp_path), "--to", str(tmp_path / "to" / "all.json")])
    (part,) = json.loads((tmp_path / "to" / "all.json").read_text())["parts"]
    assert (part["algorithm"], "times" in part, part["machine"]["gpu"]) == ("ppo", False, None)
    assert len(part["curve"]) <= 201
    assert part["curve"][-1] == points[-1]
    with pytest.raises(SystemExit, match="no figures"):
        atari_gpu.main(["collect", "--out", str(tmp_path / "to" / "nowhere")])


@pytest.mark.parametrize(("flag", "sticky"), [([], 0.0), (["--sticky"], 0.25)])
def test_games_are_without_sticky_actions_unless_that_is_asked_for(
    flag: list[str], sticky: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []

    def sitting(algorithm: str, game: str, folder: Path, **how: Any) -> dict[str, Any]:
        seen.append({"game": game, **how["settings"]})
        return {}

    monkeypatch.setattr(_atari_training, "sitting", sitting)
    given = ["--out", str(tmp_path), "--set", "num_workers=3", "--set", "lr=0.1"]
    atari_gpu.main(["train", "ppo", "Pong", *given, *flag])
    assert seen[0]["env_config"] == {"sticky_actions": sticky, "resumable": False}
    assert (seen[0]["game"], seen[0]["num_workers"], seen[0]["lr"]) == ("ALE/Pong-v5", 3, 0.1)


def test_throughput_is_told_over_the_rate_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setup that was fastest before is measured again; the run's files are not kept."""
    fastest = _atari_rates.Setup(4, 8, 2)
    atari_gpu.write(tmp_path, "rates-Pong", {"best": fastest._asdict()})
    measured: list[Any] = []

    def measure(game: str, config: Any, how: Any, seconds: float) -> Any:
        measured.append(how)
        return _atari_rates.Rate(how, seconds, 2000.0)

    def sitting(algorithm: str, game: str, folder: Path, **how: Any) -> dict[str, Any]:
        folder.mkdir()
        return {"algorithm": algorithm, "game": game, "steps_per_s": 1500.0, "error": None}

    monkeypatch.setattr(_atari_rates, "measure", measure)
    monkeypatch.setattr(_atari_training, "sitting", sitting)
    atari_gpu.main(["throughput", "--algorithms", "ppo", "--games", "Pong", "--out", str(tmp_path)])
    assert measured == [fastest]
    assert json.loads((tmp_path / "throughput-ppo-Pong.json").read_text())["ratio"] == 0.75
    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}
    assert "0.75 of the environments'" in capsys.readouterr().out
