"""A run in one file and back again; and files that somebody has made to do harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import pytest

import rillflow as rf
from rillflow.results.pack import pack_run
from rillflow.results.unpack import card_text, is_packed, read_card, unpack_run

QUICK: dict[str, Any] = {"engine": "sim", "num_workers": 1, "until": 2000}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a film; tests only read it."""
    path = tmp_path_factory.mktemp("packed") / "mine"
    rf.train("ppo", "CartPole-v1", run_dir=path, lr=0.0123, **QUICK)
    (path / "video.mp4").write_bytes(b"a film")
    (path / "notes.txt").write_text("private")
    return path


@pytest.fixture(scope="module")
def packed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_run(run, tmp_path_factory.mktemp("packed") / "pole.rill")


def test_a_run_comes_out_as_it_went_in(run: Path, packed: Path, tmp_path: Path) -> None:
    there = unpack_run(packed, tmp_path / "new" / "pole")
    names = {path.name for path in there.iterdir()}
    assert {"policy.npz", "card.md", "run.json", "metrics.jsonl", "video.mp4"} <= names
    assert not {"notes.txt", "checkpoints", ".lock", "status.json"} & names
    for name in ("policy.npz", "metrics.jsonl", "video.mp4", "graph.json"):
        assert (there / name).read_bytes() == (run / name).read_bytes()
    obs = np.array([[0.01, 0.02, -0.03, 0.04]], np.float32)
    ours, theirs = (rf.load(path / "policy.npz") for path in (run, there))
    assert ours.act(obs).tolist() == theirs.act(obs).tolist()
    assert not list(tmp_path.glob("**/*.part*"))


def test_the_card_says_what_it_is(packed: Path) -> None:
    card, text = read_card(packed), card_text(packed)
    assert card["algorithm"] == "ppo"
    assert card["changed"]["lr"] == 0.0123
    assert card["last"]["steps"] >= 2000
    assert card["curve"]
    for told in ("# ppo on CartPole-v1", "| lr | 0.0123 |", "curve.png", "video.mp4",
                 "rillflow evaluate pole.rill", "seed 0"):  # fmt: skip
        assert told in text, told
    with ZipFile(packed) as archive:
        about = json.loads(archive.read("run.json"))
    assert "host" not in about["machine"], "nobody's business"
    assert "consent" not in about


def test_the_same_run_gives_the_same_file(run: Path, packed: Path, tmp_path: Path) -> None:
    assert pack_run(run, tmp_path / "pole.rill").read_bytes() == packed.read_bytes()


def test_several_agents_are_packed_together(tmp_path: Path) -> None:
    run = tmp_path / "two"
    config = {"policies": "each", **QUICK, "until": 1000}
    rf.train("ppo", "MultiAgentCartPole", run_dir=run, **config)
    there = unpack_run(pack_run(run), tmp_path / "new")
    assert (there / "policies" / "agents.json").exists()
    assert rf.results.trained.TrainedAgents.load(there / "policies").policies.keys()


def test_mistakes_are_told(run: Path, packed: Path, tmp_path: Path) -> None:
    with pytest.raises(rf.BuildError, match="there is no run"):
        pack_run(tmp_path / "no")
    with pytest.raises(rf.BuildError, match=r"is no run: run\.json"):
        pack_run(tmp_path)
    with pytest.raises(rf.BuildError, match=r"written as \.rill"):
        pack_run(run, tmp_path / "x.zip")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(rf.BuildError, match="no policy yet"):
        pack_run(tmp_path)
    with pytest.raises(rf.BuildError, match="exists and is not empty"):
        unpack_run(packed, tmp_path)
    with pytest.raises(rf.BuildError, match="is a directory; what `rillflow pack` writes is one"):
        unpack_run(tmp_path)
    with pytest.raises(rf.BuildError, match="there is no file"):
        unpack_run(tmp_path / "no.rill")
    with pytest.raises(rf.BuildError, match=r"Is a directory|not a regular file"):
        read_card(tmp_path)
    os.mkfifo(tmp_path / "pipe.rill")
    with pytest.raises(rf.BuildError, match="not a regular file"):
        read_card(tmp_path / "pipe.rill")
    assert is_packed(packed)
    assert not is_packed(run / "policy.npz")
    assert not is_packed(run)


# -- files made to do harm ---------------------------------------------------------------------


def entries(packed: Path) -> dict[str, bytes]:
    with ZipFile(packed) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, files: dict[str, bytes], kind: int = ZIP_STORED) -> Path:
    with ZipFile(path, "w", kind) as archive:
        for name, data in files.items():
            archive.writestr(ZipInfo(name) if kind == ZIP_STORED else name, data)
    return path


def more(name: str, data: bytes = b"x") -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda files: {**files, name: data}


