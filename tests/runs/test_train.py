"""`rf.train` and `rf.load`: a policy that acts, is evaluated fairly, and survives on disk."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

import rillflow as rf
from rillflow.algorithms import a2c, ppo
from rillflow.learning.algorithm import Algorithm
from rillflow.runs.train import Trained
from tests.engines.processes import children, gone

SMALL: dict[str, Any] = {
    "hidden": (16,),
    "num_workers": 1,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 8,
}


def short(algorithm: Any = "a2c", env: Any = "CartPole-v1", **settings: Any) -> Trained:
    options: dict[str, Any] = {"until": {"steps": 32}, "engine": "sim", **SMALL, **settings}
    return rf.train(algorithm, env, **options)


# -- when to stop ----------------------------------------------------------------------------------

UNTIL: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"retrun": 3}, r"unknown limit 'retrun', did you mean 'return'\?"),
    "another word": ({"reward": 3}, r"unknown limit 'reward', did you mean 'return'\?"),
    "nothing": ({}, "it is empty"),
    "a word": ({"steps": "many"}, "steps must be a number above 0, got 'many'"),
    "nothing to do": ({"seconds": 0}, "seconds must be a number above 0, got 0"),
    "not a number": ({"return": float("nan")}, "return must be a number, got nan"),
    "true": ({"steps": True}, "steps must be a number above 0, got True"),
    "two": ({"steps": -1, "episode": 3}, "steps must be .* -1; unknown limit 'episode'"),
}


@pytest.mark.parametrize("case", UNTIL)
def test_limits_that_cannot_work_are_told(case: str) -> None:
    """All of them, with what there is instead."""
    until, message = UNTIL[case]
    with pytest.raises(rf.BuildError, match=f"return, eval_return, steps, seconds: .*{message}"):
        rf.train("ppo", until=until)


def test_a_number_alone_is_one_of_steps() -> None:
    *before, last = (row["steps"] for row in short(until=50).history)
    assert last >= 50 > max(before, default=0)
    with pytest.raises(rf.BuildError, match="a number of steps, or a dict of limits, found 'many'"):
        short(until="many")


def test_the_mean_of_few_episodes_is_shown_and_ends_nothing() -> None:
    trained = short(until={"return": 1.0, "steps": 300})
    last = trained.history[-1]
    assert last["steps"] >= 300
    assert 0 < last["episodes"] < 100
    assert last["return"] > 1.0


@pytest.mark.parametrize(
    ("algorithm", "theirs", "ours"),
    [
        ("ppo", "learning_rate", "did you mean 'lr'"),
        ("ppo", "n_steps", "did you mean 'rollout_fragment_length'"),
        ("dqn", "n_steps", "did you mean 'n_step'"),
        ("ppo", "ent_coef", "did you mean 'entropy_coef'"),
        ("sac", "ent_coef", "did you mean 'initial_alpha'"),
        ("ppo", "n_envs", "did you mean 'num_envs_per_worker'"),
        ("ppo", "batch_size", "did you mean 'sgd_minibatch_size'"),
        ("sac", "batch_size", "did you mean 'train_batch_size'"),
        ("ppo", "clip_range", "did you mean 'clip_param'"),
        ("ppo", "gae_lambda", "did you mean 'lambda_'"),
        ("ppo", "total_timesteps", "until={'steps': 50_000}"),
        ("ppo", "eval_freq", "did you mean 'eval_every'"),
    ],
)
def test_settings_of_others_are_understood(algorithm: str, theirs: str, ours: str) -> None:
    with pytest.raises(rf.BuildError, match=re.escape(ours)):
        rf.train(algorithm, **{theirs: 1})


def test_a_return_may_be_negative() -> None:
    """Where every reward is a cost, that is what a goal looks like."""
    trained = short(env="Pendulum-v1", until={"return": -1e9, "steps": 1000})
    assert trained.history[-1]["steps"] >= 1000  # 100 episodes did not end before


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("A2C", "a2c"), ("PPO", "ppo"), ("Ape-X", "apex"), ("SimpleQ", "simple_q"), ("TD3", "td3")],
)
def test_algorithms_go_by_the_names_that_papers_give_them(spelling: str, name: str) -> None:
    """Capitals, hyphens and underscores make no difference."""
    from rillflow.algorithms import get_algorithm

    assert get_algorithm(spelling).name == name


# -- evaluation ------------------------------------------------------------------------------------


class Lengths(gymnasium.Env[Any, Any]):
    """Episodes of 1 and of 9 steps in turns, in each copy in another order; a step pays 1."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self) -> None:
        self.episode, self.t = Lengths.made % 2, 0
        Lengths.made += 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.t = self.episode + 1, 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        done = self.t >= (1 if self.episode % 2 else 9)
        return np.zeros(2, np.float32), 1.0, done, False, {}


