"""Episodes of a policy become a dataset: the environment's own, the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import Env, spaces

import rillflow as rf
from rillflow.cli.main import main
from rillflow.datasets.checking import describe
from rillflow.datasets.reading import Dataset
from rillflow.results import record_data
from rillflow.results.record_episodes import untrained


class Count(Env[Any, Any]):
    """Three steps; an observation says the step, and the reward is the action, 5 or 6."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space = spaces.Discrete(2, start=5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.seen = np.zeros(1, np.float32)
        return self.seen, {}

    def step(self, action: Any) -> Any:
        self.seen += 1  # the same buffer again
        last = bool(self.seen[0] == 3)
        return self.seen, float(action), last, False, {}


def policy(env: Any) -> Any:
    from rillflow.algorithms import bc
    from rillflow.policies.make import first_weights
    from rillflow.results import Evaluation  # noqa: F401 - results import lazily
    from rillflow.results.trained import Trained
    from rillflow.rl.workers import Workers

    workers = Workers(bc.Config(env=env))
    return Trained(workers.config, workers.spec, dict(first_weights(workers.spec, 0)), [])


def test_what_is_recorded_is_what_the_environment_gave(tmp_path: Path) -> None:
    found = record_data(policy(Count), tmp_path / "count", 4, act=lambda a, obs, rng: a * 0 + 1)
    assert (found.episodes, found.steps, found.mean_return) == (4, 12, 18.0)
    with Dataset(tmp_path / "count") as dataset:
        episode = dataset.measure().read(3)
    assert episode.obs.tolist() == [[0.0], [1.0], [2.0], [3.0]]
    assert episode.actions.tolist() == [6, 6, 6], "as the environment counts them"
    assert episode.terminated.tolist() == [False, False, True]
    assert not episode.truncated.any()


def test_the_same_seed_gives_the_same_episodes(tmp_path: Path) -> None:
    trained = untrained("CartPole-v1")
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        record_data(trained, tmp_path / name, 3, epsilon=0.5, seed=seed)
    obs = {}
    for name in "abc":
        with Dataset(tmp_path / name) as dataset:
            dataset.measure()
            obs[name] = np.concatenate([dataset.read(i).obs for i in range(3)])
    assert np.array_equal(obs["a"], obs["b"])
    assert not np.array_equal(obs["a"][:4], obs["c"][:4])


def test_random_actions_are_uniform_within_their_bounds(tmp_path: Path) -> None:
    found = record_data("Pendulum-v1", tmp_path / "random", steps=400)
    assert (found.episodes, found.steps) == (2, 400)
    with Dataset(tmp_path / "random") as dataset:
        actions = dataset.measure().read(0).actions
        assert dataset.metadata["algorithm_name"] == "random"
    assert actions.min() < -1.8
    assert actions.max() > 1.8
    assert np.abs(actions).max() <= 2


def test_episodes_are_recorded_until_there_are_so_many_steps(tmp_path: Path) -> None:
    found = record_data(policy(Count), tmp_path / "count", steps=7)
    assert (found.episodes, found.steps) == (3, 9), "episodes are whole"
    found = record_data(policy(Count), tmp_path / "count", 1, append=True)
    assert (found.episodes, describe(str(tmp_path / "count")).steps) == (1, 12)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "either how many episodes, or how many steps"),
        ({"episodes": 0}, "episodes"),
        ({"episodes": 1, "epsilon": 2.0}, "epsilon must be between 0 and 1"),
        ({"episodes": 1, "max_steps": 2}, "did not end in 2 steps"),
    ],
)
def test_what_cannot_be_recorded_is_told(tmp_path: Path, how: Any, message: str) -> None:
    with pytest.raises(rf.RillflowError, match=message):
        record_data(policy(Count), tmp_path / "count", **how)
    assert not list(tmp_path.iterdir())


def test_environments_of_one_piece_cannot_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(rf.BuildError, match="a vector of one piece"):
        record_data("Bandit", tmp_path / "bandit", 1)


def test_the_command_records_a_run_then_bc_learns_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rf.train("ppo", "CartPole-v1", until=2000, engine="sim").save("policy.npz")
    assert main(["record-data", "policy.npz", "--episodes", "3", "-o", "data/mine"]) == 0
    assert "data/mine: 3 episodes, " in capsys.readouterr().out
    assert main(["record-data", "CartPole-v1", "--random", "-o", "data/mine"]) == 2
    assert "is there already" in capsys.readouterr().err
    mixed = ["--random", "--steps", "50", "--append", "-o", "data/mine"]
    assert main(["record-data", "CartPole-v1", *mixed]) == 0
    capsys.readouterr()
    few = ["--until", "steps=4096", "--eval-every", "2k", "--eval-episodes", "2"]
    train = ["train", "bc", "CartPole-v1", "--data", "data/mine", "--engine", "sim", "--plain"]
    assert main([*train, *few]) == 0
    out = capsys.readouterr().out
    assert "learns from data/mine: a step is a row learned from" in out
    assert "evaluated" in out
    assert "nan" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--episodes", "1", "--steps", "1"], "two ways to say how much"),
        (["x", "--random", "--epsilon", "0.5"], "--random is --epsilon 1"),
        (["CartPole-v1", "--random"], "where to?"),
        (["x", "--epsilon", "2"], "from 0 to 1"),
        (["CartPole-v1", "-o", "y"], "there is no run and no file 'CartPole-v1'"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record-data", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_evaluations_are_the_curve_of_a_run_that_learned_from_data(tmp_path: Path) -> None:
    import json

    from rillflow.results import plot_runs
    from rillflow.results.learning_curves import read_run

    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"algorithm": "bc", "env": "CartPole-v1"}))
    rows = [{"steps": 100 * i, "return": None, "loss": 1.0} for i in range(4)]
    for i in (1, 3):
        rows[i] |= {"eval_steps": 100 * i, "eval_return": 10.0 * i}
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = read_run(run, "steps", "return")
    assert found.from_data
    assert (found.x.tolist(), found.y.tolist()) == ([100, 300], [10, 30])
    drawn = plot_runs([run], tmp_path / "curve.svg").read_text()
    assert "mean return when evaluated" in drawn
    assert "rows learned from" in drawn
