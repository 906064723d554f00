"""Two runs on `sim` at the same time know nothing of each other, nor of their user's generators."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.testing.actors import RunsAFlow

pytestmark = pytest.mark.timeout(20)


class Draws:
    """Draws from the generators that everybody shares."""

    def next(self) -> tuple[float, float]:
        return random.random(), float(np.random.random())


def draw(item: Any) -> Any:
    return (*item, random.random(), float(np.random.random()))


def drawing(count: int = 2) -> rf.Flow[Any]:
    actors = rf.Actors.of(Draws, count, name="draws")
    return rf.from_actors(actors).for_each(draw).gather_async(num_async=2).for_each(draw)


def random_latency(rng: Any) -> float:
    return float(rng.random())


def start(seed: int, count: int = 2) -> rf.Run[Any]:
    return drawing(count).run(rf.Sim(latency=random_latency), seed=seed)


def alone(seed: int, count: int = 2) -> list[Any]:
    with start(seed, count) as run:
        return list(islice(run, 12))


def test_interleaved_runs_are_the_runs_that_they_are_alone():
    """Whoever pulls, and in whichever order: the same seed gives the same run."""
    with start(1) as one, start(2, 3) as two:
        first, second = [], []
        for turn in range(12):
            first.append(next(one))
            second += [next(two)] if turn % 2 else []
        second += list(islice(two, 12 - len(second)))
    assert first == alone(1)
    assert second == alone(2, 3)


def test_a_run_inside_an_actor_does_not_disturb_the_run_around_it():
    """An actor that runs a flow of its own draws for itself."""

    def outer(inner: rf.Flow[Any] | None) -> rf.Flow[Any]:
        flow = drawing(1)
        if inner is None:
            return flow
        nested = rf.from_actors(rf.Actors.of(RunsAFlow, 1, inner, name="nested")).gather_async()
        return rf.Concurrently([flow, nested], weights=[1, 1], output_indexes=[0])

    with outer(drawing(1)).run("sim", seed=4) as run:
        found = list(islice(run, 8))
    with outer(drawing(3)).run("sim", seed=4) as run:
        assert list(islice(run, 8)) == found, "what the inner flow does is seen outside"


@pytest.mark.parametrize("first_to_stop", [0, 1])
def test_the_users_own_generators_are_left_where_they_were(first_to_stop):
    """After the runs, in whichever order they stop, the user draws what comes next."""
    random.seed(7)
    np.random.seed(7)
    expected = random.random(), float(np.random.random())
    random.seed(7)
    np.random.seed(7)
    runs = [start(1), start(2)]
    for run in runs * 3:
        next(run)
    runs[first_to_stop].stop()
    runs[1 - first_to_stop].stop()
    assert (random.random(), float(np.random.random())) == expected


@pytest.mark.parametrize("cut", [0, 5])
def test_a_state_taken_between_two_runs_resumes(cut):
    """A saved run goes on as itself, though another run was pulled in between."""
    with start(1) as one, start(2) as two:
        list(islice(one, cut))
        list(islice(two, 3))
        state = one.get_state()
        list(islice(two, 3))
        rest = list(islice(one, 9))
    with start(1) as resumed:
        resumed.set_state(state)
        assert list(islice(resumed, 9)) == rest