@pytest.mark.parametrize("episodes", [1, 20, 45, 60])
def test_evaluation_does_not_prefer_short_episodes(episodes: int) -> None:
    """Every copy plays its share; the first to finish would all be short."""
    trained = short(env=Lengths)
    Lengths.made = 0
    returns = trained.evaluate(episodes)
    assert len(returns) == episodes
    assert set(returns) <= {1.0, 9.0}
    if episodes % 20 == 0:  # half of the copies begin with a long one
        assert np.mean(returns) == pytest.approx(5.0, abs=4 / (episodes // 20))
    if episodes == 20:
        assert np.mean(returns) == 5.0


@pytest.mark.parametrize("episodes", [0, 2.5, "ten"])
def test_a_number_of_episodes_is_a_whole_number(episodes: Any) -> None:
    """Of at least one."""
    with pytest.raises(rf.BuildError, match="episodes must be a whole number of at least 1"):
        short().evaluate(episodes)


# -- on disk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "env"),
    [
        ("a2c", "CartPole-v1"),
        ("a2c", "Pendulum-v1"),
        ("dqn", "CartPole-v1"),
        ("ppo", "MountainCar-v0"),  # it scales what it sees
    ],
)
def test_a_saved_policy_acts_as_it_did(tmp_path: Path, algorithm: str, env: str) -> None:
    """Weights, settings and history are there again; the name of the file is what was asked for."""
    learning = {"learning_starts": 8, "train_batch_size": 8} if algorithm == "dqn" else {}
    trained = short(algorithm, env, gamma=0.9, **learning)
    path = tmp_path / "my.policy"
    trained.save(path)
    trained.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["my.policy"]
    loaded = rf.load(path)
    rows = np.random.default_rng(0).standard_normal(
        (50, *trained.spec.observation_shape), np.float32
    )
    assert np.array_equal(loaded.act(rows), trained.act(rows))
    assert loaded.evaluate(3) == trained.evaluate(3)
    assert repr(loaded.history) == repr(trained.history)
    assert (type(loaded.config), loaded.config.gamma) == (type(trained.config), 0.9)
    assert loaded.config.hidden == (16,)
    assert loaded.spec == trained.spec
    assert loaded.spec.scale_observations == (env == "MountainCar-v0")


def own_network(spec: Any) -> Any:
    from torch import nn

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = nn.Linear(spec.observation_size, spec.actions.width)
            self.critic = nn.Linear(spec.observation_size, 1)

        def forward(self, obs: Any) -> Any:
            return self.actor(obs), self.critic(obs)[:, 0]

    return Own()


def test_code_is_not_saved_but_given_again(tmp_path: Path) -> None:
    """The messages say what has to be given, and with it everything is as it was."""
    trained = short(env=Lengths, model=own_network)
    trained.save(tmp_path / "own")
    with pytest.raises(rf.BuildError, match=r"network of your own, 'own_network'.*model=own_netw"):
        rf.load(tmp_path / "own")
    loaded = rf.load(tmp_path / "own", model=own_network)
    obs = np.ones((3, 2), np.float32)
    assert np.array_equal(loaded.act(obs), trained.act(obs))
    with pytest.raises(rf.BuildError, match=r"environment of your own.*env=\.\.\."):
        loaded.evaluate(1)
    assert len(rf.load(tmp_path / "own", model=own_network, env=Lengths).evaluate(2)) == 2


def test_files_that_are_not_policies_are_told(tmp_path: Path) -> None:
    """Nothing in them is ever executed."""
    with pytest.raises(rf.BuildError, match="there is no file"):
        rf.load(tmp_path / "none")
    (tmp_path / "text").write_text("no policy")
    np.savez(tmp_path / "objects.npz", settings=np.array([{}], dtype=object))
    np.savez(tmp_path / "arrays.npz", weights=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("text", "objects.npz", "arrays.npz", "array.npy"):
        with pytest.raises(rf.BuildError, match="is not a policy saved by rillflow"):
            rf.load(tmp_path / name)


def test_a_newer_format_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of being read wrongly."""
    monkeypatch.setattr("rillflow.policies.saved.FORMAT", 2)
    short().save(tmp_path / "new")
    monkeypatch.setattr("rillflow.policies.saved.FORMAT", 1)
    with pytest.raises(rf.BuildError, match="has format 2, and this rillflow reads format 1"):
        rf.load(tmp_path / "new")


# -- one's own -------------------------------------------------------------------------------------


def derived(plan: Any = a2c.plan, update: Any = a2c.update) -> Algorithm:
    """An algorithm like A2C, with a part of one's own."""

    @dataclass(frozen=True, kw_only=True)
    class Config(a2c.Config):
        knob: float = 0.5

    return Algorithm("own", Config, a2c.modules, update, plan, prepare=a2c.prepare)


@pytest.mark.parametrize("form", ["the algorithm", "a module with it"])
def test_an_algorithm_of_ones_own_brings_its_update_along(form: str) -> None:
    """With settings of its own; of a module, the one that it makes, not those that it imports."""

    def update(m: Any, rows: Any, cfg: Any) -> Any:
        for step in a2c.update(m, rows, cfg):
            yield replace(step, stats={"knob": cfg.knob})

    own: Any = derived(update=update)
    if form == "a module with it":
        module = ModuleType("mine")
        vars(module).update(OWN=own, PPO=ppo.PPO)
        own.Config.__module__ = "mine"  # PPO is only imported there
        own = module
    trained = short(own)
    assert [row["knob"] for row in trained.history] == [0.5] * len(trained.history)
    assert len(trained.history) > 0


@pytest.mark.parametrize("own", [SimpleNamespace(plan=ppo.plan), 3, ppo.Config, math])
def test_what_is_no_algorithm_is_told(own: Any) -> None:
    """With what an algorithm is."""
    with pytest.raises(rf.BuildError, match=r"no Algorithm.*Algorithm\(name, Config, modules, upd"):
        rf.train(own)


def test_a_module_with_several_algorithms_names_them() -> None:
    module = ModuleType("several")
    vars(module).update(A=a2c.A2C, B=ppo.PPO)
    with pytest.raises(rf.BuildError, match="several, a2c, ppo: name one, as module:NAME"):
        rf.train(module)


def test_a_plan_must_return_its_flow() -> None:
    """A forgotten `return`, and results that are no training results."""
    with pytest.raises(rf.BuildError, match="found NoneType: is a `return` missing"):
        short(derived(lambda rollouts, workers: None))
    with pytest.raises(rf.RunError, match=r"results are TrainStats.* found list"):
        short(derived(lambda rollouts, workers: rollouts.gather_sync()))


SCRIPT = """
import sys
from dataclasses import dataclass, replace

import gymnasium
import numpy as np
import torch
from torch import nn

import rillflow as rf
from rillflow.algorithms import a2c, a3c
from rillflow.learning.algorithm import Algorithm
from rillflow.learning.update import Step

engine = sys.argv[1]
SCALE = 2.0


def prepare(m, batch, cfg):
    rows = a2c.prepare(m, batch, cfg)
    rows["advantages"] = SCALE * rows.advantages
    return rows


def update(m, rows, cfg):
    logp, entropy, values = m.policy.evaluate(rows.obs, rows.actions)
    total = -(logp * rows.advantages).mean() + (values - rows.targets).square().mean()
    yield Step(total, stats={"mine": total, "bonus": cfg.bonus})


class Net(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.body = nn.Linear(spec.observation_size, 8)
        self.actor, self.critic = nn.Linear(8, spec.actions.width), nn.Linear(8, 1)

    def forward(self, obs):
        features = torch.tanh(self.body(obs))
        return self.actor(features), self.critic(features)[:, 0]


def env():
    return gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1").unwrapped, 10)


@dataclass(frozen=True, kw_only=True)
class Config(a2c.Config):
    bonus: float = 0.5


@dataclass(frozen=True, kw_only=True)
class AsyncConfig(Config):
    pass


Mine = Algorithm("mine", Config, a2c.modules, update, a2c.plan, prepare=prepare)
# gradients are computed in the workers
Async = Algorithm("async", AsyncConfig, a2c.modules, update, a3c.plan, prepare=prepare)
small = dict(num_workers=2, num_envs_per_worker=2, rollout_fragment_length=8)
done = rf.train(Mine, env, until={"steps": 600}, engine=engine, model=Net, bonus=0.25, **small)
assert done.history[-1]["bonus"] == 0.25 and "mine" in done.history[-1]
assert max(done.evaluate(4)) <= 10
done = rf.train("ppo", env, until={"steps": 2100}, engine=engine, model=Net, **small)
assert "policy_loss" in done.history[-1]
done = rf.train(Async, env, until={"steps": 200}, engine=engine, model=Net, **small)
assert done.history[-1]["bonus"] == 0.5
print("fine")
"""


@pytest.mark.proc
@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.slow)])
def test_a_script_brings_its_own_parts_by_value(tmp_path: Path, engine: str) -> None:
    """Environment, network, update, prepare and settings of `__main__`, without a guard."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), engine], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


# -- nothing is left -------------------------------------------------------------------------------


@pytest.mark.proc
@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_what_on_progress_raises_ends_the_run(kind: type[BaseException]) -> None:
    """It arrives as it was raised, and the workers are gone."""
    before, started = children(), []

    def stop(row: dict[str, float]) -> None:
        started.extend(children() - before)
        raise kind("enough")

    with pytest.raises(kind, match="enough"):
        short(engine="local", until={"steps": 10**9}, on_progress=stop)
    assert started
    assert gone(started)


@pytest.mark.proc
def test_an_interrupt_from_the_keyboard_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group, as a terminal sends it."""
    code = """
        import rillflow as rf
        rf.train("a2c", until={"steps": 10**9}, num_workers=2,
                 on_progress=lambda row: print("row", flush=True))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # a suite in the background of a shell ignores Ctrl-C, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "row\n"
    workers = [p.pid for p in psutil.Process(process.pid).children(recursive=True)]
    assert len(workers) >= 2
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors.rstrip().endswith("Ctrl-C again stops now")
    assert process.returncode == 0
    assert gone(workers)
