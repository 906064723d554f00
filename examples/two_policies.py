"""Two algorithms, one environment: PPO and DQN each train a policy from the same rollouts."""

import rillflow as rf
from rillflow.algorithms import dqn, ppo
from rillflow.rl.metrics import ReportMetrics
from rillflow.rl.multi_agent import MultiAgentConfig, Select
from rillflow.rl.rollouts import ParallelRollouts
from rillflow.rl.workers import create_rollout_workers

config = MultiAgentConfig(
    env="MultiAgentCartPole",  # each agent balances a pole of its own
    env_config={"agents": 4},
    policies={"PPO": ppo.Config(train_batch_size=2048), "DQN": dqn.Config()},
    policy_mapping=lambda agent: "PPO" if agent in ("agent_0", "agent_1") else "DQN",
    num_envs_per_worker=8,
)
workers = create_rollout_workers(config)
r1, r2 = ParallelRollouts(workers).split()
ppo_op = ppo.plan(Select(r1, policy="PPO"), workers)
dqn_op = dqn.plan(Select(r2, policy="DQN"), workers)
flow = ReportMetrics(rf.Union(ppo_op, dqn_op), workers)

print(flow.explain(), end="\n\n")
with flow.run("local", seed=0) as run:
    for row in run:
        if row["steps"] >= 10_000:
            break
    print({name: round(value, 1) for name, value in row.items() if name.endswith("return")})
    print(run.ledger())
