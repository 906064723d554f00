"""What cannot be learned from gets one clear error, before anything starts or is imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from gymnasium import spaces

import rillflow as rf
from rillflow.datasets.location import MAIN, METADATA
from rillflow.datasets.spaces_as_json import to_json
from tests.datasets.written import altered, chain, renamed


def cut(path: Path, part: float) -> Path:
    file = path / "data" / MAIN
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])
    return path


def replace(key: str, values: Any) -> Callable[[Any], object]:
    def change(file: Any) -> None:
        del file[f"episode_1/{key}"]
        file[f"episode_1/{key}"] = values

    return change


def link(file: Any) -> None:
    del file["episode_1/rewards"]
    file["episode_1/rewards"] = h5py.ExternalLink("elsewhere.hdf5", "/rewards")


def in_another_file(file: Any) -> None:
    del file["episode_1/rewards"]
    where = [("/etc/hostname", 0, 24)]
    file["episode_1"].create_dataset("rewards", (3,), np.float64, external=where)


def claim(key: str, rows: int, shape: tuple[int, ...], dtype: str) -> Callable[[Any], object]:
    """So many rows, of which none was ever written: the file stays small."""

    def change(file: Any) -> None:
        del file[f"episode_1/{key}"]
        file["episode_1"].create_dataset(
            key, (rows, *shape), dtype, chunks=(1024, *shape), maxshape=(None, *shape)
        )

    return change


def huge(file: Any) -> None:
    """An episode of ten billion steps, all of whose arrays agree."""
    flags = [("terminations", "?"), ("truncations", "?"), ("rewards", "f8"), ("actions", "i8")]
    for key, dtype in flags:
        claim(key, 10**10, (), dtype)(file)
    claim("observations", 10**10 + 1, (4,), "f4")(file)


def never_written(file: Any) -> None:
    del file["episode_1/rewards"]
    file["episode_1"].create_dataset("rewards", (3,), np.float64)


NAN = np.array([0.0, np.nan, 1.0])
OBS = np.zeros((4, 4), np.float32)
DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "truncated": (lambda p: cut(p, 0.5), r"is no whole HDF5 file"),
    "no file": (lambda p: (p / "data" / MAIN).unlink(), r"there is no main_data.hdf5"),
    "no HDF5": (lambda p: (p / "data" / MAIN).write_bytes(b"no"), r"is no whole HDF5 file"),
    "no JSON": (lambda p: (p / "data" / METADATA).write_text("{"), r"metadata.json cannot be"),
    "deep JSON": (lambda p: (p / "data" / METADATA).write_text("[" * 99999), r"levels of JSON"),
    "no object": (lambda p: (p / "data" / METADATA).write_text("[]"), r"is no object"),
    "arrow": (lambda p: renamed(p, data_format="arrow"), r"in the format 'arrow'"),
    "no spaces": (lambda p: renamed(p, action_space=None), r"says nothing of its action_space"),
    "no such space": (
        lambda p: renamed(p, action_space='{"type": "os.system", "n": "true"}'),
        r"'os.system' cannot be learned from",
    ),
    "huge space": (
        lambda p: renamed(
            p,
            observation_space='{"type": "Box", "dtype": "float32", "shape": [9999999, 9999], '
            '"low": 0, "high": 1}',
        ),
        r"a Box of shape",
    ),
    "object dtype": (
        lambda p: renamed(
            p, observation_space='{"type":"Box","dtype":"O","shape":[1],"low":[0],"high":[1]}'
        ),
        r"a Box of dtype object",
    ),
    "no episodes": (lambda p: altered(p, lambda f: [f.pop(n) for n in list(f)]), r"it is empty"),
    "strange names": (
        lambda p: altered(p, lambda f: f.move("episode_0", "episode_x")),
        r"numbered",
    ),
    "no steps": (lambda p: altered(p, replace("rewards", np.zeros(0))), r"episode_1 is empty"),
    "no rewards": (lambda p: altered(p, lambda f: f.pop("episode_1/rewards")), r"has no rewards"),
    "a group": (
        lambda p: altered(
            p, lambda f: (f.pop("episode_1/rewards"), f.create_group("episode_1/rewards"))
        ),
        r"rewards is no array",
    ),
    "words": (lambda p: altered(p, replace("rewards", [b"a", b"b", b"c"])), r"holds"),
    "a link": (lambda p: altered(p, link), r"lies elsewhere"),
    "another file": (lambda p: altered(p, in_another_file), r"lies in another file"),
    "too few": (lambda p: altered(p, replace("observations", OBS[:3])), r"should be \[4, 4\]"),
    "other shape": (lambda p: altered(p, replace("observations", OBS[:, :3])), r"\[4, 3\]"),
    "other dtype": (
        lambda p: altered(p, replace("observations", OBS.astype(int))),
        r"observations should be float32, and the file has int64",
    ),
    "actions of floats": (
        lambda p: altered(p, replace("actions", np.zeros(3))),
        r"actions should be int64, and the file has float64",
    ),
    "not finite": (lambda p: altered(p, replace("rewards", NAN)), r"rewards are not all finite"),
    "not finite seen": (
        lambda p: altered(p, replace("observations", OBS * np.nan)),
        r"observations are not all finite: row 0",
    ),
    "huge claims": (
        lambda p: altered(p, huge),
        r"not all were written: there are 0 of 9,765,626",
    ),
    "holes": (lambda p: altered(p, never_written), r"rewards should have 3 rows, .* 0 of 24 bytes"),
    "no float32": (
        lambda p: altered(p, replace("rewards", [0.0, 1e39, 0.0])),
        r"rewards are not all finite: row 1 is 1e\+39, more than float32 can say",
    ),
    "no float32 seen": (
        lambda p: altered(p, replace("observations", np.full((4, 4), 1e300))),
        r"observations are not all finite: row 0 .* more than float32 can say",
    ),
    "no such action": (
        lambda p: altered(p, replace("actions", np.array([0, 2, 1]))),
        r"actions are not all in Discrete\(2\)",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_dataset_is_refused_before_anything_starts(tmp_path: Path, kind: str) -> None:
    damage, message = DAMAGE[kind]
    path = chain(tmp_path / "mine")
    damage(path)
    with pytest.raises(rf.BuildError, match=message) as caught:
        rf.train("bc", "CartPole-v1", data=str(path))
    assert str(path) in str(caught.value)


def test_a_chunk_that_is_damaged_inside_a_whole_file_is_found(tmp_path: Path) -> None:
    path = chain(tmp_path / "mine", (200, 200))

    def pack(file: Any) -> None:
        values = np.random.default_rng(0).random((201, 4)).astype(np.float32)
        del file["episode_1/observations"]
        file["episode_1"].create_dataset(
            "observations", data=values, chunks=(50, 4), fletcher32=True
        )

    altered(path, pack)
    with h5py.File(path / "data" / MAIN) as file:
        at = file["episode_1/observations"].id.get_chunk_info(2).byte_offset
    with open(path / "data" / MAIN, "r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff" * 8)
    with pytest.raises(rf.BuildError, match=r"observations cannot be read, it is damaged"):
        rf.train("bc", "CartPole-v1", data=str(path))


OTHER = {
    "shape": (spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2), "observations"),
    "dtype": (spaces.Box(-1, 1, (4,), np.float64), spaces.Discrete(2), "observations"),
    "kind": (spaces.Discrete(4), spaces.Discrete(2), "observations"),
    "actions": (spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(3), "actions"),
    "continuous": (spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-1, 1, (1,)), "actions"),
}


@pytest.mark.parametrize("kind", OTHER)
def test_a_dataset_of_another_environment_is_refused(tmp_path: Path, kind: str) -> None:
    obs, acts, which = OTHER[kind]
    path = chain(tmp_path / "mine")
    renamed(path, observation_space=to_json(obs), action_space=to_json(acts))
    with pytest.raises(rf.BuildError, match=rf"{which}: the dataset has .*, the environment "):
        rf.train("bc", "CartPole-v1", data=str(path))


def test_other_bounds_of_actions_are_other_actions(tmp_path: Path) -> None:
    seen = spaces.Box(np.array([-1, -1, -8], np.float32), np.array([1, 1, 8], np.float32))
    path = tmp_path / "torques"
    from rillflow.datasets.writing import DatasetWriter

    with DatasetWriter(path, seen, spaces.Box(-1, 1, (1,), np.float32)) as writer:
        writer.add([np.zeros(3)] * 2, [np.zeros(1)], [0.0], terminated=False, truncated=True)
    with pytest.raises(rf.BuildError, match=r"actions: .*Box\(-1.0, 1.0.*Box\(-2.0, 2.0"):
        rf.train("bc", "Pendulum-v1", data=str(path))


@pytest.mark.parametrize(("torque", "fine"), [(2.00001, True), (2.1, False), (-3.0, False)])
def test_actions_beyond_their_bounds_are_those_of_another_scale(
    tmp_path: Path, torque: float, fine: bool
) -> None:
    """Its space says -2 ... 2; no environment was given such an action, but for rounding."""
    import gymnasium

    from rillflow.datasets.checking import describe
    from rillflow.datasets.writing import DatasetWriter

    env = gymnasium.make("Pendulum-v1")
    with DatasetWriter(tmp_path / "torques", env.observation_space, env.action_space) as writer:
        acted = [np.zeros(1), np.array([torque])]
        writer.add([np.zeros(3)] * 3, acted, [0.0, 0.0], terminated=False, truncated=True)
    if fine:
        assert describe(str(tmp_path / "torques")).steps == 2
    else:
        with pytest.raises(
            rf.BuildError, match=r"episode_0: actions are not all in Box\(-2.0, 2.0"
        ):
            describe(str(tmp_path / "torques"))


def test_nothing_that_a_dataset_names_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minari's own reader makes the environment of the file where it has no spaces."""
    (tmp_path / "hostile_env.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = chain(tmp_path / "mine")
    spec = {"id": "hostile_env:Env-v0", "entry_point": "hostile_env:Env", "kwargs": {}}
    renamed(path, env_spec=json.dumps(spec), eval_env_spec=json.dumps(spec))
    with pytest.warns(UserWarning, match=r"recorded in 'hostile_env:Env-v0'"):
        rf.train("bc", "CartPole-v1", data=str(path), until=100, engine="sim", eval_every=None)
    renamed(path, observation_space=None)
    with pytest.raises(rf.BuildError, match="says nothing of its observation_space"):
        rf.train("bc", "CartPole-v1", data=str(path), until=100, engine="sim")
    assert "hostile_env" not in sys.modules


def test_without_a_look_at_every_number_what_is_not_finite_is_told_when_it_is_met(
    tmp_path: Path,
) -> None:
    path = altered(chain(tmp_path / "mine"), replace("observations", OBS * np.nan))
    settings = {"data": str(path), "check_data": False, "eval_every": None}
    with pytest.raises(rf.RillflowError, match=r"an observation of episode_1 is not finite"):
        rf.train("bc", "CartPole-v1", engine="sim", until=100, **settings)


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"bc learns from recorded data, and was given none.*record-data"),
        ({"data": "x", "source": print}, r"data and source are two places"),
        ({"data": "x", "num_envs_per_worker": 3}, r"num_envs_per_worker is about playing"),
        ({"data": "x", "rollout_fragment_length": 3}, r"rollout_fragment_length is about"),
        ({"data": "x", "scale_rewards": True}, r"scale_rewards needs"),
        ({"data": "x", "frame_stack": 4}, r"frame_stack is about rollouts"),
        ({"data": "x", "data_memory": "much"}, r"data_memory is a size"),
        ({"data": "x", "data_memory": 0}, r"data_memory must be above 0"),
        ({"data": "x", "n_step": 0}, r"n_step must be at least 1"),
        ({"data": "x", "n_step": 3}, r"n_step is about rewards, and bc looks at none"),
        ({"data": "x", "lagrangian": True}, r"unknown setting 'lagrangian'"),
        ({"data": "nowhere"}, r"there is no such directory"),
    ],
    ids=str,
)
def test_settings_that_contradict_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(rf.BuildError, match=message):
        rf.train("bc", "CartPole-v1", **settings)


def test_a_limit_of_returns_of_training_is_refused() -> None:
    with pytest.raises(rf.BuildError, match=r"eval_return is that of evaluations"):
        rf.train("bc", "CartPole-v1", data="x", until={"return": 475})


def test_more_workers_than_episodes_are_refused(tmp_path: Path) -> None:
    path = chain(tmp_path / "mine")
    with pytest.raises(rf.BuildError, match=r"4 workers share 3 episodes"):
        rf.train("bc", "CartPole-v1", data=str(path), num_workers=4)


def test_without_the_library_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = chain(tmp_path / "mine")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(rf.BuildError, match=r"pip install 'rillflow\[offline\]'"):
        rf.train("bc", "CartPole-v1", data=str(path))
