"""`pack` and `unpack`, and the commands that take a packed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_a_packed_run_is_evaluated_unpacked_and_viewed(
    call: Any, finished: Path, tmp_path: Path
) -> None:
    done = call("pack", str(finished), "-o", "pole.rill")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("pole.rill\n")
    assert "policy.npz" in done.out
    played = call("evaluate", "pole.rill", "--episodes", "3")
    assert played.code == 0, played.err
    assert played.out == call("evaluate", str(finished), "--episodes", "3").out
    assert "policy.npz of pole.rill" in played.err
    assert call("evaluate", "pole.rill", "--episodes", "3", "--best").code == 0
    assert "# ppo on CartPole-v1" in call("unpack", "pole.rill", "--card").out
    assert call("unpack", "pole.rill", "-o", "there").code == 0
    assert call("plot", "there", "-o", "curve.svg").code == 0
    assert call("evaluate", "there", "--episodes", "3").out == played.out


def test_mistakes_are_one_line(call: Any, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.rill").write_text("nothing")
    for arguments, told in [
        (["pack", "missing"], "there is no run 'missing'"),
        (["pack", str(finished), "-o", "x.zip"], "written as .rill"),
        (["unpack", "missing.rill"], "there is no file"),
        (["unpack", "bad.rill"], "is not a run packed by rillflow"),
        (["unpack", "bad.rill", "--card"], "is not a run packed by rillflow"),
        (["evaluate", "bad.rill"], "is not a run packed by rillflow"),
    ]:
        done = call(*arguments)
        assert (done.code, done.err.count("\n")) == (2, 1), done
        assert told in done.err
    assert not (tmp_path / "bad").exists()


def test_of_several_agents_one_is_served_once_it_is_unpacked(call: Any, tmp_path: Path) -> None:
    import rillflow as rf
    from rillflow.results.pack import pack_run

    how: dict[str, Any] = {"engine": "sim", "num_workers": 1, "until": 600, "policies": "each"}
    rf.train("ppo", "MultiAgentCartPole", run_dir=tmp_path / "two", **how)
    pack_run(tmp_path / "two", tmp_path / "two.rill")
    done = call("serve", "two.rill")
    assert done.code == 2
    assert "`rillflow unpack two.rill` makes a directory of it" in done.err
    assert call("evaluate", "two.rill", "--episodes", "1").code == 0
