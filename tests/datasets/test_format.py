"""What is written, Minari opens; what Minari writes, is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import rillflow as rf
from rillflow.datasets.checking import describe
from rillflow.datasets.location import folder_of
from rillflow.datasets.reading import Dataset
from rillflow.datasets.rows import RowsOf, flat_actions
from rillflow.datasets.spaces_as_json import difference, from_data, to_json
from rillflow.datasets.writing import DatasetWriter
from rillflow.envs.spaces import actions_of
from tests.datasets.written import TWO, VECTOR, chain

minari = pytest.importorskip("minari")

SPACES = [
    spaces.Box(-1.0, 1.0, (3,), np.float32),
    spaces.Box(np.array([0.0, -np.inf]), np.array([np.inf, 1.0]), dtype=np.float64),
    spaces.Box(0, 255, (8, 8, 3), np.uint8),
    spaces.Discrete(5, start=2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(4),
    spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([VECTOR, TWO])}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_are_those_of_minari(space: Any) -> None:
    from minari.serialization import deserialize_space, serialize_space

    assert deserialize_space(to_json(space)) == space
    assert from_data(json.loads(serialize_space(space))) == space
    assert difference(from_data(json.loads(to_json(space))), space, "it", True) is None


def test_what_is_written_minari_loads_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    chain(tmp_path / "chain-v0", (5, 3))
    found = minari.load_dataset("chain-v0")
    assert (found.total_episodes, found.total_steps) == (2, 8)
    episode = found[1]
    assert episode.observations.tolist() == [[1, t, 0, 0] for t in range(4)]
    assert episode.actions.tolist() == [0, 1, 0]
    assert episode.rewards.tolist() == [0.0, 1.0, 2.0]
    assert episode.terminations.tolist() == [False, False, True]
    assert (found.observation_space, found.action_space) == (VECTOR, TWO)
    assert describe("chain-v0").steps == 8, "the id is known here, too"


def test_parts_of_observations_are_kept_as_minari_keeps_them(tmp_path: Path) -> None:
    space = SPACES[-1]
    space.seed(0)
    elements = [space.sample() for _ in range(4)]
    with DatasetWriter(tmp_path / "parts", space, SPACES[0]) as writer:
        steps = np.zeros((3, 3), np.float32)
        writer.add(elements, list(steps), [0.0] * 3, terminated=False, truncated=True)
    theirs = minari.MinariDataset(tmp_path / "parts" / "data")[0].observations
    with Dataset(tmp_path / "parts") as dataset:
        ours = dataset.measure().read(0).obs
    for t, element in enumerate(elements):
        for found in (theirs, ours):
            assert found["a"][t] == element["a"]
            assert np.array_equal(found["b"][0][t], element["b"][0])
            assert found["b"][1][t] == element["b"][1]


def played(seed: int) -> Any:
    """An episode of random actions as Minari keeps one before it is written."""
    import gymnasium
    from minari.data_collector import EpisodeBuffer

    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(seed)
    obs: list[Any] = [env.reset(seed=seed)[0]]
    columns: list[tuple[Any, ...]] = []
    while not columns or not (columns[-1][2] or columns[-1][3]):
        action = env.action_space.sample()
        seen, *told, _ = env.step(action)
        obs.append(seen)
        columns.append((action, *told))
    actions, rewards, terminations, truncations = map(list, zip(*columns, strict=True))
    return EpisodeBuffer(
        id=seed, observations=np.stack(obs), actions=np.array(actions), rewards=rewards,
        terminations=terminations, truncations=truncations, infos={},
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for authors and a link
def test_what_minari_writes_is_read_and_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = [played(seed) for seed in range(3)]
    steps = sum(len(episode.rewards) for episode in episodes)
    minari.create_dataset_from_buffers("cartpole/mine-v0", episodes, env="CartPole-v1")
    found = describe("cartpole/mine-v0")
    assert (found.episodes, found.steps, found.env) == (3, steps, "CartPole-v1")
    assert found.mean_return == pytest.approx(steps / 3)
    with Dataset("cartpole/mine-v0") as dataset:
        assert np.array_equal(dataset.measure().read(1).obs, episodes[1].observations)
    trained = rf.train(
        "bc", "CartPole-v1", data="cartpole/mine-v0", until=2048, engine="sim", eval_every=None
    )
    assert trained.history[-1]["steps"] == 2048


ACTIONS = [*SPACES[3:6], SPACES[0], spaces.Dict({"a": SPACES[3], "b": spaces.Tuple([SPACES[4]])})]


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_actions_of_environments_become_those_of_policies(space: Any) -> None:
    actions = actions_of(space, "it")
    own = np.stack([actions.space.sample() for _ in range(6)])
    assert np.array_equal(flat_actions(space, actions.to_env(own)), own)


def test_a_dataset_is_found_by_its_directory_or_the_folder_in_it(tmp_path: Path) -> None:
    path = chain(tmp_path / "mine")
    assert folder_of(path) == folder_of(path / "data") == path / "data"
    with pytest.raises(rf.BuildError, match=r"no such directory, and no dataset with this id"):
        folder_of(tmp_path / "theirs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(rf.BuildError, match=r"it has no data/metadata.json"):
        folder_of(tmp_path / "empty")


def test_more_episodes_are_added_behind_those_that_are_there(tmp_path: Path) -> None:
    path = chain(tmp_path / "mine", (2, 3))
    with pytest.raises(rf.BuildError, match=r"is there already.*append"):
        chain(path)
    chain(path, (4,), append=True)
    assert (describe(str(path)).episodes, describe(str(path)).steps) == (3, 9)
    assert len(minari.MinariDataset(path / "data")) == 3
    with pytest.raises(rf.BuildError, match=r"actions: the dataset has Discrete"):
        chain(path, action_space=spaces.Discrete(3), append=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine"], "nothing is left beside it"


def test_what_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), DatasetWriter(tmp_path / "mine", VECTOR, TWO):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


# -- rows -----------------------------------------------------------------------------------------


def rows_of(path: Path, n_step: int, begin: int, end: int, episode: int = 2) -> Any:
    with Dataset(path) as dataset:
        return RowsOf(dataset.measure(), n_step, 0.5).take(episode, begin, end)


def test_rows_are_the_transitions_of_their_episode(tmp_path: Path) -> None:
    rows = rows_of(chain(tmp_path / "mine"), 1, 5, 8)
    assert rows["obs"][:, 1].tolist() == [5, 6, 7]
    assert rows["next_obs"][:, 1].tolist() == [6, 7, 8]
    assert rows["actions"].tolist() == [1, 0, 1]
    assert rows["rewards"].tolist() == [5, 6, 7]
    assert rows["discount"].tolist() == [0.5, 0.5, 0.0], "nothing follows the terminated end"


def test_rows_look_ahead_beyond_the_piece_that_is_read(tmp_path: Path) -> None:
    """Three steps: of 2, 3, 4, then of 3, 4, 5, though the piece has only the first two."""
    rows = rows_of(chain(tmp_path / "mine"), 3, 2, 4)
    assert rows["rewards"].tolist() == [2 + 3 / 2 + 4 / 4, 3 + 4 / 2 + 5 / 4]
    assert rows["next_obs"][:, 1].tolist() == [5, 6]
    assert rows["discount"].tolist() == [0.125, 0.125]


@pytest.mark.parametrize(("terminated", "last"), [(True, 0.0), (False, 0.5)])
def test_a_truncated_episode_goes_on_in_the_value_of_its_last_observation(
    tmp_path: Path, terminated: bool, last: float
) -> None:
    rows = rows_of(chain(tmp_path / "mine", terminated=terminated), 1000, 6, 8)
    assert rows["rewards"].tolist() == [6 + 7 / 2, 7]
    assert rows["next_obs"][:, 1].tolist() == [8, 8]
    assert rows["discount"].tolist() == [last / 2, last]
