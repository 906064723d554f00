"""R2D2: what each step is learned from, by hand; burn-in, stored states, refusals, engines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import rillflow as rf
from rillflow.algorithms import apex, dqn, r2d2
from rillflow.experience.batch import STATE, SampleBatch
from rillflow.learning.losses import rescaled, unscaled
from rillflow.learning.torch_learner import TorchLearner
from rillflow.policies.exploration_schedules import Place
from rillflow.rl.replay_actor import KEY_BITS, ReplayActor
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo

pytestmark = pytest.mark.usefixtures("one_thread")
HIDDEN = "CartPole-hidden-velocity"
INFO = ActorInfo("worker-0", 0, 0, seed=3)
SMALL: dict[str, Any] = {
    "hidden": (8,),
    "memory_size": 6,
    "num_envs_per_worker": 3,
    "rollout_fragment_length": 8,
    "burn_in": 4,
    "n_step": 2,
    "learning_starts": 64,
    "train_batch_size": 16,
    "batches_per_draw": 1,
    "training_intensity": 1.0,
    "target_network_update_freq": 32,
}


def settings(**more: Any) -> r2d2.Config:
    return r2d2.Config.make(**{"env": HIDDEN, **SMALL, **more})


def learner_of(config: r2d2.Config) -> TorchLearner:
    return TorchLearner(Workers(config).spec, config, 5, devices=("cpu",))


def drawn(config: r2d2.Config, fragments: int = 6) -> tuple[SampleBatch, TorchLearner]:
    """Sequences side by side from replay, and a learner with the weights that they are of."""
    learner = learner_of(config)
    worker = RolloutWorker(config, Workers(config).spec, INFO)
    worker.set_weights(learner.get_weights())
    actor = ReplayActor(**config.replay_options, info=INFO)
    for _ in range(fragments):
        actor.add(worker.sample())
    return actor.replay(), learner


def changed(batch: SampleBatch, **columns: Any) -> SampleBatch:
    return SampleBatch({**{name: np.array(c) for name, c in batch.items()}, **columns})


def found_in(learner: TorchLearner, batch: SampleBatch) -> tuple[Any, Any]:
    """The loss, and the priority of each sequence."""
    figures, loss = learner.look_at(learner.rows(batch))
    return loss, np.asarray(figures["td_errors"])


# -- one update, by hand ---------------------------------------------------------------------------


class Table(torch.nn.Module):
    """Q values of what is seen, no more; it remembers a number that nothing depends on."""

    state_shape = (1,)

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.spec = spec
        self.q = torch.nn.Linear(spec.observation_size, spec.width, bias=False)

    def forward(self, obs: Any, state: Any, starts: Any) -> Any:
        return self.q(obs), state + 0 * self.q.weight.sum()


@pytest.mark.parametrize("double_q", [False, True])
def test_targets_on_a_chain_of_three_states_by_hand(double_q: bool) -> None:
    """s0, s1, s2, end, with rewards 1, 2, 4, n_step 2 and gamma 0.5: h of the whole sums.

    The weights of the target network are twice those that are trained, and each state has a best
    action and a best value of its own, so that each target shows where its value is from.
    """
    config = r2d2.Config.make(
        env="Identity", env_config={"size": 3}, model=Table, memory=None, burn_in=0, n_step=2,
        gamma=0.5, value_rescaling=0.1, rollout_fragment_length=3, dueling=False,
        double_q=double_q, num_envs_per_worker=1, num_workers=0, learning_starts=3,
    )  # fmt: skip
    learner = learner_of(config)
    table = np.float32([[5, 1, 1], [1, 6, 1], [1, 1, 7]])  # of state s action s is the best
    for network, scale in ((learner.m.policy, 1.0), (learner.m.targets["policy"], 2.0)):
        (weight,) = [p for p in network.parameters() if p.shape == (3, 3)]
        weight.data[:] = torch.from_numpy(table.T * scale)
    flags = np.array([[False], [False], [True]])
    seen = np.eye(3, dtype=np.float32)
    batch = SampleBatch(
        {
            "obs": seen[[0, 1, 2]][:, None],
            "next_obs": seen[[1, 2, 0]][:, None],
            "actions": np.array([[0], [0], [0]]),
            "rewards": np.float32([[1], [2], [4]]),
            "terminated": flags,
            "truncated": flags & False,
            "starts": np.array([[True], [False], [False]]),
            "valid": np.ones((3, 1), bool),
            "keys": np.array([[7], [7], [7]]),
            STATE: np.zeros((1, 1), np.float32),
        }
    )
    loss, priority = found_in(learner, batch)

    def h(x: float) -> float:
        return math.sqrt(x + 1) - 1 + 0.1 * x

    best = float(unscaled(torch.tensor([14.0]), 0.1)[0])  # of the target network, in s2
    targets = [h(1 + 0.5 * 2 + 0.25 * best), h(2 + 0.5 * 4), h(4)]
    errors = [abs(target - q) for target, q in zip(targets, (5, 1, 1), strict=True)]
    huber = [e * e / 2 if e <= 1 else e - 0.5 for e in errors]
    assert loss == pytest.approx(sum(huber) / 3, rel=1e-5)
    assert priority[0] == pytest.approx(0.9 * max(errors) + 0.1 * sum(errors) / 3, rel=1e-5)


def test_the_update_of_dqn_without_rescaling_is_what_it_was() -> None:
    """And rescaled rewards and values give other errors: the setting is read."""
    batch, learner = drawn(settings(value_rescaling=None))
    plain, _ = found_in(learner, batch)
    other = learner_of(settings())
    assert found_in(other, batch)[0] != plain
    same = TorchLearner(
        Workers(settings()).spec,
        dqn.Config.make(env=HIDDEN, memory="lstm", scale_rewards=False, **SMALL),
        5,
        devices=("cpu",),
    )
    assert found_in(same, batch)[0] == plain


def test_rows_that_do_not_remember_are_rescaled_too_in_either_framework() -> None:
    """DQN without a memory, in NumPy and in torch: rewards of hundreds are a matter of tens."""
    rewards: dict[str, list[float]] = {}
    for framework in ("numpy", "torch"):
        trained = rf.train(
            "dqn", "CartPole-v1", until={"steps": 600}, engine="sim", framework=framework,
            value_rescaling=1e-3, hidden=(8,), num_workers=0, learning_starts=100,
        )  # fmt: skip
        rewards[framework] = [row["loss"] for row in trained.history]
    np.testing.assert_allclose(rewards["numpy"], rewards["torch"], rtol=1e-2)


# -- burn-in and the stored state ------------------------------------------------------------------


def test_nothing_before_the_end_of_an_episode_is_remembered_behind_it() -> None:
    """Burn-in never crosses it: where an episode begins inside, what was seen before is forgotten,
    in the network that is trained, in the target network, and in the stored state."""
    batch, learner = drawn(settings())
    starts = np.array(batch["starts"])
    starts[:5] = False
    starts[2] = True  # in the middle of the burn-in
    one = changed(batch, starts=starts)
    obs = np.array(batch["obs"])
    obs[:2] += 9.0
    other = changed(batch, starts=starts, obs=obs, **{STATE: np.ones_like(batch[STATE])})
    assert found_in(learner, one)[0] == found_in(learner, other)[0]
    starts[2] = False
    assert found_in(learner, changed(batch, starts=starts))[0] != pytest.approx(
        found_in(learner, changed(other, starts=starts))[0], abs=1e-6
    )


def test_no_gradient_flows_through_burn_in() -> None:
    """Gradients are those of the sequence alone, from the memory that its burn-in led to."""
    config = settings(env="ConstantReward", env_config={"limit": 50})
    batch, learner = drawn(config)
    with torch.no_grad():
        obs, starts, state = (
            torch.from_numpy(np.array(batch[name])) for name in ("obs", "starts", STATE)
        )
        after = learner.m.policy.q_values_recurrent(obs[:4], state, starts[:4])[1]
    assert not np.allclose(after, batch[STATE])
    rows = {name: np.array(c[4:]) for name, c in batch.items() if name != STATE}
    alone = SampleBatch({**rows, STATE: after.numpy()})
    whole, cut = (learner.compute_gradients(each).values for each in (batch, alone))
    assert whole.keys() == cut.keys()
    for name, gradient in whole.items():
        np.testing.assert_allclose(gradient, cut[name], atol=1e-6, err_msg=name)


def test_the_target_network_has_a_memory_of_its_own_weights() -> None:
    """It sees the burn-in itself: values ahead are those of its own pass over all that was seen."""
    batch, learner = drawn(settings(env="ConstantReward", env_config={"limit": 50}))
    assert not (batch["terminated"] | batch["truncated"]).any()
    target = learner.m.target.policy
    for weight in learner.m.targets["policy"].parameters():
        weight.data += 0.3 * torch.sin(torch.arange(weight.numel())).view(weight.shape)
    seen = np.concatenate([batch["obs"], batch["next_obs"][-1:]])
    starts = np.concatenate([batch["starts"], np.zeros_like(batch["starts"][-1:])])
    columns = (torch.from_numpy(np.array(c)) for c in (seen, batch[STATE], starts))
    values, _ = target.q_values_recurrent(*columns)
    time = len(batch["rewards"]) - 4
    ahead = 4 + np.minimum(np.arange(time) + learner.config.n_step, time)
    np.testing.assert_allclose(learner.rows(batch)["next_q"], values.detach()[ahead], atol=1e-5)


def test_the_stored_state_is_used_and_counts_without_burn_in() -> None:
    """burn_in=0: sequences begin with the memory that their worker had, not with nothing."""
    batch, learner = drawn(settings(burn_in=0, env="ConstantReward", env_config={"limit": 50}))
    assert batch["obs"].shape[:2] == (8, 2)
    assert batch[STATE].shape == (2, 2, 6)
    assert np.abs(batch[STATE]).min(axis=(1, 2)).max() > 0
    rows = learner.rows(batch)
    assert np.array_equal(rows[STATE], batch[STATE])
    nothing = changed(batch, **{STATE: np.zeros_like(batch[STATE])})
    assert found_in(learner, batch)[0] != found_in(learner, nothing)[0]
    trained = rf.train(
        "r2d2", HIDDEN, until={"steps": 400}, engine="sim", **{**SMALL, "burn_in": 0}
    )
    assert math.isfinite(trained.history[-1]["loss"])


def test_rows_that_are_no_steps_count_in_neither_loss_nor_priority() -> None:
    """A short sequence: of the last rows, that only reset an environment, nothing is learned."""
    batch, learner = drawn(settings())
    valid = np.array(batch["valid"])
    valid[:4], valid[4:] = False, True
    valid[-3:, 0] = False
    cut = np.array(batch["truncated"])
    cut[-4, 0] = True
    short = changed(batch, valid=valid, truncated=cut)
    loss, priorities = found_in(learner, short)
    spoiled = {name: np.array(batch[name]) for name in ("rewards", "obs", "actions", "terminated")}
    for column in spoiled.values():
        column[-3:, 0] = 1
    next_obs = np.array(batch["next_obs"])
    next_obs[-3:, 0] = 9.0
    again = found_in(learner, changed(short, next_obs=next_obs, **spoiled))
    assert again[0] == loss
    assert np.array_equal(again[1], priorities)
    # the mean is over the steps that count: 5 and 8 of them
    rows = learner.rows(short)
    rows["weights"] = torch.ones_like(rows.rewards)
    (step,) = r2d2.update(learner.m, rows, learner.config)
    errors = _errors(learner, rows)
    near = np.minimum(errors, 1)
    costs = (near * (errors - 0.5 * near))[valid[4:]]
    assert loss_of(step) == pytest.approx(costs.sum() / 13, rel=1e-4)
    for lane, count in ((0, 5), (1, 8)):
        own = errors[:count, lane]
        expected = 0.9 * own.max() + 0.1 * own.mean()
        assert float(priorities[lane]) == pytest.approx(expected, rel=1e-4)


def loss_of(step: Any) -> float:
    return float(step.loss.detach())


def _errors(learner: TorchLearner, rows: Any) -> Any:
    q, chooser = r2d2.update.__globals__["q_and_chooser"](learner.m, rows, learner.config)
    value = rows.next_q.gather(-1, chooser.argmax(-1, keepdim=True))[..., 0]
    target = rescaled(rows.rewards + rows.discount * unscaled(value))
    return (target - q.gather(-1, rows.actions[..., None])[..., 0]).detach().abs().numpy()


# -- settings --------------------------------------------------------------------------------------


def test_it_remembers_without_being_told_and_is_ape_x_otherwise() -> None:
    config = r2d2.Config()
    assert config.remembers
    assert config.num_replay_buffer_shards == apex.Config().num_replay_buffer_shards == 2
    rate = config.explorer().rate  # type: ignore[attr-defined]
    assert [rate(Place(i, 3), 10**6) for i in range(3)] == pytest.approx([0.4, 0.4**4.5, 0.4**8])
    flows = []
    for module in (r2d2, apex):
        same = {"memory": "lstm", "batches_per_draw": 2, "train_batch_size": 256}
        workers = Workers(module.Config(**same))
        flows.append(module.plan(ParallelRollouts(workers), workers).explain().splitlines()[1:])
    assert [line[:40] for line in flows[0]] == [line[:40] for line in flows[1]]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"memory": None}, "for a policy that remembers: give memory='lstm' or 'gru'"),
        ({"worker_priorities": True}, "worker_priorities are of single steps"),
        ({"burn_in": 33}, "at most rollout_fragment_length=32"),
        ({"value_rescaling": -1.0}, "value_rescaling must be 0 or above, or None, got -1.0"),
        ({"value_rescaling": "1e-3:0"}, "value_rescaling is read once"),
        ({"final_epsilon": 0.1}, "final_epsilon .* `epsilon`, the largest rate"),
        ({"epsilon_timesteps": 5}, "epsilon_timesteps"),
        ({"weights_every": 0}, "weights_every must be at least 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: Any, told: str) -> None:
    with pytest.raises(rf.BuildError, match=told):
        r2d2.Config.make(**given)


def test_workers_errors_are_on_the_scale_of_rewards() -> None:
    with pytest.raises(rf.BuildError, match="give worker_priorities=False"):
        apex.Config.make(value_rescaling=1e-3)
    assert apex.Config.make(value_rescaling=1e-3, worker_priorities=False).value_rescaling == 1e-3


def test_continuous_actions_are_refused() -> None:
    with pytest.raises(rf.BuildError, match="discrete"):
        rf.train("r2d2", "Pendulum-v1", until={"steps": 10}, engine="sim")


# -- runs ------------------------------------------------------------------------------------------


def history(engine: str, seed: int = 0, **more: Any) -> tuple[str, dict[str, bytes]]:
    trained = rf.train(
        "r2d2", HIDDEN, until={"steps": 300}, engine=engine, seed=seed, **{**SMALL, **more}
    )
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in trained.history]
    return str(rows), {name: array.tobytes() for name, array in trained.weights.items()}


def test_same_seed_same_run() -> None:
    first = history("sim")
    assert first == history("sim")
    assert first != history("sim", seed=1)


@pytest.mark.proc
@pytest.mark.parametrize(
    "engine", ["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])]
)
def test_several_workers_and_replay_actors_in_processes(engine: str) -> None:
    """Both shards are drawn from, priorities go back, and nothing is lost."""
    if engine == "ray":
        pytest.importorskip("ray")
    workers = Workers(settings(num_workers=2, max_weight_sync_delay=32, weights_every=1))
    flow = r2d2.plan(ParallelRollouts(workers), workers)
    shards: set[int] = set()
    with flow.run(engine) as run:
        for results, result in enumerate(run, 1):
            shards.update((result.rows["keys"] >> KEY_BITS).tolist())  # type: ignore[attr-defined]
            assert len(result.rows["td_errors"]) == 2  # type: ignore[attr-defined]
            if shards == {0, 1} or results == 500:
                break
        assert run.shared[workers.weights_key].version == results
        assert run.ledger().balanced
    assert shards == {0, 1}
