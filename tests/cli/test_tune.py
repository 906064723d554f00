"""`tune`: trials in processes side by side, each of which is kept; the defaults are one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rillflow.cli.search import Search, Watch
from rillflow.cli.side_by_side import Member
from tests.cli.conftest import Done, environment

optuna = pytest.importorskip("optuna")
pytestmark = pytest.mark.proc
PATIENCE = 90.0
SEARCH = ("tune", "a2c", "Bandit", "--engine", "sim", "--num-workers", "1",
          "--num-envs-per-worker", "4", "--hidden", "16")  # fmt: skip


def test_each_trial_is_a_run_and_the_first_has_the_defaults(call: Any, tmp_path: Path) -> None:
    done: Done = call(*SEARCH, "--trials", "5", "--steps", "2000", "--jobs", "2")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert "5 trials of 2,000 steps, 2 at a time" in lines[0]
    assert "hidden" not in lines[0].split("varying")[1]
    assert sum("the settings as they are" in line for line in lines) == 1
    assert "best of 5 trials" in done.out
    assert "the settings as they were" in done.out
    (where,) = (tmp_path / "runs").iterdir()
    trials = sorted(path.name for path in where.glob("trial-*"))
    assert trials == [f"trial-{number}" for number in range(5)]
    from rillflow.algorithms import get_algorithm

    usual = get_algorithm("a2c").Config.make(env="Bandit")
    for name in trials:
        about = json.loads((where / name / "run.json").read_text())
        assert about["config"]["hidden"] == [16]
        assert (where / name / "policy.npz").exists()
        if name == "trial-0":
            assert about["config"]["lr"] == usual.lr
            assert about["config"]["gamma"] == usual.gamma
    assert (where / "search.png").read_bytes().startswith(b"\x89PNG")
    assert (where / "trials.log").exists()


def test_ctrl_c_leaves_what_was_found_and_counts_no_more(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rillflow", *SEARCH, "--trials", "500", "--steps", "1000",
         "--jobs", "2", "--pruner", "none"],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    ended = 0
    for line in process.stdout:
        ended += line[:4].strip().isdecimal()
        if ended == 3:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert "stopped; trials that were running are not counted" in out
    assert out.splitlines()[-1].startswith("rillflow train a2c Bandit")
    complete = 3 + sum(
        line[:4].strip().isdecimal() and "aborted" not in line for line in out.splitlines()
    )
    assert f"best of {complete} trials" in out
    (where,) = (tmp_path / "runs").iterdir()
    for run in where.glob("trial-*"):
        assert (run / "policy.npz").exists()


def study() -> Any:
    return optuna.create_study(direction="maximize")


class Asked:
    """As much of a request as a search needs."""

    def __init__(self) -> None:
        from rillflow.algorithms import get_algorithm

        self.algorithm, self.module = "ppo", get_algorithm("ppo")
        self.config = self.module.Config.make(env="CartPole-v1")
        self.options = type("Options", (), {"steps": 1000, "seed": 3})()


def searched(names: list[str]) -> tuple[Search, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    asked: Any = Asked()
    search = Search(study(), asked, names, ["ppo", "CartPole-v1"], Path("x"),
                    lambda member, trial, how: told.append((member.name, how)))  # fmt: skip
    search.enqueue_defaults()
    return search, told


def end(search: Search, member: Member, state: str, value: float, code: int = 0) -> None:
    row = {"event": "row", "steps": 1000.0, "episodes": 200.0, "return": value}
    search.hear(member, row)
    member.state, member.code = state, code
    search.hear(member, {"event": "ended"})


def test_only_trials_that_came_to_a_return_are_counted() -> None:
    search, told = searched(["lr", "gamma"])
    trials = search.members(5)
    end(search, next(trials), "finished", 5.0)
    end(search, next(trials), "finished", 7.0)
    end(search, next(trials), "failed", 99.0, code=1)
    search.stopping = lambda: True
    end(search, next(trials), "stopped", 99.0, code=130)
    assert [how for _, how in told] == ["complete", "complete", "failed", "aborted"]
    assert len(search.counted) == 2
    assert search.best.value == 7.0


def test_a_trial_without_enough_episodes_has_no_return() -> None:
    search, told = searched(["lr"])
    member = next(search.members(1))
    search.hear(member, {"event": "row", "steps": 1000.0, "episodes": 3.0, "return": 50.0})
    member.state = "finished"
    search.hear(member, {"event": "ended"})
    assert told == [("trial 0", "too few episodes")]
    assert search.best is None


def test_settings_that_cannot_be_are_told_and_others_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search, told = searched(["train_batch_size"])

    kind = type(search.request.config)

    def validate(config: Any) -> None:
        if config.train_batch_size < 2048:
            raise ValueError("too small")

    monkeypatch.setattr(kind, "validate", validate)
    members = list(search.members(6))
    assert len(members) + len(told) >= 6
    assert all(how == "not possible" for _, how in told)
    for member in members:
        flag = member.arguments[list(member.arguments).index("--train-batch-size") + 1]
        assert int(flag) >= 2048


def test_each_run_gets_its_settings_as_flags() -> None:
    search, _ = searched(["lr", "hidden", "entropy_coef", "clip_param"])
    usual, other = list(search.members(2))
    words = list(usual.arguments)
    config = search.request.config
    assert words[:2] == ["ppo", "CartPole-v1"]
    assert float(words[words.index("--lr") + 1]) == config.lr
    assert words[words.index("--hidden") + 1] == "64,64"
    assert words[words.index("--entropy-coef") + 1] == "0.0"
    assert words[words.index("--until") + 1] == "steps=1000"
    assert words[words.index("--seed") + 1] == "3"
    assert words[words.index("--name") + 1] == "trial-0"
    assert other.arguments != usual.arguments


def test_a_trial_that_does_worse_is_given_up_once() -> None:
    reports: list[tuple[float, int]] = []

    class Trial:
        def report(self, value: float, step: int) -> None:
            reports.append((value, step))

        def should_prune(self) -> bool:
            return len(reports) >= 2

    watch = Watch(1000, Trial())
    said = [watch({"steps": n, "episodes": 5 * n, "return": 1.0}) for n in range(0, 1001, 50)]
    assert said.count(True) == 1
    assert watch.pruned
    assert [step for _, step in reports] == [1, 2]


def test_a_search_goes_on_from_its_storage(call: Any, tmp_path: Path) -> None:
    again = (*SEARCH, "--trials", "1", "--steps", "600", "--storage", "trials.log")
    assert "best of 1 trials" in call(*again).out
    done = call(*again)
    assert "best of 2 trials" in done.out
    assert "the settings as they are" not in done.out, "they were the first of all"
    assert os.path.exists(tmp_path / "trials.log")
