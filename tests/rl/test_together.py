"""Features that meet in one run: what each promises alone holds for all of them at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rillflow as rf
from rillflow.algorithms import get_algorithm
from rillflow.results import evaluate, export_onnx, record
from rillflow.results.evaluation import evaluate_agents
from rillflow.results.trained import TrainedAgents, load
from rillflow.runs.job import Job, run_job
from rillflow.runs.multi_agent import assigned
from tests.rl.test_action_masks import TURNS, old_names
from tests.runs.test_evaluate_while_training import evaluated, figures
from tests.runs.test_resume import (
    OFF_POLICY,
    ON_POLICY,
    Died,
    begin,
    dies_at,
    directory_of,
    go_on,
)
from tests.unit.envs.test_final_info import Counting

pytestmark = pytest.mark.usefixtures("one_thread")
HIDDEN, GATE, AGENTS = "CartPole-hidden-velocity", "tests.masked:GateVector", "MultiAgentCartPole"
ONE: dict[str, Any] = {"num_workers": 1}
PPO = {**ONE, **ON_POLICY, "train_batch_size": 128, "sgd_minibatch_size": 64, "num_sgd_iter": 2}
IMPALA = {**ONE, **ON_POLICY, "train_batch_size": 64}
DQN = {**ONE, **OFF_POLICY}
NORMAL: dict[str, Any] = {"normalize_observations": True, "scale_rewards": True}
LSTM: dict[str, Any] = {"memory": "lstm", "memory_size": 6}
GRU: dict[str, Any] = {"memory": "gru", "memory_size": 6}
RATE = rf.Linear(2e-3, 1e-4, steps=900)

RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "memory, normalised": ("ppo", HIDDEN, {**PPO, **NORMAL, **LSTM}),
    "memory, normalised, replayed": ("dqn", HIDDEN, {**DQN, **NORMAL, **GRU, "burn_in": 2}),
    "masks, normalised": ("ppo", GATE, {**PPO, **NORMAL}),
    "masks, normalised, replayed": ("dqn", GATE, {**DQN, **NORMAL, "lr": RATE}),
    "masks, memory, normalised": ("ppo", GATE, {**PPO, **NORMAL, **GRU, "target_kl": 0.01}),
    "masks, memory, normalised, replayed": ("dqn", GATE, {**DQN, **NORMAL, **LSTM}),
    "frames, schedules": (
        "ppo",
        "CartPole-v1",
        {
            **PPO,
            **NORMAL,
            "frame_stack": 3,
            "lr": RATE,
            "clip_param": rf.Linear(0.3, 0.1, steps=900),
        },
    ),
    "frames, a schedule of exploring": (
        "dqn",
        "CartPole-v1",
        {**DQN, "frame_stack": 2, "epsilon": rf.Linear(1.0, 0.1, steps=900)},
    ),
    "frames, memory": ("impala", HIDDEN, {**IMPALA, **LSTM, "frame_stack": 2}),
    "agents, memory, normalised, frames": (
        "ppo",
        AGENTS,
        {**PPO, **NORMAL, **LSTM, "frame_stack": 2, "policies": "each", "lr": RATE},
    ),
    "agents, memory, replayed": ("dqn", AGENTS, {**DQN, **GRU, "policies": "each"}),
}
EVAL: dict[str, Any] = {"eval_every": 300, "eval_episodes": 2}
STEPS = 900  # a multiple of eval_every: the last evaluation is due with the last result


def job(name: str, **more: Any) -> Job:
    algorithm, env, settings = RUNS[name]
    module = get_algorithm(algorithm)
    given = {**settings, **more}
    policies = given.pop("policies", None)
    config = module.Config.make(env=env, **given)
    agents = assigned(config, policies)
    return Job(algorithm, module, config, {"steps": STEPS}, 4, "sim", agents)


def weights_of(trained: Any) -> dict[str, Any]:
    """Of all policies."""
    own = getattr(trained, "policies", {"": trained})
    return {f"{p}/{n}": w for p, one in own.items() for n, w in one.weights.items()}


def differing(left: Any, right: Any) -> list[str]:
    ours, theirs = weights_of(left), weights_of(right)
    assert ours.keys() == theirs.keys()
    return [name for name in ours if not np.array_equal(ours[name], theirs[name])]


@pytest.mark.parametrize("name", RUNS)
def test_it_is_evaluated_resumed_saved_and_exported(name: str, tmp_path: Path) -> None:
    """Evaluations change nothing; a resumed run is the run that was not interrupted; what is saved
    acts as the policy did, and so does its graph, which is compared before it is written."""
    work = job(name, **EVAL)
    without, whole, parts = (directory_of(work, tmp_path, at) for at in ("plain", "whole", "parts"))
    plain = begin(job(name), without).trained
    trained = begin(work, whole).trained
    assert figures(plain) == figures(trained)
    assert differing(plain, trained) == []

    with pytest.raises(Died):
        begin(work, parts, stop=dies_at(500))
    again = go_on(parts, STEPS, trust=(GATE,)).trained
    assert differing(again, trained) == []
    assert evaluated(again) == evaluated(trained)

    several = work.agents is not None
    trained.save(path := tmp_path / ("policies" if several else "policy.npz"))
    saved: Any = TrainedAgents.load(path) if several else load(path, trust=(GATE,))
    played = evaluate_agents(saved, 2) if several else {"": evaluate(saved, 2)}
    last = np.mean([one.mean for one in played.values()])
    assert last == pytest.approx(evaluated(trained)[-1][1])
    assert differing(saved, trained) == [], "nothing is counted while somebody looks on"
    for number, policy in enumerate(saved.policies.values() if several else [saved]):
        export_onnx(policy, tmp_path / f"{number}.onnx")


def test_frames_are_filmed_as_they_were_learned_from(tmp_path: Path) -> None:
    work = dataclasses.replace(job("frames, schedules"), until={"steps": 300})
    with pytest.warns(UserWarning, match="cut after 3 steps"):
        path = record(run_job(work).trained, tmp_path / "pole.gif", max_steps=3)
    assert path.stat().st_size > 0


@old_names
@pytest.mark.parametrize(
    ("algorithm", "settings"), [("ppo", {**PPO, **LSTM}), ("dqn", {**DQN, **GRU})]
)
def test_players_who_take_turns_remember_and_keep_to_the_rules(
    algorithm: str, settings: Any, tmp_path: Path
) -> None:
    """A forbidden move ends a game of PettingZoo's with a warning, which is an error here."""
    pytest.importorskip("pettingzoo")
    seen: set[str] = set()
    trained = rf.train(
        algorithm, TURNS, until=600, engine="sim", policies="each", on_failure="raise",
        normalize_observations=True, on_episode=lambda _, e: seen.add(e["policy"]),
        run_dir=tmp_path / "run", **EVAL, **settings,
    )  # fmt: skip
    assert seen == trained.policies.keys()
    assert all(one.spec.masked and one.spec.recurrent for one in trained.policies.values())
    found = evaluate_agents(TrainedAgents.load(tmp_path / "run" / "policies", trust=(TURNS,)), 2)
    last = trained.history[-1]
    assert {n: one.mean for n, one in found.items()} == {
        n: last[f"{n}/eval_return"] for n in trained.policies
    }


def test_figures_of_infos_are_those_of_whole_frames() -> None:
    trained = rf.train(
        "ppo", Counting, until=400, engine="sim", frame_stack=3, info_metrics=("moves",),
        **EVAL, **PPO, **LSTM,
    )  # fmt: skip
    last = trained.history[-1]
    assert trained.spec.observation_shape == (6,)
    assert last["info/moves"] == last["return"]
    assert last["eval_info/moves"] == last["eval_length"]


@pytest.mark.proc
def test_a_process_evaluates_with_statistics_memory_and_masks() -> None:
    """What it is sent acts there as it does here."""
    _, env, settings = RUNS["masks, memory, normalised"]
    trained = rf.train("ppo", env, until=600, **EVAL, **settings)
    steps, value = evaluated(trained)[-1]
    assert steps == trained.history[-1]["steps"]
    assert value == np.mean(trained.evaluate(2))
