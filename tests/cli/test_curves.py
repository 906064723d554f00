"""Curves of characters, and how long a run will take."""

from __future__ import annotations

import math

import pytest

from rillflow.runs.progress.braille_curve import bar, curve
from rillflow.runs.progress.time_left import Forecast, duration


def row(seconds: float, steps: float, value: float = math.nan) -> dict[str, float]:
    return {"seconds": seconds, "steps": steps, "return": value, "episodes": 100}


def test_a_curve_has_the_size_asked_for_and_its_ends_are_labelled() -> None:
    lines = curve(list(range(100)), [x * x for x in range(100)], width=40, height=5)
    assert [len(line) for line in lines] == [40] * 5
    assert lines[0].split()[0] == "9,801"
    assert lines[-1].split()[0] == "0"
    assert lines[0][-1] != "⠀"  # ends at the top right
    assert lines[-1][lines[-1].index("┤") + 1] != "⠀"  # begins at the bottom left


def test_a_curve_has_no_holes() -> None:
    """Each column of characters holds a dot, also where the curve is steep."""
    lines = curve([0, 1, 2], [0, 100, 0], width=60, height=4)
    margin = lines[0].index("┤") + 1
    for column in zip(*(line[margin:] for line in lines), strict=True):
        assert any(character != "⠀" for character in column)


@pytest.mark.parametrize(
    ("xs", "ys"), [([], []), ([1], [3.0]), ([1, 2], [3.0, 3.0]), ([1, 2], [math.nan, 1.0])]
)
def test_few_points_are_no_trouble(xs: list[float], ys: list[float]) -> None:
    assert len(curve(xs, ys, width=30, height=3)) == 3


def test_a_goal_is_marked_and_an_axis_may_begin_at_zero() -> None:
    assert "┄" in curve([0, 1], [0.0, 5.0], width=30, height=4, level=10.0)[0]
    assert curve([0, 1], [4.0, 5.0], width=30, height=4, from_zero=True)[-1].split()[0] == "0"


def test_a_bar_is_full_to_its_share() -> None:
    assert [bar(share, 4) for share in (-1, 0, 0.5, 1, 9)] == [
        "────", "────", "━━──", "━━━━", "━━━━"]  # fmt: skip


def test_steps_that_are_left_give_the_time() -> None:
    forecast = Forecast({"steps": 1000})
    assert forecast.left() is None
    for second in range(1, 6):
        forecast.see(row(second, 100 * second))
    assert forecast.rate == pytest.approx(100)
    assert forecast.left() == (pytest.approx(5.0), "steps")


def test_the_trend_of_the_return_gives_the_time() -> None:
    forecast = Forecast({"return": 100.0, "seconds": 1000.0})
    for second in range(1, 31):
        forecast.see(row(second, second, 2.0 * second))
    assert forecast.left() == (pytest.approx(20.0), "return")


def test_a_return_that_falls_says_nothing() -> None:
    forecast = Forecast({"return": 100.0})
    for second in range(1, 31):
        forecast.see(row(second, second, -second))
    assert forecast.left() is None


def test_the_limit_that_comes_first_counts() -> None:
    forecast = Forecast({"steps": 1000, "seconds": 4.0})
    forecast.see(row(1, 100))
    forecast.see(row(2, 200))
    assert forecast.left() == (pytest.approx(2.0), "seconds")


def test_durations_are_words() -> None:
    assert [duration(s) for s in (0, 59.4, 60, 3599, 7260, 90_000)] == [
        "0 s", "59 s", "1 min 00 s", "59 min 59 s", "2 h 01 min", "1 d 01 h"]  # fmt: skip
