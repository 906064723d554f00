"""Several policies in one environment, each trained by a plan of its own from one split stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import a3c, dqn, ppo
from rillflow.experience.batch import MultiAgentBatch
from rillflow.rl.metrics import ReportMetrics
from rillflow.rl.multi_agent import MultiAgentConfig, Select, SelectExperiences
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers, create_rollout_workers

PPO = ppo.Config(hidden=(16, 16), train_batch_size=64, sgd_minibatch_size=32, num_sgd_iter=2)
DQN = dqn.Config(hidden=(16, 16), learning_starts=32, train_batch_size=16, training_intensity=1.0)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def by_parity(agent: str) -> str:
    return "PPO" if int(agent.removeprefix("agent_")) % 2 == 0 else "DQN"


def config(**settings: Any) -> MultiAgentConfig:
    whole: dict[str, Any] = {
        "policies": {"PPO": PPO, "DQN": DQN},
        "policy_mapping": by_parity,
        "num_workers": 2,
        "num_envs_per_worker": 3,
        "rollout_fragment_length": 8,
        **settings,
    }
    return MultiAgentConfig(**whole)


def both(workers: Any) -> rf.Flow[Any]:
    r1, r2 = ParallelRollouts(workers).split()
    ppo_op = ppo.plan(Select(r1, policy="PPO"), workers)
    dqn_op = dqn.plan(Select(r2, policy="DQN"), workers)
    return rf.Union(ppo_op, dqn_op)


@pytest.mark.parametrize("agents", [2, 8])
def test_each_policy_has_a_row_for_each_of_its_agents(agents: int) -> None:
    """Four agents of a policy are four times its rows, in one batch."""
    workers = create_rollout_workers(config(env_config={"agents": agents}))
    (batch,) = ParallelRollouts(workers, mode="bulk_sync").take(1, engine="sim")
    assert isinstance(batch, MultiAgentBatch)
    assert {name: part.shape for name, part in batch.items()} == {
        "PPO": (8, 2 * 3 * agents // 2),
        "DQN": (8 + DQN.n_step - 1, 2 * 3 * agents // 2),  # behind steps that waited
    }


def test_a_plan_gets_the_settings_of_the_selected_policy() -> None:
    """With the amount of experience that the environment decides."""
    workers = create_rollout_workers(config(env_config={"agents": 8}))
    stream = Select(ParallelRollouts(workers).split()[0], policy="DQN")
    own = workers.training(stream)
    assert (own.policy, own.config.learning_starts) == ("DQN", 32)  # type: ignore[attr-defined]
    assert own.config.num_envs_per_worker == 3 * 4
    assert own.config.algorithm is dqn.DQN


def test_both_policies_learn_from_one_stream_each_at_its_own_rate() -> None:
    """PPO once per 64 rows, DQN one batch of 16 for each 16 rows; weights of both reach workers."""
    workers = create_rollout_workers(config())
    results: dict[str, int] = {"PPO": 0, "DQN": 0}
    with both(workers).run("sim") as run:
        while results["PPO"] < 6:
            results[next(run).policy] += 1
        keys = {name: workers.policies[name].weights_key for name in results}
        versions = {name: run.shared[key].version for name, key in keys.items()}
        actors = list(run._scheduler.fleet.actors.values())
        sent = [
            {name: actor.mail.newest[key] for name, key in keys.items()}
            for actor in actors
            if actor.name.startswith("worker")
        ]
        branches = [b.done for b in run.ledger().balances() if b.source == "rollouts"]
    assert versions["PPO"] == 6
    assert results["DQN"] > 6
    assert sent == [versions, versions]
    assert sorted(outcome for done in branches for outcome in done) == ["stored", "trained"]


def test_weights_of_one_policy_leave_the_other_as_it_is() -> None:
    """A message names its policy."""
    workers = create_rollout_workers(config(num_workers=1))
    flow = ppo.plan(Select(ParallelRollouts(workers), policy="PPO"), workers)
    with flow.run("sim") as run:
        name = workers.actors[0]
        before = run.call(name, "get_state")["policies"]["DQN"]["weights"]
        next(run)
        after = run.call(name, "get_state")["policies"]
        trained = run.shared[workers.policies["PPO"].weights_key].weights
    assert all(np.array_equal(before[key], after["DQN"]["weights"][key]) for key in before)
    acting = after["PPO"]["weights"]
    assert all(np.array_equal(acting[key], trained[key]) for key in acting)


def test_same_seed_same_run() -> None:
    """Also with two plans that share a stream."""

    def history(seed: int) -> str:
        workers = create_rollout_workers(config())
        rows = ReportMetrics(both(workers), workers).take(40, engine="sim", seed=seed)
        return str([{k: v for k, v in row.items() if k != "seconds"} for row in rows])

    first = history(0)
    assert first == history(0)
    assert first != history(1)


@pytest.mark.proc
@pytest.mark.parametrize("engine", ["sim", "local"])
def test_rows_name_the_policy(engine: str) -> None:
    """Figures of each policy under its name, and the mean return of each."""
    workers = create_rollout_workers(config(num_envs_per_worker=16))
    missing = {"PPO/return", "DQN/return", "PPO/policy_loss", "DQN/loss", "return"}
    returns = [float("nan")]
    with ReportMetrics(both(workers), workers).run(engine) as run:
        while missing or np.isnan(returns).any():
            row = next(run)
            missing -= set(row)
            returns = [row[name] for name in ("PPO/return", "DQN/return", "return") if name in row]
    assert min(returns) > 0
    assert row["steps"] > 0


def test_a_saved_run_goes_on_exactly() -> None:
    """Environments, both policies, both learners and replay."""

    def rows(run: Any, count: int) -> list[Any]:
        return [(r.policy, r.steps, r.stats) for r in (next(run) for _ in range(count))]

    with both(create_rollout_workers(config())).run("sim") as run:
        rows(run, 30)
        state = run.get_state()
        expected = rows(run, 30)
    with both(create_rollout_workers(config())).run("sim") as run:
        run.set_state(state)
        assert rows(run, 30) == expected


class Pair:
    """A PettingZoo parallel environment: two agents, of which the second leaves early."""

    possible_agents = ("left", "right")

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.t = 0

    def observation_space(self, agent: str) -> Any:
        from gymnasium.spaces import Box

        return Box(-1.0, 1.0, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        from gymnasium.spaces import Discrete

        return Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.t = list(self.possible_agents), 0
        return {agent: np.zeros(2, np.float32) for agent in self.agents}, {}

    def step(self, actions: dict[str, Any]) -> Any:
        self.t += 1
        acting = list(actions)
        over = {"left": self.t >= 6, "right": self.t >= 3}
        obs = {agent: np.full(2, self.t / 10, np.float32) for agent in acting}
        rewards = {agent: float(actions[agent] == 1) for agent in acting}
        self.agents = [agent for agent in acting if not over[agent]]
        return obs, rewards, {a: over[a] for a in acting}, dict.fromkeys(acting, False), {}

    def close(self) -> None:
        pass


def test_agents_that_leave_early_are_not_learned_from_meanwhile() -> None:
    """Half of the rows of `right` are not valid, and no policy trains on them."""
    policies = {"left": PPO, "right": PPO}
    workers = create_rollout_workers(
        config(env=Pair, policies=policies, policy_mapping=lambda agent: agent, num_workers=1)
    )
    (batch,) = ParallelRollouts(workers, mode="bulk_sync").take(1, engine="sim")
    assert batch["left"].steps == 8 * 3
    assert batch["right"].steps == 5 * 3, "steps 0 to 2, then 6 and 7 of the next episode"
    r1, r2 = ParallelRollouts(workers).split()
    plans = [
        ppo.plan(Select(stream, policy=name), workers)
        for stream, name in ((r1, "left"), (r2, "right"))
    ]
    assert {r.policy for r in rf.Union(*plans).take(6, engine="sim")} == {"left", "right"}


def test_a_plan_on_all_policies_is_refused() -> None:
    """It has to be said which of them it trains."""
    workers = create_rollout_workers(config())
    with pytest.raises(rf.BuildError, match=r"PPO, DQN; say which .*Select\(stream, policy="):
        ppo.plan(ParallelRollouts(workers), workers)


def test_an_unknown_policy_is_told_with_the_nearest() -> None:
    """When the plan is built."""
    workers = create_rollout_workers(config())
    with pytest.raises(rf.BuildError, match=r"no policy 'PP0'; there are PPO, DQN.*'PPO'"):
        ppo.plan(Select(ParallelRollouts(workers), policy="PP0"), workers)


def test_a_plan_with_the_settings_of_another_algorithm_is_refused() -> None:
    """Both are named."""
    workers = create_rollout_workers(config())
    with pytest.raises(rf.BuildError, match=r"needs the settings of rillflow\.algorithms\.ppo"):
        ppo.plan(Select(ParallelRollouts(workers), policy="DQN"), workers)


def test_a_mapping_to_a_policy_that_is_not_there_is_refused() -> None:
    """Before anything starts."""
    with pytest.raises(rf.BuildError, match=r"agent_0.*unknown policy 'PP'.*did you mean 'PPO'"):
        create_rollout_workers(config(policy_mapping=lambda agent: "PP"))


def test_a_policy_without_an_agent_is_refused() -> None:
    """It would never learn."""
    with pytest.raises(rf.BuildError, match=r"no agent is mapped to the policies \['DQN'\]"):
        create_rollout_workers(config(policy_mapping=lambda agent: "PPO"))


def test_plans_that_compute_gradients_in_workers_need_a_parallel_flow() -> None:
    """A split stream is gathered already."""
    r1, _ = ParallelRollouts(Workers(a3c.Config())).split()
    with pytest.raises(rf.BuildError, match="par_for_each runs inside source actors"):
        a3c.plan(r1, Workers(a3c.Config()))  # type: ignore[arg-type]


def test_selecting_is_a_plain_callable() -> None:
    """Usable in an ordinary loop."""
    (batch,) = ParallelRollouts(create_rollout_workers(config()), mode="async").take(
        1, engine="sim"
    )
    assert SelectExperiences("PPO")(batch) is batch["PPO"]
    with pytest.raises(KeyError, match="no policy 'X'; there are"):
        SelectExperiences("X")(batch)
