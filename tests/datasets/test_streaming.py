"""Rows come in random order, each once in a pass, and larger data streams through little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import bc
from rillflow.datasets.shuffled import ShuffledRows, pieces_of
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from tests.datasets.written import chain

LENGTHS = np.array([7, 30, 1, 12])
TOTAL = int(LENGTHS.sum())


def reader(episode: int, begin: int, end: int) -> dict[str, Any]:
    """Rows that say where they are: a thousand times the episode, and the step."""
    return {"at": 1000 * episode + np.arange(begin, end)}


def everything(of: np.ndarray[Any, Any] = LENGTHS) -> list[int]:
    return [1000 * e + t for e, length in enumerate(of) for t in range(length)]


@pytest.mark.parametrize("window", [1000, 20, 3, 1])
@pytest.mark.parametrize("count", [1, 7, 64])
def test_every_row_comes_once_in_a_pass(window: int, count: int) -> None:
    rows = ShuffledRows(reader, LENGTHS, window, seed=1)
    given = np.concatenate([rows.take(count)["at"] for _ in range(-(-3 * TOTAL // count))])
    for number in range(3):
        one = given[number * TOTAL : (number + 1) * TOTAL]
        assert sorted(one) == everything()
        assert window == 1 or list(one) != everything()
    assert list(given[:TOTAL]) != list(given[TOTAL : 2 * TOTAL])


def test_rows_of_a_window_are_from_all_over_the_data() -> None:
    lengths = np.full(20, 50)
    rows = ShuffledRows(reader, lengths, 200, seed=0)
    episodes = {int(at) // 1000 for at in rows.take(150)["at"]}
    assert len(episodes) > 8


@pytest.mark.parametrize("window", [1000, 20])
def test_rows_go_on_from_a_state(window: int) -> None:
    rows = ShuffledRows(reader, LENGTHS, window, seed=1)
    rows.take(33)
    state = rows.get_state()
    expected = rows.take(200)["at"]
    again = ShuffledRows(reader, LENGTHS, window, seed=99)
    again.take(5)
    again.set_state(state)
    assert np.array_equal(again.take(200)["at"], expected)
    with pytest.raises(rf.RunError, match="the dataset, or how it is read, is not what it was"):
        ShuffledRows(reader, LENGTHS[:3], window, seed=1).set_state(state)


@pytest.mark.parametrize("shards", [1, 2, 3, 4])
def test_shards_share_the_data_and_no_row_is_in_two(shards: int) -> None:
    parts = [pieces_of(LENGTHS, shard, shards, 5) for shard in range(shards)]
    steps = [1000 * e + t for part in parts for e, a, b in part for t in range(a, b)]
    assert sorted(steps) == everything()
    assert all(parts)


def batches(path: Path, workers: int, count: int, engine: str = "sim", **settings: Any) -> Any:
    config = bc.Config(data=str(path), num_workers=workers, train_batch_size=4, **settings)
    rollouts = ParallelRollouts(Workers(config), mode="bulk_sync")
    return rollouts.take(count, engine=engine)


@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_workers_read_parts_that_have_no_row_in_common(tmp_path: Path, engine: str) -> None:
    path = chain(tmp_path / "mine", (16, 16, 32))
    (round_,) = batches(path, 2, 1, engine, batches_per_draw=8)
    obs = round_["obs"][0]
    assert obs.shape == (64, 4)
    left, right = ({tuple(row) for row in half} for half in (obs[:32], obs[32:]))
    assert len(left) == len(right) == 32
    assert not left & right


def test_the_same_seed_gives_the_same_rows(tmp_path: Path) -> None:
    path = chain(tmp_path / "mine", (16, 16, 32))
    one, two = (np.stack([b["obs"] for b in batches(path, 1, 5)]) for _ in range(2))
    assert np.array_equal(one, two)


def test_a_run_goes_on_from_its_checkpoint_with_the_row_that_is_next(tmp_path: Path) -> None:
    """With less memory than the data needs, in the middle of a window."""
    path = chain(tmp_path / "mine", (40, 30, 50))

    def flow() -> Any:
        few = {"data_memory": 48 * 50, "train_batch_size": 4}
        workers = Workers(bc.Config(data=str(path), num_workers=2, **few))
        return bc.plan(ParallelRollouts(workers), workers)

    with flow().run("sim", seed=3) as run:
        for _ in range(3):
            next(run)
        state = run.get_state()
        expected = [next(run).stats for _ in range(6)]
    with flow().run("sim", seed=4) as run:
        run.set_state(state)
        assert [next(run).stats for _ in range(6)] == expected


CHILD = """
import resource, sys
import numpy as np
from rillflow.algorithms import bc
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers

config = bc.Config(
    env="tests.datasets.test_streaming:Wide", data=sys.argv[1], num_workers=0,
    data_memory=sys.argv[2], hidden=(4,), train_batch_size=64, batches_per_draw=4,
)
workers = Workers(config)
flow = ParallelRollouts(workers, mode="bulk_sync")

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

with flow.run("sim") as run:
    before, seen, steps = resident(), set(), 0
    while steps < 16_000:
        batch = next(run)
        seen |= {int(number) for number in batch["obs"][0, :, 0]}
        steps += batch.steps
print(resident() - before, len(seen))
"""
WIDTH, EPISODE = 2048, 250


class Wide:
    """An environment whose observations are large; made by its name in a child process."""

    def __new__(cls) -> Any:
        import gymnasium
        from gymnasium import spaces

        class Env(gymnasium.Env[Any, Any]):
            observation_space = spaces.Box(-1e6, 1e6, (WIDTH,), np.float32)
            action_space = spaces.Discrete(2)

            def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
                super().reset(seed=seed)
                return np.zeros(WIDTH, np.float32), {}

            def step(self, action: Any) -> Any:
                return np.zeros(WIDTH, np.float32), 0.0, True, False, {}

        return Env()


@pytest.mark.proc
def test_data_larger_than_memory_streams(tmp_path: Path) -> None:
    """132 MB of observations (264 MB of rows) pass through 16 MB: every row, and no more memory."""
    from gymnasium import spaces

    from rillflow.datasets.writing import DatasetWriter

    path = tmp_path / "wide"
    space = spaces.Box(-1e6, 1e6, (WIDTH,), np.float32)
    with DatasetWriter(path, space, spaces.Discrete(2)) as writer:
        for episode in range(64):
            obs = np.full((EPISODE + 1, WIDTH), episode, np.float32)
            obs[:, 0] += np.arange(EPISODE + 1) * 64
            zeros = [0] * EPISODE
            writer.add(list(obs), zeros, zeros, terminated=True, truncated=False)
    assert (path / "data" / "main_data.hdf5").stat().st_size > 130e6
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), "16MB"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    grown, seen = map(int, child.stdout.split())
    assert seen == 64 * EPISODE, "every row was given"
    assert grown < 80e6, f"{grown:,} bytes more than before the first row"