def card(**changes: Any) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    def change(files: dict[str, bytes]) -> dict[str, bytes]:
        told = {**json.loads(files["card.json"]), **changes}
        return {**files, "card.json": json.dumps(told).encode()}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (more("../evil.npz"), "no name of a file"),
        (more("/tmp/evil"), "no name of a file"),
        (more("policies/../../evil.npz"), "no name of a file"),
        (more("policies/a/b.npz"), "no name of a file"),
        (more("policies\\evil.npz"), "no name of a file"),
        (more("evil.py"), "no name of a file"),
        (more("policies/.hidden.npz"), "no name of a file"),
        (more("policies/" + "x" * 300 + ".npz"), "no name of a file"),
        (more("policies/"), "no name of a file"),
        (more("policy.npz", b"other"), "policy.npz is not as its card says"),
        (more("policies/new.npz"), "policies/new.npz is not as its card says"),
        (more("card.json", b"["), "is not a run packed"),
        (more("card.json", b"[" * 100_000), "is not a run packed"),
        (more("card.json", b'{"format": 1}'), "is not what we write"),
        (card(format=2), "it has format 2, and this rillflow reads 1"),
        (card(files={"policy.npz": 3}), "is not as its card says"),
        (lambda files: {k: v for k, v in files.items() if k != "card.json"}, "no card.json"),
        (lambda files: {f"policies/p{i}.npz": b"" for i in range(3000)}, "at most 2,000"),
    ],
)
def test_what_is_not_as_we_write_it_is_refused(
    packed: Path, tmp_path: Path, change: Any, message: str
) -> None:
    bad = written(tmp_path / "bad.rill", change(entries(packed)))
    before = set(tmp_path.rglob("*")) | {tmp_path / "bad"}
    with pytest.raises(rf.BuildError, match=message):
        unpack_run(bad, tmp_path / "bad")
    assert set(tmp_path.rglob("*")) <= before
    assert not (tmp_path / "bad").exists(), "and nothing is left"


def test_what_is_compressed_is_refused_before_it_is_read(packed: Path, tmp_path: Path) -> None:
    """A kilobyte that would be a gigabyte."""
    files = {**entries(packed), "policies/big.npz": b"\0" * 50_000_000}
    bomb = written(tmp_path / "bomb.rill", files, ZIP_DEFLATED)
    assert bomb.stat().st_size < 1_000_000
    with pytest.raises(rf.BuildError, match="is compressed"):
        unpack_run(bomb, tmp_path / "bomb")
    assert not (tmp_path / "bomb").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused(packed: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.rill"
    twice.write_bytes(packed.read_bytes())
    with ZipFile(twice, "a") as archive:
        archive.writestr("Policy.npz".lower(), b"x")
    with pytest.raises(rf.BuildError, match="two files called"):
        unpack_run(twice, tmp_path / "x")


@pytest.mark.parametrize("cut", [0, 10, 1000, -100, -1])
def test_what_ends_too_early_is_no_packed_run(packed: Path, tmp_path: Path, cut: int) -> None:
    bad = tmp_path / "bad.rill"
    bad.write_bytes(packed.read_bytes()[:cut])
    with pytest.raises(rf.BuildError, match="is not a run packed by rillflow"):
        unpack_run(bad, tmp_path / "x")


def test_every_flipped_byte_is_noticed_or_harmless(packed: Path, tmp_path: Path) -> None:
    """Damage anywhere: one clear error, or the same files."""
    data, rng = packed.read_bytes(), np.random.default_rng(0)
    whole = entries(packed)
    for place in rng.integers(len(data), size=60):
        bad = tmp_path / "bad.rill"
        bad.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            there = unpack_run(bad, tmp_path / f"x{place}")
        except rf.BuildError:
            continue
        for name, content in whole.items():
            if name != "card.json":
                assert (there / name).read_bytes() == content


def test_a_link_in_the_file_is_written_as_a_file(packed: Path, tmp_path: Path) -> None:
    files = entries(packed)
    bad = tmp_path / "bad.rill"
    with ZipFile(bad, "w") as archive:
        for name, content in files.items():
            entry = ZipInfo(name)
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, content)
    there = unpack_run(bad, tmp_path / "x")
    assert not any(path.is_symlink() for path in there.rglob("*"))


def test_to_unpack_imports_nothing_that_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of a packed run's environment is imported only if the user names it."""
    (tmp_path / "evil_maze.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\nimport gymnasium\n"
        "def make(**kw): return gymnasium.make('CartPole-v1')\n"
    )
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import rillflow as rf
rf.train("ppo", "evil_maze:make", run_dir="run", engine="sim", num_workers=1, until=600)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=100)
    packed = pack_run(tmp_path / "run", tmp_path / "a.rill")
    (tmp_path / "ran").unlink()
    assert "--trust evil_maze:make" in card_text(packed)
    unpack_run(packed, tmp_path / "there")
    from rillflow.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "a.rill", "--episodes", "1"]) == 2
    assert not (tmp_path / "ran").exists()


def test_words_of_a_stranger_are_harmless_in_the_card(run: Path, tmp_path: Path) -> None:
    import shutil

    evil = "\x1b[2J</script>`|[x](javascript:1)"
    copy = shutil.copytree(run, tmp_path / "copy")
    about = json.loads((copy / "run.json").read_text())
    about |= {"algorithm": evil, "env": evil, "label": evil, "config": {evil: evil}}
    (copy / "run.json").write_text(json.dumps(about))
    text = card_text(pack_run(copy, tmp_path / "copy.rill"))
    assert "\x1b" not in text
    assert "</script>" not in text
    assert "[x](" not in text
