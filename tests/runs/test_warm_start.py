"""A run that begins with the policy of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.rl.workers import create_rollout_workers
from rillflow.runs.warm_start import begin_with
from tests.cli.conftest import QUICK

SMALL: dict[str, Any] = {
    "hidden": (16,),
    "num_workers": 1,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 32,
    "engine": "sim",
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> rf.TrainingRun:
    path = tmp_path_factory.mktemp("runs") / "before"
    return rf.train("ppo", "CartPole-v1", until=600, run_dir=path, **SMALL)


def first_weights(**how: Any) -> dict[str, Any]:
    """What a run's workers act with before anything is learned."""
    seen: list[dict[str, Any]] = []

    def on_result(run: Any, row: Any) -> str:
        seen.append(run.policy.weights)
        return "stop"

    # a rate of nearly nothing: what it has after one update is what it began with
    algorithm = how.pop("algorithm", "ppo")
    how = {"until": 64, "lr": 1e-12, "on_result": on_result, **SMALL, **how}
    rf.train(algorithm, "CartPole-v1", **how)
    return seen[0]


def same(one: Any, other: Any) -> bool:
    return all(np.allclose(one[name], other[name], atol=1e-6) for name in other)


@pytest.mark.parametrize("kind", ["directory", "text", "file", "run", "policy"])
def test_whatever_has_a_policy_can_be_begun_with(before: rf.TrainingRun, kind: str) -> None:
    assert before.directory is not None
    given = {
        "directory": before.directory,
        "text": str(before.directory),
        "file": before.directory / "policy.npz",
        "run": before,
        "policy": before.policy,
    }[kind]
    assert same(first_weights(init_from=given), before.weights)
    assert not same(first_weights(), before.weights)


@pytest.mark.parametrize("algorithm", ["a2c", "impala"])
def test_another_algorithm_with_such_a_network_goes_on_from_it(
    before: rf.TrainingRun, algorithm: str
) -> None:
    how = {"normalize_observations": before.spec.normalize_observations}
    assert same(first_weights(algorithm=algorithm, init_from=before, **how), before.weights)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_targets_and_statistics_begin_there_too(framework: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {**SMALL, "framework": framework, "normalize_observations": True}
    run = rf.train("dqn", "CartPole-v1", until=64, **how)
    workers = create_rollout_workers(run.config)
    begin_with(workers, run)
    from rillflow.learning.make_learner import make_learner

    learner = workers.begun(make_learner(workers.spec, workers.config, 7))
    assert same(learner.get_weights(), run.weights)
    assert same(learner.get_target_weights(), run.weights)
    count = {one.moments.count for one in learner.normalizers()}
    assert count == {float(run.weights["normalizer.count"])}
    assert count != {0.0}


def test_policies_of_several_agents_by_their_names(tmp_path: Path) -> None:
    how: dict[str, Any] = {**SMALL, "until": 128, "policies": "each"}
    how["normalize_observations"] = False  # what is counted would change with the first update
    run = rf.train("ppo", "MultiAgentCartPole", run_dir=tmp_path / "several", **how)
    name = next(iter(run.policies))
    seen: list[Any] = []

    def on_result(now: Any, row: Any) -> str:
        seen.append(now.policy.policies)
        return "stop"

    again = {**how, "lr": 1e-12, "on_result": on_result, "init_from": tmp_path / "several"}
    rf.train("ppo", "MultiAgentCartPole", **again)
    assert all(same(seen[0][n].weights, run.policies[n].weights) for n in run.policies)
    with pytest.raises(rf.BuildError, match=r"has the policies .* and this run trains shared"):
        rf.train("ppo", "MultiAgentCartPole", **{**again, "policies": "shared"})
    # one policy is a beginning for all of them
    rf.train("ppo", "MultiAgentCartPole", **{**again, "init_from": run.policies[name]})
    assert all(same(one.weights, run.policies[name].weights) for one in seen[-1].values())


MISMATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "layers": ({"hidden": (32, 32)}, r"hidden is \(16,\) there and \(32, 32\) here"),
    "activation": ({"activation": "relu"}, "activation is tanh there and relu here"),
    "memory": ({"memory": "gru"}, "memory is None there and gru here"),
    "an algorithm with q values": ({"algorithm": "dqn"}, "head is actor_critic there and q here"),
    "an environment": ({"env": "Acrobot-v1"}, "observation space is Box.*; action space is Disc"),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_another_network_is_refused_setting_by_setting(
    before: rf.TrainingRun, case: str, tmp_path: Path
) -> None:
    how, message = MISMATCHES[case]
    settings = {**SMALL, "env": "CartPole-v1", "until": 64, **how}
    algorithm = settings.pop("algorithm", "ppo")
    with pytest.raises(rf.BuildError, match=f"another network than this run: .*{message}") as error:
        rf.train(algorithm, init_from=before, run_dir=tmp_path / "run", **settings)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_what_is_no_policy_is_told() -> None:
    with pytest.raises(rf.BuildError, match=r"init_from is a run's directory.* found int"):
        first_weights(init_from=7)
    with pytest.raises(rf.BuildError, match="there is no file and no run 'nowhere'"):
        first_weights(init_from="nowhere")


def test_workers_that_are_used_again_begin_anew(before: rf.TrainingRun) -> None:
    workers = create_rollout_workers(ppo.Config(env="CartPole-v1", hidden=(16,)))
    begin_with(workers, before)
    assert same(workers.first_weights(0), before.weights)
    begin_with(workers, None)
    assert not same(workers.first_weights(0), before.weights)


@pytest.mark.proc
def test_a_learner_in_a_process_begins_there_too(before: rf.TrainingRun) -> None:
    how = {**SMALL, "engine": "local", "learner_placement": "process"}
    how["normalize_observations"] = before.spec.normalize_observations
    seen = first_weights(algorithm="impala", init_from=before, **how)
    assert same(seen, before.weights)


def test_on_the_command_line(
    before: rf.TrainingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from rillflow.cli.main import main

    monkeypatch.chdir(tmp_path)
    words = ["train", "ppo", "CartPole-v1", *QUICK, "--until=steps=300", "--hidden=16", "--quiet"]
    words += ["--lr=1e-12", "--name=after"]
    assert main([*words, "--init-from", str(before.directory)]) == 0
    assert same(rf.load("runs/after").weights, {k: v for k, v in before.weights.items()
                                                if not k.startswith("normalizer")})  # fmt: skip
    about = json.loads(Path("runs/after/run.json").read_text())
    assert about["init_from"] == str(before.directory)
    capsys.readouterr()
    assert main([*words, "--hidden=8", "--init-from", str(before.directory)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "hidden is (16,) there and (8,) here" in err
